// Exact sequential updates by blocks of samples, at the speed of matrix products.
//
// Of a block B of samples and the weights W before it, all that the samples do to each other is in P = W B' and
// G = B B'. A sample t needs only its own column of the fields Q = W B', and changes the later ones as it changes the
// weights, with G[t] in place of x. So the activities y of the whole block follow from two small matrices in L1, and
// then the weights take all samples at once:
//
//   for each block                                            a phase of one parallel loop, the only barrier
//     for each worker, a task
//       sum the parts of P and G of the block before, in the order of the strips; then its activities, a sample after
//       the other: all workers do the same, each for itself
//       for each strip of columns that is the worker's
//         the block's samples are packed, and the strip's part of G is made
//         the weights take the block before, and the strip's part of P is made
//
// That every worker settles the activities costs less than to wait for one of them and to hand over what it found (with
// the block's samples, which another had packed, 25 of 83 us a block, on two cores of Emerald Rapids).
//
// How a strip of weights takes a block:
//   rules by units   W = scale W + C B, a product
//   sanger           by deflation (strips.hpp), four samples at a time: as many operations as two products, in L1
//   subspace         E = B - Y' W and W += C E, two products; C is Y times the inverse of a triangle
//
// Per sample and column that is 4k + b multiplications and additions by units, 6k + b for sanger and subspace. Nothing
// depends on the number of threads: strips are fixed, and so is the order of their sums. Few units have short blocks,
// whose parts of G and P are made at the end of a strip (dots.hpp).
#pragma once

#include "core/interrupt.hpp"
#include "core/threads.hpp"
#include "hebbian/dots.hpp"
#include "hebbian/settle.hpp"

namespace fastdl::hebbian {
namespace {

// Samples that a strip is deflated by together, and vectors of them: as wide as a tile. (Zen 3, AVX2, 64 units, of a
// peak of 103 GF/s: 91 with 4 x 2, 94 with 3 x 3, 88 with 3 x 2, 70 with 2 x 4, 54 with 1 x 4. Emerald Rapids, AVX-512,
// of 180: 180 with 4 x 4, 145 with 4 x 2.)
inline constexpr int together = 4;
template <class T>
inline constexpr int abreast = tile_vectors<T>;

// Products with other samples cost b operations per sample and column; what is done once a block, 1/b. (Zen 3, 64
// units: 3.0 us a sample with 16 and 32, 3.4 with 64. Emerald Rapids: 64 units 1.40 us with 32 on two threads, 1.49
// with 16.) Few units have short blocks, whose products have their lanes along the columns (dots.hpp): 16 units of 3072
// features take 1.60 us on one thread of Zen 5 and 0.91 on two, with blocks of 32 and lanes along the samples 2.01 and
// 1.14; blocks of 8 and of 16 take 1 to 5% more.
inline constexpr Index short_block = 12, few_units = 32;
inline bool has_short_blocks(Index units) { return units < few_units; }
inline Index block_for(Index units, Index samples) {
  return at_most(has_short_blocks(units) ? short_block : longest_block, samples);
}

thread_local char here;  // its address tells threads apart

template <class T>
class Blocks {
 public:
  Blocks(const Rule& rule, const Matrix<const T>& w, const Matrix<const T>& x, Steps<T> lr, T* theta)
      : rule_(rule),
        w_(w),
        x_(x),
        lr_(lr),
        theta_(theta),
        strips_(w.cols, has_short_blocks(w.rows) ? 24 : 12),
        units_(w.rows),
        block_(block_for(w.rows, x.rows)),
        room_(round_up(block_, dot_samples)),
        workers_(workers()) {
    const Index padded = round_up(units_, step<T>), pieces = strips_.pieces();
    weights_ = scratch_.array<T>(pieces, units_, pitch);
    for (T*& samples : samples_) samples = scratch_.array<T>(pieces, room_, pitch);
    turned_ = scratch_.array<T>(workers_, pitch, stride);
    for (T*& fields : fields_) fields = products(units_);
    for (T*& grams : grams_) grams = products(room_);
    for (T*& lengths : lengths_) lengths = scratch_.array<T>(strips_.count, padded);
    settled_ = scratch_.array<Settled<T>>(workers_);
    claims_ = scratch_.array<Claim>(workers_);
    for (Index worker = 0; worker < workers_; ++worker) {
      settled_[worker] = Settled<T>(scratch_, units_, block_, theta_);
      claims_[worker] = {-1, nullptr, true};
    }
  }

