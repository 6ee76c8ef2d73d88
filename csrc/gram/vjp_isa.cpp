// Gradients of sum W * K, compiled once per instruction-set level.
//
// W is given, or it is grad v' for sum grad * (K v), and then neither it nor K is ever formed. The gradient for x_i is
// the sum over j of W_ij dk(x_i, y_j)/dx_i. Blocks of 48 rows by
// 128 columns of the sums over features are computed in cache (gemm/stream.hpp) and become derivatives there
// (derivatives.hpp), which are multiplied with the features of the 128 samples of Y at once. A part of 128 is summed in
// the type of the data, and the parts in double. The gradient for Y is the same with the roles of X and Y turned, and
// that for v is K' grad. That computes every pair three times, but each sum belongs to one task and has one order.
#include <type_traits>

#include "gemm/stream.hpp"
#include "gram/bodies.hpp"
#include "gram/derivatives.hpp"

namespace fastdl::gram::FASTDL_LEVEL {
namespace {

using gemm::Index;
using gemm::stream_part;

// A contiguous copy, its rows filled up with zeros to whole vectors.
template <class T>
struct Padded {
  const T* data;
  Index stride;

  Padded(const Matrix<const T>& m, Arrays<T>& arrays) : stride(gemm::round_up(m.cols, simd::lanes<T>)) {
    T* to = arrays.make(m.rows, stride);
    for (Index i = 0; i < m.rows; ++i)
      for (Index j = 0; j < stride; ++j)
        to[i * stride + j] = j < m.cols ? m.data[i * m.row_stride + j * m.col_stride] : T(0);
    data = to;
  }
};

template <class T>
Matrix<const T> transposed(const Matrix<const T>& m) {
  return {m.data, m.cols, m.rows, m.col_stride, m.row_stride};
}

// W for the samples of X, W' for those of Y, and W + W' for samples that stand on both sides, a block at a time.
template <class T>
struct Weights {
  int first, last;  // of W and W'

  explicit Weights(bool both_sides) : first(0), last(both_sides) {}

  void turn() { first = last = 1; }

  // to[r * stream_part + j] = W[row + r, column + j], and 0 past the last column
  virtual void block(Index row, Index row_end, Index column, Index width, T* to) const = 0;

 protected:
  ~Weights() = default;
};

// W = grad v'
template <class T>
struct ProductWeights final : Weights<T> {
  Padded<T> left[2], right[2];
  Index cols;

  ProductWeights(const Matrix<const T>& grad, const Matrix<const T>& v, bool both_sides, Arrays<T>& arrays)
      : Weights<T>(both_sides),
        left{{grad, arrays}, {v, arrays}},
        right{{transposed(v), arrays}, {transposed(grad), arrays}},
        cols(v.cols) {}

  void block(Index row, Index row_end, Index column, Index width, T* to) const override {
    constexpr int together = 6;
    for (; row + together <= row_end; row += together, to += together * stream_part)
      some<together>(row, column, width, to);
    for (; row < row_end; ++row, to += stream_part) some<1>(row, column, width, to);
  }

 private:
  template <int Count>
  FASTDL_INLINE void some(Index row, Index column, Index width, T* to) const {
    for (Index j = 0; j < width; j += simd::lanes<T>) {
      Vec<T> sums[Count] = {};
      for (int t = this->first; t <= this->last; ++t)
        for (Index c = 0; c < cols; ++c) {
          const Vec<T> value = load(right[t].data + c * right[t].stride + column + j);
#pragma GCC unroll 8
          for (int r = 0; r < Count; ++r)
            sums[r] = simd::fma(broadcast(left[t].data[(row + r) * left[t].stride + c]), value, sums[r]);
        }
      for (int r = 0; r < Count; ++r) simd::store(to + r * stream_part + j, sums[r]);
    }
  }
};

// W as it is given
template <class T>
struct GivenWeights final : Weights<T> {
  Matrix<const T> sides[2];

  GivenWeights(const Matrix<const T>& w, bool both_sides) : Weights<T>(both_sides), sides{w, transposed(w)} {}

