// Convolution of real arrays, compiled once per instruction-set level: directly, and by transforms of tiles.
//
// By transforms, a tile of z[j] = x[j] + i x[j + n] (j < n, along the first axis) is taken modulo z^n = i, which is the
// real convolution modulo z^2n = -1: "right-angle" convolution (Crandall and Fagin 1994). So real data fill complex
// transforms of half the length with no pass to take spectra apart: spectra are only multiplied, number by number. What
// wraps around comes back with its sign changed, and falls outside of the tile all the same.
//
// The complex tile is a grid of rows, `lanes` columns at a time with real and imaginary vectors alternating. Columns
// are transformed with lanes across them. Rows come last: `lanes` of them are turned into vectors, transformed,
// multiplied with the spectrum of h, transformed back and returned, all in cache. With one axis, the tile is made a
// matrix of rows x columns, and twiddles on the turned rows make both steps one long transform; its numbers stay in the
// order in which they come out. Columns that are zero in f or h, or not asked for in the output, are left out.
#include "conv/signal_bodies.hpp"
#include "fft/axes.hpp"

namespace fastdl::conv::FASTDL_LEVEL {
namespace {

using namespace fft;  // NOLINT: this file is about little else

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
    for (Index j = 0; j < length_[0]; ++j) {
      double re, im;
      turns_.turns()(3 * j * (matrix_ ? columns() : 1), re, im);  // exp(-2 pi i (3/4) j / n), whose n-th power is i
      weights_[2 * j] = T(re);
      weights_[2 * j + 1] = T(im);
    }
    if (!matrix_) return;
    const Index size = RowTwiddles<T>::size(columns());
    twiddles_ = scratch_.array<T>(divide_up(rows_, lanes), size);
    each_band([&](Index band, Index first, Index count) {
      RowTwiddles<T>::fill(turns_.turns(), 4, 3, first, count, columns(), twiddles_ + band * size);
    });
  }

  Index grid_size() const { return rows_ * pitch_; }
  Index spectrum_size() const { return divide_up(rows_, lanes) * columns() * width<T>; }
  double numbers() const { return double(rows_) * double(columns()); }

  // Of h, which lies at the start of the tile; with the factor that the transforms back leave out.
  void spectrum_of(const Box<const T>& h, T* spectrum) const {
    core::Scratch scratch;
    T* grid = scratch.array<T>(grid_size());
    forward(h, grid);
    const Index active = end_column(h);
    const T factor = T(1 / numbers());
    each_band([&](Index band, Index first, Index count) {
      core::Scratch local;
      T* to = spectrum + band * columns() * width<T>;
      load_band(grid, band, first, count, active, to);
      transform(across_.plan(), false, to, 1, to, 1, local.array<T>(across_.plan().scratch, width<T>));
      for (Index k = 0; k < columns(); ++k)
        store_element(to + k * width<T>, scaled(load_element(to + k * width<T>), factor));
    });
  }

  // out: the convolution of f with that h.
  void convolve(const Box<const T>& f, const T* spectrum, const Box<T>& out) const {
    core::Scratch scratch;
    T* grid = scratch.array<T>(grid_size());
    forward(f, grid);
    const Index active = end_column(f), from = first_column(out), end = end_column(out);
    each_band([&](Index band, Index first, Index count) {
      core::Scratch local;
      T* row = local.array<T>(columns(), width<T>);
      T* rest = local.array<T>(across_.plan().scratch, width<T>);
      const T* with = spectrum + band * columns() * width<T>;
      load_band(grid, band, first, count, active, row);
      transform(across_.plan(), false, row, 1, row, 1, rest);
      for (Index k = 0; k < columns(); ++k)
        store_element(row + k * width<T>, load_element(row + k * width<T>) * load_element(with + k * width<T>));
      transform(across_.plan(), true, row, 1, row, 1, rest);
      const Rows<T> to = grid_rows(grid + first * pitch_, pitch_);
      if (matrix_)
        store_rows<T>(to, count, from, end, row, twiddles(band));
      else
        store_rows<T>(to, count, from, end, row, NoTwiddles{});
    });
    backward(grid, out);
  }

 private:
  Index columns() const { return length_[axes_ - 1]; }

  // The tile's columns that the box has.
  template <class Value>
  Index first_column(const Box<Value>& box) const {
    return matrix_ ? 0 : box.first(axes_ - 1);
  }
  template <class Value>
  Index end_column(const Box<Value>& box) const {
    return matrix_ ? columns() : box.end(axes_ - 1, columns());
  }

  RowTwiddles<T> twiddles(Index band) const { return {twiddles_ + band * RowTwiddles<T>::size(columns())}; }

  template <class Function>
  void each_band(const Function& function) const {
    core::parallel_for(divide_up(rows_, lanes), threads_for(numbers()),
                       [&](Index band) { function(band, band * lanes, at_most(lanes, rows_ - band * lanes)); });
  }

