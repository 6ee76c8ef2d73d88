// Long rows, each by itself: the matrix of rows x columns of transform_long (axes.hpp), with lanes across its columns
// and then across its rows. That is one transpose instead of the two that a row in a lane takes, and all of a row stays
// in L1 or L2, where a lane-full of them does not.
#pragma once

#include "core/scratch.hpp"
#include "core/threads.hpp"
#include "fft/axes.hpp"
#include "fft/interleaved.hpp"

namespace fastdl::fft {
namespace {

// The factors of `lanes` rows from a grid's table.
template <class T>
struct TableTwiddles {
  const T* first;

  FASTDL_INLINE Complex<T> operator()(Index j) const {
    const T* at = first + j * 2 * Grid<T>::block;
    return {load(at), load(at + Grid<T>::block)};
  }
  FASTDL_INLINE TableTwiddles from(Index j) const { return {first + j * 2 * Grid<T>::block}; }
};

// to[j]: column j of `lanes` rows of a grid, times its factor, for all columns rounded up to whole vectors. First the
// real parts, then the imaginary ones: both at once are more than there are registers. A single block may stay in
// place.
template <class T, class Twiddles>
FASTDL_INLINE void load_turned(const T* grid, Index pitch, Index columns, T* to, const Twiddles& twiddles) {
  constexpr int lanes = simd::lanes<T>;
  for (Index first = 0; first < columns; first += lanes) {
    const T* from = grid + 2 * first;
    T* at = to + first * width<T>;
    Vec<T> x[lanes];
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) x[i] = load(from + i * pitch);
    simd::transpose<T>(x);
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) store(at + i * width<T>, x[i]);
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) x[i] = load(from + i * pitch + lanes);
    simd::transpose<T>(x);
    const auto& factor = twiddles.from(first);
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i)
      if (first + i < columns) store_element(at + i * width<T>, Complex<T>{load(at + i * width<T>), x[i]} * factor(i));
  }
}

// `count` columns of complex numbers, `pitch` numbers apart, to elements and back.
template <class T>
FASTDL_INLINE void load_columns(const T* from, Index pitch, Index n, int count, Parts<T> parts, T* to) {
  const auto put = [&](Index j, Complex<T> x) {
    store(to + j * width<T> + parts.re, x.re);
    store(to + j * width<T> + parts.im, x.im);
  };
  if (count == simd::lanes<T>)
    for (Index j = 0; j < n; ++j) put(j, load_interleaved(from + j * pitch));
  else
    for (Index j = 0; j < n; ++j) put(j, load_interleaved(from + j * pitch, count));
}
template <class T>
FASTDL_INLINE void store_columns(T* to, Index pitch, Index n, int count, Parts<T> parts, T factor, const T* from) {
  const auto get = [&](Index j) {
    const T* at = from + j * width<T>;
    return Complex<T>{load(at + parts.re) * factor, load(at + parts.im) * factor};
  };
  if (count == simd::lanes<T>)
    for (Index j = 0; j < n; ++j) store_interleaved(to + j * pitch, get(j));
  else
    for (Index j = 0; j < n; ++j) store_interleaved(to + j * pitch, get(j), count);
}

// What a long row needs, held for a call.
template <class T>
class GridTransform {
 public:
  // With `rows_follow`, what lies behind the input and the output is the next row of each.
  explicit GridTransform(Index n, bool rows_follow = true)
      : shared_(n),
        down_(shared_.grid().rows),
        across_(shared_.grid().columns),
        turns_(n > Grid<T>::largest_table ? n : 1),
        rows_(shared_.grid().rows),
        columns_(shared_.grid().columns),
        groups_(divide_up(columns_, lanes)),
        bands_(divide_up(rows_, lanes)),
        pitch_((groups_ | 1) * width<T>),
        rows_follow_(rows_follow) {}

  // Numbers of scratch space that a transform on one thread takes: the grid, whole in both directions, and a line.
  Index room() const { return grid_room() + line_room(); }

  // out may be in.
  void operator()(const T* in, T* out, bool inverse, T factor, T* scratch) const {
    T* line = scratch + grid_room();
    for (Index group = 0; group < groups_; ++group) columns(in, group, inverse, scratch, line);
    for (Index band = 0; band < bands_; ++band) rows(scratch, band, inverse, factor, out, line);
  }

  // The same on all threads.
  void together(const T* in, T* out, bool inverse, T factor) const {
    const int threads = threads_for(double(rows_) * double(columns_));
    core::Scratch scratch;
    T* grid = scratch.array<T>(grid_room());
    core::parallel_for(groups_, threads, [&](Index group) {
      core::Scratch local;
      columns(in, group, inverse, grid, local.array<T>(line_room()));
    });
    core::parallel_for(bands_, threads, [&](Index band) {
      core::Scratch local;
      rows(grid, band, inverse, factor, out, local.array<T>(line_room()));
    });
  }

 private:
  static constexpr int lanes = simd::lanes<T>;

