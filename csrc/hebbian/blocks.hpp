// Exact sequential updates by blocks of samples, at the speed of matrix products.
//
// Of a block B of samples and the weights W before it, all that the samples do to each other is in P = W B' and
// G = B B'. A sample t needs only its own column of the fields Q = W B', and changes the later ones as it changes the
// weights, with G[t] in place of x. So the activities y of the whole block follow from two small matrices in L1, and
// then the weights take all samples at once:
//
//   for each block                                            phases of one parallel loop
//     for each strip of columns                               a task, on any thread
//       the weights take the block before
//       its part of [W; B] B' for this block                  both in L1, as they lie
//     sum the parts, in the order of the strips; then the activities, a sample after the other    one task
//
// How a strip of weights takes a block:
//   rules by units   W = scale W + C B, a product
//   sanger           by deflation (strips.hpp), two samples at a time: as many operations as two products, in L1
//   subspace         E = B - Y' W and W += C E, two products; C is Y times the inverse of a triangle
//
// Per sample and column that is 4k + b multiplications and additions by units, 6k + b for sanger and subspace. Nothing
// depends on the number of threads: strips are fixed, and so is the order of their sums.
#pragma once

#include "core/scratch.hpp"
#include "core/threads.hpp"
#include "hebbian/coefficients.hpp"

namespace fastdl::hebbian {
namespace {

inline constexpr Index longest_block = 64;

// Samples that a strip is deflated by together, and vectors: 8 or 16 of them are left in registers.
template <class T>
inline constexpr int together = gemm::Shape<T>::vectors == 4 ? 4 : 2;

template <class T>
class Blocks {
 public:
  Blocks(const Rule& rule, const Matrix<const T>& w, const Matrix<const T>& x, Steps<T> lr, T* theta)
      : rule_(rule), x_(x), lr_(lr), theta_(theta), units_(w.rows), block_(at_most(longest_block, x.rows)) {
    strips_ = divide_up(w.cols, width);
    stride_ = round_up(block_, step<T>);
    const Index padded = round_up(units_, step<T>);
    weights_ = scratch_.array<T>(strips_, units_, width);
    samples_ = scratch_.array<T>(strips_, block_, width);
    parts_ = scratch_.array<T>(strips_, units_ + block_, stride_);
    products_ = scratch_.array<T>(units_ + block_, stride_);
    first_ = scratch_.array<T>(units_, stride_);
    second_ = scratch_.array<T>(units_, stride_);
    overlaps_ = scratch_.array<T>(block_, stride_);
    lengths_ = scratch_.array<T>(strips_, padded);
    for (T** vector : {&scale_, &activity_, &factor_, &gain_, &squares_}) *vector = scratch_.array<T>(padded);
    for (Index i = 0; i < padded; ++i) activity_[i] = 0;
    for (Index s = 0; s < strips_; ++s) pack_strip(w, 0, units_, s * width, weights_ + s * units_ * width);
  }

  void run() {
    const Index blocks = divide_up(x_.rows, block_);
    const double work = double(x_.rows) * double(strips_ * width) * double(6 * units_ + block_);
    core::parallel_phases(2 * blocks + 1, strips_, work < 1e7 ? 1 : core::thread_count(), [&](Index phase, Index task) {
      const Index block = phase / 2;
      if (phase % 2 == 0) {
        if (block > 0) take(task, samples_of(block - 1));
        if (block < blocks) multiply(task, block * block_, samples_of(block));
      } else if (task == 0) {
        gather(samples_of(block));
        settle(block * block_, samples_of(block));
      }
    });
  }

  // Whether all weights are numbers.
  bool finite() const {
    Vec<T> sum{};
    for (Index i = 0; i < strips_ * units_ * width; i += step<T>) sum += simd::load(weights_ + i) * T(0);
    return !simd::any(sum != sum);
  }

  void write(const Matrix<T>& out) {
    if (rule_.kind == FASTDL_HEBBIAN_NORMALIZED) normalize();
    for (Index s = 0; s < strips_; ++s) unpack_strip(weights_ + s * units_ * width, s * width, out);
  }

 private:
  static constexpr Index width = strip_width<T>;

  Index samples_of(Index block) const { return at_most(block_, x_.rows - block * block_); }

  // A strip's part of [W; B] B'. Of the lower rows only what lies on and above the diagonal is used.
  void multiply(Index strip, Index first, Index count) {
    const T* weights = weights_ + strip * units_ * width;
    T* samples = samples_ + strip * block_ * width;
    T* part = parts_ + strip * (units_ + block_) * stride_;
    alignas(64) T turned[width * longest_block];
    const Index columns = round_up(count, step<T>);
    pack_strip(x_, first, count, strip * width, samples);
    turn_strip(samples, count, columns, turned);
    combine<T>({weights, width, 1, turned, columns, width, nullptr, 0, nullptr, part, stride_}, units_, columns);
    combine<T>({samples, width, 1, turned, columns, width, nullptr, 0, nullptr, part + units_ * stride_, stride_},
               count, columns, true);
    if (rule_.kind == FASTDL_HEBBIAN_NORMALIZED) measure(strip);
  }

  // The strip's part of the squared length of every unit.
  void measure(Index strip) {
    for (Index i = 0; i < units_; ++i) {
      const T* row = weights_ + (strip * units_ + i) * width;
      Vec<T> sum{};
      for (Index j = 0; j < width; j += step<T>) sum = simd::fma(simd::load(row + j), simd::load(row + j), sum);
      T total = 0;
      for (int l = 0; l < step<T>; ++l) total += sum[l];
      lengths_[strip * round_up(units_, step<T>) + i] = total;
    }
  }

