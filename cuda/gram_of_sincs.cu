// Products over the features: sinc.
#include "gram_tasks.cuh"

namespace fastdl::gram::cuda {

FASTDL_GRAM_TASKS(of_sincs, Sinc, OfSum)

}  // namespace fastdl::gram::cuda
