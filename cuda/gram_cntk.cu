// The convolutional neural tangent kernel: the formulas are in csrc/gram/cntk_isa.cpp.
//
// S and T of two images belong to pairs of positions p, p'. The filters move both together, so for a fixed displacement
// p' - p all layers happen in one map over p, of the size of the images' overlap: an ordinary box filter, and point by
// point the rest.
//
//   a block takes two images and all displacements of one height
//     for each displacement: the products, to shared memory; then layer by layer from one pair of maps to the other
//     adds up T over all points, in double
//   a second kernel adds up the heights
//
// Maps never leave shared memory: 4 maps of H W numbers, 16 KB for 32 x 32 in f32. A point of a layer takes 2 q^2 loads
// from shared memory and some 80 instructions, of which most are an arctangent and a square root; (H W)^2 points a pair
// and layer with mean pooling, H W with flatten. Estimated limit: arithmetic, about half of the threads idle where the
// overlap is small. Images larger than fit 48 KB are left to the reference.
#include <cmath>

#include "gram_kernels.hpp"
#include "gram_pairs.cuh"
#include "gram_sums.cuh"

namespace fastdl::gram::cuda {
namespace {

using fastdl::cuda::multiply_add;
using fastdl::cuda::Scratch;

constexpr double pi = 3.14159265358979323846;

struct Layers {
  int channels, height, width, depth;
  int before, after;  // how far a window reaches from its position, both ways
};

// Two maps each of S and T, between which layers alternate.
template <class T>
struct Maps {
  T *s, *t, *next_s, *next_t;

