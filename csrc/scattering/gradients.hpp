// One step of a path backwards, for a lane-full of images. Convolutions are computed again rather than kept.
//
// The gradient of |z| is z/|z|, and 0 at 0. What goes back to a real spectrum is gathered on its half: a term that was
// read conjugated is added conjugated, and the real part of the inverse transform is taken by halving the rows that
// stand for two.
#pragma once

#include "core/interrupt.hpp"
#include "scattering/direction.hpp"
#include "scattering/paths.hpp"

namespace fastdl::scattering {
namespace {

// Where averages were taken of a grid: work.averages gets what goes back to each column, up to `spread` down it.
template <class T>
void spread_across(const Level<T>& level, const T* result, const Work<T>& work) {
  const Averages<T>& across = level.low_across;
  for (Index p = 0; p < level.low_down.count; ++p)
    spread(across, result + p * across.count * lanes<T>, lanes<T>, work.averages + p * level.nx * lanes<T>, lanes<T>);
}

template <class T>
void spread_down(const Level<T>& level, Index x, const Work<T>& work) {
  spread(level.low_down, work.averages + x * lanes<T>, level.nx * lanes<T>, work.moduli, lanes<T>);
}

// What comes back to the moduli of a path, a column at a time in work.moduli: from gradients for their averages,
// (batch, channels, outputs), or for the moduli themselves, of each channel (batch, rows, columns) of a part of its
// level.
template <class T>
struct AveragesBack {
  const Plan<T>& plan;
  const T* grad;
  Index first;
  int count;
  T* result;

  void begin(const Level<T>& level, Index channel, const Work<T>& work) const {
    const T* from[lanes<T>];
    for (int l = 0; l < lanes<T>; ++l)
      from[l] = l < count ? grad + ((first + l) * plan.channels + channel) * plan.outputs() : nullptr;
    gather(from, plan.outputs(), result);
    spread_across(level, result, work);
  }
  void column(const Level<T>& level, Index x, const Work<T>& work) const { spread_down(level, x, work); }
};

template <class T>
struct ModuliBack {
  const Plan<T>& plan;
  const fastdl_scattering_part* part;
  const T* const* grad;
  Index first;
  int count;
  T* result;

  void begin(const Level<T>& level, Index channel, const Work<T>&) const {
    const fastdl_scattering_part& p = part[&level - plan.level];
    const Index size = (p.bottom - p.top) * (p.right - p.left);
    const T* from[lanes<T>];
    for (int l = 0; l < lanes<T>; ++l) from[l] = l < count ? grad[channel] + (first + l) * size : nullptr;
    gather(from, size, result);
  }
  void column(const Level<T>& level, Index x, const Work<T>& work) const {
    const fastdl_scattering_part& p = part[&level - plan.level];
    const bool inside = x >= p.left && x < p.right;
    for (Index y = 0; y < level.ny; ++y) {
      const T* at = result + ((y - p.top) * (p.right - p.left) + x - p.left) * lanes<T>;
      store(work.moduli + y * lanes<T>, inside && y >= p.top && y < p.bottom ? load(at) : Vec<T>{});
    }
  }
};

// A column of a complex grid, transformed forward and put back.
template <class T>
void column_forward(const Level<T>& level, T* grid, Index x, const Work<T>& work) {
  transform(*level.down, false, work.column, 1, grid + x * width<T>, level.pitch, work.fft);
}

// The adjoint of a fold: the rows of a grid are transformed forward, and their numbers go back to all of their terms.
template <class T>
void unfold_rows(const Level<T>& level, const Fold<T>& fold, T* grid, T* spectrum, const Work<T>& work) {
  for (Index y = 0; y < level.ny; ++y) {
    T* row = grid + y * level.pitch * width<T>;
    if (level.nx > 1) transform(*level.across, false, row, 1, row, 1, work.fft);
    for (Index x = 0; x < level.nx; ++x) {
      const Complex<T> value = load_element(row + x * width<T>);
      const Index output = y * level.nx + x;
      Index t = fold.begin[output];
      for (const Index end = fold.middle[output]; t < end; ++t) {
        T* at = spectrum + fold.offset[t] * width<T>;
        const Vec<T> c = broadcast(fold.coef[t]);
        const Complex<T> sum = load_element(at);
        store_element(at, Complex<T>{fma(value.re, c, sum.re), fma(value.im, c, sum.im)});
      }
      for (const Index end = fold.begin[output + 1]; t < end; ++t) {
        T* at = spectrum + fold.offset[t] * width<T>;
        const Vec<T> c = broadcast(fold.coef[t]);
        const Complex<T> sum = load_element(at);
        store_element(at, Complex<T>{fma(value.re, c, sum.re), fma(value.im, -c, sum.im)});
      }
    }
  }
}

template <class T>
void clear_spectrum(const Level<T>& level, T* spectrum) {
  for (Index i = 0; i < level.half * level.pitch; ++i) store_element(spectrum + i * width<T>, Complex<T>{});
}

// Rows of a gathered spectrum, transformed back; columns then follow by `real_column`.
template <class T>
void rows_back(const Level<T>& level, T* spectrum, const Work<T>& work) {
  for (Index k = 0; k < level.half; ++k) {
    T* row = spectrum + k * level.pitch * width<T>;
    if (level.nx > 1) transform(*level.across, true, row, 1, row, 1, work.fft);
    if (k == 0 || 2 * k == level.ny) continue;
    for (Index x = 0; x < level.nx; ++x)
      store_element(row + x * width<T>, fft::scaled(load_element(row + x * width<T>), T(0.5)));
  }
}

// to[y] = column x of the real grid that a gathered spectrum stands for.
template <class T>
void real_column(const Level<T>& level, const T* spectrum, Index x, T* to, const Work<T>& work) {
  for (Index k = 0; k < level.half; ++k)
    store_element(work.column + k * width<T>, load_element(spectrum + (k * level.pitch + x) * width<T>));
  fft::real_inverse(*level.real, level.ny, work.column, to, work.fft);
}

// A path of the second order backwards: `results` has the gradient for what is given out of its channel; `back` gathers
// that for the spectrum that it began with.
template <class T, class Results>
void step_back(const Level<T>& level, const Fold<T>& fold, const T* spectrum, const Results& results, Index channel,
               T* grid, T* back, const Work<T>& work) {
  core::check_interrupt();
  results.begin(level, channel, work);
  fold_rows(level, OneFilter<T>{fold, spectrum}, grid, work);
  for (Index x = 0; x < level.nx; ++x) {
    finish_column(level, grid, x, work);
    results.column(level, x, work);
    times_direction(level.ny, work.moduli, work.column);
    column_forward(level, grid, x, work);
  }
  unfold_rows(level, fold, grid, back, work);
}

}  // namespace
}  // namespace fastdl::scattering
