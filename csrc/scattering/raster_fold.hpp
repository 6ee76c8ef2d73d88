// Products of spectra with wavelets, of large images and long signals: folded a lane-full of columns at a time, and the
// adjoint. raster.hpp has the steps that they are part of.
#pragma once

#include "core/scratch.hpp"
#include "fft/real.hpp"
#include "fft/rows.hpp"
#include "scattering/lanes.hpp"
#include "scattering/plan.hpp"

namespace fastdl::scattering {
namespace {

using fft::Complex;
using fft::load_element;
using fft::store_element;
using fft::transform;
using fft::width;

constexpr Index groups_of(Index columns, Index lanes_each) { return (columns + lanes_each - 1) / lanes_each; }

// Room for the steps of one task.
template <class T>
struct RasterWork {
  T *grid, *column, *row, *moduli, *averages, *fft;
  T* values;  // of a signal, its moduli; of an image, averages across of all rows: `line` numbers for each
  Index line;

  RasterWork(core::Scratch& scratch, const Plan<T>& plan) __attribute__((always_inline)) {
    const Level<T>& finest = plan.level[0];
    Index elements = 0, longest = 0, room = 0, window = 0;
    for (Index i = 0; i < plan.levels; ++i) {
      const Raster<T>& r = plan.level[i].raster;
      for (const Index one :
           {r.down->scratch, r.across->scratch, r.real->scratch + r.columns, r.real->scratch + r.rows})
        room = room < one ? one : room;
      const Index grid_of = r.rows * pitch_of(r);
      elements = elements < grid_of ? grid_of : elements;
      const Index long_of = r.rows < r.columns ? r.columns : r.rows;
      longest = longest < long_of ? long_of : longest;
      window = window < r.low_down.length ? r.low_down.length : window;
    }
    line = finest.ny + window + 2 * lanes<T>;
    grid = scratch.array<T>(elements, width<T>);
    column = scratch.array<T>(longest + 2, width<T>);
    row = scratch.array<T>(longest + 2, width<T>);
    moduli = scratch.array<T>(longest + 2, lanes<T>);
    averages = scratch.array<T>(finest.low_across.count, lanes<T>);
    fft = scratch.array<T>(room, width<T>);
    values = scratch.array<T>(finest.low_across.count, line);
  }

  // Elements from row to row of a grid: odd, so that no two rows share a cache set.
  static Index pitch_of(const Raster<T>& r) __attribute__((always_inline)) {
    return groups_of(r.columns, lanes<T>) | 1;
  }
};

// Numbers of a spectrum.
template <class T>
Index raster_size(const Raster<T>& r, bool image) {
  return (image ? r.rows * r.pitch : 2 * r.plane) + raster_block;
}

// The spectrum of an image has zeros around its columns: blocks reach there, with coefficients of 0.
template <class T>
void clear_edges(const Raster<T>& r, T* spectrum) {
  const Index first = r.columns / 2 + 1;
  for (Index i = 0; i < raster_block; ++i) spectrum[i - raster_block] = 0;
  for (Index part = 0; part < 2 * r.rows; ++part)
    for (Index x = first; x < r.plane; ++x) spectrum[part * r.plane + x] = 0;
}

template <class T>
T* new_raster(core::Scratch& scratch, const Raster<T>& r, bool image) {
  T* spectrum = scratch.array<T>(raster_size(r, image)) + raster_block;
  if (image) clear_edges(r, spectrum);
  return spectrum;
}

// The twiddles of the lanes' rows between the two transforms of a signal.
template <class T>
struct RasterTurns {
  const T* turns;

  RasterTurns(const Raster<T>& r, Index row)
      : turns(r.turns + row / raster_block * turns_of(r.columns) * 2 * raster_block + row % raster_block) {}

