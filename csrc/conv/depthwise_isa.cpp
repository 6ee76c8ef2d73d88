// Convolution of single channels, compiled once per instruction-set level: groups with one input channel each. It is
// bound by memory, so a plane is read once, and every output channel of its group computed from cache.
#include <type_traits>

#include "conv/activation.hpp"
#include "conv/bodies.hpp"
#include "conv/plane.hpp"
#include "core/threads.hpp"

namespace fastdl::conv::FASTDL_LEVEL {
namespace {

template <int Stride, int Vectors, class T>
FASTDL_INLINE void strip(const Geometry& g, const Plane<T>& plane, const T* w, Index od, Index oh, Index ow, T* sums) {
  constexpr int lanes = simd::lanes<T>;
  simd::Vec<T> acc[Vectors] = {};
  each_row_of_taps(g, od, oh, [&](Index d, Index h, Index tap) {
    const T* row = plane.row(d, h) + ow * g.stride[2];
    for (Index q = 0; q < g.kernel[2]; ++q, row += g.dilation[2]) {
      const simd::Vec<T> weight = simd::broadcast(w[tap + q]);
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v)
        acc[v] = simd::fma(load_strided<Stride>(row + v * lanes * g.stride[2], g.stride[2]), weight, acc[v]);
    }
  });
  for (int v = 0; v < Vectors; ++v) simd::store(sums + v * lanes, acc[v]);
}

template <class T>
void depthwise_of(const Geometry& g, const Images<const T>& x, const T* w, const T* bias, Activation activation,
                  T* out) {
  constexpr int lanes = simd::lanes<T>, most = Plane<T>::strip;
  const double work = double(g.batch * g.groups) * double(g.out_channels) * double(g.pixels()) * double(g.taps());
  core::parallel_for(g.batch * g.groups, work < 1e6 ? 1 : core::thread_count(), [&](Index task) {
    const Index image = task / g.groups, group = task % g.groups;
    core::Scratch scratch;
    Plane<T> plane(g, T(0), scratch);
    plane.fill(x.data + image * x.batch + group * x.channel, x.axis);
    with_stride(g.stride[2], [&](auto stride) {
      for (Index m = 0; m < g.out_channels; ++m) {
        const Index channel = group * g.out_channels + m;
        const T* filter = w + channel * g.taps();
        T* to = out + (image * g.groups * g.out_channels + channel) * g.pixels();
        for (Index od = 0; od < g.out[0]; ++od)
          for (Index oh = 0; oh < g.out[1]; ++oh, to += g.out[2])
            for (Index ow = 0; ow < g.out[2]; ow += most * lanes) {
              T sums[most * lanes];
              const Index count = gemm::at_most(most * lanes, g.out[2] - ow);
              if (count <= lanes)
                strip<stride, 1>(g, plane, filter, od, oh, ow, sums);
              else if (count <= 2 * lanes)
                strip<stride, 2>(g, plane, filter, od, oh, ow, sums);
              else
                strip<stride, most>(g, plane, filter, od, oh, ow, sums);
              finish_pixels(sums, count, bias ? bias[channel] : T(0), activation, to + ow);
            }
      }
    });
  });
}

}  // namespace

#define FASTDL_BODIES_OF(T)                                                                                     \
  void depthwise(const Geometry& g, const Images<const T>& x, const T* w, const T* bias, Activation activation, \
                 T* out) {                                                                                      \
    depthwise_of<T>(g, x, w, bias, activation, out);                                                            \
  }
FASTDL_BODIES_OF(float)
FASTDL_BODIES_OF(double)

}  // namespace fastdl::conv::FASTDL_LEVEL
