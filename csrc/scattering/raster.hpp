// Steps of a scattering path for large images and long signals, one at a time, with columns along the lanes.
//
// A grid of lanes of images is 16 times an image: of 576 x 576 pixels it is 42 MB, and every step goes to memory. An
// image by itself is 2.6 MB, for the price of transposes between the two axes.
//
//   the product with a wavelet, folded, a lane-full of columns at a time; transformed down the rows   to a grid
//   a lane-full of rows of the grid, transposed; transformed across; the modulus; averaged across
//   and where the path goes on: the real transform across, transposed back; then down the rows        to a spectrum
//
// A signal is a matrix too, row after row: a transform of n = rows * columns is one down the columns, twiddles, and one
// across, whose results then lie in the order of the lanes. Products are stored with real and imaginary parts
// exchanged, so that the forward transform is the inverse one; a modulus does not see it.
#pragma once

#include "core/interrupt.hpp"
#include "core/scratch.hpp"
#include "fft/real.hpp"
#include "fft/rows.hpp"
#include "scattering/averages.hpp"

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
      const Index most_rows = r.rows + 1;
      for (const Index one :
           {r.down->scratch, r.across->scratch, r.real->scratch + r.columns, r.real->scratch + r.rows})
        room = room < one ? one : room;
      const Index grid_of = most_rows * pitch_of(r);
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

// work.moduli = those of lanes-many rows of the grid from `first` on, transformed across.
template <class T, class Twiddles>
FASTDL_INLINE void moduli_of_rows(const Raster<T>& r, Index first, Index count, const RasterWork<T>& work,
                                  const Twiddles& twiddles) {
  const Index pitch = work.pitch_of(r) * width<T>;
  const T* from = work.grid + first * pitch;
  fft::load_rows<T>(fft::grid_rows(from, pitch), count, r.columns, work.row, twiddles);
  fft::transform_moduli(*r.across, false, work.row, 1, work.moduli, work.row, work.fft);
}

// Sums over a window of n values, which go round: `values` has room for a window and two vectors more. As many windows
// as there are lanes are added up together; four at a time share the loads of taps.
template <class T>
FASTDL_INLINE void window_sums(const Windows<T>& w, const T* const (&from)[lanes<T>], Vec<T> (&sums)[lanes<T>]) {
  constexpr int together = lanes<T> < 4 ? lanes<T> : 4;
#pragma GCC unroll 1
  for (int first = 0; first < lanes<T>; first += together) {
    const T* at[together];
    for (int r = 0; r < together; ++r) at[r] = from[first + r], sums[first + r] = Vec<T>{};
    constexpr Index part = summed_together * lanes<T>;  // in every lane: see averages.hpp
    for (Index begin = 0; begin < w.length; begin += part) {
      Vec<T> sum[together] = {};
      const Index end = w.length - begin < part ? w.length : begin + part;
      for (Index i = begin; i < end; i += lanes<T>) {
        const Vec<T> taps = load(w.taps + i);
#pragma GCC unroll 4
        for (int r = 0; r < together; ++r) sum[r] = fma(load(at[r] + i), taps, sum[r]);
      }
      for (int r = 0; r < together; ++r) sums[first + r] = sums[first + r] + sum[r];
    }
  }
}

// out[p*count + q]: window p of line q, of `count` lines that are `line` numbers apart.
template <class T>
void averages_along(const Windows<T>& w, T* values, Index line, Index count, T* out) {
  for (Index q = 0; q < count; ++q) {
    T* at = values + q * line;
    Index i = 0;
    if (w.n >= lanes<T>)
      for (; i < w.length; i += lanes<T>) store(at + w.n + i, load(at + i));
    for (; i < w.length; ++i) at[w.n + i] = at[i];
  }
  const Index all = w.count * count;
  for (Index first = 0; first < all; first += lanes<T>) {
    const T* from[lanes<T>];
    for (int l = 0; l < lanes<T>; ++l) {
      const Index which = first + l < all ? first + l : all - 1;
      from[l] = values + which % count * line + w.start[which / count];
    }
    Vec<T> sums[lanes<T>];
    window_sums(w, from, sums);
    const Vec<T> total = simd::totals<T>(sums);
    if (first + lanes<T> <= all)
      store(out + first, total);
    else
      simd::store_first(out + first, total, int(all - first));
  }
}

