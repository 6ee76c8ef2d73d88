// Functions of products: linear, polynomial, sigmoid, geometric, and cosine of unit vectors.
#include "gram_tasks.cuh"

namespace fastdl::gram::cuda {

FASTDL_GRAM_TASKS(of_products, Product, OfProduct)

}  // namespace fastdl::gram::cuda