  void block(Index row, Index row_end, Index column, Index width, T* to) const override {
    const Index filled = gemm::round_up(width, simd::lanes<T>);
    for (; row < row_end; ++row, to += stream_part) {
      const Matrix<const T>& w = sides[this->first];
      for (Index j = 0; j < width; ++j) to[j] = w.data[row * w.row_stride + (column + j) * w.col_stride];
      for (Index j = width; j < filled; ++j) to[j] = 0;
      if (this->first == this->last) continue;
      const Matrix<const T>& turned = sides[1];
      for (Index j = 0; j < width; ++j)
        to[j] += turned.data[row * turned.row_stride + (column + j) * turned.col_stride];
    }
  }
};

template <class T>
double sum_of_lanes(Vec<T> values) {
  double total = 0;
  for (int i = 0; i < simd::lanes<T>; ++i) total += double(values[i]);
  return total;
}

// to[r][f] += sum over j < width of block[r][j] feature(x[r][f], y[j][f]) for Count rows and Vectors vectors of
// features, of which `features` are there
template <class T, class Feature, int Count, int Vectors>
void add_features(const T* block, const T* x, const T* y, Index stride, Index width, double* to, Index to_stride,
                  Index features) {
  constexpr int step = simd::lanes<T>;
  Vec<T> sums[Count][Vectors] = {}, left[Count][Vectors];
  for (int r = 0; r < Count; ++r)
    for (int u = 0; u < Vectors; ++u) left[r][u] = load(x + r * stride + u * step);
  for (Index j = 0; j < width; ++j) {
    Vec<T> right[Vectors];
#pragma GCC unroll 2
    for (int u = 0; u < Vectors; ++u) right[u] = load(y + j * stride + u * step);
#pragma GCC unroll 8
    for (int r = 0; r < Count; ++r) {
      const Vec<T> slope = broadcast(block[r * stream_part + j]);
#pragma GCC unroll 2
      for (int u = 0; u < Vectors; ++u) sums[r][u] = simd::fma(slope, Feature{}(left[r][u], right[u]), sums[r][u]);
    }
  }
  for (int r = 0; r < Count; ++r)
    for (int u = 0; u < Vectors; ++u)
      for (int i = 0; i < step && u * step + i < features; ++i)
        to[r * to_stride + u * step + i] += double(sums[r][u][i]);
}

// The gradient with respect to the rows of x, up to the kernel's factor.
template <class T>
class RowGradients {
 public:
  RowGradients(const Matrix<const T>& x, const Matrix<const T>& y, const Weights<T>& weights, Arrays<T>& arrays,
               Arrays<double>& doubles)
      : x_(x),
        y_(y),
        weights_(weights),
        x_rows_(x, arrays),
        y_rows_(y, arrays),
        sums_(doubles.make(x.rows, x.cols)),
        own_(doubles.make(x.rows)),
        gamma_(doubles.make(x.rows)) {
    for (Index i = 0; i < x.rows * x.cols; ++i) sums_[i] = 0;
    for (Index i = 0; i < x.rows; ++i) own_[i] = gamma_[i] = 0;
  }

  template <class Rule, class Left, class Right, class Epilogue>
  void run(const Rule& rule, const Left& left, const Right& right, const Epilogue& epilogue) {
    using Feature = typename FeatureOf<Rule, Epilogue>::Type;
    const Derivative<Epilogue> derivative(epilogue);
    // Where nothing depends on the sums there are none to be taken.
    constexpr bool constant = std::is_empty_v<Derivative<Epilogue>>;
    const auto add = [&](Index row, Index row_end, Index column, Index width, T* block) {
      core::Scratch scratch;
      T* weights = scratch.array<T>(row_end - row, stream_part);
      weights_.block(row, row_end, column, width, weights);
      if constexpr (constant) {
        add_rows<Feature>(weights, row, row_end, column, width);
      } else {
        for (Index i = row; i < row_end; ++i, block += stream_part, weights += stream_part)
          weigh(derivative, block, weights, i, column, width);
        add_rows<Feature>(block - (row_end - row) * stream_part, row, row_end, column, width);
      }
    };
    const gemm::Extents size{x_.rows, y_.rows, constant ? 0 : x_.cols};
    gemm::stream<T>(size, rule, left, right, gemm::Identity{}, gemm::Consumer<T>(add));
  }

