// A sample after the other, with a look at every weight after each: for few samples, for rules that have no blocks, and
// to find the sample after which weights are no longer finite.
//
// Both kernels are chains of n dependent steps with one to three barriers each; a step takes about 1 to 2 us on an A100
// or H100 (estimated) as long as a unit's weights (loop_units), or all of them (loop_together), are in shared memory or
// L1. Beyond that loop_together reads and writes all weights for every sample through one multiprocessor: about 0.1
// TB/s.
#pragma once

#include "hebbian_rows.cuh"

namespace fastdl::hebbian::cuda {

template <class T>
struct Loop {
  Rule rule;
  T* weights;  // units x features, read and written
  Index units, features;
  const T* x;
  Index samples, x_row_stride, x_col_stride;
  const T* lr;
  T* theta;  // of BCM
  T share;   // 1 / tau
  T delta, inverse_temperature;
  double norm;
  Index rank;
  T* activity;      // units: scratch of loop_together
  T* gain;          // the same
  Index* diverged;  // the first sample that failed, or `samples`; for every unit, or one for all
};

// At most; fewer where there are fewer features.
constexpr int loop_threads = 128, together_threads = 512;

template <class T>
struct UnitShared {
  Partials<T> partials;
  int bad[2];  // of samples in turn: one is read while the other is written
};

// What a row is to be multiplied with for length 1, where the square of its length is beyond the type: it is divided by
// its largest element first.
template <class T>
__device__ __forceinline__ T careful_inverse(T* weights, Index features, BlockSums<T>& sums, Partials<T>& partials) {
  T largest = T(0);
  for (Index j = threadIdx.x; j < features; j += blockDim.x) {
    const T size = weights[j] < T(0) ? -weights[j] : weights[j];
    if (size > largest || size != size) largest = size;
  }
  // The largest by way of the partial sums of a turn that nobody reads any more.
  FASTDL_UNROLL
  for (int distance = 16; distance > 0; distance /= 2) {
    const T other = __shfl_xor_sync(all_lanes, largest, distance);
    if (other > largest || other != other) largest = other;
  }
  __syncthreads();
  if (lane_number() == 0) partials.of_warp[0][warp_number()] = largest;
  __syncthreads();
  for (int warp = 0; warp < warp_count(); ++warp) {
    const T other = partials.of_warp[0][warp];
    if (other > largest || other != other) largest = other;
  }
  __syncthreads();
  if (largest == T(0)) return T(1);
  T square = T(0);
  for (Index j = threadIdx.x; j < features; j += blockDim.x) {
    weights[j] /= largest;  // not a number, if the largest is infinite
    square = multiply_add(weights[j], weights[j], square);
  }
  return T(1) / T(std::sqrt(double(sums.sum(square))));
}

// Rules by units (hebb, normalised or not, oja, BCM): a block a unit, its weights in shared memory if they fit, each
// thread with its own of them; every sample is a sum over the block and a pass over the weights.
template <class T>
__global__ void __launch_bounds__(loop_threads) loop_units(Loop<T> loop, bool in_shared) {
  FASTDL_DYNAMIC_SHARED(T, room);
  FASTDL_SHARED(UnitShared<T>, shared);
  const Index unit = blockIdx.x;
  T* const home = loop.weights + unit * loop.features;
  T* const weights = in_shared ? room : home;
  for (Index j = threadIdx.x; in_shared && j < loop.features; j += blockDim.x) weights[j] = home[j];
  T theta = loop.theta ? loop.theta[unit] : T(0);
  if (threadIdx.x < 2) shared.bad[threadIdx.x] = 0;
  BlockSums<T> sums(shared.partials);
  Index diverged = loop.samples;
  FASTDL_NO_UNROLL
  for (Index t = 0; t < loop.samples; ++t) {
    const T* const x = loop.x + t * loop.x_row_stride;
    T part = T(0);
    for (Index j = threadIdx.x; j < loop.features; j += blockDim.x)
      part = multiply_add(weights[j], x[j * loop.x_col_stride], part);
    const T y = sums.sum(part), lr = loop.lr[t];
    // What the sample before did is known to all since the barrier in the sum.
    if (t > 0 && shared.bad[(t - 1) % 2]) {
      diverged = t - 1;
      break;
    }
    T gain = lr * y, factor = T(1);
    if (loop.rule == Rule::oja) factor = multiply_add(-gain, y, T(1));
    if (loop.rule == Rule::bcm) {
      gain = lr * y * (y - theta);
      theta = multiply_add(multiply_add(y, y, -theta), loop.share, theta);
    }
    bool finite = is_finite(theta);
    if (loop.rule == Rule::normalized) {
      T square = T(0);
      for (Index j = threadIdx.x; j < loop.features; j += blockDim.x) {
        weights[j] = multiply_add(gain, x[j * loop.x_col_stride], weights[j]);
        square = multiply_add(weights[j], weights[j], square);
      }
      square = sums.sum(square);
      const T inverse = is_safe(square) ? T(1) / T(std::sqrt(double(square)))
                                        : careful_inverse(weights, loop.features, sums, shared.partials);
      for (Index j = threadIdx.x; j < loop.features; j += blockDim.x) {
        weights[j] *= inverse;
        finite &= is_finite(weights[j]);
      }
    } else if (factor != T(1) || gain != T(0)) {
      for (Index j = threadIdx.x; j < loop.features; j += blockDim.x) {
        weights[j] = multiply_add(gain, x[j * loop.x_col_stride], weights[j] * factor);
        finite &= is_finite(weights[j]);
      }
    }
    if (!finite) shared.bad[t % 2] = 1;
  }
  __syncthreads();
  if (diverged == loop.samples && shared.bad[(loop.samples - 1) % 2]) diverged = loop.samples - 1;
  for (Index j = threadIdx.x; in_shared && j < loop.features; j += blockDim.x) home[j] = weights[j];
  if (threadIdx.x != 0) return;
  if (loop.theta) loop.theta[unit] = theta;
  loop.diverged[unit] = diverged;
}

// sign(w) |w|^(p-1), what competition in a norm p takes the fields of.
template <class T>
__device__ __forceinline__ T raised(T weight, double norm) {
  if (norm == 2) return weight;
  const T size = weight < T(0) ? -weight : weight;
  T power = T(1);
  if (norm == double(int(norm)) && norm <= 9)
    for (int factor = 1; factor < int(norm); ++factor) power *= size;
  else
    power = T(std::pow(double(size), norm - 1));
  return weight > T(0) ? power : weight < T(0) ? -power : weight;
}

struct Ranked {
  Index first, other;
};

// By one warp. Number `rank` of the units by activity, from 1 on; of equal ones the first is the larger: what comes
// after the one before, again and again.
template <class T>
__device__ __forceinline__ Ranked ranked(const T* y, Index units, Index rank) {
  Ranked result{-1, -1};
  Index last = -1;
  T last_value = T(0);
  FASTDL_NO_UNROLL
  for (Index place = 0; place < rank; ++place) {
    Index best = -1;
    T best_value = T(0);
    for (Index i = lane_number(); i < units; i += 32) {
      const T value = y[i];
      const bool left = last < 0 || value < last_value || (value == last_value && i > last);
      if (left && (best < 0 || value > best_value)) best = i, best_value = value;
    }
    FASTDL_UNROLL
    for (int distance = 16; distance > 0; distance /= 2) {
      const Index other = __shfl_xor_sync(all_lanes, best, distance);
      const T other_value = __shfl_xor_sync(all_lanes, best_value, distance);
      const bool larger = other_value > best_value || (other_value == best_value && other < best);
      if (other >= 0 && (best < 0 || larger)) best = other, best_value = other_value;
    }
    last = best, last_value = best_value;
    if (place == 0) result.first = best;
  }
  result.other = last;
  return result;
}

struct TogetherShared {
  Ranked ranked;
  int bad;
};

// Rules whose units know of each other (sanger, subspace, competition hard and soft): one block of threads for all.
//   fields      a warp a unit, in turn
//   the rule    by one warp where units compete
//   the weights a thread a column, all units one after the other: coalesced, and the residual of sanger in a register
template <class T>
__global__ void __launch_bounds__(together_threads, 1) loop_together(Loop<T> loop) {
  FASTDL_SHARED(TogetherShared, shared);
  const int lane = lane_number(), warp = warp_number();
  const bool competes = loop.rule == Rule::krotov || loop.rule == Rule::soft;
  if (threadIdx.x == 0) shared.bad = 0;
  __syncthreads();
  Index diverged = loop.samples;
  FASTDL_NO_UNROLL
  for (Index t = 0; t < loop.samples; ++t) {
    const T* const x = loop.x + t * loop.x_row_stride;
    const T lr = loop.lr[t];
    for (Index i = warp; i < loop.units; i += warp_count()) {
      const T* const row = loop.weights + i * loop.features;
      T part = T(0);
      for (Index j = lane; j < loop.features; j += 32) {
        const T weight = loop.rule == Rule::krotov ? raised(row[j], loop.norm) : row[j];
        part = multiply_add(weight, x[j * loop.x_col_stride], part);
      }
      part = warp_sum(part);
      if (lane == 0) loop.activity[i] = part;
    }
    __syncthreads();
    bool finite = true;
    if (competes) {
      if (warp == 0) {
        for (Index i = lane; i < loop.units; i += 32) finite &= is_finite(loop.activity[i]);  // else there is no order
        if (loop.rule == Rule::krotov) {
          const Ranked found = ranked(loop.activity, loop.units, loop.rank <= loop.units ? loop.rank : 1);
          if (lane == 0) shared.ranked = found;
        } else {
          T most = -T(INFINITY), total = T(0);
          for (Index i = lane; i < loop.units; i += 32) most = loop.activity[i] > most ? loop.activity[i] : most;
          most = warp_largest(most);
          for (Index i = lane; i < loop.units; i += 32) {
            const T power = std::exp((loop.activity[i] - most) * loop.inverse_temperature);
            loop.gain[i] = power;
            total += power;
          }
          total = lr / warp_sum(total);
          for (Index i = lane; i < loop.units; i += 32) loop.gain[i] *= total;
        }
      }
      __syncthreads();
    }
    const auto learn = [&](Index i, T gain, Index j, T sample) {
      T& weight = loop.weights[i * loop.features + j];
      weight = multiply_add(gain, sample, weight * multiply_add(-gain, loop.activity[i], T(1)));
      finite &= is_finite(weight);
    };
    for (Index j = threadIdx.x; j < loop.features; j += blockDim.x) {
      const T sample = x[j * loop.x_col_stride];
      T left = sample;
      if (loop.rule == Rule::krotov) {
        if (shared.ranked.first >= 0) learn(shared.ranked.first, lr, j, sample);
        if (loop.rank <= loop.units && shared.ranked.other >= 0)
          learn(shared.ranked.other, -loop.delta * lr, j, sample);
      } else if (loop.rule == Rule::soft) {
        for (Index i = 0; i < loop.units; ++i) learn(i, loop.gain[i], j, sample);
      } else {
        const bool deflates = loop.rule == Rule::sanger;
        if (!deflates)
          for (Index i = 0; i < loop.units; ++i)
            left = multiply_add(-loop.activity[i], loop.weights[i * loop.features + j], left);
        for (Index i = 0; i < loop.units; ++i) {
          T& weight = loop.weights[i * loop.features + j];
          const T y = loop.activity[i];
          if (deflates) left = multiply_add(-y, weight, left);
          weight = multiply_add(lr * y, left, weight);
          finite &= is_finite(weight);
        }
      }
    }
    if (!finite) shared.bad = 1;
    __syncthreads();
    if (shared.bad) {  // nobody writes it before the next barrier
      diverged = t;
      break;
    }
  }
  if (threadIdx.x == 0) loop.diverged[0] = diverged;
}

}  // namespace fastdl::hebbian::cuda
