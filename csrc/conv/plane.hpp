// One plane of an image with room on all sides of its rows, so that kernels that go over it pixel by pixel need no
// masks: convolution of few channels, and pooling.
#pragma once

#include "conv/geometry.hpp"
#include "core/scratch.hpp"
#include "gemm/shape.hpp"
#include "simd/transpose.hpp"

namespace fastdl::conv {
namespace {

// Rows of the plane, with `fill` before and behind; behind, as far as vectors of outputs reach. With a stride, the
// columns that windows begin at lie side by side, then those one further, and so on: the pixels that a tap sees are
// always neighbours.
template <class T>
class Plane {
 public:
  static constexpr int lanes = simd::lanes<T>;

  Plane(const Geometry& g, T fill, core::Scratch& scratch) : g_(&g) {
    const Index step = g.stride[2], last = (g.kernel[2] - 1) * g.dilation[2], end = g.lower[2] + g.in[2];
    const Index reach = gemm::round_up(g.out[2], lanes) + last / step, needed = gemm::divide_up(end, step);
    width_ = reach > needed ? reach : needed;
    Index* places = scratch.array<Index>(g.kernel[2]);
    for (Index q = 0; q < g.kernel[2]; ++q) places[q] = place(q * g.dilation[2]);
    places_ = places;
    data_ = scratch.array<T>(g.in[0] * g.in[1], width_ * step);
    for (Index r = 0; r < g.in[0] * g.in[1] * step; ++r) {
      T* to = data_ + r * width_;
      for (Index i = 0; i < columns_before(g.lower[2], r % step); ++i) to[i] = fill;
      for (Index i = columns_before(end, r % step); i < width_; ++i) to[i] = fill;
    }
  }

  void fill(const T* from, const Index (&stride)[axes]) {
    for (Index d = 0; d < g_->in[0]; ++d)
      for (Index h = 0; h < g_->in[1]; ++h)
        fill_row(from + d * stride[0] + h * stride[1], stride[2], const_cast<T*>(row(d, h)));
  }

  const T* row(Index d, Index h) const { return data_ + (d * g_->in[1] + h) * width_ * g_->stride[2]; }

  // Where in a row tap q of pixel 0 lies; that of pixel n is n further.
  Index tap(Index q) const { return places_[q]; }

 private:
  // How many columns before `end` are `phase` further than where a window may begin.
  Index columns_before(Index end, Index phase) const {
    return end > phase ? gemm::divide_up(end - phase, g_->stride[2]) : 0;
  }

  // Of a column of the padded row.
  Index place(Index column) const { return column % g_->stride[2] * width_ + column / g_->stride[2]; }

  void fill_row(const T* from, Index stride, T* to) {
    const Index step = g_->stride[2], before = g_->lower[2];
    if (stride == 1 && step == 1) {
      std::memcpy(to + before, from, std::size_t(g_->in[2]) * sizeof(T));
      return;
    }
    Index i = 0;
    if (stride == 1 && step == 2)
      for (; i + lanes < g_->in[2]; i += 2 * lanes) {
        const int rest = int(gemm::at_most(lanes, g_->in[2] - i - lanes));
        const simd::Vec<T> first = simd::load(from + i), second = simd::load_first(from + i + lanes, rest);
        simd::store_first(to + place(before + i), simd::even_lanes<T>(first, second), (lanes + rest + 1) / 2);
        simd::store_first(to + place(before + i + 1), simd::odd_lanes<T>(first, second), (lanes + rest) / 2);
      }
    for (Index phase = (before + i) % step, at = (before + i) / step; i < g_->in[2]; ++i) {
      to[phase * width_ + at] = from[i * stride];
      if (++phase == step) phase = 0, ++at;
    }
  }

  const Geometry* g_;
  const Index* places_;
  Index width_;
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
