// Hebbian learning and associative memories on the GPU, as the host calls them. All pointers are of device memory
// unless said otherwise; matrices are row-major and contiguous but for Samples, which have any strides.
//
// What learns returns after which sample a weight is no longer finite, all_finite, or bad_from_the_start. It waits for
// the device to know that, and writes its results only if all is finite; they may lie where the weights do.
#pragma once

#include "device.hpp"

namespace fastdl::hebbian::cuda {

using fastdl::cuda::Index;
using fastdl::cuda::Stream;

constexpr Index all_finite = -1, bad_from_the_start = -2;

enum class Rule { hebb, normalized, oja, sanger, subspace, bcm, krotov, soft };

struct Learning {
  const char* name;
  Rule rule;
  bool blocks = true;  // products of blocks of samples where the rule has them, else a sample after the other
  bool falls = false;  // a step is below 0, which makes the length of a normalised unit a difference: one by one
  double tau = 100, delta = 0.4, temperature = 1, norm = 2;
  Index rank = 2;
};

// A sample a row, or states, or patterns.
template <class T>
struct Samples {
  const T* data;
  Index count, features, row_stride, col_stride;
};

// out = the weights after all samples, lr[t] the step of sample t. theta is read and written by BCM's rule alone.
template <class T>
Index learn(const Learning& how, const T* weights, Index units, const Samples<T>& samples, const T* lr, T* theta,
            T* out, Stream stream);
// The same with all samples seeing the same weights; of the rules up to subspace.
template <class T>
Index learn_together(const Learning& how, const T* weights, Index units, const Samples<T>& samples, const T* lr, T* out,
                     Stream stream);

struct Settling {
  double lateral_lr, threshold_lr, activity, steepness;
  Index steps;
};
// lateral: units x units
template <class T>
Index foldiak(const Settling& how, const T* weights, Index units, const Samples<T>& samples, const T* lr,
              const T* lateral, const T* threshold, T* out, T* lateral_out, T* threshold_out, Stream stream);

template <class T>
Index ccipca(const T* components, Index units, const Samples<T>& samples, Index count, double amnesic, T* out,
             Stream stream);
// Samples less their running mean, `count` of which came before.
template <class T>
void center(const Samples<T>& samples, const double* mean, Index count, double* after, T* out, Stream stream);

template <class T>
void hopfield_weights(const Samples<T>& patterns, bool zero_diagonal, T* weights, Stream stream);
// thresholds may be null
template <class T>
void hopfield_energy(const T* weights, const Samples<T>& states, const T* thresholds, T* out, Stream stream);
template <class T>
void crosstalk(const Samples<T>& patterns, T* out, Stream stream);

// In which order units are asked: `sweeps` rows of `units` numbers on the host, gone through again and again; together:
// all at once.
struct Orders {
  bool together;
  Index max_sweeps;
  const std::int64_t* data;
  Index sweeps, units;
};
// The states, count x units, become what they run to.
template <class T>
void hopfield_recall(const T* weights, const T* thresholds, const Orders& orders, T* states, Index count, Index units,
                     Stream stream);
// degree: a whole number, or infinite for the exponential function
template <class T>
void dense_hopfield(const Samples<T>& patterns, double degree, const Orders& orders, T* states, Index count,
                    Stream stream);
template <class T>
void dense_hopfield_energy(const Samples<T>& patterns, double degree, const T* states, Index count, T* out,
                           Stream stream);

// The place of the first of `count` numbers that is neither +1 nor -1, or -1; and such a number, brought to the host.
template <class T>
Index first_not_spin(const char* name, const T* values, Index count, Stream stream);
template <class T>
T value_at(const char* name, const T* values, Index place, Stream stream) {
  T value;
  fastdl::cuda::copy_to_host(name, &value, values + place, sizeof(T), stream);
  return value;
}

}  // namespace fastdl::hebbian::cuda