// ---- images --------------------------------------------------------------------------------------------------------

// Rows of real columns in work.moduli, of an image: their averages across go to work.values, from row `first` on, and
// their transforms, if wanted, to the rows of a spectrum.
template <class T>
FASTDL_INLINE void use_rows(const Level<T>& level, Index first, Index count, T* spectrum, const RasterWork<T>& work) {
  const Raster<T>& r = level.raster;
  average(level.low_across, work.moduli, lanes<T>, work.averages, lanes<T>);
  for (Index p = 0; p < level.low_across.count; ++p)
    store(work.values + p * work.line + first, load(work.averages + p * lanes<T>));
  if (!spectrum) return;
  fft::real_forward(*r.real, r.columns, work.moduli, work.row, work.fft);
  T* to = spectrum + first * r.pitch;
  fft::store_rows<T>({to, to + r.plane, r.pitch, lanes<T>}, count, 0, r.columns / 2 + 1, work.row, fft::NoTwiddles{});
}

// The averages of an image, from those across of all its rows.
template <class T>
void finish_averages(const Level<T>& level, T* out, const RasterWork<T>& work) {
  averages_along(level.raster.low_down, work.values, work.line, level.low_across.count, out);
}

template <class T>
void spectrum_down(const Raster<T>& r, T* spectrum, const RasterWork<T>& work) {
  for (Index x = 0; x < r.columns / 2 + 1; x += lanes<T>) {
    T* at = spectrum + x;
    transform<T>(*r.down, fft::Elements<const T>{at, at + r.plane, r.pitch},
                 fft::Elements<T>{at, at + r.plane, r.pitch}, work.fft);
  }
}

// A path's step: its averages to `out`, and if wanted the spectrum of its moduli.
template <class T>
void image_step(const Level<T>& level, const RasterFold<T>& fold, const T* from, Index plane, T* spectrum, T* out,
                const RasterWork<T>& work) {
  core::check_interrupt();
  const Raster<T>& r = level.raster;
  fold_raster(r, fold, from, plane, work);
  for (Index y = 0; y < r.rows; y += lanes<T>) {
    const Index count = r.rows - y < lanes<T> ? r.rows - y : lanes<T>;
    moduli_of_rows(r, y, count, work, fft::NoTwiddles{});
    use_rows(level, y, count, spectrum, work);
  }
  finish_averages(level, out, work);
  if (spectrum) spectrum_down(r, spectrum, work);
}

