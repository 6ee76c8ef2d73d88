// The second layer for a pair of scales: convolutions of all angles of the first, whose moduli are then taken together.
#pragma once

#include "scattering/angles.hpp"
#include "scattering/roto_lanes.hpp"

namespace fastdl::scattering {
namespace {

// Lanes are the relative angles of a block. Rows of the grids of all first angles come first; a column of all of them
// is then in L2 while its angles are convolved.
template <class T>
struct Pair {
  const Roto<T>& roto;
  const AngleLanes<T>& layout;
  const Level<T>& level;
  const Fold<T>& fold;
  const T* y_hat;  // of the blocks of first angles, y_size apart
  Index y_size, block;
  T* grids;  // of the first angles, grid_size apart
  int threads;

  static Index grid_size(const Level<T>& level) { return level.ny * level.pitch * width<T>; }
  T* grid(Index t) const { return grids + t * grid_size(level); }
  Index column_pitch() const { return level.ny * width<T>; }

  void rows() const {
    for_each(roto, roto.angles * level.ny, threads, static_cast<T*>(nullptr), [&](Index i, const Work<T>& work) {
      const Index t = i / level.ny;
      const AngleFilters<T> filter{fold, y_hat + layout.block_of(t) * y_size, (t + block * lanes<T>) % roto.angles,
                                   layout.lanes_of(t)};
      fold_row(level, filter, i % level.ny, grid(t), work);
    });
  }

  // -1 in the lanes whose wavelet for angle t is past half a turn, and conjugate to the one before it.
  Vec<T> sign(Index t) const {
    Vec<T> result = broadcast(T(1));
    for (int l = 0; l < lanes<T>; ++l)
      if (layout.used(block, l) && t + layout.angle(block, l) >= roto.angles) result[l] = T(-1);
    return result;
  }
  void conjugate_column(Index t, T* column) const {
    const Vec<T> s = sign(t);
    for (Index y = 0; y < level.ny; ++y) {
      T* im = column + y * width<T> + lanes<T>;
      store(im, load(im) * s);
    }
  }

  // Column x of all angles, column_pitch apart.
  void columns(Index x, T* to, const Work<T>& work) const {
    for (Index t = 0; t < roto.angles; ++t) {
      T* column = to + t * column_pitch();
      transform(*level.down, true, grid(t) + x * width<T>, level.pitch, column, 1, work.fft);
      conjugate_column(t, column);
    }
  }
};

// Where the result of each lane of a block goes, or its gradient comes from, with filter 0: null for lanes without one.
template <class T, class U>
void lane_results(const Roto<T>& roto, const AngleLanes<T>& layout, Index block, Index channel, Index images, U* all,
                  U** each) {
  for (int l = 0; l < lanes<T>; ++l) {
    const Index path = channel + layout.angle(block, l) * roto.filters;
    each[l] = layout.used(block, l) && layout.image(l) < images
                  ? all + (layout.image(l) * roto.plan.channels + path) * roto.plan.outputs()
                  : nullptr;
  }
}

}  // namespace
}  // namespace fastdl::scattering