  FASTDL_INLINE Complex<T> operator[](Index e) const {
    const T* at = turns + e * 2 * raster_block;
    return {load(at), load(at + raster_block)};
  }
  struct Group {
    Complex<T> coarse;
    const RasterTurns& all;
    Index first;
    FASTDL_INLINE Complex<T> operator()(int i) const { return coarse * all[first + i]; }
  };
  FASTDL_INLINE Group from(Index j) const { return {(*this)[turn_block + j / turn_block], *this, j % turn_block}; }
};

// Lanes the other way round.
template <class T, int... Lane>
FASTDL_INLINE Vec<T> reversed(Vec<T> a, std::integer_sequence<int, Lane...>) {
  return __builtin_shufflevector(a, a, (lanes<T> - 1 - Lane)...);
}

template <class T>
FASTDL_INLINE Vec<T> reversed(Vec<T> a) {
  return reversed<T>(a, std::make_integer_sequence<int, lanes<T>>{});
}

// to[i] = from[-i], and with `sign` -1 its negative, for n numbers.
template <class T>
void copy_reversed(const T* from, Index n, T sign, T* to) {
  Index i = 0;
  for (; i + lanes<T> <= n; i += lanes<T>) store(to + i, sign * reversed<T>(load(from - i - (lanes<T> - 1))));
  for (; i < n; ++i) to[i] = sign * from[-i];
}

// What the spectrum of a signal has in its second half, from the first: its transform gives of every `rows` numbers the
// first half.
template <class T>
void complete(const Raster<T>& r, T* spectrum) {
  const Index first = r.rows / 2 + 1;
  for (Index y = 0; y < r.columns; ++y) {
    T* to = spectrum + y * r.rows + first;
    const T* from = spectrum + (r.columns - y) * r.rows - first;
    copy_reversed(from, r.rows - first, T(1), to);
    copy_reversed(from + r.plane, r.rows - first, T(-1), to + r.plane);
  }
}

// The outputs of a run, each the sum of Plain terms and Conjugate ones. A number is loaded for every multiply-add, and
// a coefficient for every second one: it is the loads that limit it. `from` is for the plain terms, `back` for the
// others.
template <class T, int Plain, int Conjugate>
FASTDL_INLINE void fold_run(const RasterRun& run, const RasterFold<T>& fold, const T* coef, const T* from,
                            const T* back, Index plane, T* to) {
  constexpr int terms = Plain + Conjugate;
  const T* at[terms > 0 ? terms : 1];
  for (int k = 0; k < terms; ++k) at[k] = (k < Plain ? from : back) + fold.offset[run.offset + k];
  for (Index y = 0; y < run.length; ++y, to += width<T>, coef += terms * raster_block) {
    Vec<T> re{}, im{};
#pragma GCC unroll 8
    for (int k = 0; k < terms; ++k) {
      const Vec<T> c = load(coef + k * raster_block);
      Vec<T> x = load(at[k]), y_part = load(at[k] + plane);
      if (k >= Plain) x = reversed<T>(x), y_part = reversed<T>(y_part);
      re = fma(x, c, re);
      im = fma(y_part, k < Plain ? c : -c, im);
      at[k] += k < Plain ? fold.step : -fold.step;
    }
    store_element(to, Complex<T>{im, re});
  }
}

template <class T>
void fold_long_run(const RasterRun& run, const RasterFold<T>& fold, const T* coef, const T* from, const T* back,
                   Index plane, T* to) {
  const Index terms = run.plain + run.conjugate;
  const std::int32_t* offset = fold.offset + run.offset;
  for (Index y = 0; y < run.length; ++y) {
    Vec<T> re{}, im{};
    for (Index k = 0; k < run.plain; ++k) {
      const T* at = from + offset[k] + y * fold.step;
      const Vec<T> c = load(coef + (y * terms + k) * raster_block);
      re = fma(load(at), c, re);
      im = fma(load(at + plane), c, im);
    }
    for (Index k = run.plain; k < terms; ++k) {
      const T* at = back + offset[k] - y * fold.step;
      const Vec<T> c = load(coef + (y * terms + k) * raster_block);
      re = fma(reversed<T>(load(at)), c, re);
      im = fma(reversed<T>(load(at + plane)), -c, im);
    }
    store_element(to + y * width<T>, Complex<T>{im, re});
  }
}

// grid = spectrum times wavelet, folded and transformed down the rows.
template <class T>
void fold_raster(const Raster<T>& r, const RasterFold<T>& fold, const T* spectrum, Index plane,
                 const RasterWork<T>& work) {
  const Index pitch = work.pitch_of(r);
  for (Index g = 0; g < groups_of(r.columns, lanes<T>); ++g) {
    const Index block = g * lanes<T> / raster_block, within = g * lanes<T> % raster_block;
    const T *from = spectrum + within, *back = spectrum + raster_block - within - lanes<T>;
    T* to = work.column;
    for (const RasterRun *run = fold.run + fold.first_run[block], *end = fold.run + fold.first_run[block + 1];
         run < end; ++run) {
      const T* coef = fold.coef + run->coef * raster_block + within;
      switch (run->plain * 8 + (run->conjugate < 8 ? run->conjugate : 100)) {
#define FASTDL_RUN(P, C)                                        \
  case P * 8 + C:                                               \
    fold_run<T, P, C>(*run, fold, coef, from, back, plane, to); \
    break
        FASTDL_RUN(0, 0);
        FASTDL_RUN(0, 1);
        FASTDL_RUN(0, 2);
        FASTDL_RUN(1, 0);
        FASTDL_RUN(1, 1);
        FASTDL_RUN(1, 2);
        FASTDL_RUN(2, 0);
        FASTDL_RUN(2, 1);
        FASTDL_RUN(2, 2);
        FASTDL_RUN(3, 0);
        FASTDL_RUN(4, 0);
#undef FASTDL_RUN
        default:
          fold_long_run<T>(*run, fold, coef, from, back, plane, to);
      }
      to += run->length * width<T>;
    }
    transform(*r.down, false, work.column, 1, work.grid + g * width<T>, pitch, work.fft);
  }
}

// What goes back to one term's place, of lanes in reverse where it was read conjugated.
template <class T>
FASTDL_INLINE void add_term(Vec<T> re, Vec<T> im, bool conjugate, T* at, Index plane) {
  store(at, load(at) + (conjugate ? reversed<T>(re) : re));
  store(at + plane, load(at + plane) + (conjugate ? reversed<T>(im) : im));
}

// The adjoint of fold_run: numbers of a column go back to all of their terms. Every row is another place of the
// spectrum, and so are the terms of a row.
template <class T, int Plain, int Conjugate>
FASTDL_INLINE void unfold_run(const RasterRun& run, const RasterFold<T>& fold, const T* coef, const T* column, T* to,
                              T* back, Index plane) {
  constexpr int terms = Plain + Conjugate;
  T* at[terms > 0 ? terms : 1];
  for (int k = 0; k < terms; ++k) at[k] = (k < Plain ? to : back) + fold.offset[run.offset + k];
  for (Index y = 0; y < run.length; ++y, column += width<T>, coef += terms * raster_block) {
    const Vec<T> re = load(column + lanes<T>), im = load(column);
#pragma GCC unroll 8
    for (int k = 0; k < terms; ++k) {
      const Vec<T> c = load(coef + k * raster_block);
      add_term<T>(re * c, im * (k < Plain ? c : -c), k >= Plain, at[k], plane);
      at[k] += k < Plain ? fold.step : -fold.step;
    }
  }
}

template <class T>
void unfold_long_run(const RasterRun& run, const RasterFold<T>& fold, const T* coef, const T* column, T* to, T* back,
                     Index plane) {
  const Index terms = run.plain + run.conjugate;
  for (Index y = 0; y < run.length; ++y, column += width<T>, coef += terms * raster_block)
    for (Index k = 0; k < terms; ++k) {
      const bool plain = k < run.plain;
      const Vec<T> c = load(coef + k * raster_block);
      T* at = (plain ? to : back) + fold.offset[run.offset + k] + (plain ? y : -y) * fold.step;
      add_term<T>(load(column + lanes<T>) * c, load(column) * (plain ? c : -c), !plain, at, plane);
    }
}

// The adjoint of fold_raster: the grid is transformed down the rows and added to what goes back to the spectrum.
template <class T>
void unfold_raster(const Raster<T>& r, const RasterFold<T>& fold, T* spectrum, Index plane, const RasterWork<T>& work) {
  const Index pitch = work.pitch_of(r);
  for (Index g = 0; g < groups_of(r.columns, lanes<T>); ++g) {
    const Index block = g * lanes<T> / raster_block, within = g * lanes<T> % raster_block;
    T *to = spectrum + within, *back = spectrum + raster_block - within - lanes<T>;
    const T* from = work.column;
    transform(*r.down, true, work.grid + g * width<T>, pitch, work.column, 1, work.fft);
    for (const RasterRun *run = fold.run + fold.first_run[block], *end = fold.run + fold.first_run[block + 1];
         run < end; ++run) {
      const T* coef = fold.coef + run->coef * raster_block + within;
      switch (run->plain * 8 + (run->conjugate < 8 ? run->conjugate : 100)) {
#define FASTDL_RUN(P, C)                                          \
  case P * 8 + C:                                                 \
    unfold_run<T, P, C>(*run, fold, coef, from, to, back, plane); \
    break
        FASTDL_RUN(0, 0);
        FASTDL_RUN(0, 1);
        FASTDL_RUN(1, 0);
        FASTDL_RUN(1, 1);
        FASTDL_RUN(2, 0);
#undef FASTDL_RUN
        default:
          unfold_long_run<T>(*run, fold, coef, from, to, back, plane);
      }
      from += run->length * width<T>;
    }
  }
}

}  // namespace
}  // namespace fastdl::scattering
