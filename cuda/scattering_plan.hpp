// The tables of a plan: made by the host, kept on the device.
#pragma once

#include <list>
#include <vector>

#include "scattering.hpp"
#include "scattering_tables.hpp"

namespace fastdl::scattering::cuda {

template <class T>
struct Level {
  Grid<T> grid;
  Averages<T> down, across;
  bool in_shared;            // whether a block has room for it
  std::size_t shared_bytes;  // then
  int threads;
};

// Filters whose results are on one level: `count` windows from `first` on, among those of their inputs' grid. Their
// results for one input begin at `spectrum`.
struct Set {
  int level;
  Index first, count, spectrum;
  const int* channel;
};

// Wavelets of the first order on one level, and those that follow each of them.
struct Group {
  Set members;
  std::vector<Set> followers;
  const Window* window;  // of the followers
  Index count;           // of them
  Index stride;          // numbers of all their results, for one input
};

template <class T>
struct Tables {
  Tables(const char* name, const fastdl_scattering_tree& tree, const Limits& limits, Stream stream);

  Index height, width, channels, outputs;
  std::vector<Level<T>> levels;
  std::vector<Group> groups;
  const Window* window;  // of all members of all groups
  Index members, stride;
  const T* coefficient;
  const int *place_y, *place_x;
  const int* channel_0;  // a table of one channel, 0
  // Which places a sample was copied to: those from begin[s] to begin[s + 1].
  const int *begin_y, *copies_y, *begin_x, *copies_x;

  Index samples() const { return height * width; }
  // The filters of a set: of the first order, or followers of a group.
  Filters<T> filters_of(const Set& set) const { return filters(window + set.first, set.count, 0); }
  Filters<T> filters_of(const Group& group, const Set& set) const {
    return filters(group.window + set.first, set.count, group.members.level);
  }
  Filters<T> filters_of(const Group& group) const { return filters(group.window, group.count, group.members.level); }
  Filters<T> all_filters() const { return filters(window, members, 0); }
  Channels<T> channels_of(const Set& set, int parents, T* values, const int* exponent) const {
    const Level<T>& level = levels[std::size_t(set.level)];
    return {values, set.channel, exponent, parents, channels, outputs, level.down, level.across};
  }
  // How many images to take at a time, by the limit of what is kept between kernels.
  Index images_at_a_time(Index batch, bool backward) const;

 private:
  Index scratch_;
  Filters<T> filters(const Window* from, Index count, int level) const {
    const Grid<T>& grid = levels[std::size_t(level)].grid;
    return {from, coefficient, int(count), grid.ny(), grid.nx()};
  }
  std::list<fft::cuda::AxisTables<T>> axes_;
  std::list<Scratch<Complex<T>>> roots_;
  std::list<Scratch<T>> numbers_;
  std::list<Scratch<int>> integers_;
  std::list<Scratch<Window>> windows_;
};

// The power of two that each image is to be divided by, or 0: for images whose squares are beyond the type. Nothing
// else is changed by it, to the digit.
template <class T>
Scratch<int> exponents_of(const char* name, const T* x, Index images, Index samples, Stream stream);

// The spectra of images x, padded, and their averages in channel 0 of `values`, unless that is null.
template <class T>
Scratch<Complex<T>> image_spectra(const char* name, const Tables<T>& tables, const T* x, Index images,
                                  const int* exponent, T* values, Stream stream);

// A step of all paths that go from `inputs` spectra through the filters of a set. Where they are not null, `values` get
// the averages, `waves` the convolutions, `next` the spectra of the moduli.
template <class T>
void run_step(const char* name, const Tables<T>& tables, const Set& set, const Filters<T>& filters, int parents,
              const Complex<T>* spectra, Index inputs, T* values, const int* exponent, Complex<T>* waves,
              Complex<T>* next, Stream stream);

}  // namespace fastdl::scattering::cuda
