// The family's bodies, one set per instruction-set level, each compiled from its own *_isa.cpp.
#pragma once

#include <cstdint>

#include "core/isa.hpp"
#include "core/stride.hpp"
#include "fastdl/fastdl.h"

namespace fastdl::hebbian {

template <class T>
struct Matrix {
  T* data;
  std::int64_t rows, cols, row_stride, col_stride;
};

template <class T, class View>
Matrix<T> matrix_of(const View& v) {
  return {core::usable_data(v.data), v.rows, v.cols, core::usable_stride(v.rows, v.row_stride, v.cols),
          core::usable_stride(v.cols, v.col_stride, v.rows)};
}

using Rule = fastdl_hebbian_rule;
using Settling = fastdl_hebbian_settling;

// A step for every sample; a stride of 0 means the same for all.
template <class T>
struct Steps {
  const T* data;
  std::int64_t stride;

  T operator[](std::int64_t sample) const { return data[sample * stride]; }
};

// What `diverged` says beside the number of a sample.
inline constexpr std::int64_t all_finite = -1, bad_from_the_start = -2;

// learn:    W after all samples, one after the other, in `out`, which may be w itself; theta, of a rule that has it, is
//           read and written. On divergence nothing is written.
// learn_together: the same with all samples seeing w
// foldiak:  the same for units that inhibit each other; lateral and threshold are read and written
// ccipca:   the same for candid components, with `count` samples before
// center:   out = samples less the mean of all up to each; `mean` of `count` before, and `after` at the end
// weights:  out = P' P / d, diagonal 0 unless kept
// energy:   out[i] = -s W s / 2 + b s
// recall:   states in `s` run; orders are `sweeps` rows of `units`
// dense_*:  the same two for a dense memory of patterns p; a degree of infinity is the exponential function
// crosstalk: out = (G with zero diagonal) P, G = P P' / d
#define FASTDL_HEBBIAN_TYPE(T)                                                                                        \
  void learn(const Rule& rule, const Matrix<const T>& w, const Matrix<const T>& x, Steps<T> lr, T* theta,             \
             const Matrix<T>& out, std::int64_t& diverged);                                                           \
  void learn_together(const Rule& rule, const Matrix<const T>& w, const Matrix<const T>& x, Steps<T> lr,              \
                      const Matrix<T>& out, std::int64_t& diverged);                                                  \
  void foldiak(const Settling& how, const Matrix<const T>& w, const Matrix<const T>& x, Steps<T> lr,                  \
               const Matrix<T>& out, const Matrix<T>& lateral, T* threshold, std::int64_t& diverged);                 \
  void ccipca(const Matrix<const T>& v, const Matrix<const T>& x, std::int64_t count, double amnesic,                 \
              const Matrix<T>& out, std::int64_t& diverged);                                                          \
  void center(const Matrix<const T>& x, const double* mean, std::int64_t count, double* after, const Matrix<T>& out); \
  void weights(const Matrix<const T>& p, bool zero_diagonal, const Matrix<T>& out);                                   \
  void energy(const Matrix<const T>& w, const Matrix<const T>& s, const Matrix<const T>& b, T* out,                   \
              std::int64_t stride);                                                                                   \
  void recall(const Matrix<const T>& w, const Matrix<const T>& b, bool together, std::int64_t max_sweeps,             \
              const std::int64_t* orders, std::int64_t sweeps, std::int64_t units, const Matrix<T>& s);               \
  void dense_recall(const Matrix<const T>& p, double degree, bool together, std::int64_t max_sweeps,                  \
                    const std::int64_t* orders, std::int64_t sweeps, std::int64_t units, const Matrix<T>& s);         \
  void dense_energy(const Matrix<const T>& p, double degree, const Matrix<const T>& s, T* out, std::int64_t stride);  \
  void crosstalk(const Matrix<const T>& p, const Matrix<T>& out);

#define FASTDL_HEBBIAN_BODIES(level) \
  namespace level {                  \
  FASTDL_HEBBIAN_TYPE(float)         \
  FASTDL_HEBBIAN_TYPE(double)        \
  }
FASTDL_DECLARE_LEVELS(FASTDL_HEBBIAN_BODIES)
#undef FASTDL_HEBBIAN_BODIES

}  // namespace fastdl::hebbian
