// Foldiak's rule: units that excite by Hebb's rule, and inhibit each other by its opposite. One block of threads, a
// sample after the other, all in double: an activity near one half decides as it does in the formula.
#include <cfloat>
#include <cmath>

#include "hebbian_rows.cuh"

namespace fastdl::hebbian::cuda {
namespace {

using fastdl::cuda::Scratch;

constexpr int threads = 512;

template <class T>
struct Inhibition {
  Settling how;
  const T *weights, *lateral, *threshold;
  Samples<T> samples;
  Index units;
  const T* lr;
  T *weights_out, *lateral_out, *threshold_out;
  // In double: units x features; units x units, a column after the other, so that the units that one inhibits lie
  // abreast; and four vectors for the units.
  double *w, *columns, *bar, *drive, *activity, *other;
  Index* diverged;
};

struct Bad {  // in shared memory
  int flag;
};

// A thread a unit for the settling, `steps` products with the lateral weights and a barrier each: k multiply-adds in a
// chain, 1.2 us a step for 64 units (estimated, A100 or H100), which is where the time goes. A warp a unit for W x, and
// a thread an element to learn.
template <class T>
__global__ void __launch_bounds__(threads, 1) learn_with_inhibition(Inhibition<T> a) {
  FASTDL_SHARED(Bad, bad);
  const Index features = a.samples.features, units = a.units;
  constexpr double most = sizeof(T) == 4 ? double(FLT_MAX) : DBL_MAX;
  const auto in_range = [](double value) { return value <= most && value >= -most; };
  if (threadIdx.x == 0) bad.flag = 0;
  for (Index place = threadIdx.x; place < units * features; place += blockDim.x) a.w[place] = double(a.weights[place]);
  for (Index place = threadIdx.x; place < units * units; place += blockDim.x)
    a.columns[place] = double(a.lateral[place % units * units + place / units]);
  for (Index i = threadIdx.x; i < units; i += blockDim.x) a.bar[i] = double(a.threshold[i]);
  __syncthreads();
  Index diverged = a.samples.count;
  FASTDL_NO_UNROLL
  for (Index t = 0; t < a.samples.count; ++t) {
    const T* const x = a.samples.data + t * a.samples.row_stride;
    bool finite = true;
    for (Index i = warp_number(); i < units; i += warp_count()) {
      double part = 0;
      for (Index j = lane_number(); j < features; j += 32) {
        const double sample = double(x[j * a.samples.col_stride]);
        // By the formula, units that are not active take 0 of the sample: that is no number if this is none.
        finite &= is_finite(sample);
        part = multiply_add(a.w[i * features + j], sample, part);
      }
      part = warp_sum(part);
      if (lane_number() == 0) {
        a.drive[i] = part - a.bar[i];
        a.activity[i] = 0;
      }
    }
    __syncthreads();
    double *now = a.activity, *next = a.other;
    FASTDL_NO_UNROLL
    for (Index round = 0; round < a.how.steps; ++round) {
      for (Index i = threadIdx.x; i < units; i += blockDim.x) {
        double field = a.drive[i];
        for (Index j = 0; j < units; ++j) field = multiply_add(a.columns[j * units + i], now[j], field);
        const double wanted = 1 / (1 + std::exp(-a.how.steepness * field));
        next[i] = now[i] + (wanted - now[i]) * 0.1;
      }
      __syncthreads();
      double* const before = now;
      now = next;
      next = before;
    }
    const auto is_active = [&](Index i) { return now[i] > 0.5; };
    const double lr = double(a.lr[t]);
    for (Index place = threadIdx.x; place < units * features; place += blockDim.x)
      if (is_active(place / features)) {
        const double weight = a.w[place], sample = double(x[place % features * a.samples.col_stride]);
        a.w[place] = weight + (sample - weight) * lr;
        finite &= in_range(a.w[place]);
      }
    for (Index place = threadIdx.x; place < units * units; place += blockDim.x) {
      const Index i = place / units, j = place % units;
      const double both = is_active(i) && is_active(j) ? 1.0 : 0.0;
      const double inhibition = a.columns[place] - a.how.lateral_lr * (both - a.how.activity * a.how.activity);
      a.columns[place] = i == j || inhibition > 0 ? 0.0 : inhibition;
      finite &= inhibition >= -most;
    }
    for (Index i = threadIdx.x; i < units; i += blockDim.x) {
      a.bar[i] += a.how.threshold_lr * ((is_active(i) ? 1.0 : 0.0) - a.how.activity);
      finite &= in_range(a.bar[i]);
    }
    if (!finite) bad.flag = 1;
    __syncthreads();
    if (bad.flag) {  // nobody writes it before the next barrier
      diverged = t;
      break;
    }
  }
  for (Index place = threadIdx.x; place < units * features; place += blockDim.x) a.weights_out[place] = T(a.w[place]);
  for (Index place = threadIdx.x; place < units * units; place += blockDim.x)
    a.lateral_out[place % units * units + place / units] = T(a.columns[place]);
  for (Index i = threadIdx.x; i < units; i += blockDim.x) a.threshold_out[i] = T(a.bar[i]);
  if (threadIdx.x == 0) a.diverged[0] = diverged;
}

}  // namespace

template <class T>
Index foldiak(const Settling& how, const T* weights, Index units, const Samples<T>& samples, const T* lr,
              const T* lateral, const T* threshold, T* out, T* lateral_out, T* threshold_out, Stream stream) {
  constexpr const char* name = "hebbian.foldiak";
  if (units == 0) return all_finite;
  const Index size = units * samples.features;
  const Scratch<double> wide(name, size + units * units + 4 * units, stream);
  const Scratch<T> results(name, size + units * units + units, stream);
  const Scratch<Index> diverged(name, 1, stream);
  double *w = wide.data(), *columns = w + size, *vectors = columns + units * units;
  T *learnt = results.data(), *learnt_lateral = learnt + size, *learnt_threshold = learnt_lateral + units * units;
  const Inhibition<T> inhibition{how,
                                 weights,
                                 lateral,
                                 threshold,
                                 samples,
                                 units,
                                 lr,
                                 learnt,
                                 learnt_lateral,
                                 learnt_threshold,
                                 w,
                                 columns,
                                 vectors,
                                 vectors + units,
                                 vectors + 2 * units,
                                 vectors + 3 * units,
                                 diverged.data()};
  const Index widest = samples.features > units ? samples.features : units;
  fastdl::cuda::launch(name, learn_with_inhibition<T>, blocks_for(1, 1, threads_for(widest, threads), stream),
                       inhibition);
  const Index failed = value_at(name, diverged.data(), 0, stream);
  if (failed < samples.count) return first_not_finite(name, weights, size, stream) >= 0 ? bad_from_the_start : failed;
  const auto copy = [&](T* to, const T* from, Index count) {
    if (count > 0) fastdl::cuda::copy_on_device(name, to, from, std::size_t(count) * sizeof(T), stream);
  };
  copy(out, learnt, size);
  copy(lateral_out, learnt_lateral, units * units);
  copy(threshold_out, learnt_threshold, units);
  return all_finite;
}

#define FASTDL_INHIBITION(T)                                                                                        \
  template Index foldiak(const Settling&, const T*, Index, const Samples<T>&, const T*, const T*, const T*, T*, T*, \
                         T*, Stream);
FASTDL_INHIBITION(float)
FASTDL_INHIBITION(double)
#undef FASTDL_INHIBITION

}  // namespace fastdl::hebbian::cuda
