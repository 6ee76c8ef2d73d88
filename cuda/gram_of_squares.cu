// Functions of squared distances: rbf and matern.
#include "gram_tasks.cuh"

namespace fastdl::gram::cuda {

FASTDL_GRAM_TASKS(of_squares, Square, OfSum)

}  // namespace fastdl::gram::cuda