  // A product of factors, of which each in turn is replaced by its derivative.
  template <class Left, class Right>
  void run(const SincProduct<T>& rule, const Left& left, const Right& right, const gemm::Identity&) {
    Arrays<T> arrays;
    const Padded<T> columns(transposed(y_), arrays);
    const auto add = [&](Index row, Index row_end, Index column, Index width, T* block) {
      weights_.block(row, row_end, column, width, block);
      core::Scratch scratch;
      auto* space = static_cast<Vec<T>*>(scratch.bytes(std::size_t(4 * x_.cols) * sizeof(Vec<T>)));
      for (Index i = row; i < row_end; ++i, block += stream_part)
        add_sinc(rule, block, i, columns.data + column, columns.stride, width, space);
    };
    const gemm::Extents size{x_.rows, y_.rows, 0};
    gemm::stream<T>(size, gemm::MultiplyAdd{}, left, right, gemm::Identity{}, gemm::Consumer<T>(add));
  }

  // out = factor (sums + own x), and for each feature over the square of its length scale
  void copy_out(double factor, const double* length_scales, const Matrix<T>& out) const {
    for (Index i = 0; i < x_.rows; ++i)
      for (Index f = 0; f < x_.cols; ++f) {
        double total = sums_[i * x_.cols + f];
        // Where x itself does not enter, it may be infinite.
        if (own_[i] != 0) total += own_[i] * double(x_.data[i * x_.row_stride + f * x_.col_stride]);
        if (length_scales) total /= length_scales[f] * length_scales[f];
        out.data[i * out.row_stride + f * out.col_stride] = T(factor * total);
      }
  }

  double gamma() const {
    double total = 0;
    for (Index i = 0; i < x_.rows; ++i) total += gamma_[i];
    return total;
  }

 private:
  const Matrix<const T> x_, y_;
  const Weights<T>& weights_;
  const Padded<T> x_rows_, y_rows_;
  double *sums_, *own_, *gamma_;

  // From sums to weighted derivatives, in their place.
  template <class Slopes>
  void weigh(const Slopes& derivative, T* block, const T* weights, Index row, Index column, Index width) {
    constexpr int step = simd::lanes<T>;
    Slope<T> slopes[stream_part / step];
    for (Index j = width; j % step != 0; ++j) block[j] = 0;
    if constexpr (requires { derivative.along(block, row, column, width, slopes); })
      derivative.along(block, row, column, width, slopes);
    else
      for (Index j = 0; j < width; j += step) slopes[j / step] = derivative(load(block + j), row, column + j);
    Vec<T> own{}, gamma{};
    for (Index j = 0; j < width; j += step) {
      const Slope<T>& slope = slopes[j / step];
      const Vec<T> weight = load(weights + j);
      const auto there = simd::first_lanes<T>(int(width - j));
      simd::store(block + j, slope.pair * weight);
      own += simd::select(there, slope.own * weight, Vec<T>{});
      gamma += simd::select(there, slope.gamma * weight, Vec<T>{});
    }
    own_[row] += sum_of_lanes<T>(own);
    gamma_[row] += sum_of_lanes<T>(gamma);
  }

  template <class Feature>
  void add_rows(const T* block, Index row, Index row_end, Index column, Index width) {
    constexpr int step = simd::lanes<T>;
    // What takes both values keeps those of x in registers as well.
    constexpr int together = std::is_same_v<Feature, Other> ? 6 : 3;
    const Index d = x_.cols, stride = x_rows_.stride;
    for (Index f = 0; f < d;) {
      const bool two = f + step < d;
      const T* y = y_rows_.data + column * stride + f;
      for (Index i = row; i < row_end;) {
        const bool all = i + together <= row_end;
        const auto add = all ? (two ? add_features<T, Feature, together, 2> : add_features<T, Feature, together, 1>)
                             : (two ? add_features<T, Feature, 1, 2> : add_features<T, Feature, 1, 1>);
        add(block + (i - row) * stream_part, x_rows_.data + i * stride + f, y, stride, width, sums_ + i * d + f, d,
            d - f);
        i += all ? together : 1;
      }
      f += two ? 2 * step : step;
    }
  }

  // (z cos z - sin z) / z^2, the derivative of sin(z) / z; by its series where that cancels
  static FASTDL_INLINE Vec<T> sinc_slope(Vec<T> z, Vec<T> sine) {
    constexpr double coefficients[] = {-1 / 3.0,           1 / 30.0,          -1 / 840.0,
                                       1 / 45360.0,        -1 / 3991680.0,    1 / 518918400.0,
                                       -1 / 93405312000.0, 1 / 22230464256e3, -18 / 121645100408832e3};
    const Vec<T> square = z * z, half = simd::sin(z * T(0.5)), cosine = simd::fma(half * T(-2), half, broadcast(T(1)));
    Vec<T> series{};
    for (int i = 8; i >= 0; --i) series = simd::fma(series, square, broadcast(T(coefficients[i])));
    const auto small = square < broadcast(T(1));
    return simd::select(small, series * z, (z * cosine - sine) / simd::select(small, square + 1, square));
  }

