// The layers on groups of the plane in single precision.
#include "group_layer.cuh"

namespace fastdl::group::cuda {

std::atomic<Index> scratch_limit{Index{64} << 20};
Index limit_scratch(Index bytes) { return scratch_limit.exchange(bytes); }

template void conv<float>(const Layer&, Algorithm, Activation, const float*, const Strides&, const float*, const float*,
                          float*, Stream);
template void conv_input<float>(const Layer&, Algorithm, const float*, const float*, float*, Stream);
template void conv_weight<float>(const Layer&, Algorithm, const float*, const Strides&, const float*, float*, Stream);

}  // namespace fastdl::group::cuda
