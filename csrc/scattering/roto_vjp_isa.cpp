// Gradients of scattering on rotations and translations, compiled once per instruction-set level. Convolutions are
// computed again rather than kept; lanes are those of the way forward (roto_lanes.hpp).
#include "scattering/bodies.hpp"
#include "scattering/roto_pair.hpp"

namespace fastdl::scattering::FASTDL_LEVEL {
namespace {

// spectrum += what row y of `count` grids gives back; lane l of grid i has the wavelet of angle first + i + l. Rows lie
// row_pitch apart.
template <class T>
void unfold_row(const Level<T>& level, const Fold<T>& fold, Index angles, Index first, Index y, Index count,
                const T* rows, Index row_pitch, T* spectrum) {
  for (Index x = 0; x < level.nx; ++x) {
    const Index output = y * level.nx + x, middle = fold.middle[output], end = fold.begin[output + 1];
    for (Index term = fold.begin[output]; term < end; ++term) {
      const T* coef = fold.coef + term * fold.filters;
      Vec<T> re{}, im{};
      for (Index i = 0; i < count; ++i) {
        const Complex<T> value = load_element(rows + i * row_pitch + x * width<T>);
        const Vec<T> c = load(coef + (first + i) % angles);
        re = fma(value.re, c, re);
        im = fma(value.im, c, im);
      }
      T* at = spectrum + fold.offset[term] * width<T>;
      store_element(at, load_element(at) + Complex<T>{re, term < middle ? im : -im});
    }
  }
}

// function(y, work) for all rows; those of y and -y, which go to the same places of a half spectrum, by one task.
template <class T, class Function>
void for_pairs_of_rows(const Roto<T>& roto, const Level<T>& level, int threads, const Function& function) {
  for_each(roto, level.ny / 2 + 1, threads, static_cast<T*>(nullptr), [&](Index y, const Work<T>& work) {
    core::check_interrupt();
    function(y, work);
    if (y > 0 && 2 * y != level.ny) function(level.ny - y, work);
  });
}

// From lanes of relative angles, by first angle, to lanes of first angles of `block`, by relative angle: to[i] of
// from[t], elements `from_pitch` and `to_pitch` apart.
template <class T>
void exchange_angles(const AngleLanes<T>& layout, Index block, Index relative, const T* from, Index from_pitch, T* to,
                     Index to_pitch) {
  constexpr int w = lanes<T>;
  simd::IntVec<T> image{};
  for (int l = 0; l < w; ++l) image[l] = typename simd::Types<T>::Integer(layout.image(l));
  for (int part = 0; part < 2; ++part, from += w, to += w) {
    Vec<T> rows[w];
    for (int l = 0; l < w; ++l)
      rows[l] = layout.used(block, l) ? load(from + layout.angle(block, l) * from_pitch) : Vec<T>{};
    simd::transpose<T>(rows);
    for (Index i = 0; i < relative; ++i) {
      Vec<T> value = rows[i];
      for (Index other = 1; other < layout.images; ++other)
        value = simd::select(image == simd::broadcast_integer<T>(typename simd::Types<T>::Integer(other)),
                             rows[other * layout.angles + i], value);
      store(to + i * to_pitch, value);
    }
  }
}

template <class T>
struct Bundle {
  const Roto<T>& roto;
  const AngleLanes<T>& layout;
  const T* x_hat;
  Index first, images;
  const T* grad;
  T* dx;
  int threads;

  Index size_of(const Level<T>& level) const { return level.half * level.pitch * width<T>; }

  // Convolutions of the first order, in full, and the spectra of their moduli.
  void first_layer(Index j1, T* z, T* y_hat) const {
    const Level<T>& level = roto.level(j1);
    for (Index block = 0; block < layout.blocks; ++block) {
      T* grid = z + block * Pair<T>::grid_size(level);
      AngleFilters<T> filter{roto.first[j1], x_hat, block * lanes<T>, {}};
      for (int l = 0; l < lanes<T>; ++l) filter.source[l] = typename simd::Types<T>::Integer(first + layout.image(l));
      for_each(roto, level.ny, threads, static_cast<T*>(nullptr),
               [&](Index y, const Work<T>& work) { fold_row(level, filter, y, grid, work); });
      for_each(roto, level.nx, threads, static_cast<T*>(nullptr), [&](Index x, const Work<T>& work) {
        finish_column(level, grid, x, work);
        for (Index y = 0; y < level.ny; ++y)
          store_element(grid + (y * level.pitch + x) * width<T>, load_element(work.column + y * width<T>));
        if (!y_hat) return;
        take_moduli(level.ny, work.column, work.moduli);
        column_spectrum(level, x, y_hat + block * size_of(level), work);
      });
      if (y_hat) spectra_of_rows(roto, level, y_hat + block * size_of(level), threads);
    }
  }