  void add_sinc(const SincProduct<T>& rule, const T* weights, Index row, const T* columns, Index stride, Index width,
                Vec<T>* space) {
    constexpr int step = simd::lanes<T>;
    const Index d = x_.cols;
    Vec<T>*sums = space, *factors = sums + d, *slopes = factors + d, *before = slopes + d;
    for (Index f = 0; f < d; ++f) sums[f] = Vec<T>{};
    for (Index j = 0; j < width; j += step) {
      Vec<T> product = broadcast(T(1));
      for (Index f = 0; f < d; ++f) {
        const Vec<T> difference = x_rows_.data[row * x_rows_.stride + f] - load(columns + f * stride + j);
        const Vec<T> z = difference * rule.omega;
        factors[f] = rule.step(broadcast(T(1)), difference, Vec<T>{});
        slopes[f] = sinc_slope(z, simd::sin(z));
        before[f] = product;
        product *= factors[f];
      }
      product = load(weights + j);
      for (Index f = d - 1; f >= 0; --f) {
        sums[f] += simd::select(simd::first_lanes<T>(int(width - j)), before[f] * slopes[f] * product, Vec<T>{});
        product *= factors[f];
      }
    }
    for (Index f = 0; f < d; ++f) sums_[row * d + f] += sum_of_lanes<T>(sums[f]);
  }
};

// The gradient with respect to x, and what is returned, the one with respect to gamma.
template <class T>
double row_gradients(const Kernel& kernel, const Matrix<const T>& x, const Matrix<const T>& y,
                     const Weights<T>& weights, const Matrix<T>& dx) {
  Arrays<T> arrays;
  Arrays<double> doubles;
  RowGradients<T> gradients(x, y, weights, arrays, doubles);
  Rows<T> rows(x, y, false);
  with_kernel(kernel, rows, [&](const auto& rule, const auto& left, const auto& right, const auto& epilogue) {
    gradients.run(rule, left, right, epilogue);
  });
  gradients.copy_out(factor_of(kernel, x.cols), kernel.kind == FASTDL_MATERN ? kernel.length_scales : nullptr, dx);
  return kernel.kind == FASTDL_MATERN ? 0 : gradients.gamma();  // that of nu = infinity is an rbf, but has no gamma
}

// The gradients with respect to x and y, or to x on both sides, and what is returned, the one with respect to gamma.
template <class T>
double gradients_of_both(const Kernel& kernel, const Matrix<const T>& x, const Matrix<const T>* y, Weights<T>& weights,
                         const Matrix<T>& dx, const Matrix<T>* dy) {
  const double gamma = row_gradients(kernel, x, y ? *y : x, weights, dx);
  if (!y) return gamma / 2;  // every pair came twice
  weights.turn();
  row_gradients(kernel, *y, x, weights, *dy);
  return gamma;
}

// Derivatives of kernels of angles take the inverses of lengths, and their squares. Rows for which those leave the
// range of float32 have their gradients computed in double.
template <class T>
bool beyond(const Matrix<const T>& x, Index row) {
  const double squared = squared_length(x, row, {});
  return (squared > 1e30 || squared < 1e-30) && squared <= __DBL_MAX__ && !is_zero(x, row);
}

template <class T>
bool any_beyond(const Matrix<const T>& x) {
  for (Index i = 0; i < x.rows; ++i)
    if (beyond(x, i)) return true;
  return false;
}

// Arguments in double, and room for results.
class Widened {
 public:
  template <class T>
  Matrix<const double> operator()(const Matrix<const T>& m) {
    const Matrix<double> to = room(m);
    for (Index i = 0; i < m.rows; ++i)
      for (Index j = 0; j < m.cols; ++j) to.data[i * m.cols + j] = double(m.data[i * m.row_stride + j * m.col_stride]);
    return {to.data, m.rows, m.cols, m.cols, 1};
  }

  template <class T>
  Matrix<double> room(const Matrix<T>& m) {
    return {doubles_.make(m.rows, m.cols), m.rows, m.cols, m.cols, 1};
  }

