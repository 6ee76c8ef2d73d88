// Gradients of large images and long signals, one at a time: the steps of raster.hpp backwards.
//
// Convolutions are computed again, and what a member of the first order needs is kept as grids of one image: its moduli
// with their directions, their spectrum, and what comes back to that. What goes back to a real spectrum is gathered on
// its half; the real part of the inverse transform is then taken by halving the columns that stand for two.
#pragma once

#include "scattering/direction.hpp"
#include "scattering/raster.hpp"

namespace fastdl::scattering {
namespace {

// The adjoint of averages_along, of one line: what its values get from averages `stride` numbers apart.
template <class T>
void spread_along(const Windows<T>& w, const T* averages, Index stride, T* line) {
  const Index end = w.n + w.length;
  for (Index i = 0; i < end; ++i) line[i] = 0;
  for (Index p = 0; p < w.count; ++p) {
    const Vec<T> value = broadcast(averages[p * stride]);
    T* at = line + w.start[p];
    for (Index i = 0; i < w.length; i += lanes<T>) store(at + i, fma(value, load(w.taps + i), load(at + i)));
  }
  for (Index i = w.length; i-- > 0;) line[i] += line[w.n + i];
}

// What comes back to the moduli of a path from gradients for its averages, (channels, outputs) of an image. `begin` is
// called once a path, and leaves that of a whole signal in work.values; `rows` gives that of rows of an image in
// work.moduli.
template <class T>
struct RasterAveragesBack {
  const Plan<T>& plan;
  const T* grad;

  void begin(const Level<T>& level, Index channel, const RasterWork<T>& work) const {
    const Index count = level.low_across.count;
    for (Index q = 0; q < count; ++q)
      spread_along(level.raster.low_down, grad + channel * plan.outputs() + q, count, work.values + q * work.line);
  }
  FASTDL_INLINE void rows(const Level<T>& level, Index, Index first, Index, const RasterWork<T>& work) const {
    for (Index q = 0; q < level.low_across.count; ++q)
      store(work.averages + q * lanes<T>, load(work.values + q * work.line + first));
    spread(level.low_across, work.averages, lanes<T>, work.moduli, lanes<T>);
  }
};

// Or from gradients for the moduli themselves, of each channel (batch, rows, columns) of a part of its level.
template <class T>
struct RasterModuliBack {
  const Plan<T>& plan;
  const fastdl_scattering_part* part;
  const T* const* grad;
  Index image;

  const fastdl_scattering_part& part_of(const Level<T>& level) const { return part[&level - plan.level]; }
  const T* gradient(const Level<T>& level, Index channel) const {
    const fastdl_scattering_part& p = part_of(level);
    return grad[channel] + image * (p.bottom - p.top) * (p.right - p.left);
  }

