// Convolution by transforms of a tile.
//
// A tile of z[j] = x[j] + i x[j + n] (j < n, along the first axis) is taken modulo z^n = i, which is the real
// convolution modulo z^2n = -1: "right-angle" convolution (Crandall and Fagin 1994). So real data fill complex
// transforms of half the length with no pass to take spectra apart: spectra are only multiplied, number by number. What
// wraps around comes back with its sign changed, and falls outside of the result all the same.
//
// The complex tile is a grid of rows, `lanes` columns at a time with real and imaginary vectors alternating. Columns
// are transformed with lanes across them. Rows come last: `lanes` of them are turned into vectors, transformed,
// multiplied with the spectrum of h, transformed back and returned, all in cache. With one axis, the tile is made a
// matrix of rows x columns, and twiddles on the turned rows make both steps one long transform; its numbers stay in the
// order in which they come out. Columns that are zero in f or h, or not asked for in the result, are left out.
//
// (Also one-dimensional tiles have lanes within, rather than one tile in each: eight tiles would not stay in L1.)
#pragma once

#include "conv/signal_bodies.hpp"
#include "fft/axes.hpp"

namespace fastdl::conv {
namespace {

using fft::at_most;
using fft::Complex;
using fft::conjugate;
using fft::divide_up;
using fft::everywhere;
using fft::Index;
using fft::load_element;
using fft::Rows;
using fft::RowTwiddles;
using fft::SharedPlan;
using fft::SharedTurns;
using fft::store_element;
using fft::width;
using simd::load;
using simd::store;
using simd::Vec;

// A run of numbers of an array: those from `low` to `high` are there.
template <class T>
struct Run {
  using Value = std::remove_const_t<T>;
  static constexpr int lanes = simd::lanes<Value>;

  T* data;
  Index low, high;

  // The lanes from `at` on; zero where there is none.
  FASTDL_INLINE Vec<Value> load_from(Index at) const {
    if (at >= low && at + lanes <= high) return load(data + at);
    Vec<Value> v{};
    for (int i = 0; i < lanes; ++i)
      if (at + i >= low && at + i < high) v[i] = data[at + i];
    return v;
  }

  FASTDL_INLINE void store_to(Index at, Vec<Value> v) const {
    if (at >= low && at + lanes <= high) return store(data + at, v);
    for (int i = 0; i < lanes; ++i)
      if (at + i >= low && at + i < high) data[at + i] = v[i];
  }
};

// A box of a real array, from `low` to `high` along each axis; number j of a tile is the array's number j + start.
template <class T>
struct Box {
  T* data;
  const Index* size;
  Index start[most_axes], low[most_axes], high[most_axes];

  // Of the tile's numbers along an axis, the first and the end of those in the box.
  Index first(int axis) const { return low[axis] > start[axis] ? low[axis] - start[axis] : 0; }
  Index end(int axis, Index most) const { return at_most(most, high[axis] - start[axis]); }
};

template <class T>
Box<T> whole(T* data, int rank, const Index* size) {
  Box<T> box{data, size, {}, {}, {}};
  for (int a = 0; a < rank; ++a) box.high[a] = size[a];
  return box;
}

inline Index product(int rank, const Index* sizes) {
  Index result = 1;
  for (int a = 0; a < rank; ++a) result *= sizes[a];
  return result;
}

// A result of these sizes is cut into tiles.
inline Index count_tiles(int rank, const Index* size, const Index* tile) {
  Index count = 1;
  for (int a = 0; a < rank; ++a) count *= divide_up(size[a], tile[a]);
  return count;
}

// The boxes of f and out for one of them, where out is the convolution with an h of h_size from `offset` on.
template <class T>
void place_tile(Index which, int rank, const Index* tile, const Index* h_size, const Index* offset, Box<const T>& f,
                Box<T>& out) {
  for (int a = rank - 1; a >= 0; --a) {
    const Index tiles = divide_up(out.size[a], tile[a]);
    out.low[a] = which % tiles * tile[a];
    out.high[a] = at_most(out.size[a], out.low[a] + tile[a]);
    which /= tiles;
    // A single tile begins with f; of several, each begins with the first number that its output needs.
    f.start[a] = tiles == 1 ? 0 : out.low[a] + offset[a] - (h_size[a] - 1);
    out.start[a] = f.start[a] - offset[a];
  }
}

// The transforms of one shape of tile.
template <class T>
class Tile {
 public:
  static constexpr int lanes = simd::lanes<T>;

