// Functions of squared distances with a length scale for every feature: matern.
#include "gram_tasks.cuh"

namespace fastdl::gram::cuda {

FASTDL_GRAM_TASKS(of_weighed_squares, WeighedSquare, OfSum)

}  // namespace fastdl::gram::cuda
