// Fields of many states of +1 and -1, with a quarter of a product's operations.
//
// Four units have 16 states, and so their part of a field has 16 values. They are summed once, and every state of the
// network adds the one that is its own: one addition for four units (the method of four Russians). Units of a group
// lie a vector apart, so that the code of a state, four bits a group, is made in vectors too:
//
//   for each strip of units, four vectors wide                     a task, on any thread
//     for some hundred states
//       for the groups of some units, whose tables are in L1
//         make the tables from the weights
//         for each state: add one row of each table to its fields, which stay in registers meanwhile
//
// Bound by loads, of which L1 gives 1.4 a cycle. (Zen 3, AVX2, 1000 states of 1000 units on one thread: 9.4 ms, where
// the product takes 21. Groups of five or six units: 10% less.) A field does not depend on how many states there are:
// with few, their terms are summed without tables, in the order that those have.
#pragma once

#include "core/scratch.hpp"
#include "core/threads.hpp"
#include "hebbian/strips.hpp"

namespace fastdl::hebbian {
namespace {

using Code = unsigned char;  // bit b: whether unit b of a group is +1

template <class T>
struct Coding {
  static constexpr int bits = 4, values = 1 << bits;
  static constexpr int groups = step<T>, block = bits * groups;  // a block of units: groups that lie abreast

  typedef Code Codes __attribute__((vector_size(step<T>)));

  static Index length(Index units) { return divide_up(units, block) * groups; }

  // Codes of a block: of units that are above zero, or not below.
  template <class Test>
  FASTDL_INLINE static void encode(const Test& test, Code* to) {
    simd::IntVec<T> code{};
#pragma GCC unroll 4
    for (int b = 0; b < bits; ++b) code |= test(b) & simd::broadcast_integer<T>(1 << b);
    const Codes narrow = __builtin_convertvector(code, Codes);
    std::memcpy(to, &narrow, sizeof narrow);
  }

  static void encode_row(const T* state, Index stride, Index units, Code* to) {
    alignas(64) T gathered[block];
    for (Index first = 0; first < units; first += block, to += groups) {
      const Index here = at_most(block, units - first);
      const T* from = state + first * stride;
      if (stride != 1 || here < block) {
        for (Index i = 0; i < block; ++i) gathered[i] = i < here ? from[i * stride] : T(-1);
        from = gathered;
      }
      encode([&](int b) { return simd::load(from + b * step<T>) > Vec<T>{}; }, to);
    }
  }

  static void decode_row(const Code* from, Index units, T* state, Index stride) {
    alignas(64) T scattered[block];
    for (Index first = 0; first < units; first += block, from += groups) {
      const Index here = at_most(block, units - first);
      const bool whole = stride == 1 && here == block;
      Codes narrow;
      std::memcpy(&narrow, from, sizeof narrow);
      const simd::IntVec<T> code = __builtin_convertvector(narrow, simd::IntVec<T>);
      T* to = whole ? state + first : scattered;
#pragma GCC unroll 4
      for (int b = 0; b < bits; ++b)
        simd::store(to + b * step<T>, simd::select((code & simd::broadcast_integer<T>(1 << b)) != simd::IntVec<T>{},
                                                   broadcast(T(1)), broadcast(T(-1))));
      for (Index i = 0; !whole && i < here; ++i) state[(first + i) * stride] = scattered[i];
    }
  }
};

template <class T>
class Fields {
  using Of = Coding<T>;

 public:
  // The units of a strip are a block of codes.
  static constexpr int vectors = Of::bits;
  static constexpr Index strip = Of::block;

 private:
  static constexpr Index table = Of::values * strip;
  // Groups whose tables are in L1 together: a divisor of those of a block.
  static constexpr Index groups = at_most(Index{32 << 10} / (table * Index(sizeof(T))), Of::groups);
  static constexpr Index states_together = 1024;
  // Tables cost as much as 28 of their rows.
  static constexpr Index few = 8;

 public:
  explicit Fields(const Matrix<const T>& w) : w_{w.data, w.row_stride, w.col_stride}, units_(w.rows) {}

  // consumer(state, first unit of a strip, its fields: four vectors). Fields of units beyond the last
  // are anything.
  template <class Consumer>
  void compute(const Code* codes, Index states, const Consumer& consumer) const {
    const Index blocks = divide_up(units_, Of::block), parts = divide_up(states, states_together);
    const int threads = double(states) * double(units_) * double(units_) < 4e5 ? 1 : core::thread_count();
    // The codes of a block side by side: a line of them for each state otherwise, 15% of the time.
    core::Scratch scratch;
    Code* abreast = scratch.array<Code>(blocks, states, Of::groups);
    for (Index s = 0; s < states; ++s)
      for (Index b = 0; b < blocks; ++b)
        std::memcpy(abreast + (b * states + s) * Of::groups, codes + (s * blocks + b) * Of::groups, Of::groups);
    core::parallel_for(blocks * parts, threads, [&](Index task) {
      const Index first = task / blocks * states_together;
      compute_strip(abreast, states, first, at_most(states_together, states - first), task % blocks * strip, consumer);
    });
  }