  // What goes back from a pair of scales to the spectra of the first moduli, added to y_back.
  void second_layer(Index j1, Index j2, const T* y_hat, T* y_back) const {
    const Level<T>&from = roto.level(j1), &level = roto.level(j2);
    const Index angles = roto.angles, outputs = roto.plan.outputs();
    const Index per_filter = level.low_down.count * level.nx * lanes<T>;
    core::Scratch scratch;
    T* grids = scratch.array<T>(angles, Pair<T>::grid_size(level));
    T* averages = scratch.array<T>(roto.filters, per_filter);
    T* result = scratch.array<T>(outputs, lanes<T>);
    for (Index block = 0; block < layout.blocks; ++block) {
      const Pair<T> pair{roto,  layout, level,  roto.second[j1 * roto.scales + j2], y_hat, size_of(from),
                         block, grids,  threads};
      pair.rows();
      const T* results[lanes<T>];
      lane_results(roto, layout, block, roto.channel(j1, j2), images, grad, results);
      for (Index k = 0; k < roto.filters; ++k) {
        gather(results, outputs, result);
        for (const T*& each : results) each = each ? each + outputs : nullptr;
        for (Index p = 0; p < level.low_down.count; ++p)
          spread(level.low_across, result + p * level.low_across.count * lanes<T>, lanes<T>,
                 averages + k * per_filter + p * level.nx * lanes<T>, lanes<T>);
      }
      for_each(roto, level.nx, threads, averages, [&](Index x, const Work<T>& work) { column_back(pair, x, work); });
      const Index left = angles - block * lanes<T>, relative = left < lanes<T> ? left : lanes<T>;
      for_pairs_of_rows(roto, level, threads, [&](Index y, const Work<T>& work) {
        core::Scratch local;
        const Index pitch = level.nx * width<T>;
        T *rows = local.array<T>(angles, pitch), *exchanged = local.array<T>(relative, pitch);
        for (Index t = 0; t < angles; ++t)
          transform(*level.across, false, pair.grid(t) + y * level.pitch * width<T>, 1, rows + t * pitch, 1, work.fft);
        for (Index b = 0; b < layout.blocks; ++b) {
          for (Index x = 0; x < level.nx; ++x)
            exchange_angles(layout, b, relative, rows + x * width<T>, pitch, exchanged + x * width<T>, pitch);
          unfold_row(level, pair.fold, angles, (b + block) * lanes<T>, y, relative, exchanged, pitch,
                     y_back + b * size_of(from));
        }
      });
    }
  }

  // The gradients for column x of all angles of a pair, transformed forward. work.averages has those for the averages.
  void column_back(const Pair<T>& pair, Index x, const Work<T>& work) const {
    const Level<T>& level = pair.level;
    const Index per_filter = level.low_down.count * level.nx * lanes<T>;
    core::Scratch scratch;
    T* columns = scratch.array<T>(roto.angles, pair.column_pitch());
    T* slopes = scratch.array<T>(roto.filters, level.ny, lanes<T>);
    T* room = scratch.array<T>(3 * roto.angles, width<T>);
    pair.columns(x, columns, work);
    for (Index k = 0; k < roto.filters; ++k)
      spread(level.low_down, work.averages + k * per_filter + x * lanes<T>, level.nx * lanes<T>,
             slopes + k * level.ny * lanes<T>, lanes<T>);
    for (Index y = 0; y < level.ny; ++y)
      mean_moduli_back(roto, slopes + y * lanes<T>, level.ny * lanes<T>, columns + y * width<T>, pair.column_pitch(),
                       room);
    for (Index t = 0; t < roto.angles; ++t) {
      T* column = columns + t * pair.column_pitch();
      pair.conjugate_column(t, column);
      transform(*level.down, false, column, 1, pair.grid(t) + x * width<T>, level.pitch, work.fft);
    }
  }

