// Rules of learning with all samples seeing the same weights, compiled once per instruction-set level: products of few
// rows with many samples.
//
// Up to 8 parts of the samples are tasks, each with sums of its own:
//   for 64 samples, which stay in L2
//     activities y of 32 at a time: their columns are turned, a piece at a time, into L1
//     total += (lr y)' x, with x as it lies, and squares += (lr y)' y
// and then pieces of columns: the parts are added in their order, less M(squares) w.
//
// Where sums of several parts would be too large, there are some thousand samples at a time instead, in phases: the
// activities of 32 of them are a task, and then every piece of columns.
//
// (Emerald Rapids, AVX-512, sanger, 64 units of 784 features, 2000 samples, one thread: 135 of 180 GF/s. Both products
// go at 165 to 185; turning takes 11%, adding up parts 4%. With samples from L3 for both products it is as much, but
// 5% less on two threads.)
#include "core/interrupt.hpp"
#include "core/scratch.hpp"
#include "core/threads.hpp"
#include "hebbian/coefficients.hpp"

namespace fastdl::hebbian::FASTDL_LEVEL {
namespace {

template <class T>
struct Together {
  Together(const Rule& rule_, const Matrix<const T>& w_, const Matrix<const T>& x_, Steps<T> lr_)
      : rule(rule_), w(w_), x(x_), lr(lr_), units(w_.rows), features(w_.cols), padded(round_up(units, step<T>)) {
    whole = x.col_stride == 1 ? features / step<T> * step<T> : 0;
    pieces = divide_up(whole, pitch) + divide_up(features - whole, pitch);
    // By the sizes alone, as the order of sums follows from it.
    of_squares = deflates(rule) ? units * padded : rule.kind == FASTDL_HEBBIAN_OJA ? padded : 0;
    const Index size = at_least_1((pieces * units * pitch + of_squares) * Index(sizeof(T)));
    const Index fit = at_most(most_parts, (Index{32} << 20) / size);
    length = round_up(divide_up(x.rows, at_least_1(fit)), together);
    if (length < shortest_part) length = shortest_part;
    parts = fit < 2 ? 1 : at_least_1(divide_up(x.rows, at_least_1(length)));
    total = scratch.array<T>(parts * pieces, units, pitch);
    squares = scratch.array<T>(parts, of_squares);
    for (Index i = 0; i < parts * of_squares; ++i) squares[i] = 0;
    factors = deflates(rule) ? scratch.array<T>(units, units) : nullptr;
    weights = scratch.array<T>(pieces, units, pitch);
    for (Index p = 0; p < pieces; ++p)
      for (Index i = 0; i < units; ++i) pack_piece(w, i, piece_of(p), weights + (p * units + i) * pitch);
  }

  void compute() {
    const double work = double(x.rows) * double(units) * double(features);
    const int threads = work < 1e5 ? 1 : core::thread_count();
    if (parts > 1 || x.rows <= together)
      core::parallel_for(parts, threads, [&](Index part) { learn_part(part); });
    else
      learn_in_phases(threads);
    if (factors) core::parallel_for(divide_up(units, block), threads, [&](Index i) { add_up_factors(i * block); });
    core::parallel_for(pieces, threads, [&](Index p) { finish(p); });
  }