// The spectrum of a padded image, and its averages. Rows that are copies of others are not transformed again.
template <class T>
void image_start(const Plan<T>& plan, const T* image, T* spectrum, T* out, const RasterWork<T>& work) {
  const Level<T>& level = plan.level[0];
  const Raster<T>& r = level.raster;
  const Index wide = plan.width_of_image, half = r.columns / 2 + 1;
  core::Scratch scratch;
  T* samples = scratch.array<T>(wide, lanes<T>);
  T* rows = scratch.array<T>(plan.height, r.pitch);  // their transforms
  T* averages = scratch.array<T>(level.low_across.count, plan.height + lanes<T>);
  for (Index y = 0; y < plan.height; y += lanes<T>) {
    const Index count = plan.height - y < lanes<T> ? plan.height - y : lanes<T>;
    const T* from[lanes<T>];
    for (int l = 0; l < lanes<T>; ++l) from[l] = l < count ? image + (y + l) * wide : nullptr;
    gather(from, wide, samples);
    for (Index x = 0; x < r.columns; ++x) store(work.moduli + x * lanes<T>, load(samples + plan.place_x[x] * lanes<T>));
    average(level.low_across, work.moduli, lanes<T>, work.averages, lanes<T>);
    for (Index p = 0; p < level.low_across.count; ++p)
      store(averages + p * (plan.height + lanes<T>)+y, load(work.averages + p * lanes<T>));
    fft::real_forward(*r.real, r.columns, work.moduli, work.row, work.fft);
    T* to = rows + y * r.pitch;
    fft::store_rows<T>({to, to + r.plane, r.pitch, lanes<T>}, count, 0, half, work.row, fft::NoTwiddles{});
  }
  for (Index p = 0; p < level.low_across.count; ++p)
    for (Index y = 0; y < r.rows; ++y)
      work.values[p * work.line + y] = averages[p * (plan.height + lanes<T>)+plan.place_y[y]];
  finish_averages(level, out, work);
  for (Index x = 0; x < half; x += lanes<T>) {
    for (Index y = 0; y < r.rows; ++y) {
      const T* at = rows + plan.place_y[y] * r.pitch + x;
      store_element(work.column + y * width<T>, Complex<T>{load(at), load(at + r.plane)});
    }
    const T* column = work.column;
    transform<T>(*r.down, fft::Elements<const T>{column, column + lanes<T>, width<T>},
                 fft::Elements<T>{spectrum + x, spectrum + x + r.plane, r.pitch}, work.fft);
  }
  clear_edges(r, spectrum);
}

// ---- signals -------------------------------------------------------------------------------------------------------

// The averages of a signal, which is in work.values, and its spectrum if wanted.
template <class T>
void use_signal(const Level<T>& level, T* spectrum, T* out, const RasterWork<T>& work) {
  const Raster<T>& r = level.raster;
  averages_along(r.low_down, work.values, work.line, 1, out);
  if (!spectrum) return;
  const Index pitch = work.pitch_of(r), half = r.rows / 2 + 1;
  for (Index g = 0; g < groups_of(r.columns, lanes<T>); ++g) {
    for (Index y = 0; y < r.rows; ++y)
      store(work.moduli + y * lanes<T>, load(work.values + y * r.columns + g * lanes<T>));
    fft::real_forward(*r.real, r.rows, work.moduli, work.grid + g * width<T>, work.fft, pitch);
  }
  for (Index k = 0; k < half; k += lanes<T>) {
    const Index count = half - k < lanes<T> ? half - k : lanes<T>;
    const T* from = work.grid + k * pitch * width<T>;
    fft::load_rows<T>(fft::grid_rows(from, pitch * width<T>), count, r.columns, work.row, RasterTurns<T>(r, k));
    transform(*r.across, false, work.row, 1, work.row, 1, work.fft);
    for (Index x = 0; x < r.columns; ++x) {
      const Complex<T> value = load_element(work.row + x * width<T>);
      T* to = spectrum + x * r.rows + k;
      simd::store_first(to, value.re, int(count));
      simd::store_first(to + r.plane, value.im, int(count));
    }
  }
  complete(r, spectrum);
}

template <class T>
void signal_step(const Level<T>& level, const RasterFold<T>& fold, const T* from, Index plane, T* spectrum, T* out,
                 const RasterWork<T>& work) {
  core::check_interrupt();
  const Raster<T>& r = level.raster;
  fold_raster(r, fold, from, plane, work);
  for (Index y = 0; y < r.rows; y += lanes<T>) {
    moduli_of_rows(r, y, lanes<T>, work, RasterTurns<T>(r, y));
    for (Index x = 0; x < r.columns; ++x) store(work.values + x * r.rows + y, load(work.moduli + x * lanes<T>));
  }
  use_signal(level, spectrum, out, work);
}

template <class T>
void signal_start(const Plan<T>& plan, const T* signal, T* spectrum, T* out, const RasterWork<T>& work) {
  for (Index y = 0; y < plan.level[0].ny; ++y) work.values[y] = signal[plan.place_y[y]];
  use_signal(plan.level[0], spectrum, out, work);
}

}  // namespace
}  // namespace fastdl::scattering
