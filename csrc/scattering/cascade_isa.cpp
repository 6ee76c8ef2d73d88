// The fast wavelet transform of images and its inverse, compiled once per instruction-set level.
//
// A row of results is made at once: down first, where vectors lie along the rows of the image, to a row in L1, and then
// across, where even and odd samples are taken apart so that neighbouring results are neighbouring lanes. An image is
// read once and written once at each scale.
#include <utility>

#include "core/scratch.hpp"
#include "core/threads.hpp"
#include "scattering/cascade.hpp"
#include "scattering/lanes.hpp"

namespace fastdl::scattering::FASTDL_LEVEL {
namespace {

template <class T, int... Lane>
FASTDL_INLINE Vec<T> every_second(Vec<T> a, Vec<T> b, std::integer_sequence<int, Lane...>) {
  return __builtin_shufflevector(a, b, (2 * Lane)...);
}
template <class T, int First, int... Lane>
FASTDL_INLINE Vec<T> in_turns(Vec<T> a, Vec<T> b, std::integer_sequence<int, Lane...>) {
  return __builtin_shufflevector(a, b, (First + Lane / 2 + Lane % 2 * lanes<T>)...);
}
template <class T>
using Lanes = std::make_integer_sequence<int, lanes<T>>;

template <class T>
FASTDL_INLINE Vec<T> load_some(const T* p, Index count) {
  return count >= lanes<T> ? load(p) : simd::load_first(p, int(count < 0 ? 0 : count));
}
template <class T>
FASTDL_INLINE void store_some(T* p, Vec<T> v, Index count) {
  if (count >= lanes<T>)
    store(p, v);
  else
    simd::store_first(p, v, int(count < 0 ? 0 : count));
}

// Room for a row, and before and after it for what goes round its ends.
template <class T>
T* new_row(core::Scratch& scratch, const Cascade<T>& cascade, Index columns) {
  return scratch.array<T>(columns + cascade.taps + 4 * lanes<T>);
}

// B vectors of the sums over rows of both filters.
template <class T, int B>
FASTDL_INLINE void rows_down(const Cascade<T>& cascade, const T* const* rows, Index at, Index count, T* smooth,
                             T* rough) {
  Vec<T> low[B] = {}, high[B] = {};
  for (Index t = 0; t < cascade.taps; ++t) {
    const Vec<T> l = broadcast(cascade.low[t]), h = broadcast(cascade.high[t]);
#pragma GCC unroll 4
    for (int b = 0; b < B; ++b) {
      const Vec<T> x = B > 1 ? load(rows[t] + at + b * lanes<T>) : load_some(rows[t] + at, count);
      low[b] = fma(x, l, low[b]);
      high[b] = fma(x, h, high[b]);
    }
  }
  for (int b = 0; b < B; ++b) {
    store(smooth + at + b * lanes<T>, low[b]);
    store(rough + at + b * lanes<T>, high[b]);
  }
}

// From a row of `columns` numbers the low-pass and the high-pass across, at every second. even and odd are room.
template <class T>
void across(const Cascade<T>& cascade, Index columns, const T* row, T* even, T* odd, T* low, T* high) {
  const Index half = columns / 2, pairs = cascade.taps / 2;
  for (Index i = 0; i < half; i += lanes<T>) {
    const Vec<T> a = load(row + 2 * i), b = load(row + 2 * i + lanes<T>);
    store(even + i, every_second<T>(a, b, Lanes<T>{}));
    const Vec<T> c = load(row + 2 * i + 1), d = load(row + 2 * i + 1 + lanes<T>);
    store(odd + i, every_second<T>(c, d, Lanes<T>{}));
  }
  for (Index i = half; i < half + pairs; ++i) {
    even[i] = even[i - half];
    odd[i] = odd[i - half];
  }
  for (Index m = 0; m < half; m += lanes<T>) {
    Vec<T> smooth{}, rough{};
    for (Index u = 0; u < pairs; ++u) {
      const Vec<T> e = load(even + m + u), o = load(odd + m + u);
      smooth = fma(e, broadcast(cascade.low[2 * u]), smooth);
      rough = fma(e, broadcast(cascade.high[2 * u]), rough);
      smooth = fma(o, broadcast(cascade.low[2 * u + 1]), smooth);
      rough = fma(o, broadcast(cascade.high[2 * u + 1]), rough);
    }
    store_some(low + m, smooth, half - m);
    store_some(high + m, rough, half - m);
  }
}

// Row n of the average and of the three details of x (rows x columns).
template <class T>
void analyse_row(const Cascade<T>& cascade, Index rows, Index columns, Index n, const T* x, T* average, T* details) {
  core::Scratch scratch;
  const T** from = scratch.array<const T*>(cascade.taps);
  T *smooth = new_row(scratch, cascade, columns), *rough = new_row(scratch, cascade, columns);
  T *even = new_row(scratch, cascade, columns), *odd = new_row(scratch, cascade, columns);
  for (Index t = 0; t < cascade.taps; ++t) from[t] = x + (2 * n + t) % rows * columns;
  Index at = 0;
  for (; at + 4 * lanes<T> <= columns; at += 4 * lanes<T>) rows_down<T, 4>(cascade, from, at, 0, smooth, rough);
  for (; at < columns; at += lanes<T>) rows_down<T, 1>(cascade, from, at, columns - at, smooth, rough);
  const Index half = columns / 2, plane = rows / 2 * half;
  across(cascade, columns, smooth, even, odd, average + n * half, details + n * half);
  across(cascade, columns, rough, even, odd, details + plane + n * half, details + 2 * plane + n * half);
}

// sum over u of low[2 u + parity] a[u] + high[2 u + parity] b[u], rows that lie rows[u] numbers on: to[i], i < columns,
// and before it what goes round.
template <class T>
void rows_up(const Cascade<T>& cascade, const Index* rows, Index columns, Index parity, const T* a, const T* b, T* to) {
  const Index pairs = cascade.taps / 2;
  for (Index at = 0; at < columns; at += lanes<T>) {
    Vec<T> sum{};
    for (Index u = 0; u < pairs; ++u) {
      sum = fma(load_some(a + rows[u] + at, columns - at), broadcast(cascade.low[2 * u + parity]), sum);
      sum = fma(load_some(b + rows[u] + at, columns - at), broadcast(cascade.high[2 * u + parity]), sum);
    }
    store(to + at, sum);
  }
  for (Index i = 1; i < pairs; ++i) to[-i] = to[columns - i];
}

// Row m of the image (2 rows x 2 columns) from the average and the details.
template <class T>
void synthesise_row(const Cascade<T>& cascade, Index rows, Index columns, Index m, const T* average, const T* details,
                    T* x) {
  core::Scratch scratch;
  const Index plane = rows * columns, pairs = cascade.taps / 2;
  T *a = new_row(scratch, cascade, columns) + pairs, *b = new_row(scratch, cascade, columns) + pairs;
  Index* from = scratch.array<Index>(pairs);
  for (Index u = 0; u < pairs; ++u) from[u] = ((m / 2 - u) % rows + rows) % rows * columns;
  rows_up(cascade, from, columns, m % 2, average, details + plane, a);
  rows_up(cascade, from, columns, m % 2, details, details + 2 * plane, b);
  T* to = x + m * 2 * columns;
  for (Index at = 0; at < columns; at += lanes<T>) {
    Vec<T> even{}, odd{};
    for (Index u = 0; u < pairs; ++u) {
      const Vec<T> smooth = load(a + at - u), rough = load(b + at - u);
      even = fma(smooth, broadcast(cascade.low[2 * u]), even);
      odd = fma(smooth, broadcast(cascade.low[2 * u + 1]), odd);
      even = fma(rough, broadcast(cascade.high[2 * u]), even);
      odd = fma(rough, broadcast(cascade.high[2 * u + 1]), odd);
    }
    const Index left = 2 * (columns - at);
    store_some(to + 2 * at, in_turns<T, 0>(even, odd, Lanes<T>{}), left);
    if (left > lanes<T>)
      store_some(to + 2 * at + lanes<T>, in_turns<T, lanes<T> / 2>(even, odd, Lanes<T>{}), left - lanes<T>);
  }
}

template <class T>
void copy(const T* from, Index n, T* to) {
  for (Index i = 0; i < n; ++i) to[i] = from[i];
}

// image(i) for all images: one for each thread, or where there are few, one after the other by all threads.
template <class T, class Function>
void for_images(const Cascade<T>& cascade, const Function& image) {
  const double work = double(cascade.batch) * double(cascade.height) * double(cascade.width) * double(cascade.taps);
  const int threads = work < 1e5 ? 1 : core::thread_count();
  core::parallel_for(cascade.batch, cascade.batch >= 2 * threads ? threads : 1, [&](Index i) { image(i, threads); });
}

template <class Function>
void for_rows(Index rows, int threads, const Function& row) {
  constexpr Index some = 8;
  core::parallel_for((rows + some - 1) / some, threads, [&](Index task) {
    for (Index n = task * some; n < rows && n < (task + 1) * some; ++n) row(n);
  });
}

template <class T>
void wavelet_of(const Cascade<T>& cascade, const T* x, T* approximation, T* const* details) {
  for_images(cascade, [&](Index image, int threads) {
    core::Scratch scratch;
    Index rows = cascade.height, columns = cascade.width;
    const T* from = x + image * rows * columns;
    const Index last = (rows >> cascade.scales) * (columns >> cascade.scales);
    if (cascade.scales == 0) return copy(from, last, approximation + image * last);
    for (Index scale = 0; scale < cascade.scales; ++scale) {
      const Index size = rows / 2 * (columns / 2);
      T* average = scale + 1 < cascade.scales ? scratch.array<T>(size) : approximation + image * last;
      T* detail = details[scale] + image * 3 * size;
      for_rows(rows / 2, threads, [&](Index n) { analyse_row(cascade, rows, columns, n, from, average, detail); });
      from = average;
      rows /= 2;
      columns /= 2;
    }
  });
}

template <class T>
void wavelet_inverse_of(const Cascade<T>& cascade, const T* approximation, const T* const* details, T* x) {
  for_images(cascade, [&](Index image, int threads) {
    core::Scratch scratch;
    Index rows = cascade.height >> cascade.scales, columns = cascade.width >> cascade.scales;
    const T* from = approximation + image * rows * columns;
    T* result = x + image * cascade.height * cascade.width;
    if (cascade.scales == 0) return copy(from, rows * columns, result);
    for (Index scale = cascade.scales - 1; scale >= 0; --scale) {
      T* to = scale > 0 ? scratch.array<T>(2 * rows, 2 * columns) : result;
      const T* detail = details[scale] + image * 3 * rows * columns;
      for_rows(2 * rows, threads, [&](Index m) { synthesise_row(cascade, rows, columns, m, from, detail, to); });
      from = to;
      rows *= 2;
      columns *= 2;
    }
  });
}

}  // namespace

void wavelet(const Cascade<float>& cascade, const float* x, float* approximation, float* const* details) {
  wavelet_of(cascade, x, approximation, details);
}
void wavelet(const Cascade<double>& cascade, const double* x, double* approximation, double* const* details) {
  wavelet_of(cascade, x, approximation, details);
}
void wavelet_inverse(const Cascade<float>& cascade, const float* approximation, const float* const* details, float* x) {
  wavelet_inverse_of(cascade, approximation, details, x);
}
void wavelet_inverse(const Cascade<double>& cascade, const double* approximation, const double* const* details,
                     double* x) {
  wavelet_inverse_of(cascade, approximation, details, x);
}

}  // namespace fastdl::scattering::FASTDL_LEVEL