  void begin(const Level<T>& level, Index channel, const RasterWork<T>& work) const {
    if (plan.image) return;
    const fastdl_scattering_part& p = part_of(level);
    for (Index t = 0; t < level.ny; ++t)
      work.values[t] = t >= p.top && t < p.bottom ? gradient(level, channel)[t - p.top] : T(0);
  }
  void rows(const Level<T>& level, Index channel, Index first, Index count, const RasterWork<T>& work) const {
    const fastdl_scattering_part& p = part_of(level);
    const Index columns = p.right - p.left;
    const T* from[lanes<T>];
    for (int l = 0; l < lanes<T>; ++l) {
      const Index y = first + l;
      from[l] = l < count && y >= p.top && y < p.bottom ? gradient(level, channel) + (y - p.top) * columns : nullptr;
    }
    for (Index x = 0; x < level.nx; ++x) store(work.moduli + x * lanes<T>, Vec<T>{});
    gather(from, columns, work.moduli + p.left * lanes<T>);
  }
};

// z = rows of the grid, transformed across: moduli with their directions, in lanes.
template <class T, class Twiddles>
FASTDL_INLINE void directions_of_rows(const Raster<T>& r, Index first, Index count, T* z, const RasterWork<T>& work,
                                      const Twiddles& twiddles) {
  const Index pitch = work.pitch_of(r) * width<T>;
  const T* from = work.grid + first * pitch;
  fft::load_rows<T>(fft::grid_rows(from, pitch), count, r.columns, z, twiddles);
  transform(*r.across, false, z, 1, z, 1, work.fft);
}

// What goes back through moduli z from their gradient, in work.moduli: to rows of the grid, transformed across.
template <class T, class Twiddles>
FASTDL_INLINE void rows_back(const Raster<T>& r, Index first, Index count, T* z, const RasterWork<T>& work,
                             const Twiddles& twiddles) {
  const Index pitch = work.pitch_of(r) * width<T>;
  times_direction(r.columns, work.moduli, z);
  transform(*r.across, true, z, 1, z, 1, work.fft);
  fft::store_rows<T>(fft::grid_rows(work.grid + first * pitch, pitch), count, 0, r.columns, z, twiddles);
}

// ---- images --------------------------------------------------------------------------------------------------------

// What was gathered for the spectrum of an image, transformed back down the rows.
template <class T>
void gathered_down(const Raster<T>& r, T* spectrum, const RasterWork<T>& work) {
  for (Index x = 0; x < r.columns / 2 + 1; x += lanes<T>) {
    T *re = spectrum + x, *im = re + r.plane;
    transform<T>(*r.down, fft::Elements<const T>{im, re, r.pitch}, fft::Elements<T>{im, re, r.pitch}, work.fft);
  }
}

// to = rows of the real grid that it stands for, in lanes.
template <class T>
void gathered_rows(const Raster<T>& r, const T* spectrum, Index first, Index count, T* to, const RasterWork<T>& work) {
  const Index half = r.columns / 2 + 1;
  const T* from = spectrum + first * r.pitch;
  fft::load_rows<T>({from, from + r.plane, r.pitch, lanes<T>}, count, half, work.row, fft::NoTwiddles{});
  for (Index k = 1; 2 * k < r.columns; ++k)
    store_element(work.row + k * width<T>, fft::scaled(load_element(work.row + k * width<T>), T(0.5)));
  fft::real_inverse(*r.real, r.columns, work.row, to, work.fft);
}

// ---- signals -------------------------------------------------------------------------------------------------------

// The signal that what was gathered for its spectrum stands for, all of it: numbers of the second half, which were
// copies, are brought to the first.
template <class T>
void gathered_signal(const Raster<T>& r, T* spectrum, T* to, const RasterWork<T>& work) {
  const Index half = r.rows / 2 + 1, pitch = work.pitch_of(r);
  for (Index x = 0; x < r.columns; ++x) {
    T* at = spectrum + x * r.rows;
    const T* other = spectrum + (r.columns - x) * r.rows;
    for (Index k = 1; k + 1 < half; ++k) {
      at[k] = (at[k] + other[-k]) * T(0.5);
      at[k + r.plane] = (at[k + r.plane] - other[r.plane - k]) * T(0.5);
    }
  }
  for (Index k = 0; k < half; k += lanes<T>) {
    const Index count = half - k < lanes<T> ? half - k : lanes<T>;
    for (Index x = 0; x < r.columns; ++x) {
      const T* from = spectrum + x * r.rows + k;
      store_element(work.row + x * width<T>, Complex<T>{load(from), load(from + r.plane)});
    }
    transform(*r.across, true, work.row, 1, work.row, 1, work.fft);
    fft::store_rows<T>(fft::grid_rows(work.grid + k * pitch * width<T>, pitch * width<T>), count, 0, r.columns,
                       work.row, RasterTurns<T>(r, k));
  }
  for (Index g = 0; g < groups_of(r.columns, lanes<T>); ++g) {
    for (Index k = 0; k < half; ++k)
      store_element(work.column + k * width<T>, load_element(work.grid + (k * pitch + g) * width<T>));
    fft::real_inverse(*r.real, r.rows, work.column, work.moduli, work.fft);
    for (Index y = 0; y < r.rows; ++y) store(to + y * r.columns + g * lanes<T>, load(work.moduli + y * lanes<T>));
  }
}

// ---- a member of the first order -----------------------------------------------------------------------------------

template <class T>
T* new_gathered(core::Scratch& scratch, const Raster<T>& r, bool image) {
  return scratch.array<T>(raster_block + raster_size(r, image)) + raster_block;
}

template <class T>
void clear_gathered(const Raster<T>& r, bool image, T* spectrum) {
  const Index size = raster_size(r, image);
  for (Index i = -raster_block; i < size; ++i) spectrum[i] = 0;
}

// Room for a member: `spectrum` is as large as that of the image itself.
template <class T>
struct RasterBackWork : RasterWork<T> {
  T *spectrum, *gathered, *z, *inner;

