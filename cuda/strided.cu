// One thread an element. Limited by memory: the contiguous side is coalesced, the other as its strides allow.
#include "strided.hpp"

#include "launch.cuh"

namespace fastdl::cuda {
namespace {

constexpr int threads = 256;

template <class T, bool gathers>
__global__ void __launch_bounds__(threads) move_elements(const T* from, T* to, Layout layout, Index count) {
  // A grid has at most 2^31 - 1 blocks, and an array may have more elements than these have threads.
  for (Index number = Index(blockIdx.x) * threads + threadIdx.x; number < count; number += Index(gridDim.x) * threads) {
    Index rest = number, offset = 0;
    FASTDL_UNROLL
    for (int axis = most_axes - 1; axis >= 0; --axis) {
      if (axis < layout.axes) {
        offset += rest % layout.extent[axis] * layout.stride[axis];
        rest /= layout.extent[axis];
      }
    }
    if (gathers)
      to[number] = from[offset];
    else
      to[offset] = from[number];
  }
}

template <class T, bool gathers>
void move(const char* name, const T* from, T* to, const Layout& layout, Stream stream) {
  const Index count = layout.size();
  if (count == 0) return;
  const Index blocks = (count + threads - 1) / threads;
  const Geometry geometry{dim3(unsigned(blocks < (1 << 20) ? blocks : 1 << 20)), dim3(threads), 0, stream};
  launch(name, move_elements<T, gathers>, geometry, from, to, layout, count);
}

}  // namespace

template <class T>
void gather(const char* name, const T* from, const Layout& layout, T* to, Stream stream) {
  move<T, true>(name, from, to, layout, stream);
}

template <class T>
void scatter(const char* name, const T* from, T* to, const Layout& layout, Stream stream) {
  move<T, false>(name, from, to, layout, stream);
}

#define FASTDL_STRIDED(T)                                                 \
  template void gather(const char*, const T*, const Layout&, T*, Stream); \
  template void scatter(const char*, const T*, T*, const Layout&, Stream);
FASTDL_STRIDED(float)
FASTDL_STRIDED(double)
FASTDL_STRIDED(std::int64_t)
#undef FASTDL_STRIDED

}  // namespace fastdl::cuda
