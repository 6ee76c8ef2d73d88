// One plane of an image with its surroundings, so that kernels that go over it pixel by pixel need no masks:
// convolution of few channels, and pooling.
#pragma once

#include "conv/geometry.hpp"
#include "core/scratch.hpp"
#include "gemm/shape.hpp"
#include "simd/transpose.hpp"

namespace fastdl::conv {
namespace {

using gemm::at_most;

// All that windows see, and `fill` where the image does not reach. With a stride along rows, the columns that windows
// begin at lie side by side, then those one further, and so on: what a tap sees for neighbouring outputs are always
// neighbours. Vectors of outputs that go beyond a row's end read what follows it.
template <class T>
class Plane {
 public:
  static constexpr int lanes = simd::lanes<T>;

  Plane(const Geometry& g, T fill, core::Scratch& scratch) : g_(&g) {
    const Index step = g.stride[2], last = (g.kernel[2] - 1) * g.dilation[2], end = g.lower[2] + g.in[2];
    const Index reach = g.out[2] + last / step, needed = gemm::divide_up(end, step);
    width_ = reach > needed ? reach : needed;
    phases_ = at_most(step, last + 1);  // further ones no tap sees
    for (int a = 0; a < 2; ++a) rows_[a] = (g.out[a] - 1) * g.stride[a] + (g.kernel[a] - 1) * g.dilation[a] + 1;
    Index* places = scratch.array<Index>(g.taps());
    for (Index t = 0; t < g.taps(); ++t) {
      const Index q = t % g.kernel[2], j = t / g.kernel[2] % g.kernel[1], i = t / g.kernel[2] / g.kernel[1];
      places[t] = (i * g.dilation[0] * rows_[1] + j * g.dilation[1]) * row_length() + place(q * g.dilation[2]);
    }
    places_ = places;
    data_ = scratch.array<T>(rows_[0] * rows_[1] * row_length() + lanes);
    for (Index phase = 0; phase < phases_; ++phase) {
      const Index before = columns_before(g.lower[2], phase), behind = columns_before(end, phase);
      for (Index d = 0; d < rows_[0]; ++d)
        for (Index h = 0; h < rows_[1]; ++h) {
          const bool there = in_image(d, h);
          T* to = row(d, h) + phase * width_;
          for (Index i = 0; i < (there ? before : width_); ++i) to[i] = fill;
          for (Index i = there ? behind : width_; i < width_; ++i) to[i] = fill;
        }
    }
    for (int i = 0; i < lanes; ++i) data_[rows_[0] * rows_[1] * row_length() + i] = fill;
  }

  // The image, which takes the same places each time.
  void fill(const T* from, const Index (&stride)[axes]) {
    for (Index d = 0; d < rows_[0]; ++d)
      for (Index h = 0; h < rows_[1]; ++h)
        if (in_image(d, h))
          fill_row(from + (d - g_->lower[0]) * stride[0] + (h - g_->lower[1]) * stride[1], stride[2], row(d, h));
  }

  // Where the windows of a row of outputs begin; tap(t) further is what they have at tap t.
  const T* at(Index od, Index oh) const {
    return data_ + (od * g_->stride[0] * rows_[1] + oh * g_->stride[1]) * row_length();
  }
  Index tap(Index t) const { return places_[t]; }

 private:
  bool in_image(Index d, Index h) const {
    return d >= g_->lower[0] && d < g_->lower[0] + g_->in[0] && h >= g_->lower[1] && h < g_->lower[1] + g_->in[1];
  }

  Index row_length() const { return width_ * phases_; }
  T* row(Index d, Index h) { return data_ + (d * rows_[1] + h) * row_length(); }

  // How many columns before `end` are `phase` further than where a window may begin.
  Index columns_before(Index end, Index phase) const {
    return end > phase ? gemm::divide_up(end - phase, g_->stride[2]) : 0;
  }

  Index place(Index column) const { return column % g_->stride[2] * width_ + column / g_->stride[2]; }

  // Rows are short: a call of memcpy takes longer than it copies.
  static FASTDL_INLINE void copy(const T* from, Index count, T* to) {
    Index i = 0;
    for (; i + lanes <= count; i += lanes) simd::store(to + i, simd::load(from + i));
    if (i == count) return;
    if (count >= lanes)
      simd::store(to + count - lanes, simd::load(from + count - lanes));
    else
      simd::store_first(to, simd::load_first(from, int(count)), int(count));
  }

  FASTDL_INLINE void fill_row(const T* from, Index stride, T* to) {
    const Index step = g_->stride[2], before = g_->lower[2];
    if (g_->in[2] == 0) return;
    if (stride == 1 && step == 1) return copy(from, g_->in[2], to + before);
    Index i = 0;
    if (stride == 1 && step == 2 && phases_ == 2)
      for (; i + lanes < g_->in[2]; i += 2 * lanes) {
        const int rest = int(gemm::at_most(lanes, g_->in[2] - i - lanes));
        T *even = to + place(before + i), *odd = to + place(before + i + 1);
        const simd::Vec<T> first = simd::load(from + i);
        const simd::Vec<T> second =
            rest == lanes ? simd::load(from + i + lanes) : simd::load_first(from + i + lanes, rest);
        const simd::Vec<T> evens = simd::even_lanes<T>(first, second), odds = simd::odd_lanes<T>(first, second);
        if (rest == lanes) {  // masked stores in their place doubled the time of 3 x 3 pooling of stride 2 (Zen 3)
          simd::store(even, evens);
          simd::store(odd, odds);
        } else {
          simd::store_first(even, evens, (lanes + rest + 1) / 2);
          simd::store_first(odd, odds, (lanes + rest) / 2);
        }
      }
    for (Index phase = (before + i) % step, at = (before + i) / step; i < g_->in[2]; ++i) {
      if (phase < phases_) to[phase * width_ + at] = from[i * stride];
      if (++phase == step) phase = 0, ++at;
    }
  }

  const Geometry* g_;
  const Index* places_;
  Index width_, phases_, rows_[2];
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
