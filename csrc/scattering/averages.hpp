// The low-pass: few averages of many vectors, by their sums, along one axis and then along the other.
#pragma once

#include "scattering/lanes.hpp"
#include "scattering/plan.hpp"

namespace fastdl::scattering {
namespace {

// So many terms are added up, and then such sums. One by one, the tail of a long window is rounded away beside what is
// there already: in float32 that was 6e-5 of the result for 32768 samples averaged over 4096.
constexpr Index summed_together = 256;

constexpr Index end_of_part(Index begin, Index n) { return n - begin < summed_together ? n : begin + summed_together; }

template <class T>
FASTDL_INLINE void add_part(Index begin, Vec<T> sum, T* to) {
  store(to, begin == 0 ? sum : load(to) + sum);
}

// R averages at a time, so that each vector is loaded once for all of them where their terms are all the same.
template <class T, int R>
FASTDL_INLINE void average_rows(const Averages<T>& a, Index p, const T* in, Index stride, T* out, Index out_stride) {
  const T* taps = a.taps + p;
  for (Index begin = 0; begin < a.n; begin += summed_together) {
    Vec<T> sum[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) sum[r] = Vec<T>{};
    for (Index i = begin, end = end_of_part(begin, a.n); i < end; ++i, taps += a.count) {
      const Vec<T> value = load(in + i * stride);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) sum[r] = fma(value, broadcast(taps[r]), sum[r]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) add_part(begin, sum[r], out + (p + r) * out_stride);
  }
}

// The low-pass is even, and the places at which averages are taken have a centre: what average p takes of a place,
// the last but p takes of its mirror image. From sums and differences of the two places, half of the averages' sums and
// half of their differences follow, at half the multiply-adds, which were 8 to 20 for a modulus.
//
// For a pair the taps of E sums come first, then those of the differences; a place that is its own image has no
// difference. So many of both are taken at a time, from number p on; the average in the middle has no difference.
template <class T, int Sums, int Differences>
FASTDL_INLINE void mirrored_averages(const Averages<T>& a, Index p, const T* in, Index stride, T* out,
                                     Index out_stride) {
  const Index sums = a.count - a.count / 2;
  const std::int32_t* place = a.mirror.place;
  const T* taps = a.taps + p;
  Vec<T> sum[Sums], difference[Differences + 1];
#pragma GCC unroll 4
  for (int r = 0; r < Sums; ++r) sum[r] = Vec<T>{};  // `= {}` is `rep stos`, and registers only after it
#pragma GCC unroll 4
  for (int r = 0; r < Differences; ++r) difference[r] = Vec<T>{};
  for (Index i = 0; i < a.mirror.pairs; ++i, place += 2, taps += a.count) {
    const Vec<T> one = load(in + place[0] * stride), other = load(in + place[1] * stride);
    const Vec<T> even = one + other, odd = one - other;
#pragma GCC unroll 4
    for (int r = 0; r < Sums; ++r) sum[r] = fma(even, broadcast(taps[r]), sum[r]);
#pragma GCC unroll 4
    for (int r = 0; r < Differences; ++r) difference[r] = fma(odd, broadcast(taps[sums + r]), difference[r]);
  }
  for (Index i = 0; i < a.mirror.centres; ++i, ++place, taps += sums) {
    const Vec<T> value = load(in + *place * stride);
#pragma GCC unroll 4
    for (int r = 0; r < Sums; ++r) sum[r] = fma(value, broadcast(taps[r]), sum[r]);
  }
#pragma GCC unroll 4
  for (int r = 0; r < Differences; ++r) {
    store(out + (p + r) * out_stride, sum[r] + difference[r]);
    store(out + (a.count - 1 - p - r) * out_stride, sum[r] - difference[r]);
  }
  if (Sums > Differences) store(out + (p + Differences) * out_stride, sum[Sums - 1]);
}

template <class T>
void mirrored_averages(const Averages<T>& a, const T* in, Index stride, T* out, Index out_stride) {
  const Index differences = a.count / 2, sums = a.count - differences;
  Index p = 0;
  for (; p + 4 <= differences; p += 4) mirrored_averages<T, 4, 4>(a, p, in, stride, out, out_stride);
  switch (2 * (differences - p) + sums - differences) {
#define FASTDL_LEFT(Differences, Middle) \
  case 2 * Differences + Middle:         \
    return mirrored_averages<T, Differences + Middle, Differences>(a, p, in, stride, out, out_stride)
    FASTDL_LEFT(0, 1);
    FASTDL_LEFT(1, 0);
    FASTDL_LEFT(1, 1);
    FASTDL_LEFT(2, 0);
    FASTDL_LEFT(2, 1);
    FASTDL_LEFT(3, 0);
    FASTDL_LEFT(3, 1);
#undef FASTDL_LEFT
    default:
      return;
  }
}

// Of vectors `stride` numbers apart, to such `out_stride` apart.
template <class T>
void average(const Averages<T>& a, const T* in, Index stride, T* out, Index out_stride) {
  if (a.mirror.place) return mirrored_averages(a, in, stride, out, out_stride);
  if (a.length == a.n) {  // every average is of all: a product with a dense matrix
    Index p = 0;
    for (; p + 8 <= a.count; p += 8) average_rows<T, 8>(a, p, in, stride, out, out_stride);
    for (; p + 4 <= a.count; p += 4) average_rows<T, 4>(a, p, in, stride, out, out_stride);
    for (; p + 2 <= a.count; p += 2) average_rows<T, 2>(a, p, in, stride, out, out_stride);
    for (; p < a.count; ++p) average_rows<T, 1>(a, p, in, stride, out, out_stride);
    return;
  }
  for (Index p = 0; p < a.count; ++p) {
    Index i = 0, from = a.start[p];
    for (Index begin = 0; begin < a.length; begin += summed_together) {
      Vec<T> sum[4] = {};
      for (const Index part = end_of_part(begin, a.length); i < part;) {
        const Index first = i, end = a.n - from < part - i ? i + a.n - from : part;
        const T* at = in + (from - i) * stride;
        for (; i + 4 <= end; i += 4)
#pragma GCC unroll 4
          for (int r = 0; r < 4; ++r) sum[r] = fma(load(at + (i + r) * stride), broadcast(a.taps[i + r]), sum[r]);
        for (; i < end; ++i) sum[0] = fma(load(at + i * stride), broadcast(a.taps[i]), sum[0]);
        from += end - first;
        if (from == a.n) from = 0;
      }
      add_part(begin, (sum[0] + sum[1]) + (sum[2] + sum[3]), out + p * out_stride);
    }
  }
}

// The adjoint of mirrored averages: what two places get are the sum and the difference of two sums.
template <class T>
void mirrored_spread(const Averages<T>& a, const T* in, Index stride, T* out, Index out_stride) {
  const Index differences = a.count / 2, sums = a.count - differences;
  alignas(64) T folded[most_mirrored * lanes<T>];  // sums, then differences
  for (Index p = 0; p < differences; ++p) {
    const Vec<T> one = load(in + p * stride), other = load(in + (a.count - 1 - p) * stride);
    store(folded + p * lanes<T>, one + other);
    store(folded + (sums + p) * lanes<T>, one - other);
  }
  if (sums > differences) store(folded + differences * lanes<T>, load(in + differences * stride));
  const std::int32_t* place = a.mirror.place;
  const T* taps = a.taps;
  for (Index i = 0; i < a.mirror.pairs; ++i, place += 2, taps += a.count) {
    Vec<T> even{}, odd{};
    for (Index p = 0; p < sums; ++p) even = fma(load(folded + p * lanes<T>), broadcast(taps[p]), even);
    for (Index p = sums; p < a.count; ++p) odd = fma(load(folded + p * lanes<T>), broadcast(taps[p]), odd);
    store(out + place[0] * out_stride, even + odd);
    store(out + place[1] * out_stride, even - odd);
  }
  for (Index i = 0; i < a.mirror.centres; ++i, ++place, taps += sums) {
    Vec<T> even{};
    for (Index p = 0; p < sums; ++p) even = fma(load(folded + p * lanes<T>), broadcast(taps[p]), even);
    store(out + *place * out_stride, even);
  }
}

// The adjoint: out[n] = sum over p of what p took of it.
template <class T>
void spread(const Averages<T>& a, const T* in, Index stride, T* out, Index out_stride) {
  if (a.mirror.place) return mirrored_spread(a, in, stride, out, out_stride);
  if (a.length == a.n) {
    for (Index i = 0; i < a.n; ++i) {
      Vec<T> sum{};
      for (Index p = 0; p < a.count; ++p) sum = fma(load(in + p * stride), broadcast(a.taps[i * a.count + p]), sum);
      store(out + i * out_stride, sum);
    }
    return;
  }
  for (Index i = 0; i < a.n; ++i) store(out + i * out_stride, Vec<T>{});
  for (Index p = 0; p < a.count; ++p) {
    const Vec<T> value = load(in + p * stride);
    Index i = 0, from = a.start[p];
    while (i < a.length) {
      const Index end = a.n - from < a.length - i ? i + a.n - from : a.length;
      T* at = out + (from - i) * out_stride;
      for (; i < end; ++i) store(at + i * out_stride, fma(value, broadcast(a.taps[i]), load(at + i * out_stride)));
      from = 0;
    }
  }
}

}  // namespace
}  // namespace fastdl::scattering
