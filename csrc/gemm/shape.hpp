// The engine's tile and block sizes, per instruction set and type.
//
// A tile of C is rows x (vectors*lanes) accumulators held in registers. Per step in k it takes `vectors` loads and
// `rows` broadcasts for rows*vectors multiply-adds:
//   avx512, neon (32 registers): 6 x 4 vectors: 24 accumulators, 10 loads for 24 multiply-adds
//   avx2, sse2   (16 registers): 6 x 2 vectors: 12 accumulators, 8 loads for 12 multiply-adds
//
// Matrix tiles (AMX) were tried for float32, as three parts of bfloat16 and six products of parts: errors four times
// smaller, up to 1.8 times the rate of AVX-512 in single tiles. But the processor throttles them, within tenths of a
// second, to 0.4 to 1 of that (Emerald Rapids, two cores of a shared machine): whole products by a first version of the
// kernel, 215 GF/s in single tiles, took as long as multiply-adds; by a better one, 275, they were not timed in quiet.
//
// The order of the loops (engine.hpp) keeps a packed part of B, depth x columns, in L2 and one packed panel of A, 6
// rows x depth, in L1; the tiles of a row panel follow each other along the columns.
#pragma once

#include <cstdint>

#include "core/cache.hpp"
#include "simd/vec.hpp"

namespace fastdl::gemm {
namespace {

using Index = std::int64_t;

constexpr Index divide_up(Index n, Index by) { return (n + by - 1) / by; }
constexpr Index round_up(Index n, Index multiple) { return divide_up(n, multiple) * multiple; }
constexpr Index at_most(Index most, Index n) { return n < most ? n : most; }

template <class T>
struct Shape {
  static constexpr int lanes = simd::lanes<T>;
  static constexpr int rows = 6;
#if FASTDL_VECTOR_BYTES == 64 || defined(FASTDL_NATIVE_NEON)
  static constexpr int vectors = 4;
#else
  static constexpr int vectors = 2;
#endif
  static constexpr int columns = vectors * lanes;

  // How far one pass goes in k, at most: the sum over k is taken in such stretches, balanced, and depends on nothing
  // but K. That makes a result the same to the bit for every partition of rows and columns. (Zen 3: 3072 bytes serve
  // 2048 cubed equally well; 4096 x 512, symmetric, gains 4% from being one pass. Emerald Rapids, float64: 4096 bytes
  // gain 3% there and 1% on 1024 cubed.)
  static constexpr int max_depth =
      (simd::vector_bytes == 64 && sizeof(T) == 8 ? 4096 : 2048) / static_cast<int>(sizeof(T));

  // Rows finished before a symmetric result is mirrored: whole panels, and whole cache lines of the mirrored rows.
  static constexpr int group_rows = 48;
  static_assert(group_rows % rows == 0);

  // Rows packed at a time: A takes at most 16 MB. Its panels are fetched from wherever they are, long before their
  // turn; but whenever they change, B is packed again.
  static Index most_rows(Index depth) { return cut(Index{16} << 20, depth, group_rows); }

  // Columns of a packed part of B: it takes 5/8 of the L2 cache and leaves the rest to A, C and the fetches ahead. (Zen
  // 3, 512 KB: from 1/2 to 1 no difference stood out of the noise.)
  static Index part_columns(Index depth) { return cut(core::l2_bytes() * 5 / 8, depth, columns); }

 private:
  // How many rows of that depth fit, a multiple of `unit`; no more than 8192, however shallow.
  static Index cut(Index bytes, Index depth, Index unit) {
    const Index fit = bytes / ((depth + 1) * static_cast<Index>(sizeof(T)));
    return (fit < unit ? 1 : (fit < 8192 ? fit : 8192) / unit) * unit;
  }
};

// Depth of each pass: the fewest equal passes, rounded up to 8.
template <class T>
constexpr Index balanced_depth(Index k) {
  constexpr Index most = Shape<T>::max_depth;
  if (k <= most) return k;
  const Index passes = (k + most - 1) / most;
  return ((k + passes - 1) / passes + 7) / 8 * 8;
}

}  // namespace
}  // namespace fastdl::gemm
