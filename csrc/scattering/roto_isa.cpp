// Scattering of images on rotations and translations, compiled once per instruction-set level. A lane is an image with
// an angle (roto_lanes.hpp).
#include "scattering/bodies.hpp"
#include "scattering/roto_pair.hpp"

namespace fastdl::scattering::FASTDL_LEVEL {
namespace {

// Paths of the images of a bundle: lanes `first` and after of the spectrum x_hat, `images` of them, with results at
// out.
template <class T>
struct Bundle {
  const Roto<T>& roto;
  const AngleLanes<T>& layout;
  const T* x_hat;
  Index first, images;
  T* out;
  int threads;

  // Moduli of the first order: their averages over all angles go out, their spectra to y_hat.
  void first_layer(Index j1, T* y_hat) const {
    const Level<T>& level = roto.level(j1);
    const Index outputs = roto.plan.outputs(), size = level.half * level.pitch * width<T>;
    core::Scratch scratch;
    T* grid = new_grid(scratch, level);
    T* averages = scratch.array<T>(level.low_down.count, level.nx, lanes<T>);
    T* result = scratch.array<T>(outputs, lanes<T>);
    T* totals = scratch.array<T>(images, outputs);
    for (Index i = 0; i < images * outputs; ++i) totals[i] = 0;
    for (Index block = 0; block < layout.blocks; ++block) {
      AngleFilters<T> filter{roto.first[j1], x_hat, block * lanes<T>, {}};
      for (int l = 0; l < lanes<T>; ++l) filter.source[l] = typename simd::Types<T>::Integer(first + layout.image(l));
      for_each(roto, level.ny, threads, averages,
               [&](Index y, const Work<T>& work) { fold_row(level, filter, y, grid, work); });
      for_each(roto, level.nx, threads, averages, [&](Index x, const Work<T>& work) {
        average_moduli(level, grid, x, work);
        if (y_hat) column_spectrum(level, x, y_hat + block * size, work);
      });
      if (y_hat) spectra_of_rows(roto, level, y_hat + block * size, threads);
      average_across(level, averages, result);
      for (int l = 0; l < lanes<T>; ++l) {
        if (!layout.used(block, l) || layout.image(l) >= images) continue;
        for (Index i = 0; i < outputs; ++i) totals[layout.image(l) * outputs + i] += result[i * lanes<T> + l];
      }
    }
    for (Index image = 0; image < images; ++image)
      for (Index i = 0; i < outputs; ++i)
        out[(image * roto.plan.channels + 1 + j1) * outputs + i] = totals[image * outputs + i] / T(roto.angles);
  }

  void second_layer(Index j1, Index j2, const T* y_hat) const {
    const Level<T>&from = roto.level(j1), &level = roto.level(j2);
    const Index per_filter = level.low_down.count * level.nx * lanes<T>;
    core::Scratch scratch;
    T* grids = scratch.array<T>(roto.angles, Pair<T>::grid_size(level));
    T* averages = scratch.array<T>(roto.filters, per_filter);
    T* result = scratch.array<T>(roto.plan.outputs(), lanes<T>);
    for (Index block = 0; block < layout.blocks; ++block) {
      const Pair<T> pair{
          roto,  layout, level,  roto.second[j1 * roto.scales + j2], y_hat, from.half * from.pitch * width<T>,
          block, grids,  threads};
      pair.rows();
      for_each(roto, level.nx, threads, averages, [&](Index x, const Work<T>& work) {
        core::Scratch local;
        T* columns = local.array<T>(roto.angles, pair.column_pitch());
        pair.columns(x, columns, work);
        for (Index k = 0; k < roto.filters; ++k) {
          mean_moduli(roto.angular[k], roto.angles, level.ny, columns, pair.column_pitch(), work.moduli);
          average(level.low_down, work.moduli, lanes<T>, work.averages + k * per_filter + x * lanes<T>,
                  level.nx * lanes<T>);
        }
      });
      T* to[lanes<T>];
      lane_results(roto, layout, block, roto.channel(j1, j2), images, out, to);
      for (Index k = 0; k < roto.filters; ++k) {
        average_across(level, averages + k * per_filter, result);
        scatter(result, roto.plan.outputs(), to);
        for (T*& each : to) each = each ? each + roto.plan.outputs() : nullptr;
      }
    }
  }

  void run() const {
    for (Index j1 = 0; j1 < roto.scales; ++j1) {
      core::Scratch scratch;
      const Level<T>& level = roto.level(j1);
      const bool more = roto.order == 2 && j1 + 1 < roto.scales;
      T* y_hat = more ? scratch.array<T>(layout.blocks, level.half * level.pitch, width<T>) : nullptr;
      first_layer(j1, y_hat);
      for (Index j2 = j1 + 1; more && j2 < roto.scales; ++j2) second_layer(j1, j2, y_hat);
    }
  }
};

template <class T>
void roto_of(const Roto<T>& roto, const T* x, Index batch, T* out) {
  const AngleLanes<T> layout(roto.angles);
  const Index bytes = roto.scales < 2 ? 0 : roto.angles * Pair<T>::grid_size(roto.level(1)) * Index(sizeof(T));
  const Shares<T> shares(roto, batch, layout.images, bytes);
  const Index results = roto.plan.channels * roto.plan.outputs();
  core::parallel_for(shares.blocks, shares.of_blocks, [&](Index block) {
    const Index start = block * shares.per_block;
    const Index count = batch - start < shares.per_block ? batch - start : shares.per_block;
    core::Scratch scratch;
    T* x_hat = new_spectrum(scratch, roto.level(0));
    {
      core::Scratch inner;
      const Work<T> work(inner, roto.plan);
      centred_spectrum(roto, x, start, count, x_hat, work);
      T* to[lanes<T>];
      for (int l = 0; l < lanes<T>; ++l) to[l] = l < count ? out + (start + l) * results : nullptr;
      scatter(work.result, roto.plan.outputs(), to);
    }
    core::parallel_for((count + layout.images - 1) / layout.images, shares.of_bundles, [&](Index bundle) {
      const Index first = bundle * layout.images, left = count - first;
      Bundle<T>{roto,
                layout,
                x_hat,
                first,
                left < layout.images ? left : layout.images,
                out + (start + first) * results,
                shares.threads}
          .run();
    });
  });
}

}  // namespace

void roto(const Roto<float>& roto, const float* x, Index batch, float* out) { roto_of(roto, x, batch, out); }
void roto(const Roto<double>& roto, const double* x, Index batch, double* out) { roto_of(roto, x, batch, out); }

}  // namespace fastdl::scattering::FASTDL_LEVEL
