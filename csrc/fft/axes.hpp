// Transforms along one axis of an array with separate real and imaginary parts, in place and on all threads; over all
// axes in turn they are the transform in several dimensions. With re and im exchanged they are the inverse, without its
// factor.
#pragma once

#include "core/scratch.hpp"
#include "core/threads.hpp"
#include "fft/rows.hpp"

namespace fastdl::fft {
namespace {

// Threads for work on so many complex numbers: below 30 us or so, one.
inline int threads_for(double numbers) { return numbers < 2e4 ? 1 : core::thread_count(); }

// One long transform as a matrix of n1 x n2, j = j1*n2 + j2 and k = k1 + n1*k2: transforms of the columns, with lanes
// across; twiddles; and transforms of the rows, whose lanes are then stored as they are. Each stays in cache, and the
// array is read and written twice.
template <class T>
void transform_long(Index n1, Index n2, T* re, T* im) {
  constexpr int lanes = simd::lanes<T>;
  const SharedPlan<T> down(n1), across(n2);
  const SharedTurns turns(n1 * n2);
  const Index groups = divide_up(n2, lanes), pitch = (groups | 1) * width<T>;  // odd: no two rows in one cache set
  core::Scratch scratch;
  T* grid = scratch.array<T>(n1, pitch);
  const int threads = threads_for(double(n1) * double(n2));
  core::parallel_for(groups, threads, [&](Index group) {
    core::Scratch local;
    T* column = local.array<T>(n1 + down.plan().scratch, width<T>);
    const int count = int(at_most(lanes, n2 - group * lanes));
    for (Index j = 0; j < n1; ++j) {
      const Index at = j * n2 + group * lanes;
      store_element(column + j * width<T>, {simd::load_first(re + at, count), simd::load_first(im + at, count)});
    }
    transform(down.plan(), false, column, 1, grid + group * width<T>, pitch / width<T>, column + n1 * width<T>);
  });
  core::parallel_for(divide_up(n1, lanes), threads, [&](Index band) {
    core::Scratch local;
    T* row = local.array<T>(n2 + across.plan().scratch, width<T>);
    const Index first = band * lanes, count = at_most(lanes, n1 - first);
    T* twiddles = local.array<T>(RowTwiddles<T>::size(n2));
    RowTwiddles<T>::fill(turns.turns(), 1, 0, first, count, n2, twiddles);
    const T* from = grid + first * pitch;
    load_rows<T>(grid_rows(from, pitch), count, n2, row, RowTwiddles<T>{twiddles});
    transform(across.plan(), false, row, 1, row, 1, row + n2 * width<T>);
    for (Index k = 0; k < n2; ++k) {
      const Complex<T> value = load_element(row + k * width<T>);
      simd::store_first(re + n1 * k + first, value.re, int(count));
      simd::store_first(im + n1 * k + first, value.im, int(count));
    }
  });
}

// Along the middle axis of outer x n x inner.
template <class T>
void transform_axis(Index outer, Index n, Index inner, T* re, T* im) {
  constexpr int lanes = simd::lanes<T>;
  constexpr Index long_enough = 1 << 13;  // from here on a vector's lanes of it are more than an L2 cache
  Index n1 = 1, n2 = n;
  if (inner == 1 && n >= long_enough) split(n, n1, n2);
  if (n1 >= lanes) {
    for (Index i = 0; i < outer; ++i) transform_long(n1, n2, re + i * n, im + i * n);
    return;
  }
  const SharedPlan<T> shared(n);
  const Plan<T>& plan = shared.plan();
  const Index groups = inner == 1 ? divide_up(outer, lanes) : divide_up(inner, lanes) * outer;
  core::parallel_for(groups, threads_for(double(outer) * double(n) * double(inner)), [&](Index group) {
    core::Scratch local;
    T* column = local.array<T>(n + plan.scratch, width<T>);
    T* scratch = column + n * width<T>;
    if (inner == 1) {
      const Index first = group * lanes, count = at_most(lanes, outer - first);
      load_rows<T>({re + first * n, im + first * n, n, lanes}, count, n, column, NoTwiddles{});
      transform(plan, false, column, 1, column, 1, scratch);
      store_rows<T>({re + first * n, im + first * n, n, lanes}, count, 0, n, column, NoTwiddles{});
      return;
    }
    const Index a_row = divide_up(inner, lanes), first = group % a_row * lanes;
    const Index base = group / a_row * n * inner + first;
    const int count = int(at_most(lanes, inner - first));
    for (Index j = 0; j < n; ++j)
      store_element(column + j * width<T>,
                    {simd::load_first(re + base + j * inner, count), simd::load_first(im + base + j * inner, count)});
    transform(plan, false, column, 1, column, 1, scratch);
    for (Index j = 0; j < n; ++j) {
      const Complex<T> value = load_element(column + j * width<T>);
      simd::store_first(re + base + j * inner, value.re, count);
      simd::store_first(im + base + j * inner, value.im, count);
    }
  });
}

}  // namespace
}  // namespace fastdl::fft