  // What goes back from scale j1 to the spectrum of the images, added to x_back, a spectrum for every block.
  void scale(Index j1, T* x_back) const {
    const Level<T>& level = roto.level(j1);
    const bool more = roto.order == 2 && j1 + 1 < roto.scales;
    const Index outputs = roto.plan.outputs();
    core::Scratch scratch;
    T* z = scratch.array<T>(layout.blocks, Pair<T>::grid_size(level));
    T* y_hat = more ? scratch.array<T>(layout.blocks, size_of(level)) : nullptr;
    T* y_back = more ? scratch.array<T>(layout.blocks, size_of(level)) : nullptr;
    first_layer(j1, z, y_hat);
    for (Index block = 0; more && block < layout.blocks; ++block)
      clear_spectrum(level, y_back + block * size_of(level));
    for (Index j2 = j1 + 1; more && j2 < roto.scales; ++j2) second_layer(j1, j2, y_hat, y_back);
    Work<T> work(scratch, roto.plan);
    const T* results[lanes<T>];
    T* result = scratch.array<T>(outputs, lanes<T>);
    for (int l = 0; l < lanes<T>; ++l)
      results[l] =
          layout.image(l) < images ? grad + (layout.image(l) * roto.plan.channels + 1 + j1) * outputs : nullptr;
    gather(results, outputs, result);
    const Vec<T> share = broadcast(T(1) / T(roto.angles));
    for (Index i = 0; i < outputs; ++i) store(result + i * lanes<T>, load(result + i * lanes<T>) * share);
    spread_across(level, result, work);
    for (Index block = 0; block < layout.blocks; ++block) {
      T* grid = z + block * Pair<T>::grid_size(level);
      T* back = more ? y_back + block * size_of(level) : nullptr;
      if (more) rows_back(level, back, work);
      for_each(roto, level.nx, threads, work.averages,
               [&](Index x, const Work<T>& own) { first_column_back(level, x, back, grid, own); });
      for_pairs_of_rows(roto, level, threads, [&](Index y, const Work<T>& own) {
        T* row = grid + y * level.pitch * width<T>;
        if (level.nx > 1) transform(*level.across, false, row, 1, row, 1, own.fft);
        unfold_row(level, roto.first[j1], roto.angles, block * lanes<T>, y, 1, row, 0,
                   x_back + block * size_of(roto.level(0)));
      });
    }
  }

  void first_column_back(const Level<T>& level, Index x, const T* back, T* grid, const Work<T>& work) const {
    core::Scratch scratch;
    spread_down(level, x, work);
    if (back) {
      T* inner = scratch.array<T>(level.ny, lanes<T>);
      real_column(level, back, x, inner, work);
      for (Index y = 0; y < level.ny; ++y)
        store(work.moduli + y * lanes<T>, load(work.moduli + y * lanes<T>) + load(inner + y * lanes<T>));
    }
    for (Index y = 0; y < level.ny; ++y)
      store_element(work.column + y * width<T>, load_element(grid + (y * level.pitch + x) * width<T>));
    times_direction(level.ny, work.moduli, work.column);
    column_forward(level, grid, x, work);
  }

