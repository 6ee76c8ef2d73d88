// The table of channels and taps that the implicit products of conv_windows.cuh read. Limited by its launch.
#include "conv_windows.cuh"

namespace fastdl::conv::cuda {
namespace {

__global__ void __launch_bounds__(element_threads)
    taps_kernel(Geometry g, Strides strides, Order order, Tap* to, Index count) {
  for (Index group = first_element(); group < count; group += element_step()) {
    const Position first = order.first(group);
    to[group] = forward_tap(g, strides, first, order.there(first));
  }
}

}  // namespace

void write_taps(const char* name, const Geometry& g, const Strides& strides, const Order& order, Tap* to,
                Stream stream) {
  const Index count = order.groups();
  fastdl::cuda::launch(name, taps_kernel, over_elements(count, stream), g, strides, order, to, count);
}

}  // namespace fastdl::conv::cuda