  void run() {
    const Index blocks = divide_up(x_.rows, block_);
    core::parallel_phases(blocks + 1, workers_, int(workers_), [&](Index block, Index) {
      const Index worker = claim(block);
      Settled<T>& settled = settled_[worker];
      if (block > 0) {
        gather(block - 1, settled);
        settled.settle(rule_, lr_, (block - 1) * block_, samples_of(block - 1));
      }
      const Index begin = worker * strips_.count / workers_, end = (worker + 1) * strips_.count / workers_;
      if (block == 0)
        strips_.each_piece(begin, end, [&](Columns piece, Index number) {
          for (Index i = 0; i < units_; ++i) pack_piece(w_, i, piece, weights_of(number) + i * pitch);
        });
      for (Index s = begin; s < end; ++s) {
        core::check_interrupt();
        work_on(s, block, blocks, settled, turned_ + worker * pitch * stride);
      }
      if (block == blocks) claims_[worker].finite = are_numbers(begin, end);
    });
    for (Index i = 0; i < units_ && theta_; ++i) theta_[i] = settled_[0].theta[i];
  }

  // Whether all weights are numbers.
  bool finite() const {
    bool all = true;
    for (Index worker = 0; worker < workers_; ++worker) all &= claims_[worker].finite;
    return all;
  }

  // By one thread, and not as a task: a call that is stopped leaves weights that it learns in place as they were, and
  // the pool asks before every task whether it is.
  void write(const Matrix<T>& out) {
    if (rule_.kind == FASTDL_HEBBIAN_NORMALIZED) normalize();
    strips_.each_piece(0, strips_.count, [&](Columns piece, Index number) {
      const Columns there{piece.first, at_most(piece.width, out.cols - piece.first)};
      for (Index i = 0; i < units_; ++i) unpack_row(weights_of(number) + i * pitch, there, out, i);
    });
  }

 private:
  static constexpr Known<piece_width<T>> pitch{};  // of the rows of a piece, of weights or of samples

  // Room for the strips' parts of products. Short blocks leave places unwritten that are read with their neighbours.
  T* products(Index rows) {
    T* array = scratch_.array<T>(strips_.count, rows, stride);
    for (Index i = 0; has_short_blocks(units_) && i < strips_.count * rows * stride; ++i) array[i] = 0;
    return array;
  }

  struct Claim {
    Index block;
    const char* owner;
    bool finite;
  };

  bool are_numbers(Index begin, Index end) const {
    Vec<T> sum{};
    strips_.each_piece(begin, end, [&](Columns piece, Index number) {
      for (Index i = 0; i < units_; ++i)
        for (Index j = 0; j < piece.width; j += step<T>) sum += simd::load(weights_of(number) + i * pitch + j) * T(0);
    });
    return !simd::any(sum != sum);
  }

  // What all threads wait for takes a microsecond or some a block: one of 7 us is left to one thread.
  Index workers() const {
    const double work = double(block_) * double(x_.cols) * double(6 * units_ + block_);
    return work < 1.2e6 ? 1 : at_most(strips_.count, core::thread_count());
  }

  // A worker's part for the calling thread: if it can be the one that it had before, which is in its caches.
  Index claim(Index block) {
    const auto take_it = [&](Index w) {
      return __atomic_exchange_n(&claims_[w].block, block, __ATOMIC_ACQ_REL) != block;
    };
    const auto is_free = [&](Index w) { return __atomic_load_n(&claims_[w].block, __ATOMIC_ACQUIRE) != block; };
    const auto owner = [&](Index w) { return __atomic_load_n(&claims_[w].owner, __ATOMIC_RELAXED); };
    for (Index w = 0; w < workers_; ++w)
      if (owner(w) == &here && is_free(w) && take_it(w)) return w;
    for (Index w = 0;; w = w + 1 < workers_ ? w + 1 : 0)
      if (is_free(w) && take_it(w)) {
        __atomic_store_n(&claims_[w].owner, &here, __ATOMIC_RELAXED);
        return w;
      }
  }