 private:
  template <class Consumer>
  void compute_strip(const Code* codes, Index all_states, Index first_state, Index states, Index first,
                     const Consumer& consumer) const {
    core::Scratch scratch;
    T* sums = scratch.array<T>(states, strip);
    T* tables = scratch.array<T>(groups, table);
    T* weights = scratch.array<T>(Of::block, strip);
    codes += first_state * Of::groups;
    for (Index unit = 0; unit < units_; unit += Of::block, codes += all_states * Of::groups) {
      const Index here = at_most(Of::block, units_ - unit);
      w_.pack_columns(first, int(at_most(strip, units_ - first)), unit, here, int(strip), weights);
      for (Index i = here * strip; i < Of::block * strip; i += step<T>) simd::store(weights + i, Vec<T>{});
      for (Index group = 0; group < Of::groups; group += groups) {
        const bool begins = unit + group == 0;
        const T* from = weights + group * strip;
        const auto each = [&](const auto& add) {
          for (Index s = 0; s < states; ++s) add(codes + s * Of::groups + group, begins, sums + s * strip);
        };
        if (states < few) {
          each([&](const Code* code, bool b, T* to) { add_terms(from, code, b, to); });
        } else {
          for (Index g = 0; g < groups; ++g) tabulate(from + g * strip, tables + g * table);
          each([&](const Code* code, bool b, T* to) { add_rows(tables, code, b, to); });
        }
      }
    }
    for (Index s = 0; s < states; ++s) {
      Vec<T> fields[vectors];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) fields[v] = simd::load(sums + s * strip + v * step<T>);
      consumer(first_state + s, first, fields);
    }
  }

  // The sums of all signs of four weights, which lie `groups` strips apart: ((+-w0 +-w1) +-w2) +-w3.
  static void tabulate(const T* weights, T* to) {
    for (int v = 0; v < vectors; ++v, weights += step<T>, to += step<T>) {
      const Vec<T> first = simd::load(weights);
      Vec<T> sums[Of::values] = {-first, first};
#pragma GCC unroll 4
      for (int b = 1; b < Of::bits; ++b) {
        const Vec<T> weight = simd::load(weights + b * Of::groups * strip);
#pragma GCC unroll 16
        for (int i = 0; i < 1 << b; ++i) {
          sums[i + (1 << b)] = sums[i] + weight;
          sums[i] = sums[i] - weight;
        }
      }
#pragma GCC unroll 16
      for (int i = 0; i < Of::values; ++i) simd::store(to + i * strip, sums[i]);
    }
  }

  FASTDL_INLINE static void begin_with(const T* sums, bool begins, Vec<T> (&fields)[vectors]) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) fields[v] = begins ? Vec<T>{} : simd::load(sums + v * step<T>);
  }

  FASTDL_INLINE static void end_with(const Vec<T> (&fields)[vectors], T* sums) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) simd::store(sums + v * step<T>, fields[v]);
  }

  FASTDL_INLINE static void add_rows(const T* tables, const Code* codes, bool begins, T* sums) {
    Vec<T> fields[vectors];
    begin_with(sums, begins, fields);
#pragma GCC unroll 16
    for (int g = 0; g < groups; ++g) {
      const T* row = tables + g * table + codes[g] * strip;
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) fields[v] += simd::load(row + v * step<T>);
      asm volatile("" ::: "memory");  // a row after the other: by turns, the loads meet in one bank
    }
    end_with(fields, sums);
  }

  // What a row of the table would be, added.
  static void add_terms(const T* weights, const Code* codes, bool begins, T* sums) {
    Vec<T> fields[vectors];
    begin_with(sums, begins, fields);
    for (int g = 0; g < groups; ++g, weights += strip) {
      T sign[Of::bits];
      for (int b = 0; b < Of::bits; ++b) sign[b] = codes[g] >> b & 1 ? T(1) : T(-1);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        Vec<T> term = simd::load(weights + v * step<T>) * sign[0];
#pragma GCC unroll 4
        for (int b = 1; b < Of::bits; ++b) term += simd::load(weights + b * Of::groups * strip + v * step<T>) * sign[b];
        fields[v] += term;
      }
    }
    end_with(fields, sums);
  }

  gemm::Strided<T> w_;
  Index units_;
};

}  // namespace
}  // namespace fastdl::hebbian
