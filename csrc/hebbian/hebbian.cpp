// Entry points of the rules of learning: check, then one dispatch to the active instruction-set level.
#include <cmath>

#include "core/check.hpp"
#include "core/isa.hpp"
#include "fastdl/fastdl.h"
#include "hebbian/bodies.hpp"

namespace fastdl::hebbian {
namespace {

const char* check_rule(const Rule* rule) {
  static constexpr const char* names[] = {"hebbian.hebb",     "hebbian.hebb", "hebbian.oja",    "hebbian.sanger",
                                          "hebbian.subspace", "hebbian.bcm",  "hebbian.krotov", "hebbian.soft_hebb"};
  if (!rule) core::fail("hebbian.learn", "a rule", "NULL");
  const int kind = static_cast<int>(rule->kind), algorithm = static_cast<int>(rule->algorithm);
  if (kind < 0 || kind > FASTDL_HEBBIAN_SOFT) core::fail("hebbian.learn", "a rule of the list", std::to_string(kind));
  const char* name = names[kind];
  if (algorithm < 0 || algorithm > FASTDL_HEBBIAN_BLOCKS)
    core::fail(name, "an algorithm of the list", std::to_string(algorithm));
  if (rule->together && kind > FASTDL_HEBBIAN_SUBSPACE) core::fail(name, "samples in their order", "all together");
  const auto number = [&](const char* parameter, double value, bool valid, const char* wanted) {
    if (!valid) core::fail(name, std::string(parameter) + " " + wanted, std::to_string(value));
  };
  if (kind == FASTDL_HEBBIAN_BCM) number("tau", rule->tau, rule->tau > 0 && std::isfinite(rule->tau), "above 0");
  if (kind == FASTDL_HEBBIAN_SOFT)
    number("temperature", rule->temperature, rule->temperature > 0 && std::isfinite(rule->temperature), "above 0");
  if (kind == FASTDL_HEBBIAN_KROTOV) {
    number("delta", rule->delta, rule->delta >= 0 && std::isfinite(rule->delta), "of at least 0");
    number("norm", rule->norm, rule->norm >= 1 && std::isfinite(rule->norm), "of at least 1");
    if (rule->rank < 2) core::fail(name, "rank of at least 2", std::to_string(rule->rank));
  }
  return name;
}

template <class View>
void check_learning(const char* name, const char* label, const View* w, const View* x, const View* out) {
  core::check_matrix(name, label, w);
  core::check_matrix(name, "X", x);
  if (x->cols != w->cols)
    core::fail(name, "X with " + std::to_string(w->cols) + " columns as " + label + " has", std::to_string(x->cols));
  core::check_output(name, "out", out, w->rows, w->cols);
}

template <class T>
void check_steps(const char* name, std::int64_t samples, const T* lr, std::int64_t stride) {
  if (samples > 0 && !lr) core::fail(name, "lr to be given", "NULL");
  if (core::beyond_addresses(samples, stride, 1, 0, sizeof(T)))
    core::fail(name, "lr within the address space",
               std::to_string(samples) + " steps with a stride of " + std::to_string(stride));
  for (std::int64_t t = 0; t < samples; ++t)
    if (!std::isfinite(lr[t * stride])) core::fail(name, "lr to be finite", std::to_string(lr[t * stride]));
}

// Samples are numbered from the first one of all on.
void check_count(const char* name, std::int64_t count, std::int64_t samples) {
  if (count < 0 || count >= INT64_MAX - samples)
    core::fail(name, "count of at least 0 and, with the samples, below 2^63 - 1", std::to_string(count));
}

void check_finite(const char* name, std::int64_t diverged) {
  if (diverged == all_finite) return;
  if (diverged == bad_from_the_start) core::fail(name, "finite weights to begin with", "some that are not");
  throw core::NotFinite("[" + std::string(name) +
                        "] expected weights that stay finite, got one that is not after sample " +
                        std::to_string(diverged));
}

template <class T, class View>
void compute_learn(const Rule* rule, const View* w, const View* x, const T* lr, std::int64_t lr_stride, T* theta,
                   const View* out) {
  const char* name = check_rule(rule);
  check_learning(name, "W", w, x, out);
  check_steps(name, x->rows, lr, lr_stride);
  const bool thresholds = rule->kind == FASTDL_HEBBIAN_BCM;
  if (thresholds && w->rows > 0 && !theta) core::fail(name, "theta to be given", "NULL");
  std::int64_t diverged = all_finite;
  const Steps<T> steps{lr, lr_stride};
  if (rule->together)
    FASTDL_DISPATCH(
        learn_together(*rule, matrix_of<const T>(*w), matrix_of<const T>(*x), steps, matrix_of<T>(*out), diverged))
  else
    FASTDL_DISPATCH(learn(*rule, matrix_of<const T>(*w), matrix_of<const T>(*x), steps, thresholds ? theta : nullptr,
                          matrix_of<T>(*out), diverged))
  check_finite(name, diverged);
}

template <class T, class View>
void compute_foldiak(const Settling* how, const View* w, const View* x, const T* lr, std::int64_t lr_stride,
                     const View* lateral, T* threshold, const View* out) {
  constexpr const char* name = "hebbian.foldiak";
  if (!how) core::fail(name, "parameters", "NULL");
  check_learning(name, "W", w, x, out);
  check_steps(name, x->rows, lr, lr_stride);
  core::check_output(name, "lateral", lateral, w->rows, w->rows);
  if (w->rows > 0 && !threshold) core::fail(name, "threshold to be given", "NULL");
  if (how->steps < 0) core::fail(name, "steps of at least 0", std::to_string(how->steps));
  std::int64_t diverged = all_finite;
  FASTDL_DISPATCH(foldiak(*how, matrix_of<const T>(*w), matrix_of<const T>(*x), Steps<T>{lr, lr_stride},
                          matrix_of<T>(*out), matrix_of<T>(*lateral), threshold, diverged));
  check_finite(name, diverged);
}

template <class T, class View>
void compute_ccipca(const View* v, const View* x, std::int64_t count, double amnesic, const View* out) {
  constexpr const char* name = "hebbian.ccipca";
  check_learning(name, "V", v, x, out);
  check_count(name, count, x->rows);
  if (!(amnesic >= 0) || !std::isfinite(amnesic)) core::fail(name, "amnesic of at least 0", std::to_string(amnesic));
  if (core::empty(out)) return;
  std::int64_t diverged = all_finite;
  FASTDL_DISPATCH(ccipca(matrix_of<const T>(*v), matrix_of<const T>(*x), count, amnesic, matrix_of<T>(*out), diverged));
  check_finite(name, diverged);
}

template <class T, class View>
void compute_center(const View* x, const double* mean, std::int64_t count, double* after, const View* out) {
  constexpr const char* name = "hebbian.center";
  core::check_matrix(name, "X", x);
  core::check_output(name, "out", out, x->rows, x->cols);
  check_count(name, count, x->rows);
  if (x->cols > 0 && (!mean || !after)) core::fail(name, "mean and after", "a null pointer");
  if (x->cols == 0) return;
  FASTDL_DISPATCH(center(matrix_of<const T>(*x), mean, count, after, matrix_of<T>(*out)));
}

}  // namespace
}  // namespace fastdl::hebbian

