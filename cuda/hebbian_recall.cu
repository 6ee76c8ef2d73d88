// Hopfield networks: storage, fields, energy and crosstalk are products of the engine; recall goes on from the fields.
#include "hebbian_recall.cuh"

#include "hebbian_products.hpp"
#include "strided.hpp"

namespace fastdl::hebbian::cuda {
namespace {

using fastdl::cuda::Scratch;

// States whose fields there is room for: 64 MB of them.
template <class T>
Index states_together(Index units, Index count) {
  const Index fit = (Index{64} << 20) / Index(sizeof(T)) / (units + 1), some = fit < 1 ? 1 : fit;
  return some < count ? some : count;
}

template <class T>
void multiply_states(const char* name, const Samples<T>& states, const T* weights, T* fields, Stream stream) {
  multiply<T>(name, {states.data, states.count, states.row_stride, states.col_stride},
              {weights, states.features, states.features, 1}, states.features, fields, states.features, stream);
}

// each(the first state, some states) until all had their turn
template <class T, class Each>
void in_turns(const Samples<T>& states, const Each& each) {
  const Index most = states_together<T>(states.features, states.count);
  for (Index first = 0; first < states.count; first += most) {
    const Index left = states.count - first;
    each(first, Samples<T>{states.data + first * states.row_stride, left < most ? left : most, states.features,
                           states.row_stride, states.col_stride});
  }
}

template <class T>
void recall_together(const char* name, const T* weights, const T* thresholds, Index max_sweeps, T* states, Index count,
                     Index units, T* fields, Stream stream) {
  const Scratch<T> room(name, 3 * count * units, stream);
  const Scratch<int> done(name, count, stream);
  fastdl::cuda::set_zero(name, done.data(), done.bytes(), stream);
  T *now = room.data(), *next = now + count * units, *before = next + count * units;
  fastdl::cuda::copy_on_device(name, now, states, std::size_t(count * units) * sizeof(T), stream);
  std::vector<int> all(static_cast<std::size_t>(count));
  for (Index sweep = 1; sweep <= max_sweeps; ++sweep) {
    multiply_states<T>(name, {now, count, units, units, 1}, weights, fields, stream);
    const Step<T> step{fields, thresholds, now, before, next, states, done.data(), units, sweep, max_sweeps};
    fastdl::cuda::launch(name, step_together<T>, blocks_for(count, 1, threads_for(units, recall_threads), stream),
                         step);
    fastdl::cuda::copy_to_host(name, all.data(), done.data(), done.bytes(), stream);
    bool ended = true;
    for (const int one : all) ended &= one != 0;
    if (ended) return;
    T* const free = before;
    before = now;
    now = next;
    next = free;
  }
}

constexpr int threads = 256;

// g[i, first + i] = 0. Limited by its launch: one write a row.
template <class T>
__global__ void __launch_bounds__(threads) clear_diagonal(T* g, Index rows, Index columns, Index first) {
  const Index i = Index(blockIdx.x) * threads + threadIdx.x;
  if (i < rows) g[i * columns + first + i] = T(0);
}

// In place. Limit: memory, a read and a write of a number.
template <class T>
__global__ void __launch_bounds__(threads) scale_all(T* values, Index count, T factor) {
  const Index i = Index(blockIdx.x) * threads + threadIdx.x;
  if (i < count) values[i] *= factor;
}

template <class T>
T share_of(Index units) {
  return T(1.0 / double(units > 0 ? units : 1));
}

}  // namespace

template <class T>
void hopfield_weights(const Samples<T>& patterns, bool zero_diagonal, T* weights, Stream stream) {
  couplings<T>("hebbian.hopfield_weights", {patterns.data, patterns.features, patterns.col_stride, patterns.row_stride},
               patterns.count, share_of<T>(patterns.features), zero_diagonal, weights, stream);
}

template <class T>
void hopfield_energy(const T* weights, const Samples<T>& states, const T* thresholds, T* out, Stream stream) {
  constexpr const char* name = "hebbian.hopfield_energy";
  if (states.count == 0) return;
  const Index units = states.features;
  const Scratch<T> fields(name, states_together<T>(units, states.count) * units, stream);
  in_turns(states, [&](Index first, const Samples<T>& some) {
    multiply_states(name, some, weights, fields.data(), stream);
    fastdl::cuda::launch(name, sum_energies<T>, blocks_for(some.count, 1, threads_for(units, recall_threads), stream),
                         fields.data(), some, thresholds, out + first);
  });
}

template <class T>
void hopfield_recall(const T* weights, const T* thresholds, const Orders& orders, T* states, Index count, Index units,
                     Stream stream) {
  constexpr const char* name = "hebbian.hopfield_recall";
  if (units == 0 || count == 0 || orders.max_sweeps == 0) return;
  const AskedUnits asked(name, orders, units, stream);
  const Scratch<T> fields(name, states_together<T>(units, count) * units, stream);
  const Scratch<T> columns(name, orders.together ? 0 : units * units, stream);
  if (!orders.together) {
    fastdl::cuda::Layout turned;
    turned.axes = 2;
    turned.extent[0] = turned.extent[1] = units;
    turned.stride[0] = 1;
    turned.stride[1] = units;
    fastdl::cuda::gather(name, weights, turned, columns.data(), stream);
  }
  constexpr std::size_t most_bytes = 47 << 10;
  const std::size_t bytes = 2 * std::size_t(units) * sizeof(T);
  in_turns(Samples<T>{states, count, units, units, 1}, [&](Index first, const Samples<T>& some) {
    T* const here = states + first * units;
    if (orders.together)
      return recall_together(name, weights, thresholds, orders.max_sweeps, here, some.count, units, fields.data(),
                             stream);
    multiply_states(name, some, weights, fields.data(), stream);
    fastdl::cuda::launch(
        name, ask_in_order<T>,
        blocks_for(some.count, 1, threads_for(units, recall_threads), stream, bytes <= most_bytes ? bytes : 0),
        columns.data(), thresholds, *asked, units, fields.data(), here, bytes <= most_bytes);
  });
}

template <class T>
void crosstalk(const Samples<T>& patterns, T* out, Stream stream) {
  constexpr const char* name = "hebbian.crosstalk";
  const Index n = patterns.count, units = patterns.features;
  if (n == 0 || units == 0) return;
  const Factor<T> rows{patterns.data, n, patterns.row_stride, patterns.col_stride};
  const Factor<T> columns{patterns.data, units, patterns.col_stride, patterns.row_stride};
  const Index most = states_together<T>(n, n);
  const Scratch<T> products(name, most * n, stream);
  for (Index first = 0; first < n; first += most) {
    const Index count = n - first < most ? n - first : most;
    T* const to = out + first * units;
    multiply<T>(name, {patterns.data + first * patterns.row_stride, count, patterns.row_stride, patterns.col_stride},
                rows, units, products.data(), n, stream);
    fastdl::cuda::launch(name, clear_diagonal<T>, blocks_for(count, threads, threads, stream), products.data(), count,
                         n, first);
    multiply<T>(name, {products.data(), count, n, 1}, columns, n, to, units, stream);
    fastdl::cuda::launch(name, scale_all<T>, blocks_for(count * units, threads, threads, stream), to, count * units,
                         share_of<T>(units));
  }
}

#define FASTDL_RECALL(T)                                                                      \
  template void hopfield_weights(const Samples<T>&, bool, T*, Stream);                        \
  template void hopfield_energy(const T*, const Samples<T>&, const T*, T*, Stream);           \
  template void hopfield_recall(const T*, const T*, const Orders&, T*, Index, Index, Stream); \
  template void crosstalk(const Samples<T>&, T*, Stream);
FASTDL_RECALL(float)
FASTDL_RECALL(double)
#undef FASTDL_RECALL

}  // namespace fastdl::hebbian::cuda
