// Recall of Hopfield networks, given the fields of all states from the engine.
#pragma once

#include "hebbian_orders.hpp"
#include "hebbian_rows.cuh"

namespace fastdl::hebbian::cuda {

constexpr int recall_threads = 256;

struct Turning {  // in shared memory: which of a window of units want to turn over, for two windows in turn
  unsigned of_warp[2][recall_threads / 32];
};

// One after the other: a block a state, with its fields and the state in shared memory if they fit. A unit that turns
// over adds twice a column of the weights to the fields; few do, so the work is to find the next one: a window of as
// many units as threads is looked at together, a barrier each, and after the first that turns the rest of it again.
// Order and result are those of asking the units one by one, for nothing changes between two that turn.
//
// Per sweep and state: units / 256 windows of about 100 ns, and for each unit that turns 2 barriers and a column of the
// weights, coalesced, from L2: about 1 us at 1024 units. Estimated for 1000 states of 1024 units, 100 of which turn:
// 100 us of latency, 3 or 4 (A100) resident states a multiprocessor, so 0.3 ms; the fields are 2.1 Gflop before it.
template <class T>
__global__ void __launch_bounds__(recall_threads)
    ask_in_order(const T* columns, const T* thresholds, Asked asked, Index units, T* all_fields, T* all_states,
                 bool in_shared) {
  FASTDL_DYNAMIC_SHARED(T, room);
  FASTDL_SHARED(Turning, turning);
  T* const home = all_states + Index(blockIdx.x) * units;
  T* const given = all_fields + Index(blockIdx.x) * units;
  T* const fields = in_shared ? room : given;
  T* const states = in_shared ? room + units : home;
  for (Index j = threadIdx.x; j < units; j += blockDim.x) {
    fields[j] = thresholds ? given[j] - thresholds[j] : given[j];
    if (in_shared) states[j] = home[j];
  }
  __syncthreads();
  int turn = 0;
  FASTDL_NO_UNROLL
  for (Index sweep = 0, quiet = 0; sweep < asked.max_sweeps && quiet < asked.patience; ++sweep) {
    const Index* const order = asked.data + sweep % asked.sweeps * asked.units;
    ++quiet;
    FASTDL_NO_UNROLL
    for (Index first = 0; first < asked.units;) {
      const Index place = first + threadIdx.x;
      bool turns = false;
      if (place < asked.units) {
        const Index unit = order[place];
        turns = (fields[unit] >= T(0)) != (states[unit] > T(0));
      }
      const unsigned ballot = __ballot_sync(all_lanes, turns);
      if (lane_number() == 0) turning.of_warp[turn][warp_number()] = ballot;
      __syncthreads();
      Index found = -1;
      for (int warp = 0; warp < warp_count() && found < 0; ++warp)
        if (const unsigned mask = turning.of_warp[turn][warp]; mask != 0)
          for (int lane = 0; lane < 32 && found < 0; ++lane)
            if (mask >> lane & 1) found = first + 32 * warp + lane;
      turn ^= 1;
      if (found < 0) {
        first += blockDim.x;
        continue;
      }
      const Index unit = order[found];
      const T wanted = fields[unit] >= T(0) ? T(1) : T(-1);
      __syncthreads();  // all have read the field that changes
      const T* const column = columns + unit * units;
      for (Index j = threadIdx.x; j < units; j += blockDim.x)
        fields[j] = multiply_add(wanted + wanted, column[j], fields[j]);
      if (threadIdx.x == 0) states[unit] = wanted;
      __syncthreads();
      quiet = 0;
      first = found + 1;
    }
  }
  for (Index j = threadIdx.x; in_shared && j < units; j += blockDim.x) home[j] = states[j];
}

// A sweep of all units together: a block a state. States that stay are done, and so are those that come back to where
// they were two sweeps ago: they end where an even or odd number of further sweeps leads to.
template <class T>
struct Step {
  const T *fields, *thresholds, *now, *before;
  T *next, *out;
  int* done;  // of every state
  Index units, sweep, max_sweeps;
};

struct Same {  // in shared memory: whether a thread saw a difference
  int from_now, from_before;
};

// Limited by memory: five reads and writes of all states, beside the product before it.
template <class T>
__global__ void __launch_bounds__(recall_threads, 2) step_together(Step<T> step) {
  FASTDL_SHARED(Same, differs);
  const Index state = blockIdx.x, offset = state * step.units;
  if (step.done[state]) return;
  if (threadIdx.x == 0) differs.from_now = differs.from_before = 0;
  __syncthreads();
  bool from_now = false, from_before = step.sweep == 1;
  for (Index j = threadIdx.x; j < step.units; j += blockDim.x) {
    const T field = step.thresholds ? step.fields[offset + j] - step.thresholds[j] : step.fields[offset + j];
    const T value = field >= T(0) ? T(1) : T(-1);
    step.next[offset + j] = value;
    from_now |= value != step.now[offset + j];
    if (step.sweep > 1) from_before |= value != step.before[offset + j];
  }
  if (from_now) differs.from_now = 1;
  if (from_before) differs.from_before = 1;
  __syncthreads();
  const bool ends = !differs.from_now || !differs.from_before || step.sweep == step.max_sweeps;
  if (!ends) return;
  const bool even = (step.max_sweeps - step.sweep) % 2 == 0;
  const T* const from = !differs.from_now || even ? step.next : step.now;
  for (Index j = threadIdx.x; j < step.units; j += blockDim.x) step.out[offset + j] = from[offset + j];
  if (threadIdx.x == 0) step.done[state] = 1;
}

// -s f / 2 + b s of every state, a block each, in double. Limited by memory.
template <class T>
__global__ void __launch_bounds__(recall_threads)
    sum_energies(const T* fields, Samples<T> states, const T* thresholds, T* out) {
  FASTDL_SHARED(Partials<double>, partials);
  BlockSums<double> sums(partials);
  const Index state = blockIdx.x;
  double part = 0;
  for (Index j = threadIdx.x; j < states.features; j += blockDim.x) {
    const double value = double(states.data[state * states.row_stride + j * states.col_stride]);
    part -= value * double(fields[state * states.features + j]) / 2;
    if (thresholds) part += value * double(thresholds[j]);
  }
  const double total = sums.sum(part);
  if (threadIdx.x == 0) out[state] = T(total);
}

}  // namespace fastdl::hebbian::cuda