using namespace fastdl;

#define FASTDL_ENTRIES(suffix, T)                                                                                    \
  fastdl_status fastdl_hebbian_learn_##suffix(const fastdl_hebbian_rule* rule, const fastdl_matrix_##suffix* W,      \
                                              const fastdl_matrix_##suffix* X, const T* lr, int64_t lr_stride,       \
                                              T* theta, const fastdl_matrix_##suffix* out) {                         \
    return core::guarded([&] { hebbian::compute_learn<T>(rule, W, X, lr, lr_stride, theta, out); });                 \
  }                                                                                                                  \
  fastdl_status fastdl_hebbian_foldiak_##suffix(const fastdl_hebbian_settling* how, const fastdl_matrix_##suffix* W, \
                                                const fastdl_matrix_##suffix* X, const T* lr, int64_t lr_stride,     \
                                                const fastdl_matrix_##suffix* lateral, T* threshold,                 \
                                                const fastdl_matrix_##suffix* out) {                                 \
    return core::guarded([&] { hebbian::compute_foldiak<T>(how, W, X, lr, lr_stride, lateral, threshold, out); });   \
  }                                                                                                                  \
  fastdl_status fastdl_hebbian_ccipca_##suffix(const fastdl_matrix_##suffix* V, const fastdl_matrix_##suffix* X,     \
                                               int64_t count, double amnesic, const fastdl_matrix_##suffix* out) {   \
    return core::guarded([&] { hebbian::compute_ccipca<T>(V, X, count, amnesic, out); });                            \
  }                                                                                                                  \
  fastdl_status fastdl_hebbian_center_##suffix(const fastdl_matrix_##suffix* X, const double* mean, int64_t count,   \
                                               double* after, const fastdl_matrix_##suffix* out) {                   \
    return core::guarded([&] { hebbian::compute_center<T>(X, mean, count, after, out); });                           \
  }
FASTDL_ENTRIES(f32, float)
FASTDL_ENTRIES(f64, double)
