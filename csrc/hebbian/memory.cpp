// Entry points of the associative memories: check, then one dispatch.
#include <cmath>
#include <type_traits>

#include "core/check.hpp"
#include "core/isa.hpp"
#include "fastdl/fastdl.h"
#include "hebbian/bodies.hpp"

namespace fastdl::hebbian {
namespace {

template <class T, class View>
void compute_weights(const View* p, bool zero_diagonal, const View* w) {
  constexpr const char* name = "hebbian.hopfield_weights";
  core::check_matrix(name, "P", p);
  core::check_output(name, "W", w, p->cols, p->cols);
  if (core::empty(w)) return;
  FASTDL_DISPATCH(weights(matrix_of<const T>(*p), zero_diagonal, matrix_of<T>(*w)));
}

// W is d x d, and b, if there is one, d x 1.
template <class T, class View>
Matrix<const T> check_network(const char* name, const View* w, const View* b) {
  core::check_matrix(name, "W", w);
  if (w->rows != w->cols) core::fail(name, "W to be square", std::to_string(w->rows) + " x " + std::to_string(w->cols));
  if (!b) return {nullptr, w->rows, 1, 0, 0};
  core::check_matrix(name, "b", b);
  if (b->rows != w->rows || b->cols != 1)
    core::fail(name, "b of shape " + std::to_string(w->rows) + " x 1",
               std::to_string(b->rows) + " x " + std::to_string(b->cols));
  return matrix_of<const T>(*b);
}

template <class View>
void check_states(const char* name, const View* w, const View* s) {
  if (s->cols != w->cols)
    core::fail(name, "S with " + std::to_string(w->cols) + " columns as W has", std::to_string(s->cols));
}

template <class T, class View>
void compute_energy(const View* w, const View* s, const View* b, const View* out) {
  constexpr const char* name = "hebbian.hopfield_energy";
  const Matrix<const T> thresholds = check_network<T>(name, w, b);
  core::check_matrix(name, "S", s);
  check_states(name, w, s);
  core::check_output(name, "out", out, s->rows, 1);
  FASTDL_DISPATCH(energy(matrix_of<const T>(*w), matrix_of<const T>(*s), thresholds, static_cast<T*>(out->data),
                         core::usable_stride(out->rows, out->row_stride)));
}

// What every recall takes. `limit`: the number of units.
void check_sweeps(const char* name, bool together, std::int64_t max_sweeps, const std::int64_t* orders,
                  std::int64_t sweeps, std::int64_t units, std::int64_t limit) {
  if (max_sweeps < 0) core::fail(name, "max_sweeps of at least 0", std::to_string(max_sweeps));
  if (together) return;
  std::int64_t count;
  if (sweeps < 1 || units < 0 || __builtin_mul_overflow(sweeps, units, &count) || count > INT64_MAX / 8)
    core::fail(name, "orders for one sweep or more", std::to_string(sweeps) + " of " + std::to_string(units));
  if (count > 0 && !orders) core::fail(name, "orders", "NULL");
  for (std::int64_t i = 0; i < count; ++i)
    if (orders[i] < 0 || orders[i] >= limit)
      core::fail(name, "orders of 0 to " + std::to_string(limit - 1), std::to_string(orders[i]));
}

template <class T, class View>
void check_spins(const char* name, const View* s) {
  for (std::int64_t i = 0; i < s->rows; ++i) {
    const T* state = s->data + i * s->row_stride;
    const auto is_wrong = [](T value) { return (value != 1) & (value != -1); };
    // A count as wide as a value, and no way out of the loop: the compiler then takes vectors, 7 times as fast.
    std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t> wrong = 0;
    if (s->col_stride == 1)
      for (std::int64_t j = 0; j < s->cols; ++j) wrong |= is_wrong(state[j]);
    else
      for (std::int64_t j = 0; j < s->cols; ++j) wrong |= is_wrong(state[j * s->col_stride]);
    for (std::int64_t j = 0; wrong && j < s->cols; ++j)
      if (is_wrong(state[j * s->col_stride]))
        core::fail(name, "states of +1 and -1", std::to_string(state[j * s->col_stride]));
  }
}

template <class T, class View>
void compute_recall(const View* w, const View* b, bool together, std::int64_t max_sweeps, const std::int64_t* orders,
                    std::int64_t sweeps, std::int64_t units, const View* s) {
  constexpr const char* name = "hebbian.hopfield_recall";
  const Matrix<const T> thresholds = check_network<T>(name, w, b);
  core::check_matrix(name, "S", s);
  check_states(name, w, s);
  core::check_output(name, "S", s, s->rows, s->cols);
  check_sweeps(name, together, max_sweeps, orders, sweeps, units, w->rows);
  if (core::empty(s)) return;
  check_spins<T>(name, s);
  if (!together && units == 0) return;  // however often none is asked
  FASTDL_DISPATCH(
      recall(matrix_of<const T>(*w), thresholds, together, max_sweeps, orders, sweeps, units, matrix_of<T>(*s)));
}

template <class View>
void check_dense(const char* name, const View* p, const View* s, double degree) {
  core::check_matrix(name, "P", p);
  core::check_matrix(name, "S", s);
  if (s->cols != p->cols)
    core::fail(name, "S with " + std::to_string(p->cols) + " columns as P has", std::to_string(s->cols));
  const bool whole = degree >= 1 && degree <= 1000 && degree == double(int(degree));
  if (!whole && degree != HUGE_VAL)
    core::fail(name, "degree to be a whole number from 1 to 1000, or infinite", std::to_string(degree));
}

template <class T, class View>
void compute_dense_energy(const View* p, const View* s, double degree, const View* out) {
  constexpr const char* name = "hebbian.dense_hopfield_energy";
  check_dense(name, p, s, degree);
  core::check_output(name, "out", out, s->rows, 1);
  FASTDL_DISPATCH(dense_energy(matrix_of<const T>(*p), degree, matrix_of<const T>(*s), static_cast<T*>(out->data),
                               core::usable_stride(out->rows, out->row_stride)));
}

template <class T, class View>
void compute_dense(const View* p, double degree, bool together, std::int64_t max_sweeps, const std::int64_t* orders,
                   std::int64_t sweeps, std::int64_t units, const View* s) {
  constexpr const char* name = "hebbian.dense_hopfield";
  check_dense(name, p, s, degree);
  core::check_output(name, "S", s, s->rows, s->cols);
  check_sweeps(name, together, max_sweeps, orders, sweeps, units, p->cols);
  if (core::empty(s)) return;
  check_spins<T>(name, s);
  if (!together && units == 0) return;  // however often none is asked
  FASTDL_DISPATCH(
      dense_recall(matrix_of<const T>(*p), degree, together, max_sweeps, orders, sweeps, units, matrix_of<T>(*s)));
}

template <class T, class View>
void compute_crosstalk(const View* p, const View* out) {
  constexpr const char* name = "hebbian.crosstalk";
  core::check_matrix(name, "P", p);
  core::check_output(name, "out", out, p->rows, p->cols);
  if (core::empty(out)) return;
  FASTDL_DISPATCH(crosstalk(matrix_of<const T>(*p), matrix_of<T>(*out)));
}

}  // namespace
}  // namespace fastdl::hebbian

