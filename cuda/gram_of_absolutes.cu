// Functions of sums of absolute differences: laplacian.
#include "gram_tasks.cuh"

namespace fastdl::gram::cuda {

FASTDL_GRAM_TASKS(of_absolutes, Absolute, OfSum)

}  // namespace fastdl::gram::cuda
