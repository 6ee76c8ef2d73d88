// Convolution of real arrays, compiled once per instruction-set level: directly, and by transforms of tiles.
#include "conv/signal_bodies.hpp"
#include "conv/signal_sums.hpp"
#include "conv/signal_tile.hpp"

namespace fastdl::conv::FASTDL_LEVEL {
namespace {

template <class T>
void by_transforms_of(const Signal<T>& s, const Blocks& blocks) {
  const Tile<T> tile(s.rank, blocks);
  const Index tile_count = count_tiles(s.rank, s.out_size, blocks.tile), f_size = product(s.rank, s.f_size);
  const Index h_size = product(s.rank, s.h_size), out_size = product(s.rank, s.out_size);
  const int threads = fft::threads_for(tile.numbers() * double(s.f_count * tile_count));
  core::Scratch scratch;
  T* spectrum = scratch.array<T>(tile.spectrum_size(), width<T>);
  for (Index which_h = 0; which_h < s.h_count; ++which_h) {
    tile.spectrum_of(whole(s.h + which_h * h_size, s.rank, s.h_size), true, spectrum, 1);
    core::parallel_for(s.f_count * tile_count, threads, [&](Index task) {
      const Index which_f = task / tile_count;
      auto f = whole(s.f + which_f * f_size, s.rank, s.f_size);
      auto out = whole(s.out + (which_h * s.f_count + which_f) * out_size, s.rank, s.out_size);
      place_tile(task % tile_count, s.rank, blocks.tile, s.h_size, s.offset, f, out);
      tile.convolve(f, spectrum, out);
    });
  }
}

template <class T>
void direct_of(const Signal<T>& s) {
  const Index f_size = product(s.rank, s.f_size), h_size = product(s.rank, s.h_size);
  const Index out_size = product(s.rank, s.out_size);
  const Index count = s.f_count * s.h_count;
  core::parallel_for(count, threads_for_sums(s, count), [&](Index which) {
    direct_one(s, s.f + which % s.f_count * f_size, s.h + which / s.f_count * h_size, s.out + which * out_size);
  });
}

}  // namespace

#define FASTDL_BODIES_OF(T)                                      \
  void direct(const Signal<T>& signal) { direct_of<T>(signal); } \
  void by_transforms(const Signal<T>& signal, const Blocks& blocks) { by_transforms_of<T>(signal, blocks); }
FASTDL_BODIES_OF(float)
FASTDL_BODIES_OF(double)

}  // namespace fastdl::conv::FASTDL_LEVEL