  RasterBackWork(core::Scratch& scratch, const Plan<T>& plan, T* spectrum_) __attribute__((always_inline))
      : RasterWork<T>(scratch, plan), spectrum(spectrum_) {
    Index directions = 0, back = 0, longest = 0;
    for (Index g = 0; g < plan.groups; ++g) {
      const Raster<T>& r = plan.level[plan.group[g].level].raster;
      const Index rows = groups_of(r.rows, lanes<T>) * lanes<T>;
      if (plan.group[g].followers == 0) continue;
      if (rows * r.columns > directions) directions = rows * r.columns;
      if (raster_size(r, plan.image) > back) back = raster_size(r, plan.image);
    }
    for (Index i = 0; i < plan.levels; ++i)
      if (plan.level[i].raster.columns > longest) longest = plan.level[i].raster.columns;
    z = scratch.array<T>(directions, 2);
    gathered = scratch.array<T>(raster_block + back) + raster_block;
    inner = scratch.array<T>(longest + 2, lanes<T>);
  }
};

template <class T, class Results>
struct RasterBackward {
  const Plan<T>& plan;
  const Results& results;
  const RasterBackWork<T>& work;

  // rows(first, count, twiddles) for all lane-fulls of rows of a grid.
  template <class Rows>
  FASTDL_INLINE void each_rows(const Raster<T>& r, const Rows& rows) const {
    for (Index y = 0; y < r.rows; y += lanes<T>) {
      const Index count = r.rows - y < lanes<T> ? r.rows - y : lanes<T>;
      if (plan.image)
        rows(y, count, fft::NoTwiddles{});
      else
        rows(y, count, RasterTurns<T>(r, y));
    }
  }

  // work.moduli = what comes back to moduli of rows; a signal's lie one after the other down the columns.
  FASTDL_INLINE void results_of_rows(const Level<T>& level, Index channel, Index first, Index count) const {
    if (plan.image) return results.rows(level, channel, first, count, work);
    const Raster<T>& r = level.raster;
    for (Index x = 0; x < r.columns; ++x) store(work.moduli + x * lanes<T>, load(work.values + x * r.rows + first));
  }

  // A path's last step, from a spectrum: adds what goes back to that to `back`.
  void last(const Level<T>& level, const RasterFold<T>& fold, const T* from, Index plane, Index channel,
            T* back) const {
    core::check_interrupt();
    const Raster<T>& r = level.raster;
    fold_raster(r, fold, from, plane, work);
    results.begin(level, channel, work);
    each_rows(r, [&](Index y, Index count, const auto& twiddles) {
      directions_of_rows(r, y, count, work.row, work, twiddles);
      results_of_rows(level, channel, y, count);
      rows_back(r, y, count, work.row, work, twiddles);
    });
    unfold_raster(r, fold, back, plane, work);
  }

