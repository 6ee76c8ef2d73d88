// Functions of angles, from squared distances of unit vectors: arc_cosine, nngp, ntk.
#include "gram_tasks.cuh"

namespace fastdl::gram::cuda {

FASTDL_GRAM_TASKS(of_angles, Square, OfAngle)

}  // namespace fastdl::gram::cuda
