// Entry points of the Gram family: check, then one dispatch to the active instruction-set level.
#include <cmath>

#include "core/check.hpp"
#include "core/isa.hpp"
#include "fastdl/fastdl.h"
#include "gram/bodies.hpp"

namespace fastdl::gram {
namespace {

void check_number(const char* name, const char* parameter, double value, bool valid, const char* wanted) {
  if (!valid) core::fail(name, std::string(parameter) + " " + wanted, std::to_string(value));
}

void check_kernel(const char* name, const Kernel* kernel, std::int64_t features) {
  if (!kernel) core::fail(name, "a kernel", "NULL");
  const Kernel& k = *kernel;
  const auto at_least_0 = [&](const char* parameter, double value) {
    check_number(name, parameter, value, value >= 0 && std::isfinite(value), ">= 0");
  };
  switch (k.kind) {
    case FASTDL_LINEAR:
    case FASTDL_COSINE:
    case FASTDL_ADDITIVE_CHI2:
      return;
    case FASTDL_POLYNOMIAL:
      check_number(name, "degree", k.degree, k.degree >= 1 && std::isfinite(k.degree), ">= 1");
      [[fallthrough]];
    case FASTDL_SIGMOID:
      check_number(name, "gamma", k.gamma, std::isfinite(k.gamma), "to be finite");
      check_number(name, "coef0", k.coef0, std::isfinite(k.coef0), "to be finite");
      return;
    case FASTDL_RBF:
    case FASTDL_LAPLACIAN:
    case FASTDL_CHI2:
      return at_least_0("gamma", k.gamma);
    case FASTDL_MATERN:
      check_number(name, "nu", k.nu, k.nu == 0.5 || k.nu == 1.5 || k.nu == 2.5 || (std::isinf(k.nu) && k.nu > 0),
                   "of 0.5, 1.5, 2.5 or infinity");
      if (!k.length_scales)
        return check_number(name, "length_scale", k.length_scale, k.length_scale > 0 && std::isfinite(k.length_scale),
                            "> 0");
      for (std::int64_t f = 0; f < features; ++f)
        check_number(name, "length_scales", k.length_scales[f],
                     k.length_scales[f] > 0 && std::isfinite(k.length_scales[f]), "> 0");
      return;
    case FASTDL_GEOMETRIC:
      return check_number(name, "alpha", k.alpha, k.alpha > 0 && k.alpha < 1, "between 0 and 1");
    case FASTDL_SINC:
      return check_number(name, "omega", k.omega, k.omega > 0 && std::isfinite(k.omega), "> 0");
    case FASTDL_ARC_COSINE:
      return check_number(name, "order", k.order, k.order >= 0 && k.order <= 2, "of 0, 1 or 2");
    case FASTDL_NNGP:
    case FASTDL_NTK:
      check_number(name, "depth", k.depth, k.depth >= 0, ">= 0");
      at_least_0("w_std", k.w_std);
      return at_least_0("b_std", k.b_std);
  }
  core::fail(name, "a kernel of the list", std::to_string(int(k.kind)));
}

// X and Y with the same features; Y is X if it is not given.
template <class View>
const View* check_rows(const char* name, const View* x, const View* y) {
  core::check_matrix(name, "X", x);
  if (!y) return x;
  core::check_matrix(name, "Y", y);
  if (x->cols != y->cols)
    core::fail(name, "Y with " + std::to_string(x->cols) + " columns as X has", std::to_string(y->cols));
  return y;
}

template <class View>
void check_right_side(const char* name, const char* label, const View* v, std::int64_t rows) {
  core::check_matrix(name, label, v);
  if (v->rows != rows)
    core::fail(name, std::string(label) + " with " + std::to_string(rows) + " rows", std::to_string(v->rows));
}

template <class T, class View>
void compute(const char* name, const Kernel* kernel, const View* x, const View* y, const View* k) {
  const bool symmetric = y == nullptr;
  y = check_rows(name, x, y);
  check_kernel(name, kernel, x->cols);
  core::check_output(name, "K", k, x->rows, y->rows);
  if (core::empty(k)) return;
  FASTDL_DISPATCH(gram(*kernel, matrix_of<const T>(*x), matrix_of<const T>(*y), symmetric, matrix_of<T>(*k)));
}

template <class T, class View>
void compute_part(const Kernel* kernel, const View* x, std::int64_t row, std::int64_t column, const View* k) {
  constexpr const char* name = "gram.part";
  check_rows<View>(name, x, nullptr);
  check_kernel(name, kernel, x->cols);
  core::check_matrix(name, "K", k);
  core::check_output(name, "K", k, k->rows, k->cols);
  const auto within = [&](const char* label, std::int64_t first, std::int64_t count) {
    if (first < 0 || first > x->rows || count > x->rows - first)
      core::fail(name, std::string(label) + " of K within the " + std::to_string(x->rows) + " rows of X",
                 std::to_string(count) + " from " + std::to_string(first) + " on");
  };
  within("rows", row, k->rows);
  within("columns", column, k->cols);
  if (core::empty(k)) return;
  FASTDL_DISPATCH(part(*kernel, matrix_of<const T>(*x), row, column, matrix_of<T>(*k)));
}

template <class T, class View>
void compute_diagonal(const Kernel* kernel, const View* x, const View* out) {
  constexpr const char* name = "gram.diag";
  check_rows<View>(name, x, nullptr);
  check_kernel(name, kernel, x->cols);
  core::check_output(name, "out", out, x->rows, 1);
  if (core::empty(out)) return;
  FASTDL_DISPATCH(
      diagonal(*kernel, matrix_of<const T>(*x), out->data, core::usable_stride(out->rows, out->row_stride)));
}

template <class T, class View>
void compute_matvec(const Kernel* kernel, const View* x, const View* y, const View* v, const View* out) {
  constexpr const char* name = "gram.matvec";
  y = check_rows(name, x, y);
  check_kernel(name, kernel, x->cols);
  check_right_side(name, "v", v, y->rows);
  core::check_output(name, "out", out, x->rows, v->cols);
  if (core::empty(out)) return;
  FASTDL_DISPATCH(
      matvec(*kernel, matrix_of<const T>(*x), matrix_of<const T>(*y), matrix_of<const T>(*v), matrix_of<T>(*out)));
}

template <class T, class View>
void compute_softmax(const View* q, const View* k, const View* v, double scale, const View* out) {
  constexpr const char* name = "gram.softmax_matvec";
  core::check_matrix(name, "Q", q);
  core::check_matrix(name, "K", k);
  if (q->cols != k->cols)
    core::fail(name, "K with " + std::to_string(q->cols) + " columns as Q has", std::to_string(k->cols));
  check_number(name, "scale", scale, std::isfinite(scale), "to be finite");
  check_right_side(name, "V", v, k->rows);
  core::check_output(name, "out", out, q->rows, v->cols);
  if (core::empty(out)) return;
  FASTDL_DISPATCH(
      softmax(matrix_of<const T>(*q), matrix_of<const T>(*k), matrix_of<const T>(*v), scale, matrix_of<T>(*out)));
}

template <class T, class View>
void compute_distance(const Kernel* kernel, const View* x, const View* y, const View* out) {
  constexpr const char* name = "gram.distance";
  const bool symmetric = !y;
  y = check_rows(name, x, y);
  check_kernel(name, kernel, x->cols);
  core::check_output(name, "out", out, x->rows, y->rows);
  if (core::empty(out)) return;
  FASTDL_DISPATCH(distance(*kernel, matrix_of<const T>(*x), matrix_of<const T>(*y), symmetric, matrix_of<T>(*out)));
}

template <class T, class View>
void compute_invariant(const Kernel* kernel, const View* x, const View* y, const std::int64_t* permutations,
                       std::int64_t order, bool group, const View* k) {
  constexpr const char* name = "gram.invariant";
  const bool symmetric = !y;
  y = check_rows(name, x, y);
  check_kernel(name, kernel, x->cols);
  core::check_output(name, "K", k, x->rows, y->rows);
  const std::int64_t d = x->cols;
  if (order < 0) core::fail(name, "order >= 0", std::to_string(order));
  std::int64_t entries;
  if (__builtin_mul_overflow(order, d, &entries) || entries > INT64_MAX / 8)
    core::fail(name, "permutations within the address space", std::to_string(order) + " of " + std::to_string(d));
  if (entries > 0 && !permutations) core::fail(name, "permutations", "NULL");
  for (std::int64_t i = 0; i < entries; ++i)
    if (permutations[i] < 0 || permutations[i] >= d)
      core::fail(name, "permutations of 0 to " + std::to_string(d - 1), std::to_string(permutations[i]));
  if (core::empty(k)) return;
  FASTDL_DISPATCH(invariant(*kernel, matrix_of<const T>(*x), matrix_of<const T>(*y), symmetric, permutations, order,
                            group, matrix_of<T>(*k)));
}

template <class Sparse>
void check_sparse(const char* name, const std::string& label, const Sparse* s) {
  if (!s) core::fail(name, label + " to be given", "NULL");
  if (s->rows < 0 || s->cols < 0)
    core::fail(name, label + " with extents >= 0", std::to_string(s->rows) + " x " + std::to_string(s->cols));
  if (!s->offsets) core::fail(name, label + " with offsets", "a null pointer");
  constexpr std::int64_t most = INT64_MAX / 8;  // numbers of 8 bytes in the address space
  if (s->rows >= most) core::fail(name, label + " within the address space", std::to_string(s->rows) + " rows");
  if (s->offsets[0] != 0) core::fail(name, label + " with offsets from 0", std::to_string(s->offsets[0]));
  for (std::int64_t i = 0; i < s->rows; ++i)
    if (s->offsets[i + 1] < s->offsets[i])
      core::fail(name, label + " with ascending offsets",
                 std::to_string(s->offsets[i + 1]) + " after " + std::to_string(s->offsets[i]));
  if (s->offsets[s->rows] > most)
    core::fail(name, label + " within the address space", std::to_string(s->offsets[s->rows]) + " entries");
  if (s->offsets[s->rows] > 0 && (!s->indices || !s->values))
    core::fail(name, label + " with indices and values", "a null pointer");
  for (std::int64_t i = 0; i < s->rows; ++i)
    for (std::int64_t e = s->offsets[i]; e < s->offsets[i + 1]; ++e)
      if (s->indices[e] < (e > s->offsets[i] ? s->indices[e - 1] + 1 : 0) || s->indices[e] >= s->cols)
        core::fail(name, label + " with ascending indices below " + std::to_string(s->cols),
                   std::to_string(s->indices[e]) + " in row " + std::to_string(i));
}

template <class T, class Sparse, class View>
void compute_sparse(const Kernel* kernel, const Sparse* x, const Sparse* y, bool symmetric, const View* k) {
  constexpr const char* name = "gram.sparse";
  check_sparse(name, "X", x);
  check_sparse(name, "Y transposed", y);
  if (!kernel) core::fail(name, "a kernel", "NULL");
  if (kernel->kind != FASTDL_LINEAR && kernel->kind != FASTDL_POLYNOMIAL && kernel->kind != FASTDL_RBF &&
      kernel->kind != FASTDL_COSINE)
    core::fail(name, "a linear, polynomial, rbf or cosine kernel", std::to_string(int(kernel->kind)));
  check_kernel(name, kernel, x->cols);
  if (y->rows != x->cols)
    core::fail(name, "Y transposed with " + std::to_string(x->cols) + " rows", std::to_string(y->rows));
  if (symmetric && y->cols != x->rows)
    core::fail(name, "Y to be X", std::to_string(y->cols) + " and " + std::to_string(x->rows) + " rows");
  core::check_output(name, "K", k, x->rows, y->cols);
  if (x->rows == 0 || y->cols == 0) return;
  const SparseRows<T> rows{x->rows, x->offsets, x->indices, x->values};
  const SparseRows<T> columns{y->rows, y->offsets, y->indices, y->values};
  FASTDL_DISPATCH(sparse(*kernel, rows, columns, symmetric, matrix_of<T>(*k)));
}

// dX, and dY where there is a Y
template <class View>
void check_gradients(const char* name, const View* x, const View* y, const View* dx, const View* dy) {
  core::check_output(name, "dX", dx, x->rows, x->cols);
  if (y) core::check_output(name, "dY", dy, y->rows, y->cols);
  if (!y && dy) core::fail(name, "dY to be NULL without Y", "a matrix");
}

template <class T, class View>
void compute_vjp(const Kernel* kernel, const View* x, const View* y, const View* grad, const View* dx, const View* dy,
                 double* gamma) {
  constexpr const char* name = "gram.gram_vjp";
  const View* others = check_rows(name, x, y);
  check_kernel(name, kernel, x->cols);
  check_right_side(name, "grad", grad, x->rows);
  if (grad->cols != others->rows)
    core::fail(name, "grad with " + std::to_string(others->rows) + " columns", std::to_string(grad->cols));
  check_gradients(name, x, y, dx, dy);
  if (core::empty(dx) && (!y || core::empty(dy)) && core::empty(grad)) {
    if (gamma) *gamma = 0;
    return;
  }
  const Matrix<const T> y_view = matrix_of<const T>(*others);
  const Matrix<T> dy_view = matrix_of<T>(y ? *dy : *dx);
  double by_gamma;
  FASTDL_DISPATCH(vjp(*kernel, matrix_of<const T>(*x), y ? &y_view : nullptr, matrix_of<const T>(*grad),
                      matrix_of<T>(*dx), y ? &dy_view : nullptr, by_gamma));
  if (gamma) *gamma = by_gamma;
}

template <class T, class View>
void compute_matvec_vjp(const Kernel* kernel, const View* x, const View* y, const View* v, const View* grad,
                        const View* dx, const View* dy, const View* dv, double* gamma) {
  constexpr const char* name = "gram.matvec_vjp";
  const View* others = check_rows(name, x, y);
  check_kernel(name, kernel, x->cols);
  check_right_side(name, "v", v, others->rows);
  check_right_side(name, "grad", grad, x->rows);
  if (grad->cols != v->cols)
    core::fail(name, "grad with " + std::to_string(v->cols) + " columns as v has", std::to_string(grad->cols));
  check_gradients(name, x, y, dx, dy);
  core::check_output(name, "dv", dv, v->rows, v->cols);
  if (core::empty(dx) && (!y || core::empty(dy)) && core::empty(dv) && core::empty(grad)) {
    if (gamma) *gamma = 0;
    return;
  }
  const Matrix<const T> y_view = matrix_of<const T>(*others);
  const Matrix<T> dy_view = matrix_of<T>(y ? *dy : *dx);
  double by_gamma;
  FASTDL_DISPATCH(matvec_vjp(*kernel, matrix_of<const T>(*x), y ? &y_view : nullptr, matrix_of<const T>(*v),
                             matrix_of<const T>(*grad), matrix_of<T>(*dx), y ? &dy_view : nullptr, matrix_of<T>(*dv),
                             by_gamma));
  if (gamma) *gamma = by_gamma;
}

}  // namespace
}  // namespace fastdl::gram