  // Blocks added up, with what goes back from the images' own averages, sample by sample; then the lanes of an image.
  void finish(T* x_back) const {
    const Level<T>& level = roto.plan.level[0];
    const Index samples = roto.plan.samples(), columns = roto.plan.width_of_image, outputs = roto.plan.outputs();
    core::Scratch scratch;
    const Work<T> work(scratch, roto.plan);
    for (Index k = 0; k < level.half; ++k)
      for (Index i = 0; i < level.nx; ++i) {
        T* at = x_back + (k * level.pitch + i) * width<T>;
        Complex<T> sum = load_element(at);
        for (Index block = 1; block < layout.blocks; ++block) {
          const auto used = simd::first_lanes<T>(
              int(roto.angles - block * lanes<T> < lanes<T> ? roto.angles - block * lanes<T> : lanes<T>));
          const Complex<T> more = load_element(at + block * size_of(level));
          sum = sum + Complex<T>{simd::select(used, more.re, Vec<T>{}), simd::select(used, more.im, Vec<T>{})};
        }
        const Complex<T> phase = fft::everywhere(roto.phase_y + 2 * k) * fft::everywhere(roto.phase_x + 2 * i);
        store_element(at, sum * fft::conjugate(phase));
      }
    rows_back(level, x_back, work);
    const T* results[lanes<T>];
    for (int l = 0; l < lanes<T>; ++l)
      results[l] = layout.used(0, l) && layout.angle(0, l) == 0 && layout.image(l) < images
                       ? grad + layout.image(l) * roto.plan.channels * outputs
                       : nullptr;
    gather(results, outputs, work.result);
    spread_across(level, work.result, work);
    T* column = scratch.array<T>(level.ny, lanes<T>);
    T* sums = scratch.array<T>(samples, lanes<T>);
    for (Index i = 0; i < samples; ++i) store(sums + i * lanes<T>, Vec<T>{});
    for (Index x = 0; x < level.nx; ++x) {
      real_column(level, x_back, x, column, work);
      spread_down(level, x, work);
      for (Index y = 0; y < level.ny; ++y) {
        T* at = sums + (roto.plan.place_y[y] * columns + roto.plan.place_x[x]) * lanes<T>;
        store(at, load(at) + (load(column + y * lanes<T>) + load(work.moduli + y * lanes<T>)));
      }
    }
    const Index used = roto.angles < lanes<T> ? roto.angles : lanes<T>;
    for (Index image = 0; image < images; ++image)
      for (Index i = 0; i < samples; ++i) {
        const T* from = sums + i * lanes<T> + image * roto.angles;
        T sum = 0;
        for (Index t = 0; t < used; ++t) sum += from[t];
        dx[image * samples + i] = sum;
      }
  }

  void run() const {
    core::Scratch scratch;
    const Level<T>& level = roto.level(0);
    T* x_back = scratch.array<T>(layout.blocks, size_of(level));
    for (Index block = 0; block < layout.blocks; ++block) clear_spectrum(level, x_back + block * size_of(level));
    for (Index j1 = 0; j1 < roto.scales; ++j1) scale(j1, x_back);
    finish(x_back);
  }
};

template <class T>
void roto_vjp_of(const Roto<T>& roto, const T* x, const T* grad, Index batch, T* dx) {
  const AngleLanes<T> layout(roto.angles);
  const Index bytes = roto.scales < 2 ? 0 : roto.angles * Pair<T>::grid_size(roto.level(1)) * Index(sizeof(T));
  const Shares<T> shares(roto, batch, layout.images, bytes);
  const Index results = roto.plan.channels * roto.plan.outputs(), samples = roto.plan.samples();
  core::parallel_for(shares.blocks, shares.of_blocks, [&](Index block) {
    const Index start = block * shares.per_block;
    const Index count = batch - start < shares.per_block ? batch - start : shares.per_block;
    core::Scratch scratch;
    T* x_hat = new_spectrum(scratch, roto.level(0));
    {
      core::Scratch inner;
      centred_spectrum(roto, x, start, count, x_hat, Work<T>(inner, roto.plan));
    }
    core::parallel_for((count + layout.images - 1) / layout.images, shares.of_bundles, [&](Index bundle) {
      const Index first = bundle * layout.images, left = count - first;
      Bundle<T>{roto,
                layout,
                x_hat,
                first,
                left < layout.images ? left : layout.images,
                grad + (start + first) * results,
                dx + (start + first) * samples,
                shares.threads}
          .run();
    });
  });
}

}  // namespace

void roto_vjp(const Roto<float>& roto, const float* x, const float* grad, Index batch, float* dx) {
  roto_vjp_of(roto, x, grad, batch, dx);
}
void roto_vjp(const Roto<double>& roto, const double* x, const double* grad, Index batch, double* dx) {
  roto_vjp_of(roto, x, grad, batch, dx);
}

}  // namespace fastdl::scattering::FASTDL_LEVEL
