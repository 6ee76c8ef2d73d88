// One step of a scattering path, for a lane-full of images: a spectrum times a wavelet, folded; the inverse transform,
// rows and then columns; the modulus; its averages; and, where the path goes on, its spectrum.
//
// Everything that happens to a column happens while it is in L1: inverse transform, modulus, low-pass down, and the
// real transform forward. A grid of 48 x 48 complex elements is 150 KB in vectors of 32 bytes, and stays in L2.
#pragma once

#include "core/interrupt.hpp"
#include "core/scratch.hpp"
#include "fft/real.hpp"
#include "scattering/averages.hpp"

namespace fastdl::scattering {
namespace {

using fft::Complex;
using fft::load_element;
using fft::store_element;
using fft::transform;
using fft::width;

// Room for one step, of a thread.
template <class T>
struct Work {
  T *row, *column, *moduli, *averages, *result, *fft;

  Work(core::Scratch& scratch, const Plan<T>& plan) __attribute__((always_inline)) {
    const Level<T>& finest = plan.level[0];
    Index need = 0;
    for (Index i = 0; i < plan.levels; ++i) {
      const Level<T>& level = plan.level[i];
      for (const Index one : {level.down->scratch, level.across->scratch, level.real->scratch + level.ny})
        need = need < one ? one : need;
    }
    row = scratch.array<T>(finest.nx, width<T>);
    column = scratch.array<T>(finest.ny + 2, width<T>);
    moduli = scratch.array<T>(finest.ny, lanes<T>);
    averages = scratch.array<T>(finest.low_down.count, finest.nx, lanes<T>);
    result = scratch.array<T>(plan.outputs(), lanes<T>);
    fft = scratch.array<T>(need, width<T>);
  }
};

template <class T>
T* new_grid(core::Scratch& scratch, const Level<T>& level) {
  return scratch.array<T>(level.ny, level.pitch, width<T>);
}
template <class T>
T* new_spectrum(core::Scratch& scratch, const Level<T>& level) {
  return scratch.array<T>(level.half, level.pitch, width<T>);
}

// A run of outputs, each the sum of Plain terms and Conjugate ones: addresses go with the outputs, and an output takes
// three instructions a term. With offsets looked up for every term it was ten, and folding a quarter of all time.
template <class T, int Plain, int Conjugate>
FASTDL_INLINE void fold_run(Index length, const std::int32_t* offset, const T* coef, const T* spectrum, T* to) {
  constexpr int terms = Plain + Conjugate;
  const T* from[terms > 0 ? terms : 1];
  for (int k = 0; k < terms; ++k) from[k] = spectrum + offset[k] * width<T>;
  for (Index i = 0; i < length; ++i) {
    Vec<T> re{}, im{};
#pragma GCC unroll 4
    for (int k = 0; k < terms; ++k) {
      const T* at = from[k] + (k < Plain ? i : -i) * width<T>;
      const Vec<T> c = broadcast(coef[i * terms + k]);
      re = fma(load(at), c, re);
      im = fma(load(at + lanes<T>), k < Plain ? c : -c, im);
    }
    store_element(to + i * width<T>, Complex<T>{re, im});
  }
}

template <class T>
void fold_long_run(const Run& run, const std::int32_t* offset, const T* coef, const T* spectrum, T* to) {
  const int terms = run.plain + run.conjugate;
  for (Index i = 0; i < run.length; ++i) {
    Vec<T> re{}, im{};
    for (int k = 0; k < run.plain; ++k) {
      const T* at = spectrum + (offset[k] + i) * width<T>;
      const Vec<T> c = broadcast(coef[i * terms + k]);
      re = fma(load(at), c, re);
      im = fma(load(at + lanes<T>), c, im);
    }
    for (int k = run.plain; k < terms; ++k) {
      const T* at = spectrum + (offset[k] - i) * width<T>;
      const Vec<T> c = broadcast(coef[i * terms + k]);
      re = fma(load(at), c, re);
      im = fma(load(at + lanes<T>), -c, im);
    }
    store_element(to + i * width<T>, Complex<T>{re, im});
  }
}

// The same filter in all lanes.
template <class T>
struct OneFilter {
  const Fold<T>& fold;
  const T* spectrum;

  // Row y of nx outputs.
  void row(Index y, Index nx, T* to) const {
    Index output = y * nx;
    for (const Run *run = fold.run + fold.row[y], *end = fold.run + fold.row[y + 1]; run < end; ++run) {
      const Index first = fold.begin[output];
      const std::int32_t* offset = fold.offset + first;
      const T* coef = fold.coef + first;
      switch (run->plain * 5 + (run->conjugate < 5 ? run->conjugate : 100)) {
#define FASTDL_RUN(P, C)                                        \
  case P * 5 + C:                                               \
    fold_run<T, P, C>(run->length, offset, coef, spectrum, to); \
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
          fold_long_run<T>(*run, offset, coef, spectrum, to);
      }
      output += run->length;
      to += run->length * width<T>;
    }
  }
};

// A filter of the group for every lane, each of an image that is in lane `image` of the spectrum.
template <class T>
struct ManyFilters {
  const Fold<T>& fold;
  const T* spectrum;
  const T* coef;  // terms x lanes
  simd::IntVec<T> image;

  void row(Index y, Index nx, T* to) const {
    for (Index x = 0; x < nx; ++x) store_element(to + x * width<T>, (*this)(y * nx + x));
  }

