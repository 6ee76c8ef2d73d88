// Exact sequential updates by blocks of samples, at the speed of matrix products.
//
// Of a block B of samples and the weights W before it, all that the samples do to each other is in P = W B' and
// G = B B'. A sample t needs only its own column of the fields Q = W B', and changes the later ones as it changes the
// weights, with G[t] in place of x. So the activities y of the whole block follow from two small matrices in L1, and
// then the weights take all samples at once:
//
//   for each block                                            phases of one parallel loop
//     for each strip of columns                               a task, on any thread
//       the weights take the block before, and their part of P is made
//     sum the parts, in the order of the strips; then the activities, a sample after the other    one task
//     meanwhile, for each strip, the part of G of the next block
//     (subspace: the rows of C)                               a task each
//
// How a strip of weights takes a block:
//   rules by units   W = scale W + C B, a product
//   sanger           by deflation (strips.hpp), four samples at a time: as many operations as two products, in L1
//   subspace         E = B - Y' W and W += C E, two products; C is Y times the inverse of a triangle
//
// Per sample and column that is 4k + b multiplications and additions by units, 6k + b for sanger and subspace. Nothing
// depends on the number of threads: strips are fixed, and so is the order of their sums.
#pragma once

#include "core/scratch.hpp"
#include "core/threads.hpp"
#include "gemm/tile.hpp"
#include "hebbian/coefficients.hpp"

namespace fastdl::hebbian {
namespace {

// Samples that a strip is deflated by together, and vectors of them. (Zen 3, AVX2, 64 units, of a peak of 103 GF/s: 91
// with 4 x 2, 94 with 3 x 3, 88 with 3 x 2, 70 with 2 x 4, 54 with 1 x 4.)
inline constexpr int together = 4, abreast = 2;

// Products with other samples cost b operations per sample and column; what is done once a block, 1/b. (Zen 3, 64
// units: 3.0 us a sample with 16 and 32, 3.4 with 64; 16 units of 3072 features: 4.0, 4.3 and 5.0 us.)
inline constexpr Index longest_block = 32;
template <class T>
Index block_for(Index units, Index samples) {
  const Index fit = units < 32 && 2 * step<T> <= 16 ? 16 : longest_block;
  return at_most(fit, samples);
}

thread_local char here;  // its address tells threads apart

template <class T>
class Blocks {
 public:
  Blocks(const Rule& rule, const Matrix<const T>& w, const Matrix<const T>& x, Steps<T> lr, T* theta)
      : rule_(rule),
        x_(x),
        lr_(lr),
        theta_(theta),
        strips_(w.cols),
        units_(w.rows),
        block_(block_for<T>(w.rows, x.rows)),
        stride_(round_up(block_, step<T>)) {
    const Index padded = round_up(units_, step<T>), columns = strips_.units * Strips<T>::unit;
    weights_ = scratch_.array<T>(units_, columns);
    for (T*& samples : samples_) samples = scratch_.array<T>(block_, columns);
    turned_ = scratch_.array<T>(stride_, columns);
    fields_ = scratch_.array<T>(strips_.count, units_, stride_);
    for (T*& grams : grams_) grams = scratch_.array<T>(strips_.count, block_, stride_);
    products_ = scratch_.array<T>(units_ + block_, stride_);
    first_ = scratch_.array<T>(units_, stride_);
    second_ = scratch_.array<T>(units_, stride_);
    overlaps_ = scratch_.array<T>(block_, stride_);
    lengths_ = scratch_.array<T>(strips_.count, padded);
    for (T** vector : {&scale_, &activity_, &factor_, &gain_, &squares_}) *vector = scratch_.array<T>(padded);
    for (Index i = 0; i < padded; ++i) activity_[i] = 0;
    claims_ = scratch_.array<Claim>(strips_.count);
    for (Index s = 0; s < strips_.count; ++s) claims_[s] = {-1, nullptr};
    for (Index i = 0; i < units_; ++i)
      strips_.each_piece([&](Columns piece) { pack_piece(w, i, piece, weights_of(piece) + i * piece.width); });
  }