  template <class T>
  static void copy_row(const Matrix<double>& from, Index i, const Matrix<T>& to) {
    for (Index j = 0; j < to.cols; ++j)
      to.data[i * to.row_stride + j * to.col_stride] = T(from.data[i * from.cols + j]);
  }

 private:
  Arrays<double> doubles_;
};

// The gradients for the samples, with the weights that `weigh` makes of matrices in one of both types. What an ordinary
// row of X gets does not depend on the rows beside it.
template <class T, class Weigh>
double gradients_in_range(const Kernel& kernel, const Matrix<const T>& x, const Matrix<const T>* y, const Matrix<T>& dx,
                          const Matrix<T>* dy, const Weigh& weigh) {
  double gamma = 0;
  weigh([](const Matrix<const T>& m) { return m; },
        [&](Weights<T>& weights) { gamma = gradients_of_both<T>(kernel, x, y, weights, dx, dy); });
  const bool angles = kernel.kind == FASTDL_COSINE || kernel.kind == FASTDL_ARC_COSINE;
  const bool all = sizeof(T) == 4 && angles && any_beyond(y ? *y : x);
  if (!all && !(sizeof(T) == 4 && angles && any_beyond(x))) return gamma;
  Widened widened;
  const Matrix<const double> wide_x = widened(x), wide_y = y ? widened(*y) : wide_x;
  const Matrix<double> x_room = widened.room(dx), y_room = dy ? widened.room(*dy) : x_room;
  weigh([&](const Matrix<const T>& m) { return widened(m); },
        [&](Weights<double>& weights) {
          gradients_of_both<double>(kernel, wide_x, y ? &wide_y : nullptr, weights, x_room, dy ? &y_room : nullptr);
        });
  for (Index i = 0; i < x.rows; ++i)
    if (all || beyond(x, i)) Widened::copy_row(x_room, i, dx);
  for (Index i = 0; dy && i < dy->rows; ++i) Widened::copy_row(y_room, i, *dy);
  return gamma;  // of kernels without one
}

template <class Type>
using NumberOf = std::remove_const_t<std::remove_pointer_t<decltype(Type::data)>>;

template <class T>
double product_gradients(const Kernel& kernel, const Matrix<const T>& x, const Matrix<const T>* y,
                         const Matrix<const T>& v, const Matrix<const T>& grad, const Matrix<T>& dx,
                         const Matrix<T>* dy) {
  return gradients_in_range<T>(kernel, x, y, dx, dy, [&](const auto& in_type, const auto& run) {
    using F = NumberOf<decltype(in_type(v))>;
    Arrays<F> arrays;
    ProductWeights<F> weights(in_type(grad), in_type(v), !y, arrays);
    run(weights);
  });
}

template <class T>
double matrix_gradients(const Kernel& kernel, const Matrix<const T>& x, const Matrix<const T>* y,
                        const Matrix<const T>& grad, const Matrix<T>& dx, const Matrix<T>* dy) {
  return gradients_in_range<T>(kernel, x, y, dx, dy, [&](const auto& in_type, const auto& run) {
    GivenWeights<NumberOf<decltype(in_type(grad))>> weights(in_type(grad), !y);
    run(weights);
  });
}

}  // namespace

#define FASTDL_BODIES_OF(T)                                                                                           \
  void matvec_vjp(const Kernel& kernel, const Matrix<const T>& x, const Matrix<const T>* y, const Matrix<const T>& v, \
                  const Matrix<const T>& grad, const Matrix<T>& dx, const Matrix<T>* dy, const Matrix<T>& dv,         \
                  double& gamma) {                                                                                    \
    matvec(kernel, y ? *y : x, x, grad, dv);                                                                          \
    gamma = product_gradients<T>(kernel, x, y, v, grad, dx, dy);                                                      \
  }                                                                                                                   \
  void vjp(const Kernel& kernel, const Matrix<const T>& x, const Matrix<const T>* y, const Matrix<const T>& grad,     \
           const Matrix<T>& dx, const Matrix<T>* dy, double& gamma) {                                                 \
    gamma = matrix_gradients<T>(kernel, x, y, grad, dx, dy);                                                          \
  }
FASTDL_BODIES_OF(float)
FASTDL_BODIES_OF(double)

}  // namespace fastdl::gram::FASTDL_LEVEL
