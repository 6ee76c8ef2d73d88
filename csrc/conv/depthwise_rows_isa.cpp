// Depthwise convolution by 3 x 3 filters, padded by one, along rows, compiled once per instruction-set level. Some rows
// of outputs share what they see: with stride 1 a vector of the image is loaded once, straight from where it lies, and
// serves up to nine multiply-adds. Nothing is copied or turned. Of rows so short that they leave half a vector empty
// two planes lie in one.
#include <type_traits>

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
  using V = simd::Vec<T>;
  static constexpr int lanes = simd::lanes<T>, half = lanes / 2;
  static constexpr bool halves = simd::vector_bytes > 16;  // of a vector can be stored
  // Rows of outputs in a band, at most: their sums are in registers. (With stride 2 seven of them took from 9% less to
  // 29% more time than four, planes of 28 x 28 and of 56 x 56 on Zen 5.)
  static constexpr int together = Stride == 1 ? 7 : 4, together_of_two = 7;
  template <int Rows>
  static constexpr int seen = (Rows - 1) * Stride + 3;  // rows of the image

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
    const bool narrow = halves && g_.in[2] < (Stride == 1 ? half : lanes);
    const Index most = narrow ? together_of_two : together, bands = divide_up(g_.out[1], most);
    Index* borders = scratch.array<Index>(bands + 1);
    for (Index i = 0; i <= bands; ++i) borders[i] = g_.out[1] * i / bands;
    // Several small planes a task, or some bands of large ones.
    const Index parts = narrow ? 1 : at_most(bands, divide_up(4 * threads, planes));
    const Index several = divide_up(32768, g_.pixels() * Index(sizeof(T)));
    const Index of_task = parts > 1 ? 1 : at_most(several, divide_up(planes, 4 * threads));
    core::parallel_for(divide_up(planes, of_task) * parts, threads, [&](Index task) {
      const Index part = task % parts, first = task / parts * of_task, last = at_most(first + of_task, planes);
      const Index *begin = borders + bands * part / parts, *end = borders + bands * (part + 1) / parts;
      Plane plane{first / g_.groups, first % g_.groups};
      Index number = first;
      if constexpr (halves)
        for (; narrow && number + 1 < last; number += 2) {
          const Plane other = next(plane);
          two_planes(plane, other, w, borders, borders + bands);
          plane = next(other);
        }
      for (; number < last; ++number, plane = next(plane)) one_plane(plane, w, begin, end);
    });
  }

 private:
  // All are numbered through; a division for each would be 6% of the time of planes of 7 x 7.
  struct Plane {
    Index image, channel;
  };
  Plane next(Plane p) const {
    return p.channel + 1 < g_.groups ? Plane{p.image, p.channel + 1} : Plane{p.image + 1, 0};
  }
  const T* image_of(Plane p) const { return x_.data + p.image * x_.batch + p.channel * x_.channel; }
  T* sums_of(Plane p) const { return out_ + (p.image * g_.groups + p.channel) * g_.pixels(); }

  // Row i of those that outputs see from row h on.
  const T* row_of(const T* image, Index h, int i) const {
    const Index at = h * Stride - g_.lower[1] + i;
    return at >= 0 && at < g_.in[1] ? image + at * x_.axis[1] : zeros_;
  }

  void finish(Plane plane, Index begin, Index end) const {
    if (!bias_ && activation_ == Activation::none) return;
    T* to = sums_of(plane) + begin * g_.out[2];
    finish_pixels(to, (end - begin) * g_.out[2], bias_ ? bias_[plane.channel] : T(0), activation_, to);
  }

  // call(first row, how many as a constant) for the bands between these borders.
  template <int Most, class Call>
  static FASTDL_INLINE void each_band(const Index* begin, const Index* end, const Call& call) {
    for (const Index* h = begin; h < end; ++h) pick<Most>(int(h[1] - h[0]), [&](auto rows) { call(*h, rows); });
  }
  template <int Rows, class Call>
  static FASTDL_INLINE void pick(int rows, const Call& call) {
    if constexpr (Rows > 1)
      if (rows < Rows) return pick<Rows - 1>(rows, call);
    call(std::integral_constant<int, Rows>{});
  }

  // see(i, the three taps of row i of those that are seen)
  template <int Rows, class See>
  static FASTDL_INLINE void sum(const V (&weights)[9], V (&acc)[Rows], const See& see) {
#pragma GCC unroll 16
    for (int i = 0; i < seen<Rows>; ++i) {
      V taps[3];
      see(i, taps);
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r)
        if (const int j = i - r * Stride; j >= 0 && j < 3)
#pragma GCC unroll 3
          for (int q = 0; q < 3; ++q) acc[r] = simd::fma(taps[q], weights[3 * j + q], acc[r]);
    }
  }

  // ---- one plane ----

  void one_plane(Plane plane, const T* w, const Index* begin, const Index* end) const {
    V weights[9];
    for (int t = 0; t < 9; ++t) weights[t] = simd::broadcast(w[plane.channel * 9 + t]);
    const T* image = image_of(plane);
    T* sums = sums_of(plane);
    const auto some = [&](Index h, auto rows) {
      band<rows>(image, h, weights, sums + h * g_.out[2], sums + *end * g_.out[2]);
    };
    each_band<together_of_two>(begin, end, [&](Index h, auto rows) {
      if constexpr (rows > together) {
        some(h, std::integral_constant<int, together>{});
        some(h + together, std::integral_constant<int, rows - together>{});
      } else {
        some(h, rows);
      }
    });
    finish(plane, *begin, *end);
  }

  // From right to left: what the last vector of a row writes beyond it is overwritten later. Only at `end` it must be a
  // part of a vector.
  template <int Rows>
  void band(const T* image, Index h, const V (&weights)[9], T* to, const T* end) const {
    const T* row[seen<Rows>];
    for (int i = 0; i < seen<Rows>; ++i) row[i] = row_of(image, h, i);
    Index c = (g_.out[2] - 1) / lanes * lanes;
    const int count = to + (Rows - 1) * g_.out[2] + c + lanes <= end ? lanes : int(g_.out[2] - c);
    if (c == 0) return vectors<Rows, true, true>(row, 0, weights, count, to);
    vectors<Rows, false, true>(row, c, weights, count, to);
    for (c -= lanes; c > 0; c -= lanes) vectors<Rows, false, false>(row, c, weights, lanes, to);
    vectors<Rows, true, false>(row, 0, weights, lanes, to);
  }

  // A vector of columns from c on of `Rows` rows, the first of a row, or the last one, or both. `count` of its lanes
  // are stored.
  template <int Rows, bool Left, bool Right>
  FASTDL_INLINE void vectors(const T* const* row, Index c, const V (&weights)[9], int count, T* to) const {
    // Rows of the band after the next, or 4 KB further: columns from right to left are no pattern that the processor
    // would see. (Zen 5: 8 images of 64 channels of 112 x 112, stride 2: 0.31 ms, 0.35 from the next band, 0.45
    // without; 32 of 256 channels of 28 x 28: 0.46 ms, and 0.57 from the band after the next.)
    const Index bands = 2 * Rows * Stride * x_.axis[1], least = 4096 / Index(sizeof(T));
    for (int i = 2; i < seen<Rows>; ++i)
      for (int v = 0; v < Stride; ++v)
        simd::prefetch_to_l1(row[i] + (bands < least ? least : bands) + c * Stride + v * lanes);
    // Of two vectors of a row, how much is there.
    const auto limited = [](Index n) { return int(n < 0 ? 0 : at_most(n, lanes)); };
    const Index left = g_.in[2] - c * Stride;
    const int there[2] = {limited(left), limited(left - lanes)};
    V acc[Rows] = {};
    sum<Rows>(weights, acc, [&](int i, V(&taps)[3]) { see<Left, Right>(row[i] + c * Stride, there, taps); });
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
  FASTDL_INLINE void see(const T* at, const int (&there)[2], V (&taps)[3]) const {
    const auto some = [&](int i) {
      return Right ? simd::load_first(at + i * lanes, there[i]) : simd::load(at + i * lanes);
    };
    const V before = Left ? V{} : simd::broadcast(at[-1]);
    if constexpr (Stride == 1) {
      taps[1] = some(0);
      taps[2] = simd::next_lanes<T>(taps[1], Right ? V{} : simd::broadcast(at[lanes]));
      taps[0] = simd::lanes_before<T>(before, taps[1]);
    } else {
      const V first = some(0), second = some(1);
      taps[1] = simd::even_lanes<T>(first, second);
      taps[2] = simd::odd_lanes<T>(first, second);
      taps[0] = simd::lanes_before<T>(before, taps[2]);
    }
  }

  // ---- two planes, each in half of the lanes ----

  // Their rows leave at least one lane of a half empty: the zero that the neighbours at both ends are.
  void two_planes(Plane a, Plane b, const T* w, const Index* begin, const Index* end) const {
    V weights[9];
    for (int t = 0; t < 9; ++t)
      weights[t] = simd::first_halves<T>(simd::broadcast(w[a.channel * 9 + t]), simd::broadcast(w[b.channel * 9 + t]));
    const T* images[2] = {image_of(a), image_of(b)};
    T* sums[2] = {sums_of(a), sums_of(b)};
    each_band<together_of_two>(begin, end, [&](Index h, auto rows) { band_of_two<rows>(images, h, weights, sums); });
    finish(a, *begin, *end);
    finish(b, *begin, *end);
  }

  template <int Rows>
  void band_of_two(const T* const (&images)[2], Index h, const V (&weights)[9], T* const (&sums)[2]) const {
    const T* row[2][seen<Rows>];
    for (int of = 0; of < 2; ++of)
      for (int i = 0; i < seen<Rows>; ++i) row[of][i] = row_of(images[of], h, i);
    const int width = int(g_.in[2]);
    const Index columns = g_.out[2];
    V acc[Rows] = {};
    sum<Rows>(weights, acc, [&](int i, V(&taps)[3]) {
      const V first = simd::load_first(row[0][i], width), second = simd::load_first(row[1][i], width);
      if constexpr (Stride == 1) {
        taps[1] = simd::first_halves<T>(first, second);
        taps[2] = simd::next_lanes<T>(taps[1], V{});
        taps[0] = simd::lanes_before<T>(V{}, taps[1]);
      } else {
        taps[1] = simd::even_lanes<T>(first, second);
        taps[2] = simd::odd_lanes<T>(first, second);
        taps[0] = simd::lanes_before<T>(V{}, taps[2]);
      }
    });
    T *first = sums[0] + h * columns, *second = sums[1] + h * columns;
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r, first += columns, second += columns)
      if ((h + r) * columns + half <= g_.pixels()) {
        simd::store_half<T, 0>(first, acc[r]);
        simd::store_half<T, half>(second, acc[r]);
      } else {
        simd::store_first(first, acc[r], int(columns));
        simd::store_first(second, simd::second_half<T>(acc[r]), int(columns));
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
