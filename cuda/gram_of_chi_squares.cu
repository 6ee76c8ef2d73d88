// Functions of chi squared distances: chi2 and additive_chi2.
#include "gram_tasks.cuh"

namespace fastdl::gram::cuda {

FASTDL_GRAM_TASKS(of_chi_squares, ChiSquare, OfSum)

}  // namespace fastdl::gram::cuda
