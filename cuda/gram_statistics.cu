// Statistics of Gram matrices: centring, and the dependence of two of them; and the products of the rows of feature
// maps and of Jacobians. Sums over matrices are in double, in an order that the size alone determines.
#include "gram_kernels.hpp"
#include "gram_rows.cuh"
#include "gram_sums.cuh"

namespace fastdl::gram::cuda {
namespace {

using fastdl::cuda::Scratch;

template <class T>
struct Square {
  const T* data;
  Index n, row_stride, column_stride;
};

template <class T>
Square<T> square_of(const MatrixView<const T>& k) {
  return {k.data, k.rows, k.row_stride, k.col_stride};
}

constexpr int side = 32;  // of the squares that go through shared memory
constexpr int rows_at_once = 8;

struct SquareTile {  // in shared memory; one more column, so that neither way has bank conflicts
  double value[side][side + 1];
};

// Brings the square at (row, column) to shared memory, zeros outside of the matrix and, if it is left out, on the
// diagonal. Threads go along the axis with the smaller stride.
template <class T>
__device__ __forceinline__ void bring(const Square<T>& k, Index row, Index column, bool diagonal, SquareTile& to) {
  const auto size = [](Index stride) { return stride < 0 ? -stride : stride; };
  const bool along_rows = size(k.column_stride) <= size(k.row_stride);
  const int near = threadIdx.x % side, far = threadIdx.x / side;
  FASTDL_UNROLL
  for (int step = 0; step < side; step += rows_at_once) {
    const int i = along_rows ? far + step : near, j = along_rows ? near : far + step;
    const Index r = row + i, c = column + j;
    const bool there = r < k.n && c < k.n && (diagonal || r != c);
    to.value[i][j] = there ? double(k.data[r * k.row_stride + c * k.column_stride]) : 0;
  }
}

// sums[i] = the sum of row i, with the diagonal or without. A block takes 32 rows and goes along them by squares of 32
// in shared memory; lane l of a warp adds every 32nd element from the l-th on, and the lanes are added by halves. With
// the strides exchanged the same kernel sums columns, in the same order: a symmetric matrix has the same sums of both,
// to the bit. Limited by memory: every element is read once.
template <class T>
__global__ void __launch_bounds__(side* rows_at_once) line_sums(Square<T> k, bool diagonal, double* sums) {
  FASTDL_SHARED(SquareTile, tile);
  const Index row = Index(blockIdx.x) * side;
  const int lane = threadIdx.x % side, warp = threadIdx.x / side;
  double own[side / rows_at_once] = {};
  FASTDL_NO_UNROLL
  for (Index column = 0; column < k.n; column += side) {
    bring(k, row, column, diagonal, tile);
    __syncthreads();
    FASTDL_UNROLL
    for (int i = 0; i < side / rows_at_once; ++i) own[i] += tile.value[warp + i * rows_at_once][lane];
    __syncthreads();
  }
  FASTDL_UNROLL
  for (int i = 0; i < side / rows_at_once; ++i) {
    FASTDL_UNROLL
    for (int width = side / 2; width > 0; width /= 2) own[i] += __shfl_xor_sync(~0u, own[i], width);
    const Index at = row + warp + i * rows_at_once;
    if (lane == 0 && at < k.n) sums[at] = own[i];
  }
}

// A number for every row and every column, and one for all: what is subtracted of entry (i, j) is rows[i] + columns[j].
struct Margins {
  double *rows, *columns, *total;
};

// From the sums of a matrix to what makes them all 0 when it is subtracted. Limit: latency, one block with two passes
// of n / 256 dependent reads from L2: an estimated 25 us for n = 16384, where the matrix takes milliseconds.
__global__ void __launch_bounds__(sum_threads) to_means(Margins sums, Index n) {
  FASTDL_SHARED(SumRoom, room);
  const double total = block_sum(n, room, [&](Index i) { return sums.rows[i]; });
  const double half = total / double(n) / double(n) / 2;
  for (Index i = threadIdx.x; i < n; i += sum_threads) {
    sums.rows[i] = sums.rows[i] / double(n) - half;
    sums.columns[i] = sums.columns[i] / double(n) - half;
  }
}

// From the sums off the diagonal to those of what is left when the mean off the diagonal is subtracted, and that mean.
// Limit: as to_means, with a third pass.
__global__ void __launch_bounds__(sum_threads) to_remainders(Margins sums, Index n, double* mean) {
  FASTDL_SHARED(SumRoom, room);
  const double total = block_sum(n, room, [&](Index i) { return sums.rows[i]; });
  const double average = total / double(n) / double(n - 1);
  for (Index i = threadIdx.x; i < n; i += sum_threads) {
    sums.rows[i] -= double(n - 1) * average;
    sums.columns[i] -= double(n - 1) * average;
  }
  const double left = block_sum(n, room, [&](Index i) { return sums.rows[i]; });
  if (threadIdx.x == 0) {
    sums.total[0] = left;
    mean[0] = average;
  }
}

// out = k - (rows + columns), a thread an element; limited by memory.
template <class T>
__global__ void __launch_bounds__(256) subtract(Square<T> k, Margins means, T* out) {
  const Index count = k.n * k.n;
  for (Index at = Index(blockIdx.x) * blockDim.x + threadIdx.x; at < count; at += Index(gridDim.x) * blockDim.x) {
    const Index row = at / k.n, column = at - row * k.n;
    const double value = double(k.data[row * k.row_stride + column * k.column_stride]);
    out[at] = T(value - (means.rows[row] + means.columns[column]));
  }
}

// A matrix less its margins, or less one number off the diagonal and without it.
template <class T>
struct Shifted {
  Square<T> k;
  Margins margins;
  const double* mean;  // none: the margins
};

template <class T>
__device__ __forceinline__ double shifted(const Shifted<T>& from, double value, Index row, Index column) {
  if (row >= from.k.n || column >= from.k.n) return 0;
  if (from.mean) return row == column ? 0 : value - from.mean[0];
  return value - from.margins.rows[row] - from.margins.columns[column];
}

// partial[b] = the sum over rows 32 b ... and all columns of a[i, j] b[j, i], both shifted. The second matrix comes
// through shared memory as well, and is read turned. Limited by memory: both are read once.
template <class T>
__global__ void __launch_bounds__(side* rows_at_once) dot(Shifted<T> a, Shifted<T> b, double* partial) {
  FASTDL_SHARED(SquareTile, left);
  FASTDL_SHARED(SquareTile, right);
  FASTDL_SHARED(SumRoom, room);
  static_assert(side * rows_at_once == sum_threads);
  const Index row = Index(blockIdx.x) * side;
  const int lane = threadIdx.x % side, warp = threadIdx.x / side;
  double sum = 0;
  FASTDL_NO_UNROLL
  for (Index column = 0; column < a.k.n; column += side) {
    bring(a.k, row, column, true, left);
    bring(b.k, column, row, true, right);
    __syncthreads();
    FASTDL_UNROLL
    for (int i = warp; i < side; i += rows_at_once)
      sum = fastdl::cuda::multiply_add(shifted(a, left.value[i][lane], row + i, column + lane),
                                       shifted(b, right.value[lane][i], column + lane, row + i), sum);
    __syncthreads();
  }
  const double total = block_sum(sum_threads, room, [&](Index) { return sum; });  // each thread's own
  if (threadIdx.x == 0) partial[blockIdx.x] = total;
}

// One estimate of dependence, of a and b, from the parts of the dot product.
struct Estimate {
  Margins a, b;
  const double* partial;
};

__device__ __forceinline__ double hsic(const Estimate& of, Index n, Index parts, bool unbiased, SumRoom& room) {
  const double trace = block_sum(parts, room, [&](Index at) { return of.partial[at]; }), size = double(n);
  if (!unbiased) return trace / ((size - 1) * (size - 1));
  const double across = block_sum(n, room, [&](Index i) { return of.a.columns[i] * of.b.rows[i]; });
  return (trace + of.a.total[0] * of.b.total[0] / ((size - 1) * (size - 2)) - 2 * across / (size - 2)) /
         (size * (size - 3));
}

// The number itself, by one block. Limit: latency, n / 8192 dependent reads from L2 for the parts, and n / 256 more for
// the unbiased estimate; three times that for the alignment.
template <class T>
__global__ void __launch_bounds__(sum_threads) estimate(Estimate both, Estimate first, Estimate second, Index n,
                                                        Index parts, bool unbiased, bool aligned, T* out) {
  FASTDL_SHARED(SumRoom, room);
  double value = hsic(both, n, parts, unbiased, room);
  if (aligned) {
    const double own = hsic(first, n, parts, unbiased, room), other = hsic(second, n, parts, unbiased, room);
    value = value / std::sqrt(own) / std::sqrt(other);
  }
  if (threadIdx.x == 0) out[0] = T(value);
}

// The margins of a matrix on the device.
template <class T>
struct Measured {
  Scratch<double> room;
  Shifted<T> shifted;