  void run() {
    const Index blocks = divide_up(x_.rows, block_), each = rule_.kind == FASTDL_HEBBIAN_SUBSPACE ? 3 : 2;
    // What all threads wait for takes some microseconds a block: one of 20 us is left to one thread.
    const double work = double(block_) * double(x_.cols) * double(6 * units_ + block_);
    const int threads = work < 2e6 ? 1 : core::thread_count();
    core::parallel_phases(each * blocks + 1, strips_.count + 1, threads, [&](Index phase, Index task) {
      const Index block = phase / each;
      if (phase % each == 0) {
        if (task == strips_.count) return;
        const Index s = claim(phase);
        if (block == 0) multiply_samples(s, 0);
        work_on(s, block, blocks);
      } else if (phase % each == 2) {
        invert(block, task);
      } else if (task == 0) {
        gather(block);
        settle(block);
      } else if (block + 1 < blocks) {
        multiply_samples(claim(phase), block + 1);
      }
    });
  }

  // Whether all weights are numbers.
  bool finite() const {
    Vec<T> sum{};
    for (Index i = 0; i < units_ * strips_.units * Strips<T>::unit; i += step<T>)
      sum += simd::load(weights_ + i) * T(0);
    return !simd::any(sum != sum);
  }

  void write(const Matrix<T>& out) {
    if (rule_.kind == FASTDL_HEBBIAN_NORMALIZED) normalize();
    strips_.each_piece([&](Columns piece) { unpack_piece(weights_of(piece), piece, out); });
  }

 private:
  struct Claim {
    Index phase;
    const char* owner;
  };

  // A strip for the calling thread that has none in this phase: if it can be one that it had before, which is in its
  // caches.
  Index claim(Index phase) {
    const auto take_it = [&](Index s) {
      return __atomic_exchange_n(&claims_[s].phase, phase, __ATOMIC_ACQ_REL) != phase;
    };
    const auto is_free = [&](Index s) { return __atomic_load_n(&claims_[s].phase, __ATOMIC_ACQUIRE) != phase; };
    const auto owner = [&](Index s) { return __atomic_load_n(&claims_[s].owner, __ATOMIC_RELAXED); };
    for (Index s = 0; s < strips_.count; ++s)
      if (owner(s) == &here && is_free(s) && take_it(s)) return s;
    for (Index s = 0;; s = s + 1 < strips_.count ? s + 1 : 0)
      if (is_free(s) && take_it(s)) {
        __atomic_store_n(&claims_[s].owner, &here, __ATOMIC_RELAXED);
        return s;
      }
  }

  Index samples_of(Index block) const { return at_most(block_, x_.rows - block * block_); }
  T* weights_of(Columns piece) const { return weights_ + units_ * piece.first; }
  T* samples_of(Columns piece, Index block) const { return samples_[block % 2] + block_ * piece.first; }
  T* turned_of(Columns piece) const { return turned_ + stride_ * piece.first; }

  // out += (rows of a piece) B', or begins with it. With `triangle` what lies on and above the diagonal.
  void multiply(Columns piece, const T* rows, Index count, Index samples, T* out, bool begins, bool triangle) {
    combine<T>({rows, piece.width, 1, turned_of(piece), stride_, piece.width, begins ? nullptr : out, stride_, nullptr,
                out, stride_},
               count, round_up(samples, step<T>), triangle);
  }

  // A strip's part of G. The samples stay, as they are and turned.
  void multiply_samples(Index s, Index block) {
    const Index count = samples_of(block);
    bool begins = true;
    for (Index t = 0; t < count; ++t)
      strips_.each_piece(s, [&](Columns piece) {
        pack_piece(x_, block * block_ + t, piece, samples_of(piece, block) + t * piece.width);
      });
    fetch(s, block + 1);
    strips_.each_piece(s, [&](Columns piece) {
      T* samples = samples_of(piece, block);
      const gemm::Strided<T> operand{samples, piece.width, 1};
      operand.pack_columns(0, int(count), 0, piece.width, int(stride_), turned_of(piece));
      multiply(piece, samples, count, count, grams_[block % 2] + s * block_ * stride_, begins, true);
      begins = false;
    });
  }

  // Asks for the samples of a block, which lie far apart, long before they are packed.
  void fetch(Index s, Index block) const {
    for (Index t = block * block_; t < at_most((block + 1) * block_, x_.rows); ++t)
      strips_.each_piece(s, [&](Columns piece) { fetch_piece(x_, t, piece); });
  }

