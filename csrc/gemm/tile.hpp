// The micro-kernel: one tile of C, rows x vectors accumulators, summed over k in registers; and a panel of such tiles.
#pragma once

#include "gemm/combine.hpp"
#include "gemm/shape.hpp"

namespace fastdl::gemm {
namespace {

template <class T>
inline constexpr int line = 64 / int(sizeof(T));  // of a cache

// A matrix to write. Vectors are stored when columns are contiguous, single values otherwise.
template <class T>
struct Output {
  T* data;
  Index stride, stride_column;

  Output at(Index row, Index column) const {
    return {data + row * stride + column * stride_column, stride, stride_column};
  }
};

// The part of the sum over k that one pass takes: [first, first + depth) of `all`.
struct Stretch {
  Index first, depth, all;
  bool begins() const { return first == 0; }
  bool last() const { return first + depth == all; }
};

// Rows [First, First + Count) of a tile: acc[r][v] = sum over p of a[r, p] * b[p, v], or what the rule has for it.
// Meanwhile memory from `ahead` on is fetched to L2, a line for a line's worth of p: among the multiply-adds that takes
// no time. (All at once before the tile it took 2% of 2048 cubed.)
template <int First, int Count, class T, int Rows, int Vectors, class Rule>
FASTDL_INLINE void sum_rows(const T* a, const T* b, Index depth, simd::Vec<T> (&acc)[Rows][Vectors], const Rule& rule,
                            const T* ahead) {
  for (Index from = 0; from < depth; from += line<T>) {
    simd::prefetch_to_l2(ahead + from);
    const Index to = at_most(from + line<T>, depth);
#pragma GCC unroll 4
    for (Index p = from; p < to; ++p) {
      simd::Vec<T> right[Vectors];
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) right[v] = simd::load(b + v * simd::lanes<T>);
#pragma GCC unroll 8
      for (int r = First; r < First + Count; ++r) {
        const simd::Vec<T> left = simd::broadcast(a[r]);
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v) acc[r][v] = rule.step(acc[r][v], left, right[v]);
      }
      a += Shape<T>::rows;
      b += Vectors * simd::lanes<T>;
    }
  }
}

template <class T, int Rows, int Vectors, class Rule>
FASTDL_INLINE void accumulate(const T* a, const T* b, Index depth, simd::Vec<T> (&acc)[Rows][Vectors], const Rule& rule,
                              const T* ahead) {
  if constexpr (Rule::long_step) {
    // A step of many operations hides the loads and stores of its sum, and unrolled would only fill the cache of
    // instructions.
#pragma GCC unroll 1
    for (Index p = 0; p < depth; ++p)
#pragma GCC unroll 1
      for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 1
        for (int v = 0; v < Vectors; ++v)
          acc[r][v] = rule.step(acc[r][v], simd::broadcast(a[p * Shape<T>::rows + r]),
                                simd::load(b + (p * Vectors + v) * simd::lanes<T>));
  } else if constexpr (Rule::wants_registers && Shape<T>::vectors == 2 && Rows > 3) {
    sum_rows<0, 3>(a, b, depth, acc, rule, ahead);
    sum_rows<3, Rows - 3>(a, b, depth, acc, rule, a);
  } else {
    sum_rows<0, Rows>(a, b, depth, acc, rule, ahead);
  }
}

// What the tiles of a panel have in common. It goes by reference and the rest in registers: copied to the stack for
// every tile, it was read back behind the stores of the tile before, whose lines were still on their way (6% of a Gram
// matrix of 4096 x 128).
template <class T, class Rule>
struct Panel {
  const T* a;
  Index depth;
  bool begins;
  Index stride, stride_column;  // of C
  int slope;
  const Rule& rule;
};