  Tile(int rank, const Blocks& blocks)
      : matrix_(rank == 1),
        axes_(matrix_ ? 2 : rank),
        turns_(2 * blocks.length[0]),
        down_(matrix_ ? blocks.rows : blocks.length[0] / 2),
        across_(matrix_ ? blocks.columns : blocks.length[rank - 1]) {
    for (int a = 0; a < axes_; ++a) length_[a] = blocks.length[a];
    length_[0] = down_.plan().length;
    length_[axes_ - 1] = across_.plan().length;
    pitch_ = (divide_up(columns(), lanes) | 1) * width<T>;  // odd: no two rows in one cache set
    rows_ = 1;
    for (int a = 0; a + 1 < axes_; ++a) rows_ *= length_[a];
    weights_ = scratch_.array<T>(2 * length_[0]);
    kernel_weights_ = scratch_.array<T>(2 * length_[0]);
    for (Index j = 0; j < length_[0]; ++j) {
      double re, im;
      turns_.turns()(3 * j * (matrix_ ? columns() : 1), re, im);  // exp(-2 pi i (3/4) j / n), whose n-th power is i
      weights_[2 * j] = T(re);
      weights_[2 * j + 1] = T(im);
      kernel_weights_[2 * j] = T(re / numbers());
      kernel_weights_[2 * j + 1] = T(im / numbers());
    }
    if (!matrix_) return;
    const Index size = RowTwiddles<T>::size(columns());
    twiddles_ = scratch_.array<T>(divide_up(rows_, lanes), size);
    each_band([&](Index band, Index first, Index count) {
      RowTwiddles<T>::fill(turns_.turns(), 4, 3, first, count, columns(), twiddles_ + band * size);
    });
  }

  Index grid_size() const { return rows_ * pitch_; }
  Index spectrum_size() const { return divide_up(rows_, lanes) * columns(); }  // elements
  double numbers() const { return double(rows_) * double(columns()); }

  // The spectrum of f, or of h with the factor that the transforms back leave out; elements are `stride` apart.
  void spectrum_of(const Box<const T>& box, bool of_h, T* spectrum, Index stride) const {
    core::Scratch scratch;
    T* grid = scratch.array<T>(grid_size());
    forward(box, of_h ? kernel_weights_ : weights_, grid);
    each_band([&](Index band, Index first, Index count) {
      core::Scratch local;
      T* row = local.array<T>(columns() + across_.plan().scratch, width<T>);
      load_band(grid, band, first, count, end_column(box), row);
      fft::transform(across_.plan(), false, row, 1, spectrum + band * columns() * stride * width<T>, stride,
                     row + columns() * width<T>);
    });
  }

  // out: what has this spectrum.
  void result_of(const T* spectrum, Index stride, const Box<T>& out) const {
    core::Scratch scratch;
    T* grid = scratch.array<T>(grid_size());
    each_band([&](Index band, Index first, Index count) {
      core::Scratch local;
      T* row = local.array<T>(columns() + across_.plan().scratch, width<T>);
      fft::transform(across_.plan(), true, spectrum + band * columns() * stride * width<T>, stride, row, 1,
                     row + columns() * width<T>);
      store_band(row, band, first, count, out, grid);
    });
    backward(grid, out);
  }

  // out: the convolution of f with the h that has this spectrum. That of f does not leave the cache.
  void convolve(const Box<const T>& f, const T* spectrum, const Box<T>& out) const {
    core::Scratch scratch;
    T* grid = scratch.array<T>(grid_size());
    forward(f, weights_, grid);
    each_band([&](Index band, Index first, Index count) {
      core::Scratch local;
      T* row = local.array<T>(columns() + across_.plan().scratch, width<T>);
      T* rest = row + columns() * width<T>;
      load_band(grid, band, first, count, end_column(f), row);
      fft::transform(across_.plan(), false, row, 1, row, 1, rest);
      const T* factors = spectrum + band * columns() * width<T>;
      for (Index k = 0; k < columns() * width<T>; k += width<T>)
        store_element(row + k, load_element(row + k) * load_element(factors + k));
      fft::transform(across_.plan(), true, row, 1, row, 1, rest);
      store_band(row, band, first, count, out, grid);
    });
    backward(grid, out);
  }

