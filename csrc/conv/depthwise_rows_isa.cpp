// Depthwise convolution by 3 x 3 filters, padded by one, along rows, compiled once per instruction-set level. Up to
// seven rows of outputs share what they see: with stride 1 a vector of the image is loaded once, straight from where it
// lies, and serves up to nine multiply-adds. Nothing is copied or turned.
#include "conv/activation.hpp"
#include "conv/bodies.hpp"
#include "core/scratch.hpp"
#include "core/threads.hpp"
#include "simd/transpose.hpp"

namespace fastdl::conv::FASTDL_LEVEL {
namespace {

using gemm::at_most;
using gemm::divide_up;
using gemm::round_up;

template <class T, int Stride>
class DepthwiseRows {
  static constexpr int lanes = simd::lanes<T>;
  static constexpr int together = Stride == 1 ? 7 : 4;  // rows of outputs, at most

 public:
  DepthwiseRows(const Geometry& g, const Images<const T>& x, const T* bias, Activation activation, T* out)
      : g_(g), x_(x), bias_(bias), activation_(activation), out_(out) {}

  void run(const T* w) {
    core::Scratch scratch;
    T* zeros = scratch.array<T>(g_.in[2]);
    for (Index i = 0; i < g_.in[2]; ++i) zeros[i] = T(0);
    zeros_ = zeros;
    const Index planes = g_.batch * g_.groups;
    const int threads = double(planes * g_.pixels()) < 1e5 ? 1 : core::thread_count();
    // Several small planes a task, or parts of large ones.
    const Index parts = at_most(divide_up(g_.out[1], together), divide_up(4 * threads, planes));
    const Index rows = round_up(divide_up(g_.out[1], parts), together);
    const Index several = divide_up(32768, g_.pixels() * Index(sizeof(T)));
    const Index of_task = parts > 1 ? 1 : at_most(several, divide_up(planes, 4 * threads));
    core::parallel_for(divide_up(planes, of_task) * parts, threads, [&](Index task) {
      const Index first = task / parts * of_task, begin = task % parts * rows;
      const Index end = at_most(begin + rows, g_.out[1]);
      for (Index plane = first; plane < at_most(first + of_task, planes); ++plane) {
        const Index channel = plane % g_.groups;
        const T* from = x_.data + plane / g_.groups * x_.batch + channel * x_.channel;
        T* to = out_ + plane * g_.pixels() + begin * g_.out[2];
        some_rows(from, begin, end, w + channel * 9, to);
        if (bias_ || activation_ != Activation::none)
          finish_pixels(to, (end - begin) * g_.out[2], bias_ ? bias_[channel] : T(0), activation_, to);
      }
    });
  }

 private:
  // Rows [begin, end) of sums.
  void some_rows(const T* from, Index begin, Index end, const T* w, T* to) const {
    simd::Vec<T> weights[9];
    for (int t = 0; t < 9; ++t) weights[t] = simd::broadcast(w[t]);
    const T* last = to + (end - begin) * g_.out[2];
    const Index bands = divide_up(end - begin, together);
    for (Index i = 0, h = begin; i < bands; ++i) {
      const Index next = begin + (end - begin) * (i + 1) / bands;
      pick_band<together>(int(next - h), from, h, weights, to, last);
      to += (next - h) * g_.out[2];
      h = next;
    }
  }

  template <int Rows>
  void pick_band(int rows, const T* from, Index h, const simd::Vec<T> (&weights)[9], T* to, const T* end) const {
    if constexpr (Rows > 1)
      if (rows < Rows) return pick_band<Rows - 1>(rows, from, h, weights, to, end);
    band<Rows>(from, h, weights, to, end);
  }

  // `Rows` rows from row h on, from right to left: what the last vector of a row writes beyond it is overwritten later.
  // Only at `end` it must be a part of a vector.
  template <int Rows>
  void band(const T* from, Index h, const simd::Vec<T> (&weights)[9], T* to, const T* end) const {
    const T* row[(Rows - 1) * Stride + 3];
    for (int i = 0; i < (Rows - 1) * Stride + 3; ++i) {
      const Index at = h * Stride - g_.lower[1] + i;
      row[i] = at >= 0 && at < g_.in[1] ? from + at * x_.axis[1] : zeros_;
    }
    Index c = (g_.out[2] - 1) / lanes * lanes;
    const int count = to + (Rows - 1) * g_.out[2] + c + lanes <= end ? lanes : int(g_.out[2] - c);
    if (c == 0) return vectors<Rows, true, true>(row, 0, weights, count, to);
    vectors<Rows, false, true>(row, c, weights, count, to);
    for (c -= lanes; c > 0; c -= lanes) vectors<Rows, false, false>(row, c, weights, lanes, to);
    vectors<Rows, true, false>(row, 0, weights, lanes, to);
  }