using namespace fastdl;

#define FASTDL_ENTRIES(suffix, T)                                                                                    \
  fastdl_status fastdl_hebbian_hopfield_weights_##suffix(const fastdl_matrix_##suffix* P, int zero_diagonal,         \
                                                         const fastdl_matrix_##suffix* W) {                          \
    return core::guarded([&] { hebbian::compute_weights<T>(P, zero_diagonal != 0, W); });                            \
  }                                                                                                                  \
  fastdl_status fastdl_hebbian_hopfield_energy_##suffix(                                                             \
      const fastdl_matrix_##suffix* W, const fastdl_matrix_##suffix* S, const fastdl_matrix_##suffix* b,             \
      const fastdl_matrix_##suffix* out) {                                                                           \
    return core::guarded([&] { hebbian::compute_energy<T>(W, S, b, out); });                                         \
  }                                                                                                                  \
  fastdl_status fastdl_hebbian_hopfield_recall_##suffix(                                                             \
      const fastdl_matrix_##suffix* W, const fastdl_matrix_##suffix* b, int together, int64_t max_sweeps,            \
      const int64_t* orders, int64_t sweeps, int64_t units, const fastdl_matrix_##suffix* S) {                       \
    return core::guarded(                                                                                            \
        [&] { hebbian::compute_recall<T>(W, b, together != 0, max_sweeps, orders, sweeps, units, S); });             \
  }                                                                                                                  \
  fastdl_status fastdl_hebbian_dense_hopfield_energy_##suffix(const fastdl_matrix_##suffix* P,                       \
                                                              const fastdl_matrix_##suffix* S, double degree,        \
                                                              const fastdl_matrix_##suffix* out) {                   \
    return core::guarded([&] { hebbian::compute_dense_energy<T>(P, S, degree, out); });                              \
  }                                                                                                                  \
  fastdl_status fastdl_hebbian_dense_hopfield_##suffix(const fastdl_matrix_##suffix* P, double degree, int together, \
                                                       int64_t max_sweeps, const int64_t* orders, int64_t sweeps,    \
                                                       int64_t units, const fastdl_matrix_##suffix* S) {             \
    return core::guarded(                                                                                            \
        [&] { hebbian::compute_dense<T>(P, degree, together != 0, max_sweeps, orders, sweeps, units, S); });         \
  }                                                                                                                  \
  fastdl_status fastdl_hebbian_crosstalk_##suffix(const fastdl_matrix_##suffix* P,                                   \
                                                  const fastdl_matrix_##suffix* out) {                               \
    return core::guarded([&] { hebbian::compute_crosstalk<T>(P, out); });                                            \
  }
FASTDL_ENTRIES(f32, float)
FASTDL_ENTRIES(f64, double)
