// How images and angles share lanes, and steps of many rows or columns on all threads.
//
// A lane is an image with an angle: in the first layer that of the wavelet, in the second that of the second wavelet
// relative to the first, whose angles then follow one after the other. So lanes are filled by a single image,
// everything that follows a convolution is the same as for lanes of images, and an image's sums do not depend on how
// many there are. Of L angles in w lanes there are w / L images side by side, or where L > w, several lane-fulls of one
// image.
#pragma once

#include "core/threads.hpp"
#include "scattering/gradients.hpp"
#include "scattering/roto_plan.hpp"

namespace fastdl::scattering {
namespace {

template <class T>
struct AngleLanes {
  Index angles, images, blocks;  // images side by side; lane-fulls of their angles

  explicit AngleLanes(Index angles_)
      : angles(angles_),
        images(angles_ <= lanes<T> ? lanes<T> / angles_ : 1),
        blocks((angles_ + lanes<T> - 1) / lanes<T>) {}

  // Lanes beyond the last image or angle do as the last image does, and are never read.
  Index image(int lane) const {
    if (blocks > 1) return 0;
    const Index which = lane / angles;
    return which < images ? which : images - 1;
  }
  Index angle(Index block, int lane) const { return blocks > 1 ? block * lanes<T> + lane : lane % angles; }
  bool used(Index block, int lane) const { return blocks > 1 ? angle(block, lane) < angles : lane / angles < images; }

  // The block that has angle t, and for every lane where its image has it there.
  Index block_of(Index t) const { return blocks > 1 ? t / lanes<T> : 0; }
  simd::IntVec<T> lanes_of(Index t) const {
    simd::IntVec<T> index{};
    for (int l = 0; l < lanes<T>; ++l)
      index[l] = typename simd::Types<T>::Integer(blocks > 1 ? t % lanes<T> : image(l) * angles + t);
    return index;
  }
};

// Lane l has the wavelet of angle first + l, and its image in lane source[l] of the spectrum.
template <class T>
struct AngleFilters {
  const Fold<T>& fold;
  const T* spectrum;
  Index first;
  simd::IntVec<T> source;

  void row(Index y, Index nx, T* to) const {
    for (Index x = 0; x < nx; ++x) store_element(to + x * width<T>, (*this)(y * nx + x));
  }

  FASTDL_INLINE Complex<T> operator()(Index output) const {
    Vec<T> re{}, im{};
    Index t = fold.begin[output];
    const T* coef = fold.coef + first + t * fold.filters;
    for (const Index end = fold.middle[output]; t < end; ++t, coef += fold.filters) {
      const T* at = spectrum + fold.offset[t] * width<T>;
      re = fma(picked<T>(load(at), source), load(coef), re);
      im = fma(picked<T>(load(at + lanes<T>), source), load(coef), im);
    }
    for (const Index end = fold.begin[output + 1]; t < end; ++t, coef += fold.filters) {
      const T* at = spectrum + fold.offset[t] * width<T>;
      re = fma(picked<T>(load(at), source), load(coef), re);
      im = fma(picked<T>(load(at + lanes<T>), source), -load(coef), im);
    }
    return {re, im};
  }
};

// Room for one step, of a thread; averages go to memory that all threads share.
template <class T>
Work<T> shared_work(core::Scratch& scratch, const Roto<T>& roto, T* averages) {
  Work<T> work(scratch, roto.plan);
  work.averages = averages;
  return work;
}

template <class T>
int roto_threads(const Roto<T>& roto, Index images) {
  return roto.plan.flops * double(images) < 2e5 ? 1 : core::thread_count();  // below 30 us or so
}

// function(i, work) for all i < count, some at a time.
template <class T, class Function>
void for_each(const Roto<T>& roto, Index count, int threads, T* averages, const Function& function) {
  constexpr Index some = 4;
  core::parallel_for((count + some - 1) / some, threads, [&](Index task) {
    core::Scratch scratch;
    const Work<T> work = shared_work(scratch, roto, averages);
    const Index end = (task + 1) * some < count ? (task + 1) * some : count;
    for (Index i = task * some; i < end; ++i) function(i, work);
  });
}

// One row of what fold_rows makes.
template <class T, class Filter>
void fold_row(const Level<T>& level, const Filter& filter, Index y, T* grid, const Work<T>& work) {
  T* to = grid + y * level.pitch * width<T>;
  if (level.nx == 1) return store_element(to, filter(y));
  filter.row(y, level.nx, work.row);
  transform(*level.across, true, work.row, 1, to, 1, work.fft);
}

// The spectra of all rows, in place.
template <class T>
void spectra_of_rows(const Roto<T>& roto, const Level<T>& level, T* spectrum, int threads) {
  if (level.nx == 1) return;
  for_each(roto, level.half, threads, static_cast<T*>(nullptr), [&](Index k, const Work<T>& work) {
    T* row = spectrum + k * level.pitch * width<T>;
    transform(*level.across, false, row, 1, row, 1, work.fft);
  });
}

// The spectra of a lane-full of images with their centres at the origin, and in work.result their averages.
template <class T>
void centred_spectrum(const Roto<T>& roto, const T* x, Index first, Index count, T* spectrum, const Work<T>& work) {
  const Level<T>& level = roto.level(0);
  const T* images[lanes<T>];
  for (int l = 0; l < lanes<T>; ++l) images[l] = l < count ? x + (first + l) * roto.plan.samples() : nullptr;
  image_spectrum(roto.plan, images, spectrum, work);
  for (Index k = 0; k < level.half; ++k)
    for (Index i = 0; i < level.nx; ++i) {
      T* at = spectrum + (k * level.pitch + i) * width<T>;
      const Complex<T> phase = fft::everywhere(roto.phase_y + 2 * k) * fft::everywhere(roto.phase_x + 2 * i);
      store_element(at, load_element(at) * phase);
    }
}

// How calls are shared out. Blocks of images and then their bundles, the images side by side, go to threads where there
// are enough of them and they are small; else all threads are at one bundle. Results do not depend on it.
template <class T>
struct Shares {
  Index per_block, blocks;  // images
  int threads, of_blocks, of_bundles;

  Shares(const Roto<T>& roto, Index batch, Index side_by_side, Index bytes_of_bundle) {
    per_block = lanes<T> / side_by_side * side_by_side;
    blocks = (batch + per_block - 1) / per_block;
    threads = roto_threads(roto, batch);
    const bool small = bytes_of_bundle <= (Index{1} << 26);
    const Index bundles = ((batch < per_block ? batch : per_block) + side_by_side - 1) / side_by_side;
    of_blocks = small && blocks >= 2 * threads ? threads : 1;
    of_bundles = small && bundles >= 2 * threads ? threads : 1;
  }
};

}  // namespace
}  // namespace fastdl::scattering