  // A vector of columns from c on of `Rows` rows, the first of a row, or the last one, or both. `count` of its lanes are
  // stored.
  template <int Rows, bool Left, bool Right>
  FASTDL_INLINE void vectors(const T* const* row, Index c, const simd::Vec<T> (&weights)[9], int count, T* to) const {
    // Rows of the band after the next, or 4 KB further: columns from right to left are no pattern that the processor
    // would see. (Zen 5: 8 images of 64 channels of 112 x 112, stride 2: 0.31 ms, 0.35 from the next band, 0.45 without;
    // 32 of 256 channels of 28 x 28: 0.46 ms, and 0.57 from the band after the next.)
    constexpr int seen = (Rows - 1) * Stride + 3;
    const Index bands = 2 * Rows * Stride * x_.axis[1], least = 4096 / Index(sizeof(T));
    for (int i = 2; i < seen; ++i)
      for (int v = 0; v < Stride; ++v)
        simd::prefetch_to_l1(row[i] + (bands < least ? least : bands) + c * Stride + v * lanes);
    // Of two vectors of a row, how much is there.
    const auto limited = [](Index n) { return int(n < 0 ? 0 : at_most(n, lanes)); };
    const Index left = g_.in[2] - c * Stride;
    const int there[2] = {limited(left), limited(left - lanes)};
    simd::Vec<T> acc[Rows] = {};
#pragma GCC unroll 16
    for (int i = 0; i < seen; ++i) {
      simd::Vec<T> taps[3];
      see<Left, Right>(row[i] + c * Stride, there, taps);
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r)
        if (const int j = i - r * Stride; j >= 0 && j < 3)
#pragma GCC unroll 3
          for (int q = 0; q < 3; ++q) acc[r] = simd::fma(taps[q], weights[3 * j + q], acc[r]);
    }
    if (Right && count < lanes) {
      for (int r = 0; r < Rows; ++r) simd::store_first(to + r * g_.out[2] + c, acc[r], count);
      return;
    }
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) simd::store(to + r * g_.out[2] + c, acc[r]);
  }

  // What a vector of columns sees of a row at the three taps, the second from `at` on. Neighbours are shifted in:
  // vectors that are loaded one element further mostly lie across two lines. (With three loads a vector of sums took 12
  // cycles on Zen 5, and takes 6.)
  template <bool Left, bool Right>
  FASTDL_INLINE void see(const T* at, const int (&there)[2], simd::Vec<T> (&taps)[3]) const {
    const auto some = [&](int i) {
      return Right ? simd::load_first(at + i * lanes, there[i]) : simd::load(at + i * lanes);
    };
    const simd::Vec<T> before = Left ? simd::Vec<T>{} : simd::broadcast(at[-1]);
    if constexpr (Stride == 1) {
      taps[1] = some(0);
      taps[2] = simd::next_lanes<T>(taps[1], Right ? simd::Vec<T>{} : simd::broadcast(at[lanes]));
      taps[0] = simd::lanes_before<T>(before, taps[1]);
    } else {
      const simd::Vec<T> first = some(0), second = Left && Right && there[1] == 0 ? simd::Vec<T>{} : some(1);
      taps[1] = simd::even_lanes<T>(first, second);
      taps[2] = simd::odd_lanes<T>(first, second);
      taps[0] = simd::lanes_before<T>(before, taps[2]);
    }
  }

  const Geometry& g_;
  const Images<const T>& x_;
  const T* bias_;
  Activation activation_;
  T* out_;
  const T* zeros_ = nullptr;  // a row outside the image
};

}  // namespace

#define FASTDL_BODIES_OF(T)                                                                                          \
  void depthwise_rows(const Geometry& g, const Images<const T>& x, const T* w, const T* bias, Activation activation, \
                      T* out) {                                                                                      \
    if (g.stride[2] == 1)                                                                                            \
      DepthwiseRows<T, 1>(g, x, bias, activation, out).run(w);                                                       \
    else                                                                                                             \
      DepthwiseRows<T, 2>(g, x, bias, activation, out).run(w);                                                       \
  }
FASTDL_BODIES_OF(float)
FASTDL_BODIES_OF(double)

}  // namespace fastdl::conv::FASTDL_LEVEL
