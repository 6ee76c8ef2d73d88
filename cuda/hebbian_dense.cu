// Dense associative memories: a block a state, with its overlaps p.s with all patterns, which a unit that turns over
// changes by twice its column. In double for both types, since powers and exponentials of overlaps differ by many
// orders of magnitude.
#include <cmath>

#include "hebbian_orders.hpp"
#include "hebbian_rows.cuh"
#include "strided.hpp"

namespace fastdl::hebbian::cuda {
namespace {

using fastdl::cuda::Scratch;

constexpr int threads = 256;

template <class T>
struct Patterns {
  const T* columns;  // units x count
  Index count, units;
  int degree;  // 0: the exponential function

  __device__ __forceinline__ double power(double base) const {
    double result = 1;
    for (int rest = degree; rest > 0; rest >>= 1, base *= base)
      if (rest & 1) result *= base;
    return result;
  }

  // Threads have patterns of their own, so none of this needs a barrier.
  __device__ __forceinline__ void measure(const T* state, double* overlaps) const {
    for (Index k = threadIdx.x; k < count; k += blockDim.x) {
      double sum = 0;
      for (Index i = 0; i < units; ++i) sum = multiply_add(double(state[i]), double(columns[i * count + k]), sum);
      overlaps[k] = sum;
    }
  }
  __device__ __forceinline__ void add(Index unit, double factor, double* overlaps) const {
    for (Index k = threadIdx.x; k < count; k += blockDim.x)
      overlaps[k] = multiply_add(factor, double(columns[unit * count + k]), overlaps[k]);
  }

