// Rules of learning with all samples seeing the same weights, compiled once per instruction-set level: products of few
// rows with many samples, a part of which is in L2 or L3 for both of theirs.
//
//   for some thousand samples                                     phases of one parallel loop
//     activities y of all, 32 samples a task
//     for each piece of columns, a task: total += (lr y)' x
//     meanwhile, a task: squares += (lr y)' y
//   for each piece of columns, a task: total -= M(squares) w
//
// (Zen 3, AVX2, sanger, 64 units of 784 features, one thread: 74 of 103 GF/s; 6 ms where the engine, which packs the
// samples twice, took 7.)
#include "core/interrupt.hpp"
#include "core/scratch.hpp"
#include "core/threads.hpp"
#include "hebbian/coefficients.hpp"

namespace fastdl::hebbian::FASTDL_LEVEL {
namespace {

template <class T>
struct Together {
  Together(const Rule& rule_, const Matrix<const T>& w_, const Matrix<const T>& x_, Steps<T> lr_)
      : rule(rule_), w(w_), x(x_), lr(lr_), units(w_.rows), features(w_.cols), stride(round_up(units, step<T>)) {
    pieces = round_up(divide_up(features, piece_width<T>), 8);
    total = scratch.array<T>(units, round_up(features, 2 * step<T>));
    squares = scratch.array<T>(units, stride);
  }

  void compute() {
    const Index length = round_up(features, step<T>), row = Index(sizeof(T)) * at_least_1(features);
    const Index fit = (Index{8} << 20) / row / block * block, most = at_most(fit < block ? block : fit, x.rows);
    weights = scratch.array<T>(units, length);
    y = scratch.array<T>(most, stride);
    steps = scratch.array<T>(most, stride);
    for (Index i = 0; i < most * stride; ++i) y[i] = steps[i] = 0;
    for (Index i = 0; i < units; ++i) pack_piece(w, i, {0, length}, weights + i * length);
    for (Index i = 0; i < units * stride; ++i) squares[i] = 0;
    const Index chunks = divide_up(x.rows, at_least_1(most)), last = 2 * chunks;
    const Index tasks = divide_up(most, block) > pieces + 1 ? divide_up(most, block) : pieces + 1;
    const double work = double(x.rows) * double(units) * double(features);
    core::parallel_phases(last + 1, tasks, work < 1e5 ? 1 : core::thread_count(), [&](Index phase, Index task) {
      const Index first = phase / 2 * most, count = at_most(most, x.rows - first);
      if (phase == last) {
        if (task < pieces) forget(piece_of(task));
      } else if (phase % 2 == 0) {
        if (task * block < count) activate(first, task * block, at_most(block, count - task * block));
      } else if (task < pieces) {
        learn(piece_of(task), first, count);
      } else if (task == pieces) {
        square(count);
      }
    });
  }

  // function(row, columns, their totals) for all pieces of the result
  template <class Function>
  void each_row(const Function& function) const {
    for (Index p = 0; p < pieces; ++p) {
      const Columns piece = piece_of(p);
      for (Index i = 0; i < units; ++i)
        function(i, Columns{piece.first, at_most(piece.width, features - piece.first)},
                 total + units * piece.first + i * piece.width);
    }
  }

  // The first sample after which the sum so far is not finite; the last if it never was.
  Index first_bad() {
    T* so_far = scratch.array<T>(units, features);
    T* activity = scratch.array<T>(units);
    T* left = scratch.array<T>(features);
    const auto weight = [&](Index i, Index j) { return w.data[i * w.row_stride + j * w.col_stride]; };
    for (Index i = 0; i < units; ++i)
      for (Index j = 0; j < features; ++j) so_far[i * features + j] = weight(i, j);
    if (!all_numbers(Matrix<const T>{so_far, units, features, features, 1})) return bad_from_the_start;
    const bool alone = rule.kind == FASTDL_HEBBIAN_HEBB || rule.kind == FASTDL_HEBBIAN_NORMALIZED;
    for (Index t = 0; t < x.rows; ++t) {
      const T* sample = x.data + t * x.row_stride;
      for (Index i = 0; i < units; ++i) {
        core::check_interrupt(i, units * features);
        activity[i] = 0;
        for (Index j = 0; j < features; ++j) activity[i] += weight(i, j) * sample[j * x.col_stride];
      }
      for (Index i = 0; i < units; ++i) {
        const Index from = alone || rule.kind == FASTDL_HEBBIAN_OJA ? i : 0;
        const Index to = alone ? i : rule.kind == FASTDL_HEBBIAN_SUBSPACE ? units : i + 1;
        for (Index j = 0; j < features; ++j) left[j] = sample[j * x.col_stride];
        for (Index other_unit = from; other_unit < to; ++other_unit)
          for (Index j = 0; j < features; ++j) left[j] -= activity[other_unit] * weight(other_unit, j);
        for (Index j = 0; j < features; ++j) so_far[i * features + j] += lr[t] * activity[i] * left[j];
      }
      if (!all_numbers(Matrix<const T>{so_far, units, features, features, 1})) return t;
    }
    return x.rows - 1;
  }