  // All paths that begin with a member of a group. What goes back to the spectrum x_hat of the image is then in
  // work.spectrum.
  void member(const Group<T>& group, Index m, const T* x_hat) const {
    const Level<T>& level = plan.level[group.level];
    const Raster<T>&r = level.raster, &finest = plan.level[0].raster;
    const RasterFold<T>& fold = group.member[m].raster;
    if (group.followers == 0) {
      clear_gathered(finest, plan.image, work.spectrum);
      return last(level, fold, x_hat, finest.plane, group.channel[m], work.spectrum);
    }
    core::check_interrupt();
    T* u_hat = work.spectrum;
    fold_raster(r, fold, x_hat, finest.plane, work);
    each_rows(r, [&](Index y, Index count, const auto& twiddles) {
      T* z = work.z + y * r.columns * 2;
      directions_of_rows(r, y, count, z, work, twiddles);
      for (Index x = 0; x < r.columns; ++x)
        store(work.moduli + x * lanes<T>, fft::modulus(load_element(z + x * width<T>)));
      if (plan.image) return rows_forward(r, y, count, u_hat, work);
      for (Index x = 0; x < r.columns; ++x) store(work.values + x * r.rows + y, load(work.moduli + x * lanes<T>));
    });
    if (plan.image) {
      clear_edges(r, u_hat);
      spectrum_down(r, u_hat, work);
    } else {
      signal_forward(r, u_hat, work);
    }
    clear_gathered(r, plan.image, work.gathered);
    for (Index f = 0; f < group.followers; ++f) {
      const Wavelet<T>& follower = group.follower[f];
      last(plan.level[follower.level], follower.raster, u_hat, r.plane, group.channel_2[m] + f, work.gathered);
    }
    if (plan.image)
      gathered_down(r, work.gathered, work);
    else
      gathered_signal(r, work.gathered, work.spectrum, work);
    results.begin(level, group.channel[m], work);
    each_rows(r, [&](Index y, Index count, const auto& twiddles) {
      results_of_rows(level, group.channel[m], y, count);
      if (plan.image) gathered_rows(r, work.gathered, y, count, work.inner, work);
      for (Index x = 0; x < r.columns; ++x) {
        const T* inner = plan.image ? work.inner + x * lanes<T> : work.spectrum + x * r.rows + y;
        store(work.moduli + x * lanes<T>, load(work.moduli + x * lanes<T>) + load(inner));
      }
      rows_back(r, y, count, work.z + y * r.columns * 2, work, twiddles);
    });
    clear_gathered(finest, plan.image, work.spectrum);
    unfold_raster(r, fold, work.spectrum, finest.plane, work);
  }

  // dx: what was gathered for the spectrum of the image, and the gradient for its own averages, sample by sample.
  void finish(T* gathered, T* dx) const {
    const Level<T>& level = plan.level[0];
    const Raster<T>& r = level.raster;
    const Index wide = plan.width_of_image;
    for (Index i = 0; i < plan.samples(); ++i) dx[i] = 0;
    if (!plan.image) {
      gathered_signal(r, gathered, work.spectrum, work);
      results.begin(level, 0, work);
      for (Index t = 0; t < level.ny; ++t) dx[plan.place_y[t]] += work.spectrum[t] + work.values[t];
      return;
    }
    core::Scratch scratch;
    T *samples = scratch.array<T>(wide, lanes<T>), *rows = scratch.array<T>(lanes<T>, wide);
    gathered_down(r, gathered, work);
    results.begin(level, 0, work);
    each_rows(r, [&](Index y, Index count, const auto&) {
      gathered_rows(r, gathered, y, count, work.inner, work);
      results_of_rows(level, 0, y, count);
      for (Index x = 0; x < wide; ++x) store(samples + x * lanes<T>, Vec<T>{});
      for (Index x = 0; x < r.columns; ++x) {
        T* at = samples + plan.place_x[x] * lanes<T>;
        store(at, load(at) + (load(work.inner + x * lanes<T>) + load(work.moduli + x * lanes<T>)));
      }
      T* to[lanes<T>];
      for (int l = 0; l < lanes<T>; ++l) to[l] = l < count ? rows + l * wide : nullptr;
      scatter(samples, wide, to);
      for (Index l = 0; l < count; ++l) {
        T* row = dx + plan.place_y[y + l] * wide;
        for (Index x = 0; x < wide; ++x) row[x] += rows[l * wide + x];
      }
    });
  }
};

}  // namespace
}  // namespace fastdl::scattering
