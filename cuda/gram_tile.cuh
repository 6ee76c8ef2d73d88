// A tile of sums over features that need not be products: the loop of the product engine (gemm.cuh) with another rule,
// and what is made of the tile.
//
// The tile, its slices in shared memory and the 8 x 8 sums of a thread are the engine's, and so are their reasons. A
// rule takes 2 (absolute and squared differences), 3 (with a weight for every feature), about 12 (chi squared) or 40
// (sinc) instructions where a product takes one multiply-add, so arithmetic is the limit here too, at half of its peak
// or less. Squared distances are summed as they are, (x - y)^2: |x|^2 + |y|^2 - 2 x.y would take half the instructions
// for many features, but cancels where samples are close, and on a GPU the pairs to be summed anew would be left to
// single threads while the others wait. Here nothing cancels, and what is equal is exactly 0.
//
// Every sum is one chain in the order of the features, whatever the tile: a value depends on its own two rows alone.
#pragma once

#include "gram_functions.cuh"

namespace fastdl::gram::cuda {

using gemm::cuda::Fragments;
using gemm::cuda::Shape;
using gemm::cuda::Share;
using gemm::cuda::Sums;
using gemm::cuda::Tile;

// ---- rules --------------------------------------------------------------------------------------------------------

// How much of the loops over a slice is unrolled: two features, one, not the rows of the sums either. Of what is
// unrolled further ptxas takes the loads together, and spills registers on one architecture or another; and long steps
// would not fit the instruction cache.
enum class Pace { brisk, steady, slow };

template <class T>
struct Rule {
  Parameters<T> p;
  static constexpr Pace pace = Pace::brisk;
  static constexpr T start = T(0);
  static constexpr bool zeros_count = false;  // whether two zeros change a sum: slices are filled up with them
};

template <class T>
struct Product : Rule<T> {
  __device__ __forceinline__ T step(T sum, T a, T b) const { return multiply_add(a, b, sum); }
};

template <class T>
struct Square : Rule<T> {
  static constexpr Pace pace = Pace::steady;
  __device__ __forceinline__ T step(T sum, T a, T b) const {
    const T difference = a - b;
    return multiply_add(difference, difference, sum);
  }
};

// With a weight for every feature.
template <class T>
struct WeighedSquare : Rule<T> {
  static constexpr Pace pace = Pace::steady;
  struct OfFeature {
    T weight;
    __device__ __forceinline__ T step(T sum, T a, T b) const {
      const T difference = (a - b) * weight;
      return multiply_add(difference, difference, sum);
    }
  };
};

template <class T>
struct Absolute : Rule<T> {
  static constexpr Pace pace = Pace::steady;
  __device__ __forceinline__ T step(T sum, T a, T b) const { return sum + std::fabs(a - b); }
};

// (a - b)^2 / (a + b) of values >= 0, with 0/0 = 0
template <class T>
struct ChiSquare : Rule<T> {
  static constexpr Pace pace = Pace::steady;
  __device__ __forceinline__ T step(T sum, T a, T b) const {
    const T difference = a - b, total = a + b;
    return multiply_add(difference, difference / (total == T(0) ? T(1) : total), sum);
  }
};

// The product of sin(omega (a - b)) / (pi (a - b)), which is omega/pi where a = b.
template <class T>
struct Sinc : Rule<T> {
  static constexpr Pace pace = Pace::slow;
  static constexpr T start = T(1);
  static constexpr bool zeros_count = true;
  __device__ __forceinline__ T step(T product, T a, T b) const {
    const T difference = a - b;
    const bool same = difference == T(0);
    const T ratio = std::sin(difference * this->p.omega) / (same ? T(1) : difference) * this->p.inverse_pi;
    return product * (same ? this->p.omega_over_pi : ratio);
  }
};

// What a rule does with one feature.
template <class Rule>
__device__ __forceinline__ const Rule& of_feature(const Rule& rule, Index) {
  return rule;
}
template <class T>
__device__ __forceinline__ auto of_feature(const WeighedSquare<T>& rule, Index feature) {
  return typename WeighedSquare<T>::OfFeature{rule.p.weight[feature]};
}

// ---- the sums of a tile ---------------------------------------------------------------------------------------------

// The first row to the last place and all others one up: a loop over rows that is not unrolled finds its row in place
// 0, and after eight rounds everything is where it was. Registers cannot be indexed.
template <class T>
__device__ __forceinline__ void rotate(Sums<T>& sums, const T (&row)[Shape<T>::part]) {
  constexpr int part = Shape<T>::part;
  FASTDL_UNROLL
  for (int i = 0; i + 1 < part; ++i) {
    FASTDL_UNROLL
    for (int j = 0; j < part; ++j) sums.sum[i][j] = sums.sum[i + 1][j];
  }
  FASTDL_UNROLL
  for (int j = 0; j < part; ++j) sums.sum[part - 1][j] = row[j];
}

template <class T>
__device__ __forceinline__ void rotate(T (&values)[Shape<T>::part], T last) {
  constexpr int part = Shape<T>::part;
  FASTDL_UNROLL
  for (int i = 0; i + 1 < part; ++i) values[i] = values[i + 1];
  values[part - 1] = last;
}

template <class T, class Rule>
__device__ __forceinline__ void add_feature(Sums<T>& sums, const Fragments<T>& from, int k, const Rule& rule) {
  T left[Shape<T>::part], right[Shape<T>::part];
  from.read(k, left, right);
  FASTDL_UNROLL
  for (int i = 0; i < Shape<T>::part; ++i) {
    FASTDL_UNROLL
    for (int j = 0; j < Shape<T>::part; ++j) sums.sum[i][j] = rule.step(sums.sum[i][j], left[i], right[j]);
  }
}

// Adds a slice of which `here` features exist, the first being number `feature`.
template <class T, class Rule>
__device__ __forceinline__ void add_slice(Sums<T>& sums, const Fragments<T>& from, int here, Index feature,
                                          const Rule& rule) {
  using S = Shape<T>;
  constexpr int part = S::part;
  if constexpr (Rule::pace == Pace::brisk) {
    FASTDL_UNROLL_BY(2)
    for (int k = 0; k < S::depth; ++k) add_feature(sums, from, k, rule);
  } else if constexpr (Rule::pace == Pace::steady) {
    FASTDL_NO_UNROLL
    for (int k = 0; k < here; ++k) add_feature(sums, from, k, of_feature(rule, feature + k));
  } else {
    FASTDL_NO_UNROLL
    for (int k = 0; k < here; ++k) {
      T left[part], right[part];
      from.read(k, left, right);
      FASTDL_NO_UNROLL
      for (int i = 0; i < part; ++i) {
        T row[part];
        FASTDL_UNROLL
        for (int j = 0; j < part; ++j) row[j] = rule.step(sums.sum[0][j], left[0], right[j]);
        rotate(sums, row);
        rotate<T>(left, left[0]);
      }
    }
  }
}

// The sums of the tile that begins at (row, column), from nothing. All threads of the block take part.
template <class T, class Rule>
__device__ __forceinline__ void sum_tile(Sums<T>& sums, const Rows<T>& x, const Rows<T>& y, Index row, Index column,
                                         Index features, const Rule& rule, Tile<T>& shared) {
  using S = Shape<T>;
  static_assert(Rule::zeros_count <= (Rule::pace != Pace::brisk), "brisk rules take what slices are filled up with");
  sums.set(Rule::start);
  if (features <= 0) return;
  typename Rows<T>::Reader left(x, row, 0), right(y, column, 0);
  gemm::cuda::through_slices(left, right, features, shared, [&](int half, int slice) {
    const Index first = Index(slice) * S::depth, rest = features - first;
    add_slice(sums, Fragments<T>(shared, half), int(rest < S::depth ? rest : S::depth), first, rule);
  });
}

// ---- what is made of them -------------------------------------------------------------------------------------------

// sums <- f(sum, row, column) within the given rows and columns of the tile, and 0 outside. The loops are rolled:
// 64 copies of a function would not fit the instruction cache, nor would its operands fit the registers.
template <class T, class Function>
__device__ __forceinline__ void map_tile(Sums<T>& sums, int rows, int columns, const Function& f) {
  constexpr int part = Shape<T>::part;
  const Share<T> own;
  FASTDL_NO_UNROLL
  for (int i = 0; i < part; ++i) {
    const int row = own.row(i);
    T values[part];
    FASTDL_UNROLL
    for (int j = 0; j < part; ++j) values[j] = sums.sum[0][j];
    FASTDL_NO_UNROLL
    for (int j = 0; j < part; ++j) {
      const int column = own.column(j);
      rotate<T>(values, row < rows && column < columns ? f(values[0], row, column) : T(0));
    }
    rotate(sums, values);
  }
}

// From a value for each of the thread's eight rows to the value of one row combined over the eight lanes that share
// them: lane l of the eight gets that of row l. Seven exchanges, in an order that is always the same.
template <class T, class Combine>
__device__ __forceinline__ T across_lanes(T (&values)[8], const Combine& combine) {
  const int lane = threadIdx.x % 8;
  FASTDL_UNROLL
  for (int width = 4; width > 0; width /= 2) {
    const bool upper = lane & width;
    FASTDL_UNROLL
    for (int i = 0; i < width; ++i) {
      const T kept = upper ? values[i + width] : values[i], given = upper ? values[i] : values[i + width];
      values[i] = combine(kept, __shfl_xor_sync(~0u, given, width));
    }
  }
  return values[0];
}

}  // namespace fastdl::gram::cuda