// One tile, with its corner at `corner`. Of row r only the first `wanted + r*slope` columns are wanted, at most
// `valid`: slope is 0, or 1 on the diagonal of a symmetric result.
template <class T, int Rows, int Vectors, class Rule>
void tile(const Panel<T, Rule>& panel, const T* b, const T* ahead, T* corner, Index valid, Index wanted) {
  constexpr int step = simd::lanes<T>;
  const Output<T> c{corner, panel.stride, panel.stride_column};
  const Rule& rule = panel.rule;
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) {
    // The lines of the row: a vector of 64 bytes lies across two when C is not aligned to them. (1 x 1 filters, 64 to
    // 256 channels: 3.0 ms, and 3.35 when the lines were fetched to be read.)
#pragma GCC unroll 4
    for (int j = 0; j < Vectors * step; j += line<T>)
      simd::prefetch_to_write(c.data + r * c.stride + j * c.stride_column);
    simd::prefetch_to_write(c.data + r * c.stride + (valid - 1) * c.stride_column);
  }

  simd::Vec<T> acc[Rows][Vectors];
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) acc[r][v] = simd::broadcast(T(Rule::start));
  accumulate<T, Rows, Vectors>(panel.a, b, panel.depth, acc, rule, ahead);
  const bool begins = panel.begins;

  if (c.stride_column == 1 && valid == Vectors * step && wanted >= valid) {
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) {
        T* to = c.data + r * c.stride + v * step;
        simd::store(to, begins ? acc[r][v] : rule.merge(simd::load(to), acc[r][v]));
      }
    }
    return;
  }

  // Tails, diagonals and strided outputs: the same steps from memory, not unrolled, to keep the code small.
  T sums[Rows][Vectors * step];
  std::memcpy(sums, acc, sizeof acc);
  for (int r = 0; r < Rows; ++r) {
    const int count = int(at_most(wanted + r * panel.slope, valid));
    for (int first = 0; first < count; first += step) {
      const int here = count - first < step ? count - first : step;
      T* to = c.data + r * c.stride + first * c.stride_column;
      simd::Vec<T> sum = simd::load(sums[r] + first);
      if (c.stride_column == 1) {
        if (!begins) sum = rule.merge(simd::load_first(to, here), sum);
        simd::store_first(to, sum, here);
      } else {
        if (!begins) {
          simd::Vec<T> before = sum;
          for (int i = 0; i < here; ++i) before[i] = to[i * c.stride_column];
          sum = rule.merge(before, sum);
        }
        for (int i = 0; i < here; ++i) to[i * c.stride_column] = sum[i];
      }
    }
  }
}

template <class T, class Rule>
using Tile = void (*)(const Panel<T, Rule>&, const T*, const T*, T*, Index, Index);

// The tile of any size up to the full one: tails use narrower tiles, never a padded full one.
template <class T, class Rule, int Rows = Shape<T>::rows, int Vectors = Shape<T>::vectors>
Tile<T, Rule> pick_tile(int rows, int vectors) {
  if constexpr (Vectors > 1)
    if (vectors < Vectors) return pick_tile<T, Rule, Rows, Vectors - 1>(rows, vectors);
  if constexpr (Rows > 1)
    if (rows < Rows) return pick_tile<T, Rule, Rows - 1, Vectors>(rows, vectors);
  return tile<T, Rows, Vectors, Rule>;
}

template <class T>
constexpr int padded(int columns) {
  return int(round_up(columns, simd::lanes<T>));
}

// The tiles of one panel of `rows` rows against `width` packed columns, at the corner of c; of its row r the first
// `wanted + r*slope` columns. `next` is the panel that follows it in memory, or null: it is fetched to L2 meanwhile.
template <class T, class Rule>
void row_panel(const T* panel, const T* next, const T* packed, Stretch stretch, Output<T> c, int rows, Index width,
               Index wanted, int slope, const Rule& rule) {
  using S = Shape<T>;
  const Panel<T, Rule> shared{panel, stretch.depth, stretch.begins(), c.stride, c.stride_column, slope, rule};
  const Index tiles = divide_up(slope ? at_most(width, wanted + rows - 1) : at_most(width, wanted), S::columns);
  const Tile<T, Rule> whole = pick_tile<T, Rule>(rows, S::vectors);
  for (Index t = 0; t < tiles; ++t) {
    const Index j = t * S::columns;
    const int count = int(at_most(S::columns, width - j));
    const auto kernel = count == S::columns ? whole : pick_tile<T, Rule>(rows, padded<T>(count) / S::lanes);
    // Each tile fetches as much of it as it is deep; the last ones, what is there already.
    const T* ahead = next && t < S::rows ? next + t * stretch.depth : panel;
    kernel(shared, packed + j * stretch.depth, ahead, c.data + j * c.stride_column, count, wanted - j);
  }
}

}  // namespace
}  // namespace fastdl::gemm
