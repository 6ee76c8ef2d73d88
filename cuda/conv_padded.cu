// Images with the elements written out that their padding stands for: a read and a write an element. Limit, estimated:
// some 200 instructions that find its place, three divisions of 64 bits among them, which is 5e10 elements a second on
// an A100; memory would allow 2e11.
#include "conv_algorithms.hpp"
#include "conv_geometry.cuh"

namespace fastdl::conv::cuda {
namespace {

template <class T>
__global__ void __launch_bounds__(element_threads)
    padded_kernel(Geometry g, Padding padding, Geometry padded, const T* x, Strides strides, T* to, Index count) {
  const Index channels = g.groups * g.in_channels;
  for (Index number = first_element(); number < count; number += element_step()) {
    const Position p = position_of(number, padded.in);
    Index offset = p.plane / channels * strides.batch + p.plane % channels * strides.channel;
    bool exists = true;
    FASTDL_UNROLL
    for (int a = 0; a < axes; ++a) {
      const Index at = mapped(p.at[a] - g.lower[a], g.in[a], padding);
      exists = exists && at >= 0;
      offset += at * strides.axis[a];
    }
    to[number] = exists ? x[offset] : T(0);
  }
}

}  // namespace

template <class T>
void write_padded(const char* name, const Geometry& g, Padding padding, const Geometry& padded, const T* x,
                  const Strides& strides, T* to, Stream stream) {
  const Index count = padded.batch * g.groups * g.in_channels * padded.in_pixels();
  fastdl::cuda::launch(name, padded_kernel<T>, over_elements(count, stream), g, padding, padded, x, strides, to, count);
}

#define FASTDL_CONV_PADDED(T)                                                                                      \
  template void write_padded(const char*, const Geometry&, Padding, const Geometry&, const T*, const Strides&, T*, \
                             Stream);
FASTDL_CONV_PADDED(float)
FASTDL_CONV_PADDED(double)
#undef FASTDL_CONV_PADDED

}  // namespace fastdl::conv::cuda