 private:
  static constexpr Index block = 32;     // samples whose activities are a task
  static constexpr Index together = 96;  // samples of a piece, in L1
  static constexpr int dot_rows = 4, dot_samples = 3;

  static Index at_least_1(Index n) { return n < 1 ? 1 : n; }

  // Pieces are as wide as each other to within two vectors, and a multiple of eight: for as many threads.
  Columns piece_of(Index p) const {
    constexpr Index unit = 2 * step<T>;
    const Index all = divide_up(features, unit), first = p * all / pieces * unit;
    return {first, (p + 1) * all / pieces * unit - first};
  }

  // y and lr y of some samples of a chunk: dot products of rows as they lie. Nothing is packed, which a product of so
  // few rows would spend a quarter of its time on.
  void activate(Index chunk, Index first, Index count) {
    const Index length = round_up(features, step<T>);
    core::Scratch own;
    const T* samples = x.data + (chunk + first) * x.row_stride;
    Index apart = x.row_stride;
    if (x.col_stride != 1) {
      T* packed = own.array<T>(count, length);
      for (Index t = 0; t < count; ++t) pack_piece(x, chunk + first + t, {0, length}, packed + t * length);
      samples = packed;
      apart = length;
    }
    for (Index i = 0; i < units; i += dot_rows)
      for (Index t = 0; t < count; t += dot_samples) {
        const int rows = int(at_most(dot_rows, units - i)), columns = int(at_most(dot_samples, count - t));
        T sums[round_up(dot_rows * dot_samples, step<T>)];
        dots(weights + i * length, length, rows, samples + t * apart, apart, columns, sums);
        for (int c = 0; c < columns; ++c)
          for (int r = 0; r < rows; ++r) {
            const T activity = sums[c * dot_rows + r];
            y[(first + t + c) * stride + i + r] = activity;
            steps[(first + t + c) * stride + i + r] = lr[chunk + first + t + c] * activity;
          }
      }
  }

  // sums[c*dot_rows + r] = (row r of a).(row c of b). Missing rows are read again in place of others.
  void dots(const T* a, Index a_stride, int rows, const T* b, Index b_stride, int columns, T* sums) const {
    constexpr int results = int(round_up(dot_rows * dot_samples, step<T>));
    const T *of_a[dot_rows], *of_b[dot_samples];
    for (int r = 0; r < dot_rows; ++r) of_a[r] = a + (r < rows ? r : 0) * a_stride;
    for (int c = 0; c < dot_samples; ++c) of_b[c] = b + (c < columns ? c : 0) * b_stride;
    Vec<T> sum[results] = {};
    const auto add = [&](Index j, const auto& load) __attribute__((always_inline)) {
      Vec<T> left[dot_rows];
#pragma GCC unroll 4
      for (int r = 0; r < dot_rows; ++r) left[r] = simd::load(of_a[r] + j);
#pragma GCC unroll 3
      for (int c = 0; c < dot_samples; ++c) {
        const Vec<T> right = load(of_b[c] + j);
#pragma GCC unroll 4
        for (int r = 0; r < dot_rows; ++r) sum[c * dot_rows + r] = simd::fma(left[r], right, sum[c * dot_rows + r]);
      }
    };
    Index j = 0;
    for (; j + step<T> <= features; j += step<T>) add(j, [](const T* at) { return simd::load(at); });
    if (const int rest = int(features - j); rest > 0)
      add(j, [rest](const T* at) { return simd::load_first(at, rest); });
#pragma GCC unroll 16
    for (int r = 0; r < results; r += step<T>) {
      Vec<T> some[step<T>];
#pragma GCC unroll 16
      for (int i = 0; i < step<T>; ++i) some[i] = sum[r + i];
      simd::store(sums + r, simd::totals<T>(some));
    }
  }

  // total += steps x, of some columns
  void learn(Columns piece, Index chunk, Index count) {
    if (piece.width == 0) return;
    T* to = total + units * piece.first;
    if (chunk == 0)
      for (Index i = 0; i < units; ++i) pack_piece(w, i, piece, to + i * piece.width);
    alignas(64) T samples[together * (piece_width<T> + 2 * step<T>)];
    for (Index first = 0; first < count; first += together) {
      const Index here = at_most(together, count - first);
      for (Index t = 0; t < here; ++t) pack_piece(x, chunk + first + t, piece, samples + t * piece.width);
      // What is packed next: rows far apart, which nothing else foresees. (Without it packing took 14% of all.)
      for (Index t = first + here; t < at_most(count, first + here + together); ++t) fetch_piece(x, chunk + t, piece);
      combine<T>(
          {steps + first * stride, 1, stride, samples, piece.width, here, to, piece.width, nullptr, to, piece.width},
          units, piece.width);
    }
  }

