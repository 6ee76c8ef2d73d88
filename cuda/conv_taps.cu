// The table of channels and taps that the implicit products of conv_windows.cuh read. Limited by its launch.
#include "conv_windows.cuh"

namespace fastdl::conv::cuda {
namespace {

__global__ void __launch_bounds__(element_threads) taps_kernel(Geometry g, Strides strides, Tap* to, Index depth) {
  for (Index k = first_element(); k < depth; k += element_step()) to[k] = forward_tap(g, strides, k);
}

}  // namespace

void write_taps(const char* name, const Geometry& g, const Strides& strides, Tap* to, Index depth, Stream stream) {
  fastdl::cuda::launch(name, taps_kernel, over_elements(depth, stream), g, strides, to, depth);
}

}  // namespace fastdl::conv::cuda