  // The weights of a strip take the block before, and their part of P is made, a piece after the other.
  void work_on(Index s, Index block, Index blocks) {
    bool begins = true;
    strips_.each_piece(s, [&](Columns piece) {
      if (block > 0) take(piece, block - 1);
      if (block < blocks)
        multiply(piece, weights_of(piece), units_, samples_of(block), fields_ + s * units_ * stride_, begins, false);
      begins = false;
    });
    if (rule_.kind == FASTDL_HEBBIAN_NORMALIZED) measure(s);
  }

  // The strip's part of the squared length of every unit.
  void measure(Index s) {
    T* lengths = lengths_ + s * round_up(units_, step<T>);
    for (Index i = 0; i < units_; ++i) lengths[i] = 0;
    strips_.each_piece(s, [&](Columns piece) {
      for (Index i = 0; i < units_; ++i) {
        const T* row = weights_of(piece) + i * piece.width;
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

  void gather(Index block) {
    const Index count = samples_of(block), columns = round_up(count, step<T>);
    for (Index i = 0; i < units_; ++i)
      sum_parts(fields_ + i * stride_, units_ * stride_, 0, columns, products_ + i * stride_);
    for (Index t = 0; t < count; ++t)
      sum_parts(grams_[block % 2] + t * stride_, block_ * stride_, t / step<T> * step<T>, columns,
                products_ + (units_ + t) * stride_);
    if (rule_.kind != FASTDL_HEBBIAN_NORMALIZED) return;
    for (Index i = 0; i < units_; ++i) {
      squares_[i] = 0;
      for (Index s = 0; s < strips_.count; ++s) squares_[i] += lengths_[s * round_up(units_, step<T>) + i];
    }
  }

  // From the products to what the strips need: for sanger -y and lr*y in first and second, for subspace -y and C, else
  // C in second and scale.
  void settle(Index block) {
    const Index first = block * block_, count = samples_of(block);
    for (Index i = 0; i < units_; ++i) scale_[i] = 1;
    for (Index t = 0; t < count; ++t) {
      const T lr = lr_[first + t];
      const T* g = products_ + (units_ + t) * stride_;
      // Fields of the samples that are still to come.
      const Index from = (t + 1) / step<T> * step<T>, to = round_up(count, step<T>);
      if (rule_.kind == FASTDL_HEBBIAN_SANGER) {
        for (Index i = 0; i < units_; ++i) {
          const T y = products_[i * stride_ + t];
          first_[i * stride_ + t] = -y;
          second_[i * stride_ + t] = lr * y;
        }
        deflate_once<T>(g, products_, stride_, from, to, units_, first_ + t, second_ + t, stride_);
      } else if (rule_.kind == FASTDL_HEBBIAN_SUBSPACE) {
        for (Index i = 0; i < units_; ++i) {
          const T y = products_[i * stride_ + t];
          first_[i * stride_ + t] = -y;
          gain_[i] = lr * y;
        }
        project_once<T>(g, products_, stride_, from, to, units_, first_ + t, stride_, gain_);
      } else {
        for (Index i = 0; i < units_; ++i) activity_[i] = products_[i * stride_ + t];
        coefficients<T>(rule_, activity_, units_, lr, g[t], squares_, theta_, factor_, gain_);
        for (Index i = 0; i < units_; ++i) {
          first_[i * stride_ + t] = factor_[i];
          second_[i * stride_ + t] = gain_[i];
          if (factor_[i] == T(1) && gain_[i] == T(0)) continue;
          const Vec<T> scale = broadcast(factor_[i]), gain = broadcast(gain_[i]);
          T* field = products_ + i * stride_;
          for (Index j = from; j < to; j += step<T>)
            simd::store(field + j, simd::fma(gain, simd::load(g + j), simd::load(field + j) * scale));
        }
      }
    }
    if (rule_.kind == FASTDL_HEBBIAN_SUBSPACE)
      overlap(count);
    else if (!deflates(rule_))
      scale_gains(count);
  }

  // W = scale W + sum of gain_t x_t: what comes after a sample scales its gain.
  void scale_gains(Index count) {
    for (Index i = 0; i < units_; ++i) {
      T after = 1;
      for (Index t = count - 1; t >= 0; --t) {
        second_[i * stride_ + t] *= after;
        after *= first_[i * stride_ + t];
      }
      scale_[i] = after;
    }
  }

  // overlaps[t, u] = y_t.y_u below the diagonal, and zeros
  void overlap(Index count) {
    const Index columns = round_up(count, step<T>);
    for (Index i = 0; i < units_; ++i)
      for (Index t = count; t < columns; ++t) first_[i * stride_ + t] = 0;
    combine<T>({first_, 1, stride_, first_, stride_, units_, nullptr, 0, nullptr, overlaps_, stride_}, count, columns);
    for (Index t = 0; t < count; ++t)
      for (Index u = t; u < columns; ++u) overlaps_[t * stride_ + u] = 0;
  }

  // The residuals R of a block are E less what earlier ones took from them: (1 + L) R = E = B - Y' W with
  // L[t, u] = lr_u y_t.y_u below the diagonal. So W + lr Y R = W + C E, and C (1 + L) = lr Y is solved from the last
  // column on: some rows of C.
  void invert(Index block, Index task) {
    const Index first = block * block_, count = samples_of(block), columns = round_up(count, step<T>);
    const Index tasks = strips_.count + 1, begin = task * units_ / tasks, end = (task + 1) * units_ / tasks;
    for (Index i = begin; i < end; ++i) {
      T* row = second_ + i * stride_;
      for (Index t = 0; t < columns; t += step<T>) simd::store(row + t, -simd::load(first_ + i * stride_ + t));
      for (Index t = count - 1; t >= 0; --t) {
        const T* overlap = overlaps_ + t * stride_;
        row[t] *= lr_[first + t];
        const Vec<T> minus = broadcast(-row[t]);
        for (Index j = 0; j < t; j += step<T>)
          simd::store(row + j, simd::fma(minus, simd::load(overlap + j), simd::load(row + j)));
      }
    }
  }

  // A piece of the weights takes a block that has settled.
  void take(Columns piece, Index block) {
    const Index count = samples_of(block), width = piece.width;
    T* weights = weights_of(piece);
    const T* samples = samples_of(piece, block);
    if (rule_.kind == FASTDL_HEBBIAN_SANGER) {
      deflate(samples, weights, width, count);
    } else if (rule_.kind == FASTDL_HEBBIAN_SUBSPACE) {
      alignas(64) T left[longest_block * piece_width<T>];
      combine<T>({first_, 1, stride_, weights, width, units_, samples, width, nullptr, left, width}, count, width);
      combine<T>({second_, stride_, 1, left, width, count, weights, width, nullptr, weights, width}, units_, width);
    } else {
      combine<T>({second_, stride_, 1, samples, width, count, weights, width, scale_, weights, width}, units_, width);
    }
  }

  void deflate(const T* samples, T* weights, Index width, Index count) {
    for (Index j = 0; j < width; j += abreast * step<T>) {
      Index t = 0;
      for (; t + together <= count; t += together)
        deflate_tile<T, together, abreast>(samples + t * width + j, width, weights + j, width, units_, first_ + t,
                                           second_ + t, stride_);
      for (; t < count; ++t)
        deflate_tile<T, 1, abreast>(samples + t * width + j, width, weights + j, width, units_, first_ + t, second_ + t,
                                    stride_);
    }
  }

  void normalize() {
    for (Index s = 0; s < strips_.count; ++s) measure(s);
    for (Index i = 0; i < units_; ++i) {
      T length = 0;
      for (Index s = 0; s < strips_.count; ++s) length += lengths_[s * round_up(units_, step<T>) + i];
      if (!(length > 0)) continue;
      const T root = T(__builtin_sqrt(double(length)));
      strips_.each_piece([&](Columns piece) {
        for (Index j = 0; j < piece.width; ++j) weights_of(piece)[i * piece.width + j] /= root;
      });
    }
  }

  Rule rule_;
  Matrix<const T> x_;
  Steps<T> lr_;
  T* theta_;
  Strips<T> strips_;
  Index units_, block_, stride_;
  core::Scratch scratch_;
  T *weights_, *samples_[2], *turned_, *fields_, *grams_[2], *products_, *first_, *second_, *overlaps_, *lengths_;
  T *scale_, *activity_, *factor_, *gain_, *squares_;
  Claim* claims_;
};

}  // namespace
}  // namespace fastdl::hebbian
