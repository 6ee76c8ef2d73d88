// Candid incremental components, and samples less their running mean.
#include <cmath>
#include <vector>

#include "hebbian_rows.cuh"

namespace fastdl::hebbian::cuda {
namespace {

using fastdl::cuda::Scratch;

constexpr int threads = 512;

template <class T>
struct Candid {
  T* components;  // units x features, times the square of the scale
  Index units, features;
  Samples<T> samples;
  Index count;
  double amnesic;
  T scale;
  T *squares, *left;  // units, features
  Index* diverged;    // the first sample that failed, or their number
};

template <class T>
struct CandidShared {
  Partials<T> partials;
  int bad;
};

// One block of threads, for every sample depends on the one before and every component too: a thread has some columns,
// and a component takes three sums over the block, a barrier each. Estimated 1.5 us a component and sample on an A100
// or H100 while features / 512 is small; the columns are read and written through one multiprocessor.
template <class T>
__global__ void __launch_bounds__(threads, 1) learn_candidly(Candid<T> a) {
  FASTDL_SHARED(CandidShared<T>, shared);
  BlockSums<T> sums(shared.partials);
  if (threadIdx.x == 0) shared.bad = 0;
  const auto each = [&](const auto& function) {
    for (Index j = threadIdx.x; j < a.features; j += blockDim.x) function(j);
  };
  for (Index i = 0; i < a.units; ++i) {
    T* const row = a.components + i * a.features;
    T part = T(0);
    each([&](Index j) {
      row[j] = row[j] * a.scale * a.scale;
      part = multiply_add(row[j], row[j], part);
    });
    const T square = sums.sum(part);
    if (threadIdx.x == 0) a.squares[i] = square;
  }
  __syncthreads();
  Index diverged = a.samples.count;
  FASTDL_NO_UNROLL
  for (Index t = 0; t < a.samples.count; ++t) {
    const Index number = a.count + t + 1, units = a.units < number ? a.units : number;
    const double share = (1 + (double(number) > 1 + a.amnesic ? a.amnesic : 0)) / double(number);
    T part = T(0);
    bool finite = true;
    each([&](Index j) {
      a.left[j] = a.samples.data[t * a.samples.row_stride + j * a.samples.col_stride] * a.scale;
      if (units > 0) part = multiply_add(a.components[j], a.left[j], part);
    });
    T product = sums.sum(part);
    FASTDL_NO_UNROLL
    for (Index i = 0; i < units; ++i) {
      T* const v = a.components + i * a.features;
      const T* const next = a.components + (i + 1 < units ? i + 1 : i) * a.features;
      const T before = a.squares[i];
      const bool begins = i == number - 1 || before == T(0);
      const T keep = begins ? T(0) : T(1 - share);
      const T gain = begins ? T(1) : T(share * double(product) / std::sqrt(double(before)));
      T square = T(0), along = T(0);
      each([&](Index j) {
        const T left = a.left[j], weight = begins ? left * a.scale : multiply_add(gain, left, v[j] * keep);
        v[j] = weight;
        square = multiply_add(weight, weight, square);
        along = multiply_add(weight, left, along);
        finite &= is_finite(weight / a.scale / a.scale);
      });
      square = sums.sum(square);
      along = sums.sum(along);
      if (threadIdx.x == 0) a.squares[i] = square;  // all have read it before the sums
      const T minus = square == T(0) ? T(0) : -along / square;
      T rest = T(0);
      each([&](Index j) {
        a.left[j] = multiply_add(minus, v[j], a.left[j]);
        rest = multiply_add(a.left[j], next[j], rest);
      });
      product = sums.sum(rest);
    }
    if (!finite) shared.bad = 1;
    __syncthreads();
    if (shared.bad) {  // nobody writes it before the barrier of the next sum
      diverged = t;
      break;
    }
  }
  for (Index i = 0; i < a.units; ++i)
    each([&](Index j) { a.components[i * a.features + j] = a.components[i * a.features + j] / a.scale / a.scale; });
  if (threadIdx.x == 0) a.diverged[0] = diverged;
}

constexpr int search_threads = 256;
constexpr Index most_blocks = 128;

// The largest size of the elements that a block looks at, those that are no numbers left out. Limit: memory, one read
// of a number, if its 128 blocks are enough to fill the chip.
template <class T>
__global__ void __launch_bounds__(search_threads) find_largest(Samples<T> values, T* found) {
  FASTDL_SHARED(Partials<T>, partials);
  BlockSums<T> sums(partials);
  T most = T(0);
  const Index count = values.count * values.features;
  for (Index place = Index(blockIdx.x) * search_threads + threadIdx.x; place < count;
       place += Index(gridDim.x) * search_threads) {
    const T value =
        values.data[place / values.features * values.row_stride + place % values.features * values.col_stride];
    const T size = value < T(0) ? -value : value;
    most = size > most ? size : most;
  }
  most = sums.largest(most);
  if (threadIdx.x == 0) found[blockIdx.x] = most;
}

template <class T>
double largest_of(const char* name, const Samples<T>& values, Stream stream) {
  const Index count = values.count * values.features;
  if (count == 0) return 0;
  const Index wanted = (count + search_threads - 1) / search_threads;
  const Index blocks = wanted < most_blocks ? wanted : most_blocks;
  const Scratch<T> found(name, blocks, stream);
  fastdl::cuda::launch(name, find_largest<T>, blocks_for(blocks, 1, search_threads, stream), values, found.data());
  std::vector<T> all(static_cast<std::size_t>(blocks));
  fastdl::cuda::copy_to_host(name, all.data(), found.data(), found.bytes(), stream);
  T most = 0;
  for (const T value : all) most = value > most ? value : most;
  return double(most);
}

// Components are as long as squares of samples, and their squared lengths are fourth powers: samples are taken times a
// power of two, which changes no digit, by which the largest is about 1.
template <class T>
T scale_for(double component, double sample) {
  const double root = std::sqrt(component), most = sample > root ? sample : root;
  if (!(most > 0) || !std::isfinite(T(most))) return T(1);
  int exponent;
  (void)std::frexp(most, &exponent);
  constexpr int furthest = sizeof(T) == 4 ? 120 : 1000;
  return T(std::ldexp(1.0, exponent < -furthest ? furthest : -exponent));
}

constexpr int columns_of_block = 128;

// A thread a column, the samples one after the other, in double. Reads and writes are coalesced, and eight samples are
// read ahead of the chain of means. Limited by memory where there are columns enough (13 000 on an A100, estimated),
// else by the 40 or so cycles of a division and three additions of doubles a sample.
template <class T>
__global__ void __launch_bounds__(columns_of_block)
    subtract_means(Samples<T> samples, const double* mean, Index count, double* after, T* out) {
  constexpr int ahead = 8;
  const Index j = Index(blockIdx.x) * columns_of_block + threadIdx.x;
  if (j >= samples.features) return;
  double middle = mean[j];
  const T* const from = samples.data + j * samples.col_stride;
  FASTDL_NO_UNROLL
  for (Index first = 0; first < samples.count; first += ahead) {
    T value[ahead];
    FASTDL_UNROLL
    for (int t = 0; t < ahead; ++t)
      value[t] = first + t < samples.count ? from[(first + t) * samples.row_stride] : T(0);
    FASTDL_UNROLL
    for (int t = 0; t < ahead; ++t)
      if (first + t < samples.count) {
        middle += (double(value[t]) - middle) * (1 / double(count + first + t + 1));
        out[(first + t) * samples.features + j] = T(double(value[t]) - middle);
      }
  }
  after[j] = middle;
}

}  // namespace

template <class T>
Index ccipca(const T* components, Index units, const Samples<T>& samples, Index count, double amnesic, T* out,
             Stream stream) {
  constexpr const char* name = "hebbian.ccipca";
  const Index size = units * samples.features;
  const std::size_t bytes = std::size_t(size) * sizeof(T);
  if (size == 0) return all_finite;
  if (samples.count == 0) {
    if (out != components) fastdl::cuda::copy_on_device(name, out, components, bytes, stream);
    return all_finite;
  }
  const double component = largest_of<T>(name, {components, units, samples.features, samples.features, 1}, stream);
  const T scale = scale_for<T>(component, largest_of(name, samples, stream));
  const Scratch<T> room(name, size + units + samples.features, stream);
  const Scratch<Index> diverged(name, 1, stream);
  fastdl::cuda::copy_on_device(name, room.data(), components, bytes, stream);
  fastdl::cuda::launch(name, learn_candidly<T>, blocks_for(1, 1, threads_for(samples.features, threads), stream),
                       Candid<T>{room.data(), units, samples.features, samples, count, amnesic, scale,
                                 room.data() + size, room.data() + size + units, diverged.data()});
  const Index failed = value_at(name, diverged.data(), 0, stream);
  if (failed < samples.count)
    return first_not_finite(name, components, size, stream) >= 0 ? bad_from_the_start : failed;
  fastdl::cuda::copy_on_device(name, out, room.data(), bytes, stream);
  return all_finite;
}

template <class T>
void center(const Samples<T>& samples, const double* mean, Index count, double* after, T* out, Stream stream) {
  if (samples.features == 0) return;
  fastdl::cuda::launch("hebbian.center", subtract_means<T>,
                       blocks_for(samples.features, columns_of_block, columns_of_block, stream), samples, mean, count,
                       after, out);
}

#define FASTDL_COMPONENTS(T)                                                            \
  template Index ccipca(const T*, Index, const Samples<T>&, Index, double, T*, Stream); \
  template void center(const Samples<T>&, const double*, Index, double*, T*, Stream);
FASTDL_COMPONENTS(float)
FASTDL_COMPONENTS(double)
#undef FASTDL_COMPONENTS

}  // namespace fastdl::hebbian::cuda
