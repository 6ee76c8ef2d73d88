// Rows of length 1, and looking for numbers that should not be there.
#include "hebbian_rows.cuh"

#include <vector>

namespace fastdl::hebbian::cuda {
namespace {

constexpr int threads = 256;
constexpr Index most_blocks = 128;

struct NotFinite {
  template <class T>
  __device__ __forceinline__ bool operator()(T value) const {
    return !is_finite(value);
  }
};

struct NotSpin {
  template <class T>
  __device__ __forceinline__ bool operator()(T value) const {
    return value != T(1) && value != T(-1);
  }
};

struct Found {  // in shared memory
  Index of_thread[threads];
};

// found[block] = the first place, of those a block looks at, where a value is wrong, or -1. A grid-stride loop with
// coalesced reads: limited by memory, count * sizeof(T) bytes.
template <class T, class Wrong>
__global__ void __launch_bounds__(threads) find_first(const T* values, Index count, Wrong is_wrong, Index* found) {
  FASTDL_SHARED(Found, shared);
  Index first = -1;
  for (Index i = Index(blockIdx.x) * threads + threadIdx.x; i < count && first < 0; i += Index(gridDim.x) * threads)
    if (is_wrong(values[i])) first = i;
  shared.of_thread[threadIdx.x] = first;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int thread = 1; thread < threads; ++thread) {
    const Index other = shared.of_thread[thread];
    if (other >= 0 && (first < 0 || other < first)) first = other;
  }
  found[blockIdx.x] = first;
}

template <class T, class Wrong>
Index first_wrong(const char* name, const T* values, Index count, Wrong is_wrong, Stream stream) {
  if (count == 0) return -1;
  const Index wanted = (count + threads - 1) / threads, blocks = wanted < most_blocks ? wanted : most_blocks;
  const fastdl::cuda::Scratch<Index> found(name, blocks, stream);
  fastdl::cuda::launch(name, find_first<T, Wrong>, blocks_for(blocks, 1, threads, stream), values, count, is_wrong,
                       found.data());
  std::vector<Index> all(static_cast<std::size_t>(blocks));
  fastdl::cuda::copy_to_host(name, all.data(), found.data(), found.bytes(), stream);
  Index first = -1;
  for (const Index other : all)
    if (other >= 0 && (first < 0 || other < first)) first = other;
  return first;
}

constexpr int rows_of_block = threads / 32;

// A warp a row: its largest element, the length of the row divided by it, the row divided by both. In double, since
// squares of others may be beyond the type. Limited by memory: three reads, two of them from cache, and a write.
template <class T>
__global__ void __launch_bounds__(threads) normalize_some(T* rows, Index count, Index length) {
  const Index row = Index(blockIdx.x) * rows_of_block + warp_number();
  if (row >= count) return;
  T* const here = rows + row * length;
  double largest = 0, square = 0;
  for (Index j = lane_number(); j < length; j += 32) {
    const double size = here[j] < T(0) ? -double(here[j]) : double(here[j]);
    largest = size > largest ? size : largest;
  }
  largest = warp_largest(largest);
  if (!(largest > 0)) return;
  for (Index j = lane_number(); j < length; j += 32) {
    const double share = double(here[j]) / largest;
    square = multiply_add(share, share, square);
  }
  const double root = std::sqrt(warp_sum(square));
  for (Index j = lane_number(); j < length; j += 32) here[j] = T(double(here[j]) / largest / root);
}

}  // namespace

template <class T>
Index first_not_finite(const char* name, const T* values, Index count, Stream stream) {
  return first_wrong(name, values, count, NotFinite{}, stream);
}

template <class T>
Index first_not_spin(const char* name, const T* values, Index count, Stream stream) {
  return first_wrong(name, values, count, NotSpin{}, stream);
}

template <class T>
void normalize_rows(const char* name, T* rows, Index count, Index length, Stream stream) {
  if (count == 0 || length == 0) return;
  fastdl::cuda::launch(name, normalize_some<T>, blocks_for(count, rows_of_block, threads, stream), rows, count, length);
}

#define FASTDL_ROWS(T)                                                   \
  template Index first_not_finite(const char*, const T*, Index, Stream); \
  template Index first_not_spin(const char*, const T*, Index, Stream);   \
  template void normalize_rows(const char*, T*, Index, Index, Stream);
FASTDL_ROWS(float)
FASTDL_ROWS(double)
#undef FASTDL_ROWS

}  // namespace fastdl::hebbian::cuda