  FASTDL_INLINE Complex<T> operator()(Index output) const {
    Vec<T> re{}, im{};
    Index t = fold.begin[output];
    for (const Index end = fold.middle[output]; t < end; ++t) {
      const T* at = spectrum + fold.offset[t] * width<T>;
      const Vec<T> c = load(coef + t * lanes<T>);
      re = fma(picked<T>(load(at), image), c, re);
      im = fma(picked<T>(load(at + lanes<T>), image), c, im);
    }
    for (const Index end = fold.begin[output + 1]; t < end; ++t) {
      const T* at = spectrum + fold.offset[t] * width<T>;
      const Vec<T> c = load(coef + t * lanes<T>);
      re = fma(picked<T>(load(at), image), c, re);
      im = fma(picked<T>(load(at + lanes<T>), image), -c, im);
    }
    return {re, im};
  }
};

// grid = the folded product, transformed back along the rows. A grid of one column is left as it is.
template <class T, class Filter>
void fold_rows(const Level<T>& level, const Filter& filter, T* grid, const Work<T>& work) {
  if (level.nx == 1) return filter.row(0, level.ny, grid);
  for (Index y = 0; y < level.ny; ++y) {
    filter.row(y, level.nx, work.row);
    transform(*level.across, true, work.row, 1, grid + y * level.pitch * width<T>, 1, work.fft);
  }
}

// Column x of a grid, transformed back: ny complex elements in work.column.
template <class T>
FASTDL_INLINE void finish_column(const Level<T>& level, const T* grid, Index x, const Work<T>& work) {
  transform(*level.down, true, grid + x * width<T>, level.pitch, work.column, 1, work.fft);
}

template <class T>
FASTDL_INLINE void take_moduli(Index n, const T* column, T* moduli) {
  for (Index y = 0; y < n; ++y) store(moduli + y * lanes<T>, fft::modulus(load_element(column + y * width<T>)));
}

// The moduli of column x of a grid, in work.moduli, and their averages.
template <class T>
void average_moduli(const Level<T>& level, const T* grid, Index x, const Work<T>& work) {
  fft::transform_moduli(*level.down, true, grid + x * width<T>, level.pitch, work.moduli, work.column, work.fft);
  average(level.low_down, work.moduli, lanes<T>, work.averages + x * lanes<T>, level.nx * lanes<T>);
}

// Averages of the columns become those of the whole.
template <class T>
void average_across(const Level<T>& level, const T* averages, T* result) {
  const Averages<T>& across = level.low_across;
  for (Index p = 0; p < level.low_down.count; ++p)
    average(across, averages + p * level.nx * lanes<T>, lanes<T>, result + p * across.count * lanes<T>, lanes<T>);
}

// The real column in work.moduli: column x of a half spectrum, up to the transforms of its rows.
template <class T>
void column_spectrum(const Level<T>& level, Index x, T* spectrum, const Work<T>& work) {
  fft::real_forward(*level.real, level.ny, work.moduli, spectrum + x * width<T>, work.fft, level.pitch);
}

template <class T>
void row_spectra(const Level<T>& level, T* spectrum, const Work<T>& work) {
  if (level.nx == 1) return;
  for (Index k = 0; k < level.half; ++k) {
    T* row = spectrum + k * level.pitch * width<T>;
    transform(*level.across, false, row, 1, row, 1, work.fft);
  }
}

// A path's step: work.result gets the averages of the moduli, `spectrum`, if wanted, their transform.
template <class T, class Filter>
void step(const Level<T>& level, const Filter& filter, T* grid, T* spectrum, const Work<T>& work) {
  core::check_interrupt();
  fold_rows(level, filter, grid, work);
  for (Index x = 0; x < level.nx; ++x) {
    average_moduli(level, grid, x, work);
    if (spectrum) column_spectrum(level, x, spectrum, work);
  }
  average_across(level, work.averages, work.result);
  if (spectrum) row_spectra(level, spectrum, work);
}

// The spectrum of padded images, a lane each, and in work.result their averages. Columns that are copies of others are
// not transformed again.
template <class T>
void image_spectrum(const Plan<T>& plan, const T* const* images, T* spectrum, const Work<T>& work) {
  const Level<T>& level = plan.level[0];
  core::Scratch scratch;
  const Index columns = plan.width_of_image;
  T* samples = scratch.array<T>(plan.samples(), lanes<T>);
  T* padded = scratch.array<T>(level.nx, lanes<T>);
  gather(images, plan.samples(), samples);
  for (Index x = 0; x < columns; ++x) {
    for (Index y = 0; y < level.ny; ++y)
      store(work.moduli + y * lanes<T>, load(samples + (plan.place_y[y] * columns + x) * lanes<T>));
    average(level.low_down, work.moduli, lanes<T>, work.averages + x * lanes<T>, level.nx * lanes<T>);
    column_spectrum(level, x, spectrum, work);
  }
  const Averages<T>& across = level.low_across;
  for (Index p = 0; p < level.low_down.count; ++p) {
    const T* row = work.averages + p * level.nx * lanes<T>;
    for (Index x = 0; x < level.nx; ++x) store(padded + x * lanes<T>, load(row + plan.place_x[x] * lanes<T>));
    average(across, padded, lanes<T>, work.result + p * across.count * lanes<T>, lanes<T>);
  }
  if (level.nx == 1) return;
  for (Index k = 0; k < level.half; ++k) {
    T* row = spectrum + k * level.pitch * width<T>;
    for (Index x = 0; x < level.nx; ++x)
      store_element(work.row + x * width<T>, load_element(row + plan.place_x[x] * width<T>));
    transform(*level.across, false, work.row, 1, row, 1, work.fft);
  }
}

}  // namespace
}  // namespace fastdl::scattering