  void load_band(const T* grid, Index band, Index first, Index count, Index active, T* to) const {
    const Rows<const T> from = grid_rows(grid + first * pitch_, pitch_);
    if (matrix_)
      load_rows<T>(from, count, active, to, twiddles(band));
    else
      load_rows<T>(from, count, active, to, NoTwiddles{});
    for (Index j = active; j < columns(); ++j) store_element(to + j * width<T>, Complex<T>{});
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
                       threads_for(double(count) * double(end[last] - first_column) * double(length_[axis])),
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
  void forward(const Box<const T>& box, T* grid) const {
    Index from[most_axes] = {}, end[most_axes];
    for (int b = 0; b < axes_; ++b) end[b] = matrix_ ? length_[b] : box.end(b, length_[b]);
    const Index n = length_[0];
    each_column(0, from, end, [&](const Index* index, Index first, Index last) {
      core::Scratch local;
      T* columns_ = local.array<T>(together * n + down_.plan().scratch, width<T>);
      for (Index j = 0; j < n; ++j) {
        Index a = 0, b = 0;
        const auto upper = run_of(box, index, j, first, a), lower = run_of(box, index, j + n, first, b);
        T* to = columns_ + j * width<T>;
        for (Index c = 0; c < last - first; c += lanes, to += n * width<T>)
          store_element(to, Complex<T>{upper.load_from(a + c), lower.load_from(b + c)} * everywhere(weights_ + 2 * j));
      }
      for (Index c = first; c < last; c += lanes)
        transform(down_.plan(), false, columns_ + (c - first) / lanes * n * width<T>, 1, grid + begin_of(index, c),
                  stride_of(0), columns_ + together * n * width<T>);
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
          transform(plan.plan(), false, column, 1, place, stride, column + length_[axis] * width<T>);
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
          transform(plan.plan(), true, place, stride_of(axis), place, stride_of(axis), rest);
        }
      });
    }
    const Index n = length_[0];
    each_column(0, from, end, [&](const Index* index, Index first, Index last) {
      core::Scratch local;
      T* columns_ = local.array<T>(together * n + down_.plan().scratch, width<T>);
      for (Index c = first; c < last; c += lanes)
        transform(down_.plan(), true, grid + begin_of(index, c), stride_of(0),
                  columns_ + (c - first) / lanes * n * width<T>, 1, columns_ + together * n * width<T>);
      for (Index j = 0; j < n; ++j) {
        Index a = 0, b = 0;
        const auto upper = run_of(box, index, j, first, a), lower = run_of(box, index, j + n, first, b);
        const T* at = columns_ + j * width<T>;
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
  T *weights_, *twiddles_ = nullptr;
};

Index product(int rank, const Index* sizes) {
  Index result = 1;
  for (int a = 0; a < rank; ++a) result *= sizes[a];
  return result;
}

template <class T>
void by_transforms_of(const Signal<T>& s, const Blocks& blocks) {
  const Tile<T> tile(s.rank, blocks);
  Index tiles[most_axes];
  for (int a = 0; a < s.rank; ++a) tiles[a] = divide_up(s.out_size[a], blocks.tile[a]);
  const Index tile_count = product(s.rank, tiles), f_size = product(s.rank, s.f_size);
  const Index h_size = product(s.rank, s.h_size), out_size = product(s.rank, s.out_size);
  core::Scratch scratch;
  T* spectrum = scratch.array<T>(tile.spectrum_size());
  for (Index which_h = 0; which_h < s.h_count; ++which_h) {
    tile.spectrum_of(whole(s.h + which_h * h_size, s.rank, s.h_size), spectrum);
    core::parallel_for(s.f_count * tile_count, core::thread_count(), [&](Index task) {
      const Index which_f = task / tile_count;
      auto f = whole(s.f + which_f * f_size, s.rank, s.f_size);
      auto out = whole(s.out + (which_h * s.f_count + which_f) * out_size, s.rank, s.out_size);
      Index rest = task % tile_count;
      for (int a = s.rank - 1; a >= 0; --a) {
        out.low[a] = rest % tiles[a] * blocks.tile[a];
        out.high[a] = at_most(s.out_size[a], out.low[a] + blocks.tile[a]);
        rest /= tiles[a];
        // A single tile begins with f; of several, each begins with the first number that its output needs.
        f.start[a] = tiles[a] == 1 ? 0 : out.low[a] + s.offset[a] - (s.h_size[a] - 1);
        out.start[a] = f.start[a] - s.offset[a];
      }
      tile.convolve(f, spectrum, out);
    });
  }
}

// ---- directly --------------------------------------------------------------------------------------------------

template <class T>
bool all_finite(const T* x, Index count) {
  T sum = 0;  // of zeros, or NaN
  for (Index i = 0; i < count; ++i) sum += 0 * x[i];
  return sum == 0;
}

// A row of f and the row of h that goes with it in the sums of one row of out.
template <class T>
struct Pair {
  const T *f, *h;
};

// out[i] = sum over the pairs, and over t, of f[i + t] h[t], for i < count: blocks of 8 vectors keep their sums in
// registers over all pairs, and every product takes one load. f is readable for 8 vectors beyond.
template <class T>
void sum_rows(const Pair<T>* pairs, Index pair_count, Index taps, Index first, Index end, T* out) {
  constexpr int lanes = simd::lanes<T>, vectors = 8;
  for (Index i = first; i < end; i += vectors * lanes) {
    Vec<T> sums[vectors] = {};
    for (Index pair = 0; pair < pair_count; ++pair) {
      const T *f = pairs[pair].f + i, *h = pairs[pair].h;
      for (Index t = 0; t < taps; ++t) {
        const Vec<T> factor = broadcast(h[t]);
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) sums[v] = fma(load(f + t + v * lanes), factor, sums[v]);
      }
    }
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
      const Index left = end - i - v * lanes;
      if (left > 0) simd::store_first(out + i + v * lanes, sums[v], int(at_most(lanes, left)));
    }
  }
}

// The same from f itself, term by term where f is: a tap that is not finite must not meet the zeros around f.
template <class T>
void sum_rows_within(const Pair<T>* pairs, Index pair_count, Index taps, Index f_size, Index offset, Index first,
                     Index end, T* out) {
  for (Index i = first; i < end; ++i) {
    T sum = 0;
    for (Index pair = 0; pair < pair_count; ++pair)
      for (Index t = 0; t < taps; ++t)
        if (const Index at = i + offset + t; at >= 0 && at < f_size) sum += pairs[pair].f[at] * pairs[pair].h[t];
    out[i] = sum;
  }
}

// One f with one h. The rows of f get zeros before and after, so that every sum has all its taps; h is reversed along
// its rows. Rows of f that are not there are left out of the sums.
template <class T>
void direct_one(const Signal<T>& s, const T* f, const T* h, T* out) {
  constexpr Index block = 8 * simd::lanes<T>;
  const int last = s.rank - 1;
  const Index taps = s.h_size[last], before = s.offset[last] - (taps - 1);  // f[i + before + t] h[taps - 1 - t]
  const Index f_rows = product(last, s.f_size), h_rows = product(last, s.h_size), rows = product(last, s.out_size);
  const Index f_columns = s.f_size[last], columns = s.out_size[last];
  const bool padded = all_finite(h, h_rows * taps);
  core::Scratch scratch;
  T* reversed = scratch.array<T>(h_rows, taps);
  for (Index i = 0; i < h_rows; ++i)
    for (Index t = 0; t < taps; ++t) reversed[i * taps + t] = h[i * taps + taps - 1 - t];
  const Index pitch = columns + taps - 1 + block;
  const T* rows_of_f = f;
  const double products = double(rows) * double(columns) * double(h_rows) * double(taps);
  const int threads = products < 2e5 ? 1 : core::thread_count();
  if (padded) {
    T* copy = scratch.array<T>(f_rows, pitch);
    core::parallel_for(f_rows, threads, [&](Index row) {
      const Index low = before < 0 ? -before : 0, high = at_most(pitch, f_columns - before);
      T* to = copy + row * pitch;
      for (Index c = 0; c < low; ++c) to[c] = 0;
      for (Index c = low; c < high; ++c) to[c] = f[row * f_columns + before + c];
      for (Index c = high < low ? low : high; c < pitch; ++c) to[c] = 0;
    });
    rows_of_f = copy;
  }
  // Tasks of about 100 us: several rows, or pieces of one.
  const double row_cost = double(h_rows) * double(taps) * double(columns);
  const Index pieces = at_most(divide_up(columns, block), 1 + Index(row_cost / 2e6));
  const Index piece = divide_up(divide_up(columns, pieces), block) * block;
  const Index group = pieces > 1 ? 1 : 1 + Index(1e6 / row_cost);
  core::parallel_for(divide_up(rows, group) * pieces, threads, [&](Index task) {
    core::Scratch local;
    Pair<T>* pairs = local.array<Pair<T>>(h_rows);
    const Index first_row = task / pieces * group, first = task % pieces * piece;
    for (Index row = first_row; row < at_most(rows, first_row + group); ++row) {
      Index count = 0;
      for (Index tap = 0; tap < h_rows; ++tap) {
        Index i = row, t = tap, at = 0, scale = 1;
        bool there = true;
        for (int a = last - 1; a >= 0; --a) {
          const Index place = i % s.out_size[a] + s.offset[a] - t % s.h_size[a];
          there &= place >= 0 && place < s.f_size[a];
          at += place * scale;
          scale *= s.f_size[a];
          i /= s.out_size[a];
          t /= s.h_size[a];
        }
        if (there) pairs[count++] = {rows_of_f + at * (padded ? pitch : f_columns), reversed + tap * taps};
      }
      T* to = out + row * columns;
      const Index end = at_most(columns, first + piece);
      if (padded)
        sum_rows(pairs, count, taps, first, end, to);
      else
        sum_rows_within(pairs, count, taps, f_columns, before, first, end, to);
    }
  });
}

template <class T>
void direct_of(const Signal<T>& s) {
  const Index f_size = product(s.rank, s.f_size), h_size = product(s.rank, s.h_size);
  const Index out_size = product(s.rank, s.out_size);
  core::parallel_for(s.f_count * s.h_count, core::thread_count(), [&](Index which) {
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