  // squares += steps y'
  void square(Index count) {
    if (rule.kind == FASTDL_HEBBIAN_OJA) {
      for (Index t = 0; t < count; ++t)
        for (Index i = 0; i < units; ++i) squares[i * stride + i] += steps[t * stride + i] * y[t * stride + i];
    } else if (deflates(rule)) {
      for (Index first = 0; first < count; first += together)
        combine<T>({steps + first * stride, 1, stride, y + first * stride, stride, at_most(together, count - first),
                    squares, stride, nullptr, squares, stride},
                   units, stride);
    }
  }

  // total -= M(squares) w, of some columns
  void forget(Columns piece) {
    if (piece.width == 0) return;
    T* to = total + units * piece.first;
    if (x.rows == 0)
      for (Index i = 0; i < units; ++i) pack_piece(w, i, piece, to + i * piece.width);
    if (rule.kind != FASTDL_HEBBIAN_OJA && !deflates(rule)) return;
    core::Scratch own;
    T* of_piece = own.array<T>(units, piece.width);
    T* factors = own.array<T>(units, units);
    for (Index i = 0; i < units; ++i) {
      pack_piece(w, i, piece, of_piece + i * piece.width);
      for (Index j = 0; j < units; ++j) {
        const bool kept = rule.kind == FASTDL_HEBBIAN_OJA ? j == i : rule.kind == FASTDL_HEBBIAN_SUBSPACE || j <= i;
        factors[i * units + j] = kept ? -squares[i * stride + j] : T(0);
      }
    }
    combine<T>({factors, units, 1, of_piece, piece.width, units, to, piece.width, nullptr, to, piece.width}, units,
               piece.width);
  }

  const Rule& rule;
  Matrix<const T> w, x;
  Steps<T> lr;
  Index units, features, stride, pieces;
  core::Scratch scratch;
  T *total, *squares, *weights, *y, *steps;
};

template <class T>
void learn_together_of(const Rule& rule, const Matrix<const T>& w, const Matrix<const T>& x, Steps<T> lr,
                       const Matrix<T>& out, Index& diverged) {
  Together<T> work(rule, w, x, lr);
  work.compute();
  diverged = all_finite;
  core::Scratch scratch;
  double* largest = scratch.array<double>(w.rows);
  double* lengths = scratch.array<double>(w.rows);
  for (Index i = 0; i < w.rows; ++i) largest[i] = lengths[i] = 0;
  T not_finite = 0;
  work.each_row([&](Index i, Columns piece, const T* row) {
    for (Index j = 0; j < piece.width; ++j) {
      not_finite += row[j] * T(0);
      const double size = row[j] < 0 ? -double(row[j]) : double(row[j]);
      largest[i] = size > largest[i] ? size : largest[i];
    }
  });
  if (x.rows > 0 && not_finite != T(0)) {
    diverged = work.first_bad();
    return;
  }
  const bool normalizes = rule.kind == FASTDL_HEBBIAN_NORMALIZED && x.rows > 0;
  // Of rows divided by their largest: squares of others may be beyond the type.
  if (normalizes)
    work.each_row([&](Index i, Columns piece, const T* row) {
      for (Index j = 0; j < piece.width && largest[i] > 0; ++j)
        lengths[i] += double(row[j]) / largest[i] * (double(row[j]) / largest[i]);
    });
  work.each_row([&](Index i, Columns piece, const T* row) {
    const bool divides = normalizes && largest[i] > 0;
    const double length = __builtin_sqrt(lengths[i]);
    T* to = out.data + i * out.row_stride + piece.first * out.col_stride;
    for (Index j = 0; j < piece.width; ++j)
      to[j * out.col_stride] = divides ? T(double(row[j]) / largest[i] / length) : row[j];
  });
}

}  // namespace

#define FASTDL_BODIES_OF(T)                                                                              \
  void learn_together(const Rule& rule, const Matrix<const T>& w, const Matrix<const T>& x, Steps<T> lr, \
                      const Matrix<T>& out, std::int64_t& diverged) {                                    \
    learn_together_of<T>(rule, w, x, lr, out, diverged);                                                 \
  }
FASTDL_BODIES_OF(float)
FASTDL_BODIES_OF(double)

}  // namespace fastdl::hebbian::FASTDL_LEVEL
