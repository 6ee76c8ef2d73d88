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
#include "scattering/averages.hpp"
#include "scattering/raster_fold.hpp"

namespace fastdl::scattering {
namespace {

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

// What is given out of a path: its averages, from rows of moduli as they come or from a whole signal in work.values.
template <class T>
struct RasterAverages {
  T* out;

  FASTDL_INLINE void rows(const Level<T>& level, Index first, Index, const RasterWork<T>& work) const {
    average(level.low_across, work.moduli, lanes<T>, work.averages, lanes<T>);
    for (Index p = 0; p < level.low_across.count; ++p)
      store(work.values + p * work.line + first, load(work.averages + p * lanes<T>));
  }
  void end(const Level<T>& level, const RasterWork<T>& work) const {
    averages_along(level.raster.low_down, work.values, work.line, level.low_across.count, out);
  }
};

// Or the moduli themselves, of a part of its level.
template <class T>
struct RasterModuli {
  fastdl_scattering_part part;
  bool image;
  T* out;

  FASTDL_INLINE void rows(const Level<T>&, Index first, Index count, const RasterWork<T>& work) const {
    const Index columns = part.right - part.left;
    T* to[lanes<T>];
    for (int l = 0; l < lanes<T>; ++l) {
      const Index y = first + l;
      to[l] = l < count && y >= part.top && y < part.bottom ? out + (y - part.top) * columns : nullptr;
    }
    scatter(work.moduli + part.left * lanes<T>, columns, to);
  }
  void end(const Level<T>&, const RasterWork<T>& work) const {
    for (Index t = part.top; !image && t < part.bottom; ++t) out[t - part.top] = work.values[t];
  }
};

// The transforms of rows of real columns in work.moduli, of an image: to the rows of a spectrum.
template <class T>
FASTDL_INLINE void rows_forward(const Raster<T>& r, Index first, Index count, T* spectrum, const RasterWork<T>& work) {
  fft::real_forward(*r.real, r.columns, work.moduli, work.row, work.fft);
  T* to = spectrum + first * r.pitch;
  fft::store_rows<T>({to, to + r.plane, r.pitch, lanes<T>}, count, 0, r.columns / 2 + 1, work.row, fft::NoTwiddles{});
}

template <class T>
void spectrum_down(const Raster<T>& r, T* spectrum, const RasterWork<T>& work) {
  for (Index x = 0; x < r.columns / 2 + 1; x += lanes<T>) {
    T* at = spectrum + x;
    transform<T>(*r.down, fft::Elements<const T>{at, at + r.plane, r.pitch},
                 fft::Elements<T>{at, at + r.plane, r.pitch}, work.fft);
  }
}

// A path's step: what `out` gives, and if wanted the spectrum of its moduli.
template <class T, class Out>
void image_step(const Level<T>& level, const RasterFold<T>& fold, const T* from, Index plane, T* spectrum,
                const Out& out, const RasterWork<T>& work) {
  core::check_interrupt();
  const Raster<T>& r = level.raster;
  fold_raster(r, fold, from, plane, work);
  for (Index y = 0; y < r.rows; y += lanes<T>) {
    const Index count = r.rows - y < lanes<T> ? r.rows - y : lanes<T>;
    moduli_of_rows(r, y, count, work, fft::NoTwiddles{});
    out.rows(level, y, count, work);
    if (spectrum) rows_forward(r, y, count, spectrum, work);
  }
  out.end(level, work);
  if (spectrum) spectrum_down(r, spectrum, work);
}

// The spectrum of a padded image, and if wanted its averages. Rows that are copies of others are not transformed again.
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
    rows_forward(r, y, count, rows, work);
    if (!out) continue;
    average(level.low_across, work.moduli, lanes<T>, work.averages, lanes<T>);
    for (Index p = 0; p < level.low_across.count; ++p)
      store(averages + p * (plan.height + lanes<T>)+y, load(work.averages + p * lanes<T>));
  }
  if (out) {
    for (Index p = 0; p < level.low_across.count; ++p)
      for (Index y = 0; y < r.rows; ++y)
        work.values[p * work.line + y] = averages[p * (plan.height + lanes<T>)+plan.place_y[y]];
    RasterAverages<T>{out}.end(level, work);
  }
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

// The spectrum of a signal, which is in work.values.
template <class T>
void signal_forward(const Raster<T>& r, T* spectrum, const RasterWork<T>& work) {
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

template <class T, class Out>
void signal_step(const Level<T>& level, const RasterFold<T>& fold, const T* from, Index plane, T* spectrum,
                 const Out& out, const RasterWork<T>& work) {
  core::check_interrupt();
  const Raster<T>& r = level.raster;
  fold_raster(r, fold, from, plane, work);
  for (Index y = 0; y < r.rows; y += lanes<T>) {
    moduli_of_rows(r, y, lanes<T>, work, RasterTurns<T>(r, y));
    for (Index x = 0; x < r.columns; ++x) store(work.values + x * r.rows + y, load(work.moduli + x * lanes<T>));
  }
  out.end(level, work);
  if (spectrum) signal_forward(r, spectrum, work);
}

template <class T>
void signal_start(const Plan<T>& plan, const T* signal, T* spectrum, T* out, const RasterWork<T>& work) {
  for (Index y = 0; y < plan.level[0].ny; ++y) work.values[y] = signal[plan.place_y[y]];
  if (out) RasterAverages<T>{out}.end(plan.level[0], work);
  signal_forward(plan.level[0].raster, spectrum, work);
}

}  // namespace
}  // namespace fastdl::scattering
