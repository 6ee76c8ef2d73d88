// One plane of an image with room on all sides of its rows, so that kernels that go over it pixel by pixel need no
// masks: depthwise convolution and pooling.
#pragma once

#include "conv/geometry.hpp"
#include "core/scratch.hpp"
#include "gemm/shape.hpp"
#include "simd/transpose.hpp"

namespace fastdl::conv {
namespace {

// lanes<T> elements at distance Stride; 0 stands for any, given by `stride`.
template <int Stride, class T>
FASTDL_INLINE simd::Vec<T> load_strided(const T* from, Index stride) {
  if constexpr (Stride == 1) return simd::load(from);
  if constexpr (Stride == 2) return simd::even_lanes<T>(simd::load(from), simd::load(from + simd::lanes<T>));
  simd::Vec<T> value;
  for (int i = 0; i < simd::lanes<T>; ++i) value[i] = from[i * stride];
  return value;
}

// f(constant) with the stride along rows as a constant: 1, 2, or 0 for any other.
template <class Function>
void with_stride(Index stride, const Function& f) {
  if (stride == 1)
    f(std::integral_constant<int, 1>{});
  else if (stride == 2)
    f(std::integral_constant<int, 2>{});
  else
    f(std::integral_constant<int, 0>{});
}

// Rows of the plane, with `fill` before and behind; behind, as far as vectors of outputs reach.
template <class T>
class Plane {
 public:
  static constexpr int lanes = simd::lanes<T>;
  static constexpr int strip = 4;  // vectors computed together

  Plane(const Geometry& g, T fill, core::Scratch& scratch) : g_(g), before_(g.lower[2]) {
    const Index reach =
        (gemm::round_up(g.out[2], lanes * strip) + lanes) * g.stride[2] + (g.kernel[2] - 1) * g.dilation[2];
    width_ = reach > before_ + g.in[2] ? reach : before_ + g.in[2];
    data_ = scratch.array<T>(g.in[0] * g.in[1], width_);
    for (Index i = 0; i < g.in[0] * g.in[1] * width_; ++i) data_[i] = fill;
  }

  void fill(const T* from, const Index (&stride)[axes]) {
    for (Index d = 0; d < g_.in[0]; ++d)
      for (Index h = 0; h < g_.in[1]; ++h) {
        const T* row = from + d * stride[0] + h * stride[1];
        T* to = data_ + (d * g_.in[1] + h) * width_ + before_;
        if (stride[2] == 1)
          std::memcpy(to, row, std::size_t(g_.in[2]) * sizeof(T));
        else
          for (Index i = 0; i < g_.in[2]; ++i) to[i] = row[i * stride[2]];
      }
  }

  // Where column 0 of the window of pixel 0 lies in a row.
  const T* row(Index d, Index h) const { return data_ + (d * g_.in[1] + h) * width_; }

 private:
  const Geometry& g_;
  Index before_, width_;
  T* data_;
};

// f(d, h, first tap) for the rows of taps of the window of output row (od, oh) that lie in the image.
template <class Function>
FASTDL_INLINE void each_row_of_taps(const Geometry& g, Index od, Index oh, const Function& f) {
  for (Index i = 0; i < g.kernel[0]; ++i)
    for (Index j = 0; j < g.kernel[1]; ++j) {
      const Index d = od * g.stride[0] + i * g.dilation[0] - g.lower[0];
      const Index h = oh * g.stride[1] + j * g.dilation[1] - g.lower[1];
      if (d >= 0 && d < g.in[0] && h >= 0 && h < g.in[1]) f(d, h, (i * g.kernel[1] + j) * g.kernel[2]);
    }
}

}  // namespace
}  // namespace fastdl::conv