  __device__ __forceinline__ Maps(T* memory, int points)
      : s(memory), t(memory + points), next_s(memory + 2 * points), next_t(memory + 3 * points) {}
  __device__ __forceinline__ void exchange() {
    T *const old_s = s, *const old_t = t;
    s = next_s, t = next_t;
    next_s = old_s, next_t = old_t;
  }
};

// The overlap of an image and one that is displaced by (down, right): positions of the first.
struct Overlap {
  int top, left, height, width;
  __device__ __forceinline__ Overlap(const Layers& layers, int down, int right)
      : top(down < 0 ? -down : 0),
        left(right < 0 ? -right : 0),
        height(layers.height - (down < 0 ? -down : down)),
        width(layers.width - (right < 0 ? -right : right)) {}
};

template <class T>
__device__ __forceinline__ T product_at(const T* x, const T* y, const Layers& layers, int p, int q) {
  T sum = T(0);
  const Index points = Index(layers.height) * layers.width;
  FASTDL_NO_UNROLL
  for (int c = 0; c < layers.channels; ++c) sum = multiply_add(x[c * points + p], y[c * points + q], sum);
  return sum;
}

// The sum over the window at (row, column), as far as it is in the map.
template <class T>
__device__ __forceinline__ T window_sum(const T* map, const Layers& layers, int row, int column, int height,
                                        int width) {
  const int top = row > layers.before ? row - layers.before : 0;
  const int left = column > layers.before ? column - layers.before : 0;
  const int bottom = layers.after < height - 1 - row ? row + layers.after : height - 1;
  const int right = layers.after < width - 1 - column ? column + layers.after : width - 1;
  T sum = T(0);
  FASTDL_NO_UNROLL
  for (int i = top; i <= bottom; ++i) {
    FASTDL_NO_UNROLL
    for (int j = left; j <= right; ++j) sum += map[i * width + j];
  }
  return sum;
}

// Sxx of every image and layer: a ReLU of this normalisation keeps it. Computed as S is for displacement 0, so that an
// image and itself have angles of exactly 0 there. Limit: shared memory, q^2 loads a point and layer; a block an image,
// where `displaced` has many for every pair.
template <class T>
__global__ void __launch_bounds__(sum_threads) variances(const T* images, Layers layers, T weight, T* to) {
  FASTDL_DYNAMIC_SHARED(T, memory);
  const int points = layers.height * layers.width;
  Maps<T> maps(memory, points);
  const T* x = images + Index(blockIdx.x) * layers.channels * points;
  for (int p = threadIdx.x; p < points; p += sum_threads) maps.s[p] = product_at(x, x, layers, p, p);
  FASTDL_NO_UNROLL
  for (int layer = 0; layer < layers.depth; ++layer) {
    __syncthreads();
    for (int p = threadIdx.x; p < points; p += sum_threads) {
      const int row = p / layers.width, column = p % layers.width;
      maps.next_s[p] = window_sum(maps.s, layers, row, column, layers.height, layers.width) * weight;
      to[(Index(blockIdx.x) * layers.depth + layer) * points + p] = maps.next_s[p];
    }
    maps.exchange();
  }
}

// Which images a block compares: pair `number` of the rows of a rectangle, or of the lower triangle.
struct PairsOfImages {
  Index first_row, columns;
  bool triangle, flatten;
};

// One block: two images and all displacements of one height. Limit: arithmetic, as said above; the maps in shared
// memory, 16 bytes (f64: 32) a pixel, leave room for as many blocks as they fit.
template <class T>
__global__ void __launch_bounds__(sum_threads)
    displaced(const T* x, const T* y, const T* x_variances, const T* y_variances, Layers layers, T weight,
              PairsOfImages pairs, double* partial) {
  FASTDL_DYNAMIC_SHARED(T, memory);
  FASTDL_SHARED(SumRoom, room);
  const Index i = pairs.first_row + blockIdx.x / pairs.columns, j = blockIdx.x % pairs.columns;
  if (pairs.triangle && j > i) return;
  const int points = layers.height * layers.width;
  const int down = pairs.flatten ? 0 : int(blockIdx.y) - (layers.height - 1);
  const int first = pairs.flatten ? 0 : 1 - layers.width, last = pairs.flatten ? 0 : layers.width - 1;
  const T *left = x + i * layers.channels * points, *right = y + j * layers.channels * points;
  double sum = 0;
  FASTDL_NO_UNROLL
  for (int across = first; across <= last; ++across) {
    const Overlap overlap(layers, down, across);
    Maps<T> maps(memory, points);
    const int count = overlap.height * overlap.width;
    // Of a point of the overlap: where it is in the first image, and in the second.
    const auto here = [&](int at) {
      return (overlap.top + at / overlap.width) * layers.width + overlap.left + at % overlap.width;
    };
    const int shift = down * layers.width + across;
    __syncthreads();  // all have read the maps of the displacement before
    for (int at = threadIdx.x; at < count; at += sum_threads)
      maps.s[at] = maps.t[at] = product_at(left, right, layers, here(at), here(at) + shift);
    FASTDL_NO_UNROLL
    for (int layer = 0; layer < layers.depth; ++layer) {
      __syncthreads();
      const T* xx = x_variances + (i * layers.depth + layer) * points;
      const T* yy = y_variances + (j * layers.depth + layer) * points;
      for (int at = threadIdx.x; at < count; at += sum_threads) {
        const int row = at / overlap.width, column = at % overlap.width, p = here(at);
        const T s = window_sum(maps.s, layers, row, column, overlap.height, overlap.width) * weight;
        const T t = window_sum(maps.t, layers, row, column, overlap.height, overlap.width) * weight;
        // xx yy - s^2, of which nothing is rounded before the difference is taken
        const T product = xx[p] * yy[p + shift], rest = multiply_add(xx[p], yy[p + shift], -product);
        const T gap = multiply_add(-s, s, product) + rest, sine = gap < T(0) ? T(0) : std::sqrt(gap);
        const T theta = sine == T(0) && s == T(0) ? T(pi / 2) : std::atan2(sine, s);
        const T next = multiply_add(multiply_add(-theta, s, sine), T(1 / pi), s);
        maps.next_s[at] = next;
        maps.next_t[at] = multiply_add(multiply_add(theta, T(-1 / pi), T(1)), t, next);
      }
      maps.exchange();
    }
    for (int at = threadIdx.x; at < count; at += sum_threads) sum += double(maps.t[at]);
  }
  const double total = block_sum(sum_threads, room, [&](Index) { return sum; });  // each thread's own
  if (threadIdx.x == 0) partial[Index(blockIdx.x) * gridDim.y + blockIdx.y] = total;
}

// K from the sums of all heights of displacements, a thread a pair. Limit: memory, 2 H - 1 doubles a pair, which is
// nothing beside `displaced`.
template <class T>
__global__ void __launch_bounds__(sum_threads)
    average(const double* partial, Index count, Index heights, double terms, PairsOfImages pairs, T* k) {
  const Index number = Index(blockIdx.x) * sum_threads + threadIdx.x;
  const Index i = pairs.first_row + number / pairs.columns, j = number % pairs.columns;
  if (number >= count || (pairs.triangle && j > i)) return;
  double sum = 0;
  FASTDL_NO_UNROLL
  for (Index height = 0; height < heights; ++height) sum += partial[number * heights + height];
  const T value = T(sum / terms);
  k[i * pairs.columns + j] = value;
  if (pairs.triangle) k[j * pairs.columns + i] = value;
}

template <class T>
std::size_t map_bytes(Index height, Index width) {
  return std::size_t(4 * height * width) * sizeof(T);
}

constexpr Index partial_count = Index{1} << 22;  // numbers of one launch, about

}  // namespace

bool cntk_fits(Index height, Index width, int itemsize) {
  return 4 * height * width * itemsize + Index(sizeof(SumRoom)) <= 48 << 10;
}

template <class T>
void cntk(const T* x, Index n, const T* y, Index m, Index channels, Index height, Index width, int depth,
          Index kernel_size, bool flatten, T* k, Stream stream) {
  constexpr const char* name = "gram.cntk";
  const bool alone = !y;
  const Index columns = alone ? n : m, points = height * width;
  if (n == 0 || columns == 0) return;
  const Layers layers{int(channels), int(height), int(width), depth, int((kernel_size - 1) / 2), int(kernel_size / 2)};
  const T weight = T(1 / (double(kernel_size) * double(kernel_size)));
  const Scratch<T> x_variances(name, n * depth * points, stream),
      y_variances(name, alone ? 0 : m * depth * points, stream);
  const std::size_t bytes = map_bytes<T>(height, width);
  const auto measure = [&](const T* images, Index count, T* to) {
    fastdl::cuda::launch(name, variances<T>, {dim3(static_cast<unsigned>(count)), dim3(sum_threads), bytes, stream},
                         images, layers, weight, to);
  };
  if (depth > 0) measure(x, n, x_variances.data());
  if (depth > 0 && !alone) measure(y, m, y_variances.data());
  const Index heights = flatten ? 1 : 2 * height - 1;
  Index rows_at_once = partial_count / (columns * heights);
  if (rows_at_once < 1) rows_at_once = 1;
  if (rows_at_once > n) rows_at_once = n;
  const Scratch<double> partial(name, rows_at_once * columns * heights, stream);
  const double terms = flatten ? double(points) : double(points) * double(points);
  for (Index first = 0; first < n; first += rows_at_once) {
    const Index rows = n - first < rows_at_once ? n - first : rows_at_once, count = rows * columns;
    const PairsOfImages pairs{first, columns, alone, flatten};
    fastdl::cuda::launch(
        name, displaced<T>,
        {dim3(static_cast<unsigned>(count), static_cast<unsigned>(heights)), dim3(sum_threads), bytes, stream}, x,
        alone ? x : y, x_variances.data(), alone ? x_variances.data() : y_variances.data(), layers, weight, pairs,
        partial.data());
    fastdl::cuda::launch(name, average<T>, {dim3(blocks_of(count, sum_threads)), dim3(sum_threads), 0, stream},
                         partial.data(), count, heights, terms, pairs, k);
  }
}

#define FASTDL_GRAM_CNTK(T) \
  template void cntk(const T*, Index, const T*, Index, Index, Index, Index, int, Index, bool, T*, Stream);
FASTDL_GRAM_CNTK(float)
FASTDL_GRAM_CNTK(double)
#undef FASTDL_GRAM_CNTK

}  // namespace fastdl::gram::cuda