  // shift: 0 the means of all (the biased estimate, and centring), else the mean off the diagonal
  Measured(const char* name, const MatrixView<const T>& k, bool off_diagonal, Stream stream)
      : room(name, 2 * k.rows + 2, stream) {
    const Index n = k.rows;
    shifted.k = square_of(k);
    shifted.margins = {room.data(), room.data() + n, room.data() + 2 * n};
    shifted.mean = off_diagonal ? room.data() + 2 * n + 1 : nullptr;
    const Square<T> turned{k.data, n, k.col_stride, k.row_stride};
    const fastdl::cuda::Geometry lines{dim3(blocks_of(n, side)), dim3(side * rows_at_once), 0, stream};
    fastdl::cuda::launch(name, line_sums<T>, lines, shifted.k, !off_diagonal, shifted.margins.rows);
    fastdl::cuda::launch(name, line_sums<T>, lines, turned, !off_diagonal, shifted.margins.columns);
    const fastdl::cuda::Geometry one{dim3(1), dim3(sum_threads), 0, stream};
    if (off_diagonal)
      fastdl::cuda::launch(name, to_remainders, one, shifted.margins, n, room.data() + 2 * n + 1);
    else
      fastdl::cuda::launch(name, to_means, one, shifted.margins, n);
  }
};

// Every row of x less its mean; a warp a row. Limited by memory.
template <class T>
__global__ void __launch_bounds__(256) centre_rows(const T* x, Index rows, Index length, T* out) {
  const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
  for (Index row = Index(blockIdx.x) * warps + threadIdx.x / 32; row < rows; row += Index(gridDim.x) * warps) {
    const T* from = x + row * length;
    double sum = 0;
    FASTDL_NO_UNROLL
    for (Index at = lane; at < length; at += 32) sum += double(from[at]);
    FASTDL_UNROLL
    for (int width = 16; width > 0; width /= 2) sum += __shfl_xor_sync(~0u, sum, width);
    const T mean = T(sum / double(length));
    FASTDL_NO_UNROLL
    for (Index at = lane; at < length; at += 32) out[row * length + at] = from[at] - mean;
  }
}

template <class T>
struct Scaled {
  T factor;
  __device__ __forceinline__ T operator()(T sum, Index, Index) const { return sum * factor; }
};

// The sum of an earlier part of the features, in its place, and this one.
template <class T>
struct Continued {
  const T* earlier;  // or none
  Index row_stride;
  __device__ __forceinline__ T operator()(T sum, Index row, Index column) const {
    return earlier ? earlier[row * row_stride + column] + sum : sum;
  }
};

constexpr Index parameters_together = 1 << 12;  // in one chain of additions

unsigned at_most(Index blocks, Index most) { return static_cast<unsigned>(blocks < most ? blocks : most); }

}  // namespace

template <class T>
void center(const MatrixView<const T>& k, T* out, Stream stream) {
  constexpr const char* name = "gram.center";
  if (k.rows == 0) return;
  const Measured<T> measured(name, k, false, stream);
  fastdl::cuda::launch(name, subtract<T>, {dim3(at_most((k.rows * k.rows + 255) / 256, 1 << 16)), dim3(256), 0, stream},
                       measured.shifted.k, measured.shifted.margins, out);
}

template <class T>
void dependence(const MatrixView<const T>& k, const MatrixView<const T>& l, bool unbiased, bool aligned, T* out,
                Stream stream) {
  const char* const name = aligned ? "gram.cka" : "gram.hsic";
  const Index parts = blocks_of(k.rows, side);
  const Measured<T> a(name, k, unbiased, stream), b(name, l, unbiased, stream);
  const Scratch<double> partial(name, 3 * parts, stream);
  const auto product = [&](const Measured<T>& first, const Measured<T>& second, double* to) {
    fastdl::cuda::launch(name, dot<T>, {dim3(blocks_of(k.rows, side)), dim3(side * rows_at_once), 0, stream},
                         first.shifted, second.shifted, to);
    return Estimate{first.shifted.margins, second.shifted.margins, to};
  };
  const Estimate both = product(a, b, partial.data());
  const Estimate first = aligned ? product(a, a, partial.data() + parts) : both;
  const Estimate second = aligned ? product(b, b, partial.data() + 2 * parts) : both;
  fastdl::cuda::launch(name, estimate<T>, {dim3(1), dim3(sum_threads), 0, stream}, both, first, second, k.rows, parts,
                       unbiased, aligned, out);
}

template <class T>
void feature_gram(const T* x, Index samples, Index channels, Index positions, bool centred, T* out, Stream stream) {
  constexpr const char* name = "gram.feature_gram";
  if (samples * channels == 0) return;
  const Scratch<T> room(name, centred ? samples * channels * positions : 0, stream);
  if (centred)
    fastdl::cuda::launch(name, centre_rows<T>,
                         {dim3(at_most((samples * channels + 7) / 8, 1 << 16)), dim3(256), 0, stream}, x,
                         samples * channels, positions, room.data());
  const T* const rows = centred ? room.data() : x;
  // Symmetric to the bit without a mirror: a product is the same either way round, and so is the order of the sum.
  const auto maps = gemm::cuda::operand(rows, channels, positions, positions, 1, channels * positions);
  gemm::cuda::multiply_batch(name, samples, maps, maps, positions,
                             gemm::cuda::result(out, channels, channels, channels, channels * channels),
                             Scaled<T>{T(1 / double(positions))}, stream);
}

template <class T>
void empirical_ntk(const MatrixView<const T>& x, const MatrixView<const T>* y, T* k, Stream stream) {
  constexpr const char* name = "gram.empirical_ntk";
  const Index columns = y ? y->rows : x.rows;
  const auto to = gemm::cuda::result(k, x.rows, columns, columns);
  for (Index first = 0; first == 0 || first < x.cols; first += parameters_together) {
    const Index depth = x.cols - first < parameters_together ? x.cols - first : parameters_together;
    const auto part = [&](const MatrixView<const T>& rows) {
      return gemm::cuda::operand(rows.data + first * rows.col_stride, rows.rows, depth, rows.row_stride,
                                 rows.col_stride);
    };
    const Continued<T> epilogue{first ? k : nullptr, columns};
    if (y)
      gemm::cuda::multiply(name, part(x), part(*y), depth, to, epilogue, stream);
    else
      gemm::cuda::multiply_symmetric(name, part(x), depth, to, epilogue, stream);
  }
}

#define FASTDL_GRAM_STATISTICS(T)                                                                           \
  template void center(const MatrixView<const T>&, T*, Stream);                                             \
  template void dependence(const MatrixView<const T>&, const MatrixView<const T>&, bool, bool, T*, Stream); \
  template void feature_gram(const T*, Index, Index, Index, bool, T*, Stream);                              \
  template void empirical_ntk(const MatrixView<const T>&, const MatrixView<const T>*, T*, Stream);
FASTDL_GRAM_STATISTICS(float)
FASTDL_GRAM_STATISTICS(double)
#undef FASTDL_GRAM_STATISTICS

}  // namespace fastdl::gram::cuda
