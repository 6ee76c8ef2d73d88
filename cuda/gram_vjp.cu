// Gradients of Gram matrices and of products with them.
//
// For a panel of rows of K at a time, as many as fit some 64 MB: the weights of its pairs, where they are a product
// (grad v'); in their place the slopes of the pairs times the weights (gram_matrix.cuh); and of these the sums over the
// other samples: by the product engine where a pair contributes the other's values, else by gram_gradients.cuh.
#include "gram_gradients.cuh"
#include "gram_kernels.hpp"
#include "gram_rows.cuh"
#include "gram_sums.cuh"

#include <cmath>
#include <vector>

namespace fastdl::gram::cuda {
namespace {

using fastdl::cuda::Scratch;
using gemm::cuda::Shape;

constexpr Index panel_count = Index{1} << 24;  // pairs at a time, about

// A number for the whole kernel: see csrc/gram/derivatives.hpp. In double, so that no parameter leaves the range of T.
double factor_of(const Kernel& kernel, Index features) {
  const double scale = kernel.length_scales ? 1 : 1 / kernel.length_scale, w2 = kernel.w_std * kernel.w_std;
  switch (kernel.kind) {
    case Kind::polynomial:
    case Kind::sigmoid:
    case Kind::laplacian:
    case Kind::chi2:
      return kernel.gamma;
    case Kind::rbf:
      return 2 * kernel.gamma;
    case Kind::matern:
      if (kernel.nu == 0.5) return scale;
      return scale * scale * (kernel.nu == 1.5 ? 3.0 : kernel.nu == 2.5 ? 5.0 / 3 : 1.0);
    case Kind::geometric:
      return kernel.alpha * kernel.alpha;
    case Kind::nngp:
    case Kind::ntk:
      return w2 * std::pow(w2 / 2, kernel.depth) / (kernel.normalize && features > 0 ? double(features) : 1);
    default:
      return 1;
  }
}

bool has_gamma(const Kernel& kernel) {
  return kernel.kind == Kind::polynomial || kernel.kind == Kind::sigmoid || kernel.kind == Kind::rbf ||
         kernel.kind == Kind::laplacian || kernel.kind == Kind::chi2;
}

bool has_own(const Kernel& kernel) {
  return kernel.kind == Kind::cosine || kernel.kind == Kind::arc_cosine || kernel.kind == Kind::nngp ||
         kernel.kind == Kind::ntk;
}

// factor (sum + own x), where a sample that does not enter itself may be infinite
template <class T>
struct WithOwn {
  T factor;
  const T* own;
  SampleView<T> x;

  __device__ __forceinline__ T operator()(T sum, Index row, Index feature) const {
    if (own && own[row] != T(0))
      sum = multiply_add(own[row], x.data[row * x.row_stride + feature * x.column_stride], sum);
    return sum * factor;
  }
};

template <class T>
struct Added {
  const T* to;
  Index row_stride;
  __device__ __forceinline__ T operator()(T sum, Index row, Index column) const {
    return sum + to[row * row_stride + column];
  }
};

// The weights W of the pairs: as they are given, or left right'. On both sides: W + W'.
template <class T>
struct Weights {
  MatrixView<const T> given, left, right;
  bool both, product;

