// Transforms along the last axis of batches. Short rows go one in a lane: they are transposed in registers on the way
// in and on the way out. Longer ones go one at a time (batch_grid.hpp). Which way a row goes depends on its length
// alone, so that it is the same to the bit by itself and among others.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/scratch.hpp"
#include "core/threads.hpp"
#include "fft/batch_grid.hpp"
#include "fft/batch_short.hpp"
#include "fft/batch_square.hpp"
#include "fft/real.hpp"

namespace fastdl::fft {
namespace {

// How many of `batch` pieces of so many numbers each are a task: some microseconds, or an eighth of a thread's share.
// (What the processor fetches beyond the end of a task is another thread's: 2^20 complex64 in rows of 16 took 286 us in
// tasks of 2^13 numbers on two threads of Zen 5, as on one, and 160 in tasks of 2^16.) No more than 2^18 numbers, as
// signals are asked for between tasks.
inline Index pieces_of_task(Index batch, Index numbers, int threads) {
  constexpr Index least = 1 << 13, most = 1 << 18;
  const Index share = at_most(most / numbers, batch / (8 * threads)), enough = divide_up(least, numbers);
  return share < enough ? enough : share;
}

// task(first, count, room) for groups of rows that together are all of them: `unit` rows, or several times as many if
// that is too little work. room are so many numbers of scratch space; `streamed`, that results go past the caches.
template <class T, class Task>
void for_rows(Index batch, Index n, Index unit, Index room, const Task& task, bool streamed = false) {
  const int threads = threads_for(double(batch) * double(n));
  const Index many = unit * pieces_of_task(divide_up(batch, unit), unit * n, threads);
  core::parallel_for(divide_up(batch, many), threads, [&](Index i) {
    core::Scratch scratch;
    T* local = scratch.array<T>(room);
    const Index end = at_most(batch, (i + 1) * many);
    for (Index first = i * many; first < end; first += unit) task(first, at_most(unit, end - first), local);
    if (streamed) simd::end_stream();
  });
}

// Complex rows; out may be in.
template <class T>
void transform_rows(const T* in, T* out, Index batch, Index n, bool inverse, T factor) {
  if (goes_as_square<T>(n))
    return for_rows<T>(batch, n, 1, 0,
                       [&](Index i, Index, T*) { transform_square(in + 2 * n * i, out + 2 * n * i, inverse, factor); });
  if (goes_as_grid(n)) {
    const GridTransform<T> row(n);
    if (batch == 1) return row.together(in, out, inverse, factor);
    return for_rows<T>(batch, n, 1, row.room(),
                       [&](Index i, Index, T* room) { row(in + 2 * n * i, out + 2 * n * i, inverse, factor, room); });
  }
  const SharedPlan<T> shared(n);
  const Plan<T>& plan = shared.plan();
  // Rader's algorithm, at half the length, goes by lanes: 2.7 ms for 2^20 complex64 in rows of 1021, on two threads of
  // Emerald Rapids, where grids took 6.0, and Bluestein's 4.3. A single row pays for it: one of 1013 takes 60 us on Zen
  // 4, one of 1019 by Bluestein's 7.
  if (plan.chirp && goes_as_grid(plan.inner->length)) {
    const GridBluestein<T> row(plan);
    return for_rows<T>(batch, n, 1, row.room(),
                       [&](Index i, Index, T* room) { row(in + 2 * n * i, out + 2 * n * i, inverse, factor, room); });
  }
  const Parts<T> parts(inverse);
  const bool lines = reinterpret_cast<std::uintptr_t>(out) % 64 == 0;
  const bool streamed = in != out && lines && Index(sizeof(T)) * 2 * batch * n >= streamed_bytes;
  const auto in_registers = short_transform<T>(n, streamed);
  const auto lane_full = [&](Index first, Index count, T* column) {
    if (in_registers && count == simd::lanes<T>) {
      // With 16 lanes Zen 4 follows so much by itself: asked for ahead, 2^20 complex64 in rows of 12 took 360 us for
      // 280.
      for (Index i = 0; i < 2 * n && simd::vector_bytes != 64; i += simd::lanes<T>) {
        ask_ahead<false>(in + 2 * n * first, 2 * n, i / 2);
        ask_ahead<true>(out + 2 * n * first, 2 * n, i / 2);
      }
      return in_registers(in + 2 * n * first, out + 2 * n * first, parts, factor);
    }
    if (in_registers) {  // fewer rows go the same way, so that each is what it is among others
      const auto numbers = std::size_t(2 * n * count);
      std::memset(column, 0, sizeof(T) * std::size_t(2 * n * simd::lanes<T>));
      std::memcpy(column, in + 2 * n * first, sizeof(T) * numbers);
      in_registers(column, column, parts, factor);
      std::memcpy(out + 2 * n * first, column, sizeof(T) * numbers);
      return;
    }
    load_batch<T>(in + 2 * n * first, 2 * n, int(count), n, parts, column);
    transform(plan, false, column, 1, column, 1, column + n * width<T>);
    store_batch<T>(out + 2 * n * first, 2 * n, int(count), n, parts, factor, column);
  };
  for_rows<T>(batch, n, simd::lanes<T>, (n + plan.scratch) * width<T>, lane_full, streamed);
}

// The spectrum of 2*half real numbers from that of the numbers taken as `half` complex ones (real.hpp), interleaved.
template <class T>
void join_halves(const Plan<T>& plan, const T* z, T* out) {
  const Index half = plan.length;
  const auto joined = [](auto front_re, auto front_im, auto back_re, auto back_im, auto turn_re, auto turn_im, T* to,
                         T* mirror, const auto& put) {
    const auto even_re = (front_re + back_re) * T(0.5), even_im = (front_im - back_im) * T(0.5);
    const auto side_re = (front_im + back_im) * T(0.5), side_im = (back_re - front_re) * T(0.5);
    const auto odd_re = side_re * turn_re - side_im * turn_im, odd_im = side_re * turn_im + side_im * turn_re;
    put(to, even_re + odd_re, even_im + odd_im, false);
    put(mirror, even_re - odd_re, odd_im - even_im, true);
  };
  out[0] = z[0] + z[1];
  out[2 * half] = z[0] - z[1];
  out[1] = out[2 * half + 1] = 0;
  constexpr int lanes = simd::lanes<T>;
  Index k = 1;
  for (; k + lanes - 1 <= half / 2; k += lanes) {
    const Index back = half - k - (lanes - 1);
    const Complex<T> front = load_interleaved(z + 2 * k), turns = load_interleaved(plan.half_turns + 2 * k);
    const Complex<T> other = load_interleaved(z + 2 * back);
    joined(front.re, front.im, reversed<T>(other.re), reversed<T>(other.im), turns.re, turns.im, out + 2 * k,
           out + 2 * back, [](T* to, Vec<T> re, Vec<T> im, bool mirrored) {
             store_interleaved(to, mirrored ? Complex<T>{reversed<T>(re), reversed<T>(im)} : Complex<T>{re, im});
           });
  }
  for (; k <= half / 2; ++k)
    joined(z[2 * k], z[2 * k + 1], z[2 * (half - k)], z[2 * (half - k) + 1], plan.half_turns[2 * k],
           plan.half_turns[2 * k + 1], out + 2 * k, out + 2 * (half - k), [](T* to, T re, T im, bool) {
             to[0] = re;
             to[1] = im;
           });
}

// `count` rows of n real numbers to n vectors.
template <class T>
void load_real_rows(const T* from, Index count, Index n, T* to) {
  constexpr int lanes = simd::lanes<T>;
  for (Index first = 0; first < n; first += lanes) {
    const int across = int(at_most(lanes, n - first));
    Vec<T> rows[lanes];
    for (int i = 0; i < lanes; ++i) rows[i] = i < count ? simd::load_first(from + i * n + first, across) : Vec<T>{};
    simd::transpose<T>(rows);
    for (int i = 0; i < across; ++i) store(to + (first + i) * lanes, rows[i]);
  }
}

// Real rows to n/2 + 1 complex numbers each.
template <class T>
void transform_real_rows(const T* in, T* out, Index batch, Index n) {
  const Index half = real_plan_length(n), size = n / 2 + 1;
  const SharedPlan<T> shared(half);
  const Plan<T>& plan = shared.plan();
  if (n % 2 == 0 && goes_as_square<T>(half))
    return for_rows<T>(batch, half, 1, n, [&](Index i, Index, T* room) {
      transform_square(in + n * i, room, false, T(1));
      join_halves(plan, room, out + 2 * size * i);
    });
  if (n % 2 == 0 && goes_as_grid(half)) {
    const GridTransform<T> row(half);
    if (batch == 1) {
      core::Scratch scratch;
      T* z = scratch.array<T>(n);
      row.together(in, z, false, T(1));
      return join_halves(plan, z, out);
    }
    return for_rows<T>(batch, half, 1, n + row.room(), [&](Index i, Index, T* room) {
      row(in + n * i, room, false, T(1), room + n);
      join_halves(plan, room, out + 2 * size * i);
    });
  }
  const Index room = (2 * n + size + plan.scratch) * width<T>;
  for_rows<T>(batch, n, simd::lanes<T>, room, [&](Index first, Index count, T* column) {
    T* spectrum = column + n * width<T>;
    if (n % 2 == 0)
      load_batch<T>(in + n * first, n, int(count), half, Parts<T>(false), column);
    else
      load_real_rows(in + n * first, count, n, column);
    real_forward(plan, n, column, spectrum, spectrum + size * width<T>);
    store_batch<T>(out + 2 * size * first, 2 * size, int(count), size, Parts<T>(false), T(1), spectrum);
  });
}

}  // namespace
}  // namespace fastdl::fft