 private:
  Index columns() const { return length_[axes_ - 1]; }

  // The tile's columns up to the last that the box has.
  template <class Value>
  Index end_column(const Box<Value>& box) const {
    return matrix_ ? columns() : box.end(axes_ - 1, columns());
  }

  RowTwiddles<T> twiddles(Index band) const { return {twiddles_ + band * RowTwiddles<T>::size(columns())}; }

  template <class Function>
  void each_band(const Function& function) const {
    core::parallel_for(divide_up(rows_, lanes), fft::threads_for(numbers()),
                       [&](Index band) { function(band, band * lanes, at_most(lanes, rows_ - band * lanes)); });
  }

  void load_band(const T* grid, Index band, Index first, Index count, Index active, T* to) const {
    const Rows<const T> from = fft::grid_rows(grid + first * pitch_, pitch_);
    if (matrix_)
      fft::load_rows<T>(from, count, active, to, twiddles(band));
    else
      fft::load_rows<T>(from, count, active, to, fft::NoTwiddles{});
    for (Index j = active; j < columns(); ++j) store_element(to + j * width<T>, Complex<T>{});
  }

  void store_band(const T* row, Index band, Index first, Index count, const Box<T>& out, T* grid) const {
    const Rows<T> to = fft::grid_rows(grid + first * pitch_, pitch_);
    if (matrix_)
      fft::store_rows<T>(to, count, 0, columns(), row, twiddles(band));
    else
      fft::store_rows<T>(to, count, out.first(axes_ - 1), end_column(out), row, fft::NoTwiddles{});
  }

  // The grid cut into columns along an axis: function(index, first, end) for all of them, `together` groups of lanes at
  // a time, from the grid's column `first` on. index holds their place along the other axes. Axis b < axis runs over
  // all its numbers, one after it from `from[b]` to `end[b]`.
  static constexpr Index together = 4;
  template <class Function>
  void each_column(int axis, const Index* from, const Index* end, const Function& function) const {
    Index extent[most_axes], count = 1;
    for (int b = 0; b + 1 < axes_; ++b) {
      extent[b] = b == axis ? 1 : b < axis ? length_[b] : end[b] - from[b];
      count *= extent[b];
    }
    const Index last = axes_ - 1, first_column = from[last] / lanes * lanes;
    const Index parts = divide_up(end[last] - first_column, together * lanes);
    core::parallel_for(count * parts,
                       fft::threads_for(double(count) * double(end[last] - first_column) * double(length_[axis])),
                       [&](Index task) {
                         Index index[most_axes], rest = task / parts;
                         for (int b = axes_ - 2; b >= 0; --b) {
                           index[b] = rest % extent[b] + (b <= axis ? 0 : from[b]);
                           rest /= extent[b];
                         }
                         const Index first = first_column + task % parts * together * lanes;
                         function(index, first, at_most(first + together * lanes, end[last]));
                       });
  }

  // Where a column along `axis` begins in the grid, and how many elements apart its numbers are.
  Index begin_of(const Index* index, Index first_column) const {
    Index row = 0;
    for (int b = 0; b + 1 < axes_; ++b) row = row * length_[b] + index[b];
    return row * pitch_ + first_column / lanes * width<T>;
  }
  Index stride_of(int axis) const {
    Index stride = pitch_ / width<T>;
    for (int b = axis + 1; b + 1 < axes_; ++b) stride *= length_[b];
    return stride;
  }

  // The run of a box that the columns from `column` on, in a row along the first axis, begin at `at` of.
  template <class Value>
  FASTDL_INLINE Run<Value> run_of(const Box<Value>& box, const Index* index, Index row, Index column, Index& at) const {
    const int last = axes_ - 1;
    if (matrix_) {
      at = row * columns() + column + box.start[0];
      return {box.data, box.low[0], box.high[0]};
    }
    Index offset = 0;
    for (int b = 0; b < last; ++b) {
      const Index there = (b == 0 ? row : index[b]) + box.start[b];
      if (there < box.low[b] || there >= box.high[b]) return {box.data, 0, 0};
      offset = (offset + there) * box.size[b + 1];
    }
    at = column + box.start[last];
    return {box.data + offset, box.low[last], box.high[last]};
  }