using namespace fastdl;

fastdl_kernel fastdl_kernel_default(fastdl_kernel_kind kind, int64_t d) {
  fastdl_kernel kernel{};
  kernel.kind = kind;
  kernel.gamma = kind == FASTDL_CHI2 || d <= 0 ? 1 : 1.0 / static_cast<double>(d);
  kernel.coef0 = 1;
  kernel.degree = 3;
  kernel.length_scale = 1;
  kernel.nu = 1.5;
  kernel.alpha = 0.5;
  kernel.omega = 1;
  kernel.order = 1;
  kernel.depth = 1;
  kernel.normalize = 1;
  kernel.w_std = 1;
  return kernel;
}

#define FASTDL_ENTRIES(suffix, T)                                                                                     \
  fastdl_status fastdl_gram_linear_##suffix(const fastdl_matrix_##suffix* X, const fastdl_matrix_##suffix* Y,         \
                                            const fastdl_matrix_##suffix* K) {                                        \
    return core::guarded([&] {                                                                                        \
      const fastdl_kernel kernel{};                                                                                   \
      gram::compute<T>("gram.linear", &kernel, X, Y, K);                                                              \
    });                                                                                                               \
  }                                                                                                                   \
  fastdl_status fastdl_gram_##suffix(const fastdl_kernel* kernel, const fastdl_matrix_##suffix* X,                    \
                                     const fastdl_matrix_##suffix* Y, const fastdl_matrix_##suffix* K) {              \
    return core::guarded([&] { gram::compute<T>("gram.gram", kernel, X, Y, K); });                                    \
  }                                                                                                                   \
  fastdl_status fastdl_gram_part_##suffix(const fastdl_kernel* kernel, const fastdl_matrix_##suffix* X,               \
                                          std::int64_t row, std::int64_t column, const fastdl_matrix_##suffix* K) {   \
    return core::guarded([&] { gram::compute_part<T>(kernel, X, row, column, K); });                                  \
  }                                                                                                                   \
  fastdl_status fastdl_gram_diag_##suffix(const fastdl_kernel* kernel, const fastdl_matrix_##suffix* X,               \
                                          const fastdl_matrix_##suffix* out) {                                        \
    return core::guarded([&] { gram::compute_diagonal<T>(kernel, X, out); });                                         \
  }                                                                                                                   \
  fastdl_status fastdl_gram_matvec_##suffix(const fastdl_kernel* kernel, const fastdl_matrix_##suffix* X,             \
                                            const fastdl_matrix_##suffix* Y, const fastdl_matrix_##suffix* v,         \
                                            const fastdl_matrix_##suffix* out) {                                      \
    return core::guarded([&] { gram::compute_matvec<T>(kernel, X, Y, v, out); });                                     \
  }                                                                                                                   \
  fastdl_status fastdl_gram_distance_##suffix(const fastdl_kernel* kernel, const fastdl_matrix_##suffix* X,           \
                                              const fastdl_matrix_##suffix* Y, const fastdl_matrix_##suffix* out) {   \
    return core::guarded([&] { gram::compute_distance<T>(kernel, X, Y, out); });                                      \
  }                                                                                                                   \
  fastdl_status fastdl_gram_invariant_##suffix(const fastdl_kernel* kernel, const fastdl_matrix_##suffix* X,          \
                                               const fastdl_matrix_##suffix* Y, const std::int64_t* permutations,     \
                                               std::int64_t order, int group, const fastdl_matrix_##suffix* K) {      \
    return core::guarded([&] { gram::compute_invariant<T>(kernel, X, Y, permutations, order, group != 0, K); });      \
  }                                                                                                                   \
  fastdl_status fastdl_gram_softmax_matvec_##suffix(const fastdl_matrix_##suffix* Q, const fastdl_matrix_##suffix* K, \
                                                    const fastdl_matrix_##suffix* V, double scale,                    \
                                                    const fastdl_matrix_##suffix* out) {                              \
    return core::guarded([&] { gram::compute_softmax<T>(Q, K, V, scale, out); });                                     \
  }                                                                                                                   \
  fastdl_status fastdl_gram_sparse_##suffix(const fastdl_kernel* kernel, const fastdl_sparse_##suffix* X,             \
                                            const fastdl_sparse_##suffix* Y_transposed, int symmetric,                \
                                            const fastdl_matrix_##suffix* K) {                                        \
    return core::guarded([&] { gram::compute_sparse<T>(kernel, X, Y_transposed, symmetric != 0, K); });               \
  }                                                                                                                   \
  fastdl_status fastdl_gram_vjp_##suffix(const fastdl_kernel* kernel, const fastdl_matrix_##suffix* X,                \
                                         const fastdl_matrix_##suffix* Y, const fastdl_matrix_##suffix* grad,         \
                                         const fastdl_matrix_##suffix* dX, const fastdl_matrix_##suffix* dY,          \
                                         double* gamma) {                                                             \
    return core::guarded([&] { gram::compute_vjp<T>(kernel, X, Y, grad, dX, dY, gamma); });                           \
  }                                                                                                                   \
  fastdl_status fastdl_gram_matvec_vjp_##suffix(                                                                      \
      const fastdl_kernel* kernel, const fastdl_matrix_##suffix* X, const fastdl_matrix_##suffix* Y,                  \
      const fastdl_matrix_##suffix* v, const fastdl_matrix_##suffix* grad, const fastdl_matrix_##suffix* dX,          \
      const fastdl_matrix_##suffix* dY, const fastdl_matrix_##suffix* dv, double* gamma) {                            \
    return core::guarded([&] { gram::compute_matvec_vjp<T>(kernel, X, Y, v, grad, dX, dY, dv, gamma); });             \
  }
FASTDL_ENTRIES(f32, float)
FASTDL_ENTRIES(f64, double)