  // function(row, columns, their totals) for all pieces of the result
  template <class Function>
  void each_row(const Function& function) const {
    for (Index p = 0; p < pieces; ++p) {
      const Columns piece = piece_of(p);
      for (Index i = 0; i < units; ++i)
        function(i, Columns{piece.first, at_most(piece.width, features - piece.first)}, total_of(0, p) + i * pitch);
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
  static constexpr Index most_parts = 8, shortest_part = 512;  // to add up 8 parts of 250 samples took 7% of all
  static constexpr Index block = 32;                           // samples whose activities are found together
  static constexpr Index together = 64;                        // samples that are learnt together
  static constexpr Index panel = tile_rows<T>;
  static constexpr Known<piece_width<T>> pitch{};
  static constexpr Known<block> stride{};

  // Activities of some samples: y has a row for each of them, steps are lr y in panels of units.
  struct Active {
    Index first, most;
    T *y, *steps;

    Active(core::Scratch& own, const Together& t, Index samples) __attribute__((always_inline))
        : first(0),
          most(samples),
          y(own.array<T>(samples, t.padded)),
          steps(own.array<T>(round_up(t.units, panel), samples)) {}

    // Of a panel of units, from sample t on.
    T* steps_of(Index unit, Index t) const { return steps + unit * most + t * panel; }
  };

  static Index at_least_1(Index n) { return n < 1 ? 1 : n; }

  T* total_of(Index part, Index p) const { return total + (part * pieces + p) * units * pitch; }
  // (units, padded), or for Oja's rule only the diagonal
  T* squares_of(Index part) const { return squares + part * of_squares; }

  // First those of whole vectors that can be read as they lie, then the others.
  Columns piece_of(Index p) const {
    const Index first = p * pitch, of_whole = divide_up(whole, pitch);
    if (p < of_whole) return {first, at_most(pitch, whole - first)};
    const Index other = whole + (p - of_whole) * pitch;
    return {other, round_up(at_most(pitch, features - other), step<T>)};
  }

  void learn_part(Index part) {
    const Index end = at_most(x.rows, (part + 1) * length);
    core::Scratch own;
    Active active(own, *this, together);
    for (Index p = 0; p < pieces; ++p) begin_total(part, p);
    for (Index first = part * length; first < end; first += together) {
      core::check_interrupt();
      active.first = first;
      const Index count = at_most(together, end - first);
      for (Index t = 0; t < count; t += block) activate(active, t, at_most(block, count - t));
      for (Index p = 0; p < pieces; ++p) learn(part, p, active, 0, count);
      square(part, active, 0, count);
    }
  }

  void learn_in_phases(int threads) {
    const Index longest = features < 2 * padded ? 2 * padded : features;  // of a sample, or of y and lr y
    const Index fit = (Index{8} << 20) / (Index(sizeof(T)) * at_least_1(longest)) / block * block;
    Active active(scratch, *this, at_most(fit < block ? block : fit, round_up(x.rows, block)));
    const Index most = active.most, chunks = divide_up(x.rows, most);
    const Index blocks = divide_up(most, block), tasks = blocks > pieces + 1 ? blocks : pieces + 1;
    core::parallel_phases(2 * chunks, tasks, threads, [&](Index phase, Index task) {
      Active here = active;
      here.first = phase / 2 * most;
      const Index count = at_most(most, x.rows - here.first);
      if (phase % 2 == 0) {
        if (task * block < count) activate(here, task * block, at_most(block, count - task * block));
        return;
      }
      if (task > pieces) return;
      if (phase == 1 && task > 0) begin_total(0, task - 1);
      for (Index t = 0; t < count; t += together) {
        const Index some = at_most(together, count - t);
        if (task == 0)
          square(0, here, t, some);
        else
          learn(0, task - 1, here, t, some);
      }
    });
  }

  // y and lr y of samples from t on.
  void activate(const Active& active, Index t, Index count) {
    const Index sample = active.first + t;
    core::Scratch own;
    T* turned = own.array<T>(pitch, stride);
    T* copies = own.array<T>(block, pitch);
    T* fields = own.array<T>(units, stride);
    for (Index p = 0; p < pieces; ++p) {
      const Columns piece = piece_of(p);
      fetch(sample + together + p * block / pieces, sample + together + (p + 1) * block / pieces);
      gemm::Strided<T> rows{x.data + sample * x.row_stride + piece.first, x.row_stride, 1};
      if (piece.first >= whole) {
        for (Index i = 0; i < count; ++i) pack_piece(x, sample + i, piece, copies + i * pitch);
        rows = {copies, pitch, 1};
      }
      rows.pack_columns(0, int(count), 0, piece.width, int(stride), turned);
      combine<T>(Combination<T, Known<pitch>, Known<1>, Known<stride>, Known<stride>>{weights + p * units * pitch,
                                                                                      {},
                                                                                      {},
                                                                                      turned,
                                                                                      {},
                                                                                      piece.width,
                                                                                      p == 0 ? nullptr : fields,
                                                                                      nullptr,
                                                                                      fields,
                                                                                      {}},
                 units, round_up(count, step<T>));
    }
    if (pieces == 0)
      for (Index i = 0; i < units * stride; ++i) fields[i] = 0;
    const gemm::Strided<T> found{fields, stride, 1};
    found.pack_columns(0, int(units), 0, count, int(padded), active.y + t * padded);
    alignas(64) T rates[stride] = {};
    for (Index j = 0; j < count; ++j) rates[j] = lr[sample + j];
    for (Index i = 0; i < units; ++i)
      for (Index j = 0; j < stride; j += step<T>)
        simd::store(fields + i * stride + j, simd::load(fields + i * stride + j) * simd::load(rates + j));
    for (Index i = 0; i < units; i += panel)
      found.pack_rows(i, int(at_most(panel, units - i)), 0, count, active.steps_of(i, t));
  }

  // Asks for samples: whole rows, as the processor's own prefetchers like them.
  void fetch(Index first, Index end) const {
    for (Index t = first; t < at_most(end, x.rows); ++t) fetch_piece(x, t, {0, features});
  }

  // out += steps of samples from t on, times what lies in rows that are `apart`, for all units.
  template <class OutStride>
  void add(const Active& active, Index t, Index count, const T* source, Index apart, Index width, T* out,
           OutStride out_stride) const {
    for (Index i = 0; i < units; i += panel) {
      T* to = out + i * out_stride;
      combine<T>(
          Combination<T, Known<1>, Known<panel>, Index, OutStride>{
              active.steps_of(i, t), {}, {}, source, apart, count, to, nullptr, to, out_stride},
          at_most(panel, units - i), width);
    }
  }

  // The first part begins with the weights, others with nothing.
  void begin_total(Index part, Index p) {
    T* to = total_of(part, p);
    for (Index i = 0; i < units * pitch; ++i) to[i] = part == 0 ? weights[p * units * pitch + i] : T(0);
  }

  // total += steps x, of some columns
  void learn(Index part, Index p, const Active& active, Index t, Index count) {
    const Columns piece = piece_of(p);
    const Index sample = active.first + t;
    alignas(64) T copies[together * pitch];
    if (piece.first < whole)
      return add(active, t, count, x.data + sample * x.row_stride + piece.first, x.row_stride, piece.width,
                 total_of(part, p), pitch);
    for (Index i = 0; i < count; ++i) pack_piece(x, sample + i, piece, copies + i * pitch);
    add(active, t, count, copies, pitch, piece.width, total_of(part, p), pitch);
  }

  // squares += steps y'
  void square(Index part, const Active& active, Index t, Index count) {
    const T* y = active.y + t * padded;
    T* to = squares_of(part);
    if (deflates(rule)) return add(active, t, count, y, padded, padded, to, padded);
    if (rule.kind != FASTDL_HEBBIAN_OJA) return;
    for (Index i = 0; i < units; ++i) {
      const T* steps = active.steps_of(i / panel * panel, t) + i % panel;
      for (Index j = 0; j < count; ++j) to[i] += steps[j * panel] * y[j * padded + i];
    }
  }

  // The sum of all parts, less M(squares) w, of some columns
  void finish(Index p) {
    T* to = total_of(0, p);
    if (x.rows == 0) return begin_total(0, p);
    for (Index part = 1; part < parts; ++part)
      for (Index i = 0; i < units * pitch; i += step<T>)
        simd::store(to + i, simd::load(to + i) + simd::load(total_of(part, p) + i));
    const T* w_there = weights + p * units * pitch;
    if (rule.kind == FASTDL_HEBBIAN_OJA)
      for (Index i = 0; i < units; ++i) {
        T sum = 0;
        for (Index part = 0; part < parts; ++part) sum -= squares_of(part)[i];
        for (Index j = i * pitch, end = i * pitch + piece_of(p).width; j < end; j += step<T>)
          simd::store(to + j, simd::fma(simd::load(w_there + j), simd::broadcast(sum), simd::load(to + j)));
      }
    if (!factors) return;
    combine<T>(
        Combination<T, Index, Known<1>, Known<pitch>, Known<pitch>>{
            factors, units, {}, w_there, {}, units, to, nullptr, to, {}},
        units, piece_of(p).width);
  }

  // -M(squares), some rows from the first on.
  void add_up_factors(Index first) {
    for (Index i = first; i < at_most(first + block, units); ++i)
      for (Index j = 0; j < units; ++j) {
        const bool kept = rule.kind == FASTDL_HEBBIAN_SUBSPACE || j <= i;
        T sum = 0;
        for (Index part = 0; part < parts && kept; ++part) sum -= squares_of(part)[i * padded + j];
        factors[i * units + j] = sum;
      }
  }

  const Rule& rule;
  Matrix<const T> w, x;
  Steps<T> lr;
  Index units, features, padded;
  Index whole, pieces;  // columns that are read as they lie, and pieces of all
  Index parts, length;  // of samples
  Index of_squares;     // numbers of a part's squares
  core::Scratch scratch;
  T *total, *squares, *factors, *weights;
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
  work.each_row([&](Index, Columns piece, const T* row) {
    Vec<T> sum{};
    for (Index j = 0; j < piece.width; j += step<T>)
      sum += simd::load_first(row + j, int(at_most(step<T>, piece.width - j))) * T(0);
    for (int l = 0; l < step<T>; ++l) not_finite += sum[l];
  });
  if (x.rows > 0 && not_finite != T(0)) {
    diverged = work.first_bad();
    return;
  }
  if (rule.kind != FASTDL_HEBBIAN_NORMALIZED || x.rows == 0) {
    work.each_row([&](Index i, Columns piece, const T* row) { unpack_row(row, piece, out, i); });
    return;
  }
  // Of rows divided by their largest: squares of others may be beyond the type.
  work.each_row([&](Index i, Columns piece, const T* row) {
    for (Index j = 0; j < piece.width; ++j) {
      const double size = row[j] < 0 ? -double(row[j]) : double(row[j]);
      largest[i] = size > largest[i] ? size : largest[i];
    }
  });
  work.each_row([&](Index i, Columns piece, const T* row) {
    for (Index j = 0; j < piece.width && largest[i] > 0; ++j)
      lengths[i] += double(row[j]) / largest[i] * (double(row[j]) / largest[i]);
  });
  work.each_row([&](Index i, Columns piece, const T* row) {
    const double length = __builtin_sqrt(lengths[i]);
    T* to = out.data + i * out.row_stride + piece.first * out.col_stride;
    for (Index j = 0; j < piece.width; ++j)
      to[j * out.col_stride] = largest[i] > 0 ? T(double(row[j]) / largest[i] / length) : row[j];
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