  void gather(Index count) {
    const Index columns = round_up(count, step<T>), size = (units_ + block_) * stride_;
    for (Index r = 0; r < units_ + count; ++r)
      for (Index j = r < units_ ? 0 : (r - units_) / step<T> * step<T>; j < columns; j += step<T>) {
        const T* part = parts_ + r * stride_ + j;
        Vec<T> sum = simd::load(part);
        for (Index s = 1; s < strips_; ++s) sum += simd::load(part + s * size);
        simd::store(products_ + r * stride_ + j, sum);
      }
    if (rule_.kind != FASTDL_HEBBIAN_NORMALIZED) return;
    for (Index i = 0; i < units_; ++i) {
      squares_[i] = 0;
      for (Index s = 0; s < strips_; ++s) squares_[i] += lengths_[s * round_up(units_, step<T>) + i];
    }
  }

  // From the products to what the strips need: for sanger -y and lr*y in first and second, for subspace -y and C, else
  // C in second and scale.
  void settle(Index first, Index count) {
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
        for (Index j = from; j < to; j += step<T>) {
          Vec<T> left = simd::load(g + j);
          for (Index i = 0; i < units_; ++i)
            left = simd::fma(broadcast(first_[i * stride_ + t]), simd::load(products_ + i * stride_ + j), left);
          for (Index i = 0; i < units_; ++i) {
            T* field = products_ + i * stride_ + j;
            simd::store(field, simd::fma(broadcast(gain_[i]), left, simd::load(field)));
          }
        }
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
      invert(first, count);
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

  // The residuals R of a block are E less what earlier ones took from them: (1 + L) R = E = B - Y' W with
  // L[t, u] = lr_u y_t.y_u below the diagonal. So W + lr Y R = W + C E, and C (1 + L) = lr Y is solved from the last
  // column on.
  void invert(Index first, Index count) {
    const Index columns = round_up(count, step<T>);
    combine<T>({first_, 1, stride_, first_, stride_, units_, nullptr, 0, nullptr, overlaps_, stride_}, count, columns);
    for (Index t = 0; t < count; ++t)
      for (Index u = t; u < columns; ++u) overlaps_[t * stride_ + u] = 0;
    for (Index i = 0; i < units_; ++i)
      for (Index t = 0; t < columns; ++t) second_[i * stride_ + t] = t < count ? -first_[i * stride_ + t] : T(0);
    for (Index t = count - 1; t >= 0; --t) {
      const T lr = lr_[first + t];
      const T* overlap = overlaps_ + t * stride_;
      for (Index i = 0; i < units_; ++i) {
        T* row = second_ + i * stride_;
        const T c = lr * row[t];
        const Vec<T> minus = broadcast(-c);
        for (Index j = 0; j < t; j += step<T>)
          simd::store(row + j, simd::fma(minus, simd::load(overlap + j), simd::load(row + j)));
        row[t] = c;
      }
    }
  }

  // A strip of weights takes a block that has settled.
  void take(Index strip, Index count) {
    T* weights = weights_ + strip * units_ * width;
    const T* samples = samples_ + strip * block_ * width;
    if (rule_.kind == FASTDL_HEBBIAN_SANGER) {
      constexpr int vectors = 4, pair = together<T>;
      for (Index j = 0; j < width; j += vectors * step<T>) {
        Index t = 0;
        for (; t + pair <= count; t += pair)
          deflate_tile<T, pair, vectors>(samples + t * width + j, width, weights + j, width, units_, first_ + t,
                                         second_ + t, stride_);
        for (; t < count; ++t)
          deflate_tile<T, 1, vectors>(samples + t * width + j, width, weights + j, width, units_, first_ + t,
                                      second_ + t, stride_);
      }
    } else if (rule_.kind == FASTDL_HEBBIAN_SUBSPACE) {
      alignas(64) T left[longest_block * width];
      combine<T>({first_, 1, stride_, weights, width, units_, samples, width, nullptr, left, width}, count, width);
      combine<T>({second_, stride_, 1, left, width, count, weights, width, nullptr, weights, width}, units_, width);
    } else {
      combine<T>({second_, stride_, 1, samples, width, count, weights, width, scale_, weights, width}, units_, width);
    }
  }

  void normalize() {
    for (Index s = 0; s < strips_; ++s) measure(s);
    for (Index i = 0; i < units_; ++i) {
      T length = 0;
      for (Index s = 0; s < strips_; ++s) length += lengths_[s * round_up(units_, step<T>) + i];
      if (!(length > 0)) continue;
      const T root = T(__builtin_sqrt(double(length)));
      for (Index s = 0; s < strips_; ++s)
        for (Index j = 0; j < width; ++j) weights_[(s * units_ + i) * width + j] /= root;
    }
  }

  Rule rule_;
  Matrix<const T> x_;
  Steps<T> lr_;
  T* theta_;
  Index units_, block_, strips_, stride_;
  core::Scratch scratch_;
  T *weights_, *samples_, *parts_, *products_, *first_, *second_, *overlaps_, *lengths_;
  T *scale_, *activity_, *factor_, *gain_, *squares_;
};

}  // namespace
}  // namespace fastdl::hebbian