  Index samples_of(Index block) const { return at_most(block_, x_.rows - block * block_); }
  T* weights_of(Index piece) const { return weights_ + piece * units_ * pitch; }
  T* samples_in(Index piece, Index block) const { return samples_[block % 2] + piece * room_ * pitch; }

  // out += (rows of a piece) B', or begins with it: columns of samples from `first` on.
  static void multiply(Index width, const T* rows, Index count, const T* turned, Index first, Index samples, T* out,
                       bool begins) {
    combine<T>(
        Combination<T, Known<pitch>, Known<1>, Known<stride>, Known<stride>>{
            rows, {}, {}, turned + first, {}, width, begins ? nullptr : out + first, nullptr, out + first, {}},
        count, round_up(samples - first, step<T>));
  }

  // The same of the samples themselves: what lies on and above the diagonal, by vectors.
  static void multiply_samples(Index width, const T* samples, const T* turned, Index count, T* out, bool begins) {
    for (Index t = 0; t < count; t += step<T>)
      multiply(width, samples + t * pitch, at_most(step<T>, count - t), turned, t, count, out + t * stride, begins);
  }

  // The strip's parts of G and P at once, of a short block.
  void multiply_strip(Index s, Index block, Index count, T* gram, T* fields) const {
    const Index first = s * strips_.most_pieces(), width = strips_.border(s + 1) - strips_.border(s);
    const PieceRows<T> samples{samples_in(first, block), room_ * pitch};
    dots<T>({weights_of(first), units_ * pitch}, units_, samples, 0, count, pitch, width, fields, stride);
    for (Index t = 0; t < count; t += dot_samples)
      dots<T>({samples.first + t * pitch, samples.apart}, at_most(dot_samples, count - t), samples, t, count, pitch,
              width, gram + t * stride, stride);
  }

  // A strip, a piece after the other: the samples of a block are packed and turned, the weights take the block before,
  // and the strip's parts of G and P are made.
  void work_on(Index s, Index block, Index blocks, const Settled<T>& settled, T* turned) {
    const Index count = block < blocks ? samples_of(block) : 0;
    T* gram = grams_[block % 2] + s * room_ * stride;
    T* fields = fields_[block % 2] + s * units_ * stride;
    bool begins = true;
    strips_.each_piece(s, s + 1, [&](Columns piece, Index number) {
      T *samples = samples_in(number, block), *weights = weights_of(number);
      for (Index t = 0; t < count; ++t) pack_piece(x_, block * block_ + t, piece, samples + t * pitch);
      for (Index i = count * pitch; has_short_blocks(units_) && i < round_up(count, dot_samples) * pitch; ++i)
        samples[i] = 0;
      fetch(piece, block + 1);
      if (block > 0) take(piece.width, weights, samples_in(number, block - 1), samples_of(block - 1), settled);
      if (count == 0 || has_short_blocks(units_)) return;
      gemm::Strided<T>{samples, pitch, 1}.pack_columns(0, int(count), 0, piece.width, int(stride), turned);
      multiply_samples(piece.width, samples, turned, count, gram, begins);
      multiply(piece.width, weights, units_, turned, 0, count, fields, begins);
      begins = false;
    });
    if (count > 0 && has_short_blocks(units_)) multiply_strip(s, block, count, gram, fields);
    if (rule_.kind == FASTDL_HEBBIAN_NORMALIZED) measure(s, lengths_[block % 2]);
  }

  // Asks for the samples of a block, which lie far apart, long before they are packed.
  void fetch(Columns piece, Index block) const {
    for (Index t = block * block_; t < at_most((block + 1) * block_, x_.rows); ++t) fetch_piece(x_, t, piece);
  }

  // The strip's part of the squared length of every unit.
  void measure(Index s, T* of_strips) {
    T* lengths = of_strips + s * round_up(units_, step<T>);
    for (Index i = 0; i < units_; ++i) lengths[i] = 0;
    strips_.each_piece(s, s + 1, [&](Columns piece, Index number) {
      for (Index i = 0; i < units_; ++i) {
        const T* row = weights_of(number) + i * pitch;
        Vec<T> sum{};
        for (Index j = 0; j < piece.width; j += step<T>) sum = simd::fma(simd::load(row + j), simd::load(row + j), sum);
        for (int l = 0; l < step<T>; ++l) lengths[i] += sum[l];
      }
    });
  }