  // Of a panel of rows, whose place `panel` is.
  PairWeights<T> of(const char* name, Index first, Index rows, T* panel, Stream stream) const {
    PairWeights<T> weights{};
    if (!product) {
      const auto from = some_rows(given, first, rows), turned = some_rows(transposed(given), first, rows);
      weights.data = from.data;
      weights.row_stride = from.row_stride;
      weights.column_stride = from.col_stride;
      if (both) {
        weights.turned = turned.data;
        weights.turned_row_stride = turned.row_stride;
        weights.turned_column_stride = turned.col_stride;
      }
      return weights;
    }
    const Index columns = right.rows;
    const auto to = gemm::cuda::result(panel, rows, columns, columns);
    gemm::cuda::multiply(name, operand_of(some_rows(left, first, rows)), operand_of(right), left.cols, to,
                         gemm::cuda::Identity{}, stream);
    if (both)
      gemm::cuda::multiply(name, operand_of(some_rows(right, first, rows)), operand_of(left), left.cols, to,
                           Added<T>{panel, columns}, stream);
    weights.data = panel;
    weights.row_stride = columns;
    weights.column_stride = 1;
    return weights;
  }
};

// The gradient with respect to the rows of x, to `dx`, and what is returned if it is wanted, the one by gamma.
template <class T>
double row_gradients(const char* name, const Kernel& kernel, const MatrixView<const T>& x, const MatrixView<const T>& y,
                     const Weights<T>& weights, bool wants_gamma, T* dx, Stream stream) {
  constexpr Index side = Shape<T>::side;
  const Index columns = y.rows, features = x.cols;
  wants_gamma = wants_gamma && has_gamma(kernel);
  if (columns == 0 || x.rows == 0) {
    if (x.rows * features > 0) fastdl::cuda::set_zero(name, dx, std::size_t(x.rows * features) * sizeof(T), stream);
    return 0;
  }
  Index rows_at_once = panel_count / columns / side * side;
  if (rows_at_once < side) rows_at_once = side;
  if (rows_at_once > x.rows) rows_at_once = x.rows;
  const Index strips = (columns + side - 1) / side * (Shape<T>::threads_across / 8);
  const Index panels = (x.rows + rows_at_once - 1) / rows_at_once;
  const Scratch<T> panel(name, rows_at_once * columns, stream);
  const Scratch<T> own_parts(name, has_own(kernel) ? strips * rows_at_once : 0, stream);
  const Scratch<T> own(name, has_own(kernel) ? rows_at_once : 0, stream);
  const Scratch<T> gamma_parts(name, wants_gamma ? strips * rows_at_once : 0, stream);
  const Scratch<double> gammas(name, wants_gamma ? panels : 0, stream);
  const T factor = T(factor_of(kernel, features));
  for (Index number = 0; number < panels; ++number) {
    const Index first = number * rows_at_once;
    const Index rows = x.rows - first < rows_at_once ? x.rows - first : rows_at_once;
    const auto here = some_rows(x, first, rows);
    const Prepared<T> prepared(name, kernel, here, y, false, stream);
    Task<T> task = prepared.task(Job::slopes);
    task.out = panel.data();
    task.out_stride = columns;
    task.weights = weights.of(name, first, rows, panel.data(), stream);
    task.weights.own = own_parts.data();
    task.weights.gamma = gamma_parts.data();
    if (kernel.kind == Kind::linear || kernel.kind == Kind::additive_chi2)
      prepared.run_without_sums(task);
    else
      prepared.run(task);
    if (own.data())
      fastdl::cuda::launch(name, add_parts<T>, {dim3(blocks_of(rows, 256)), dim3(256), 0, stream}, own_parts.data(),
                           strips, rows, own.data());
    if (wants_gamma)
      fastdl::cuda::launch(name, add_all<T>, {dim3(1), dim3(sum_threads), 0, stream}, gamma_parts.data(), strips * rows,
                           gammas.data() + number);
    if (features == 0) continue;
    T* const to = dx + first * features;
    const SampleView<T> left{here.data, rows, here.row_stride, here.col_stride};
    const SampleView<T> right{y.data, columns, y.row_stride, y.col_stride};
    const auto sum_features = [&](auto kernel_function) {
      using G = GradientShape<T>;
      fastdl::cuda::launch(name, kernel_function,
                           {dim3(blocks_of(rows, G::side) * blocks_of(features, G::side)), dim3(G::threads), 0, stream},
                           panel.data(), left, right, features, factor, prepared.weight(), to);
    };
    switch (kernel.kind) {
      case Kind::rbf:
      case Kind::matern:
        sum_features(feature_sums<T, Apart>);
        break;
      case Kind::laplacian:
        sum_features(feature_sums<T, Towards>);
        break;
      case Kind::chi2:
      case Kind::additive_chi2:
        sum_features(feature_sums<T, ChiSquareSlope>);
        break;
      default:
        gemm::cuda::multiply(name, gemm::cuda::operand<T>(panel.data(), rows, columns, columns, 1),
                             operand_of(transposed(y)), columns, gemm::cuda::result(to, rows, features, features),
                             WithOwn<T>{factor, own.data(), left}, stream);
    }
  }
  if (!wants_gamma) return 0;
  std::vector<double> found(std::size_t(panels), 0.0);
  fastdl::cuda::copy_to_host(name, found.data(), gammas.data(), gammas.bytes(), stream);
  double total = 0;
  for (const double value : found) total += value;
  return total;
}

}  // namespace

template <class T>
double gram_vjp(const Kernel& kernel, const MatrixView<const T>& x, const MatrixView<const T>* y,
                const MatrixView<const T>& grad, T* dx, T* dy, Stream stream) {
  constexpr const char* name = "gram.gram_vjp";
  if (!y) return row_gradients(name, kernel, x, x, Weights<T>{grad, {}, {}, true, false}, true, dx, stream) / 2;
  row_gradients(name, kernel, *y, x, Weights<T>{transposed(grad), {}, {}, false, false}, false, dy, stream);
  return row_gradients(name, kernel, x, *y, Weights<T>{grad, {}, {}, false, false}, true, dx, stream);
}

template <class T>
double matvec_vjp(const Kernel& kernel, const MatrixView<const T>& x, const MatrixView<const T>* y,
                  const MatrixView<const T>& v, const MatrixView<const T>& grad, T* dx, T* dy, T* dv, Stream stream) {
  constexpr const char* name = "gram.matvec_vjp";
  matvec(kernel, y ? *y : x, x, grad, dv, stream);
  if (!y) return row_gradients(name, kernel, x, x, Weights<T>{{}, grad, v, true, true}, true, dx, stream) / 2;
  row_gradients(name, kernel, *y, x, Weights<T>{{}, v, grad, false, true}, false, dy, stream);
  return row_gradients(name, kernel, x, *y, Weights<T>{{}, grad, v, false, true}, true, dx, stream);
}

#define FASTDL_GRAM_VJP(T)                                                                          \
  template double gram_vjp(const Kernel&, const MatrixView<const T>&, const MatrixView<const T>*,   \
                           const MatrixView<const T>&, T*, T*, Stream);                             \
  template double matvec_vjp(const Kernel&, const MatrixView<const T>&, const MatrixView<const T>*, \
                             const MatrixView<const T>&, const MatrixView<const T>&, T*, T*, T*, Stream);
FASTDL_GRAM_VJP(float)
FASTDL_GRAM_VJP(double)
#undef FASTDL_GRAM_VJP

}  // namespace fastdl::gram::cuda