  Index grid_room() const { return bands_ * lanes * pitch_; }
  Index line_room() const {
    const Index down = rows_ + down_.plan().scratch, across = groups_ * lanes + across_.plan().scratch;
    return (down > across ? down : across) * width<T> + RowTwiddles<T>::size(columns_);
  }

  // With every step of a row, a share of the next row is asked for: of 2^20 numbers in L3, rows of 512 took 1.7 ms
  // without and 1.0 with it, on two threads of a Zen 3.
  template <bool ToWrite>
  void ask_for_share(const T* row, Index step, Index steps) const {
    if (!rows_follow_) return;
    const Index n = 2 * rows_ * columns_;
    for (Index i = n * step / steps, end = n * (step + 1) / steps; i < end; i += 64 / Index(sizeof(T)))
      ask_for<ToWrite>(row + n + i);
  }

  void columns(const T* in, Index group, bool inverse, T* grid, T* line) const {
    const int count = int(at_most(lanes, columns_ - group * lanes));
    ask_for_share<false>(in, group, groups_);
    load_columns<T>(in + 2 * group * lanes, 2 * columns_, rows_, count, Parts<T>(inverse), line);
    transform(down_.plan(), false, line, 1, grid + group * width<T>, pitch_ / width<T>, line + rows_ * width<T>);
  }

  void rows(const T* grid, Index band, bool inverse, T factor, T* out, T* line) const {
    const Index first = band * lanes, count = at_most(lanes, rows_ - first);
    ask_for_share<true>(out, band, bands_);
    const T* from = grid + first * pitch_;
    T* rest = line + groups_ * lanes * width<T>;
    if (rows_ * columns_ > Grid<T>::largest_table) {
      T* twiddles = rest + across_.plan().scratch * width<T>;
      RowTwiddles<T>::fill(turns_.turns(), 1, 0, first, count, columns_, twiddles);
      load_turned<T>(from, pitch_, columns_, line, RowTwiddles<T>{twiddles});
    } else {
      constexpr Index block = Grid<T>::block;
      const T* twiddles = shared_.grid().twiddles + 2 * block * columns_ * (first / block) + first % block;
      load_turned<T>(from, pitch_, columns_, line, TableTwiddles<T>{twiddles});
    }
    transform(across_.plan(), false, line, 1, line, 1, rest);
    store_columns<T>(out + 2 * first, 2 * rows_, columns_, int(count), Parts<T>(inverse), factor, line);
  }

  SharedGrid<T> shared_;
  SharedPlan<T> down_, across_;
  SharedTurns turns_;
  Index rows_, columns_, groups_, bands_, pitch_;  // of the grid; an odd pitch has no two rows in one cache set
  bool rows_follow_;
};

// The same for a large prime by Bluestein's algorithm (transform.hpp) over a grid. As a lane of 16 a row takes about as
// long in a batch, and by itself 16.6 us instead of 2.7 at 251.
template <class T>
class GridBluestein {
 public:
  explicit GridBluestein(const Plan<T>& plan) : plan_(plan), inner_(plan.inner->length, false) {}

  Index room() const { return 2 * plan_.inner->length + inner_.room(); }

  // out may be in.
  void operator()(const T* in, T* out, bool inverse, T factor, T* scratch) const {
    const Index n = plan_.length, m = plan_.inner->length;
    T* rest = scratch + 2 * m;
    over(n, [&](Index j, int count) {
      const Complex<T> x = load_interleaved(in + 2 * j, count), chirp = load_interleaved(plan_.chirp + 2 * j, count);
      store_interleaved(scratch + 2 * j, (inverse ? Complex<T>{x.im, x.re} : x) * chirp, count);
    });
    for (Index j = 2 * n; j < 2 * m; ++j) scratch[j] = 0;
    inner_(scratch, scratch, false, T(1), rest);
    over(m, [&](Index j, int count) {
      const Complex<T> response = load_interleaved(plan_.response + 2 * j, count);
      store_interleaved(scratch + 2 * j, load_interleaved(scratch + 2 * j, count) * response, count);
    });
    inner_(scratch, scratch, true, T(1), rest);
    over(n, [&](Index j, int count) {
      const Complex<T> chirp = scaled(load_interleaved(plan_.chirp + 2 * j, count), factor);
      const Complex<T> y = load_interleaved(scratch + 2 * j, count) * chirp;
      store_interleaved(out + 2 * j, inverse ? Complex<T>{y.im, y.re} : y, count);
    });
  }

 private:
  template <class Step>
  static FASTDL_INLINE void over(Index n, const Step& step) {
    constexpr int lanes = simd::lanes<T>;
    Index j = 0;
    for (; j + lanes <= n; j += lanes) step(j, lanes);
    if (j < n) step(j, int(n - j));
  }

  const Plan<T>& plan_;
  GridTransform<T> inner_;
};

}  // namespace
}  // namespace fastdl::fft