  // The sum of the parts of a row, from column `first` on, in the order of the strips.
  void sum_parts(const T* parts, Index size, Index first, Index columns, T* to) const {
    for (Index j = first; j < columns; j += step<T>) {
      Vec<T> sum = simd::load(parts + j);
      for (Index s = 1; s < strips_.count; ++s) sum += simd::load(parts + s * size + j);
      simd::store(to + j, sum);
    }
  }

  // What strips leave of a block is kept until the next is done: others may still be at work on that.
  void gather(Index block, Settled<T>& settled) const {
    const Index count = samples_of(block), columns = round_up(count, step<T>);
    for (Index i = 0; i < units_; ++i)
      sum_parts(fields_[block % 2] + i * stride, units_ * stride, 0, columns, settled.fields + i * stride);
    for (Index t = 0; t < count; ++t)
      sum_parts(grams_[block % 2] + t * stride, room_ * stride, t / step<T> * step<T>, columns,
                settled.grams + t * stride);
    if (rule_.kind != FASTDL_HEBBIAN_NORMALIZED) return;
    for (Index i = 0; i < units_; ++i) {
      settled.squares[i] = 0;
      for (Index s = 0; s < strips_.count; ++s)
        settled.squares[i] += lengths_[block % 2][s * round_up(units_, step<T>) + i];
    }
  }

  // A piece of the weights takes a block that has settled.
  void take(Index width, T* weights, const T* samples, Index count, const Settled<T>& settled) {
    if (rule_.kind == FASTDL_HEBBIAN_SANGER) {
      deflate(width, weights, samples, count, settled);
    } else if (rule_.kind == FASTDL_HEBBIAN_SUBSPACE) {
      alignas(64) T left[longest_block * pitch];
      combine<T>(
          Combination<T, Known<1>, Known<stride>, Known<pitch>, Known<pitch>>{
              settled.first, {}, {}, weights, {}, units_, samples, nullptr, left, {}},
          count, width);
      combine<T>(
          Combination<T, Known<stride>, Known<1>, Known<pitch>, Known<pitch>>{
              settled.second, {}, {}, left, {}, count, weights, nullptr, weights, {}},
          units_, width);
    } else {
      combine<T>(
          Combination<T, Known<stride>, Known<1>, Known<pitch>, Known<pitch>>{
              settled.second, {}, {}, samples, {}, count, weights, settled.scale, weights, {}},
          units_, width);
    }
  }

  template <int Vectors = abreast<T>>
  void deflate(Index width, T* weights, const T* samples, Index count, const Settled<T>& settled, Index first = 0) {
    Index j = first;
    for (; j + Vectors * step<T> <= width; j += Vectors * step<T>) {
      Index t = 0;
      for (; t + together <= count; t += together)
        deflate_tile<T, together, Vectors>(samples + t * pitch + j, pitch, weights + j, pitch, units_,
                                           settled.first + t, settled.second + t, stride);
      for (; t < count; ++t)
        deflate_tile<T, 1, Vectors>(samples + t * pitch + j, pitch, weights + j, pitch, units_, settled.first + t,
                                    settled.second + t, stride);
    }
    if constexpr (Vectors > 1)
      if (j < width) deflate<Vectors / 2>(width, weights, samples, count, settled, j);
  }

  void normalize() {
    for (Index s = 0; s < strips_.count; ++s) measure(s, lengths_[0]);
    for (Index i = 0; i < units_; ++i) {
      T length = 0;
      for (Index s = 0; s < strips_.count; ++s) length += lengths_[0][s * round_up(units_, step<T>) + i];
      if (!(length > 0)) continue;
      const T root = T(__builtin_sqrt(double(length)));
      strips_.each_piece([&](Columns piece, Index number) {
        for (Index j = 0; j < piece.width; ++j) weights_of(number)[i * pitch + j] /= root;
      });
    }
  }

  Rule rule_;
  Matrix<const T> w_, x_;
  Steps<T> lr_;
  T* theta_;
  Strips<T> strips_;
  Index units_, block_, room_, workers_;  // room for the samples of a block, in whole tiles
  core::Scratch scratch_;
  T *weights_, *samples_[2], *turned_, *fields_[2], *grams_[2], *lengths_[2];
  Settled<T>* settled_;
  Claim* claims_;
};

}  // namespace
}  // namespace fastdl::hebbian
