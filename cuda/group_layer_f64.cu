// The layers on groups of the plane in double precision.
#include "group_layer.cuh"

namespace fastdl::group::cuda {

template void conv<double>(const Layer&, Algorithm, Activation, const double*, const Strides&, const double*,
                           const double*, double*, Stream);
template void conv_input<double>(const Layer&, Algorithm, const double*, const double*, double*, Stream);
template void conv_weight<double>(const Layer&, Algorithm, const double*, const Strides&, const double*, double*,
                                  Stream);

}  // namespace fastdl::group::cuda
