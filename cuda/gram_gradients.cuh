// The second half of a gradient: from the slopes of all pairs to sums over the other samples.
#pragma once

#include "launch.cuh"

namespace fastdl::gram::cuda {

using fastdl::cuda::multiply_add;

// ---- what a pair of features contributes, where that is not the other's value ----

// -d|x - y|^2 / 2. (A difference of weighted sums would cancel where samples are close to each other.)
struct Apart {
  template <class T>
  __device__ __forceinline__ T operator()(T x, T y) const {
    return y - x;
  }
};

// -d|x - y|, 0 where they are equal
struct Towards {
  template <class T>
  __device__ __forceinline__ T operator()(T x, T y) const {
    return y > x ? T(1) : y < x ? T(-1) : T(0);
  }
};

// -d (x - y)^2 / (x + y) = t (t - 2) with t = (x - y) / (x + y), 0 at two zeros
struct ChiSquareSlope {
  template <class T>
  __device__ __forceinline__ T operator()(T x, T y) const {
    const T total = x + y, t = (x - y) / (total == T(0) ? T(1) : total);
    return t * (t - T(2));
  }
};

template <class T>
struct GradientShape {
  static constexpr int side = 64;   // of the tile: samples x features
  static constexpr int part = 4;    // of a thread: its x, 16 numbers, stay in registers beside its sums
  static constexpr int depth = 16;  // of a slice, along the other samples
  static constexpr int threads = (side / part) * (side / part);
  static constexpr int pitch = side + 4;
};

template <class T>
struct GradientTile {  // in shared memory
  T slope[GradientShape<T>::depth][GradientShape<T>::pitch], value[GradientShape<T>::depth][GradientShape<T>::pitch];
};

template <class T>
struct SampleView {
  const T* data;
  std::int64_t count, row_stride, column_stride;
};

// out[i, f] = factor weight[f]^2 sum over j of S[i, j] feature(x[i, f], y[j, f]), with S and out contiguous.
//
// A block computes 64 x 64 of it, from slices of 16 other samples in shared memory: 4 x 4 sums a thread, which take 8
// numbers from shared memory for 16 features of 2 (Apart) to 14 instructions. Estimated limit: arithmetic, at about
// half of its peak for Apart (n m d multiply-adds and as many subtractions).
template <class T, class Feature>
__global__ void __launch_bounds__(GradientShape<T>::threads, 2)
    feature_sums(const T* slopes, SampleView<T> x, SampleView<T> y, std::int64_t features, T factor, const T* weight,
                 T* out) {
  using S = GradientShape<T>;
  using Index = std::int64_t;
  FASTDL_SHARED(GradientTile<T>, shared);
  // Found anew where it is needed: it would hold registers through the sums.
  const auto tile_row = [&] {
    return Index(fastdl::cuda::anew(int(blockIdx.x)) / int((features + S::side - 1) / S::side)) * S::side;
  };
  const auto tile_feature = [&] {
    return Index(fastdl::cuda::anew(int(blockIdx.x)) % int((features + S::side - 1) / S::side)) * S::side;
  };
  const Index first_row = tile_row(), first_feature = tile_feature();
  const int thread = threadIdx.x, across = S::side / S::part;
  const int row = thread / across * S::part, column = thread % across * S::part;
  T own[S::part][S::part], sums[S::part][S::part];
  FASTDL_UNROLL
  for (int i = 0; i < S::part; ++i) {
    FASTDL_UNROLL
    for (int k = 0; k < S::part; ++k) {
      const Index r = first_row + row + i, f = first_feature + column + k;
      own[i][k] = r < x.count && f < features ? x.data[r * x.row_stride + f * x.column_stride] : T(0);
      sums[i][k] = T(0);
    }
  }
  FASTDL_NO_UNROLL
  for (Index first = 0; first < y.count; first += S::depth) {
    FASTDL_NO_UNROLL
    for (int at = thread; at < S::side * S::depth; at += S::threads) {
      const int j = at % S::depth, r = at / S::depth;
      shared.slope[j][r] =
          first + j < y.count && first_row + r < x.count ? slopes[(first_row + r) * y.count + first + j] : T(0);
    }
    FASTDL_NO_UNROLL
    for (int at = thread; at < S::side * S::depth; at += S::threads) {
      const int f = at % S::side, j = at / S::side;
      shared.value[j][f] = first + j < y.count && first_feature + f < features
                               ? y.data[(first + j) * y.row_stride + (first_feature + f) * y.column_stride]
                               : T(0);
    }
    __syncthreads();
    FASTDL_NO_UNROLL
    for (int j = 0; j < S::depth; ++j) {
      FASTDL_UNROLL
      for (int i = 0; i < S::part; ++i) {
        const T slope = shared.slope[j][row + i];
        FASTDL_UNROLL
        for (int k = 0; k < S::part; ++k)
          sums[i][k] = multiply_add(slope, Feature{}(own[i][k], shared.value[j][column + k]), sums[i][k]);
      }
    }
    __syncthreads();
  }
  const Index to_row = tile_row() + row, to_feature = tile_feature() + column;
  FASTDL_UNROLL
  for (int i = 0; i < S::part; ++i) {
    FASTDL_UNROLL
    for (int k = 0; k < S::part; ++k) {
      const Index r = to_row + i, f = to_feature + k;
      if (r < x.count && f < features) {
        const T scale = weight ? weight[f] * weight[f] * factor : factor;
        out[r * features + f] = sums[i][k] * scale;
      }
    }
  }
}

}  // namespace fastdl::gram::cuda