  // From an array to the grid, transformed along all axes but the last.
  void forward(const Box<const T>& box, const T* weights, T* grid) const {
    Index from[most_axes] = {}, end[most_axes];
    for (int b = 0; b < axes_; ++b) end[b] = matrix_ ? length_[b] : box.end(b, length_[b]);
    const Index n = length_[0];
    each_column(0, from, end, [&](const Index* index, Index first, Index last) {
      core::Scratch local;
      T* strip = local.array<T>(together * n + down_.plan().scratch, width<T>);
      for (Index j = 0; j < n; ++j) {
        Index a = 0, b = 0;
        const auto upper = run_of(box, index, j, first, a), lower = run_of(box, index, j + n, first, b);
        T* to = strip + j * width<T>;
        for (Index c = 0; c < last - first; c += lanes, to += n * width<T>)
          store_element(to, Complex<T>{upper.load_from(a + c), lower.load_from(b + c)} * everywhere(weights + 2 * j));
      }
      for (Index c = first; c < last; c += lanes)
        fft::transform(down_.plan(), false, strip + (c - first) / lanes * n * width<T>, 1, grid + begin_of(index, c),
                       stride_of(0), strip + together * n * width<T>);
    });
    for (int axis = 1; axis + 1 < axes_; ++axis) {
      const SharedPlan<T> plan(length_[axis]);
      const Index stride = stride_of(axis);
      each_column(axis, from, end, [&](const Index* index, Index first, Index last) {
        core::Scratch local;
        T* column = local.array<T>(length_[axis] + plan.plan().scratch, width<T>);
        for (; first < last; first += lanes) {
          T* place = grid + begin_of(index, first);
          for (Index j = 0; j < length_[axis]; ++j)
            store_element(column + j * width<T>,
                          j < end[axis] ? load_element(place + j * stride * width<T>) : Complex<T>{});
          fft::transform(plan.plan(), false, column, 1, place, stride, column + length_[axis] * width<T>);
        }
      });
    }
  }

  // And back: to the part of the array that the tile has.
  void backward(T* grid, const Box<T>& box) const {
    Index from[most_axes], end[most_axes];
    for (int b = 0; b < axes_; ++b) {
      from[b] = matrix_ ? 0 : box.first(b);
      end[b] = matrix_ ? length_[b] : box.end(b, length_[b]);
    }
    for (int axis = axes_ - 2; axis > 0; --axis) {
      const SharedPlan<T> plan(length_[axis]);
      each_column(axis, from, end, [&](const Index* index, Index first, Index last) {
        core::Scratch local;
        T* rest = local.array<T>(plan.plan().scratch, width<T>);
        for (; first < last; first += lanes) {
          T* place = grid + begin_of(index, first);
          fft::transform(plan.plan(), true, place, stride_of(axis), place, stride_of(axis), rest);
        }
      });
    }
    const Index n = length_[0];
    each_column(0, from, end, [&](const Index* index, Index first, Index last) {
      core::Scratch local;
      T* strip = local.array<T>(together * n + down_.plan().scratch, width<T>);
      for (Index c = first; c < last; c += lanes)
        fft::transform(down_.plan(), true, grid + begin_of(index, c), stride_of(0),
                       strip + (c - first) / lanes * n * width<T>, 1, strip + together * n * width<T>);
      for (Index j = 0; j < n; ++j) {
        Index a = 0, b = 0;
        const auto upper = run_of(box, index, j, first, a), lower = run_of(box, index, j + n, first, b);
        const T* at = strip + j * width<T>;
        for (Index c = 0; c < last - first; c += lanes, at += n * width<T>) {
          const Complex<T> z = load_element(at) * conjugate(everywhere(weights_ + 2 * j));
          upper.store_to(a + c, z.re);
          lower.store_to(b + c, z.im);
        }
      }
    });
  }

  core::Scratch scratch_;
  bool matrix_;
  int axes_;
  SharedTurns turns_;
  SharedPlan<T> down_, across_;
  Index length_[most_axes], rows_, pitch_;
  T *weights_, *kernel_weights_, *twiddles_ = nullptr;
};

}  // namespace
}  // namespace fastdl::conv