  // Sum of F(overlaps with s_i = 1) - F(overlaps with s_i = -1) over the patterns, by a factor above 0, in every
  // thread. Exponentials of overlaps less the largest, or powers of overlaps divided by a power of two beyond the
  // largest: none overflows, not all vanish, and terms of whole numbers cancel as those do.
  __device__ __forceinline__ double field(Index unit, double state, const double* overlaps,
                                          BlockSums<double>& sums) const {
    const T* const column = columns + unit * count;
    double most = degree ? 0 : -double(INFINITY);
    for (Index k = threadIdx.x; k < count; k += blockDim.x) {
      const double pattern = double(column[k]), rest = multiply_add(-state, pattern, overlaps[k]);
      const double size = (degree && rest < 0 ? -rest : rest) + (pattern < 0 ? -pattern : pattern);
      most = size > most ? size : most;
    }
    most = sums.largest(most);
    int exponent = 0;
    if (degree) (void)frexp(most, &exponent);
    const double scale = ldexp(1.0, -exponent);
    double part = 0;
    for (Index k = threadIdx.x; k < count; k += blockDim.x) {
      const double pattern = double(column[k]), rest = multiply_add(-state, pattern, overlaps[k]);
      const double up = rest + pattern, down = rest - pattern;
      part += degree ? power(up * scale) - power(down * scale) : std::exp(up - most) - std::exp(down - most);
    }
    return sums.sum(part);
  }
};

// A block a state. Every unit asked is two sums over the patterns, a barrier each: about 1 us with 1000 patterns
// (estimated; an A100 has half the doubles of its floats), so units * sweeps of these, for hundreds of states at a
// time.
template <class T>
__global__ void __launch_bounds__(threads, 2)
    run_states(Patterns<T> patterns, Asked asked, double* all_overlaps, T* all_next, T* all_states, bool in_shared) {
  FASTDL_DYNAMIC_SHARED(double, room);
  FASTDL_SHARED(Partials<double>, partials);
  BlockSums<double> sums(partials);
  const Index units = patterns.units, state_number = blockIdx.x;
  T* const state = all_states + state_number * units;
  T* const next = all_next + state_number * units;
  double* const overlaps = in_shared ? room : all_overlaps + state_number * patterns.count;
  patterns.measure(state, overlaps);
  __syncthreads();
  // A thread writes the state and all read it later: a barrier of the sums is between, for the unit asked next.
  const auto set = [&](Index unit, T value) {
    if (state[unit] == value) return false;
    patterns.add(unit, double(value + value), overlaps);
    __syncthreads();  // all have seen that it turns
    if (threadIdx.x == 0) state[unit] = value;
    __syncthreads();
    return true;
  };
  FASTDL_NO_UNROLL
  for (Index sweep = 0, quiet = 0; sweep < asked.max_sweeps && quiet < asked.patience; ++sweep) {
    bool turned = false;
    const bool in_order = asked.sweeps > 0;
    const Index count = in_order ? asked.units : units;
    const Index* const order = asked.data + (in_order ? sweep % asked.sweeps * asked.units : 0);
    FASTDL_NO_UNROLL
    for (Index i = 0; i < count; ++i) {
      const Index unit = in_order ? order[i] : i;
      const T wanted = patterns.field(unit, double(state[unit]), overlaps, sums) >= 0 ? T(1) : T(-1);
      if (in_order)
        turned |= set(unit, wanted);
      else if (threadIdx.x == 0)
        next[i] = wanted;
    }
    if (!in_order) {
      __syncthreads();
      for (Index i = 0; i < units; ++i) turned |= set(i, next[i]);
    }
    quiet = turned ? 0 : quiet + 1;
  }
}

// A block a state: its overlaps with all patterns, and the sum of their powers. Limit: reads of the patterns from L2,
// all of them for every state, and their conversion to double; 2 flops in double a number.
template <class T>
__global__ void __launch_bounds__(threads) dense_energies(Patterns<T> patterns, const T* states, T* out) {
  FASTDL_SHARED(Partials<double>, partials);
  BlockSums<double> sums(partials);
  const T* const state = states + Index(blockIdx.x) * patterns.units;
  double part = 0;
  for (Index k = threadIdx.x; k < patterns.count; k += blockDim.x) {
    double overlap = 0;
    for (Index i = 0; i < patterns.units; ++i)
      overlap = multiply_add(double(state[i]), double(patterns.columns[i * patterns.count + k]), overlap);
    part -= patterns.degree ? patterns.power(overlap) : std::exp(overlap);
  }
  const double total = sums.sum(part);
  if (threadIdx.x == 0) out[blockIdx.x] = T(total);
}

// Patterns turned over: neighbouring threads read neighbouring patterns.
template <class T>
Patterns<T> turned(const char* name, const Samples<T>& patterns, double degree, T* columns, Stream stream) {
  fastdl::cuda::Layout layout;
  layout.axes = 2;
  layout.extent[0] = patterns.features;
  layout.extent[1] = patterns.count;
  layout.stride[0] = patterns.col_stride;
  layout.stride[1] = patterns.row_stride;
  fastdl::cuda::gather(name, patterns.data, layout, columns, stream);
  return {columns, patterns.count, patterns.features, std::isinf(degree) ? 0 : int(degree)};
}

}  // namespace

template <class T>
void dense_hopfield(const Samples<T>& patterns, double degree, const Orders& orders, T* states, Index count,
                    Stream stream) {
  constexpr const char* name = "hebbian.dense_hopfield";
  const Index units = patterns.features;
  if (units == 0 || count == 0) return;
  const AskedUnits asked(name, orders, units, stream);
  const Scratch<T> columns(name, patterns.count * units, stream);
  const Patterns<T> stored = turned(name, patterns, degree, columns.data(), stream);
  constexpr std::size_t most_bytes = 40 << 10;
  const std::size_t bytes = std::size_t(patterns.count) * sizeof(double);
  const bool in_shared = bytes <= most_bytes;
  const Scratch<double> overlaps(name, in_shared ? 0 : patterns.count * count, stream);
  const Scratch<T> next(name, orders.together ? units * count : 0, stream);
  fastdl::cuda::launch(name, run_states<T>,
                       blocks_for(count, 1, threads_for(patterns.count, threads), stream, in_shared ? bytes : 0),
                       stored, *asked, overlaps.data(), next.data(), states, in_shared);
}

template <class T>
void dense_hopfield_energy(const Samples<T>& patterns, double degree, const T* states, Index count, T* out,
                           Stream stream) {
  constexpr const char* name = "hebbian.dense_hopfield_energy";
  if (count == 0) return;
  const Scratch<T> columns(name, patterns.count * patterns.features, stream);
  const Patterns<T> stored = turned(name, patterns, degree, columns.data(), stream);
  fastdl::cuda::launch(name, dense_energies<T>, blocks_for(count, 1, threads_for(patterns.count, threads), stream),
                       stored, states, out);
}

#define FASTDL_DENSE(T)                                                                      \
  template void dense_hopfield(const Samples<T>&, double, const Orders&, T*, Index, Stream); \
  template void dense_hopfield_energy(const Samples<T>&, double, const T*, Index, T*, Stream);
FASTDL_DENSE(float)
FASTDL_DENSE(double)
#undef FASTDL_DENSE

}  // namespace fastdl::hebbian::cuda
