// What a transform of a length needs to know, computed once and shared: radices and twiddles.
//
// Built in baseline code, in long double, and kept behind a mutex (plan.cpp). Bodies hold a SharedPlan while they run;
// what it points to is only read.
#pragma once

#include <cstdint>

namespace fastdl::fft {

using Index = std::int64_t;

template <class T>
struct Plan;

// One pass of Stockham's algorithm over count * radix * stride elements:
//   y[q + stride*(radix*p + j)] = w^(j*p) * sum over k of x[q + stride*(p + count*k)] r^(j*k)
// with w = exp(-2 pi i / (count*radix)) and r = exp(-2 pi i / radix), for p < count, q < stride and j, k < radix.
template <class T>
struct Pass {
  Index radix;
  Index count, stride;
  const T* twiddles;     // w^(j*p) at 2*(p*(radix - 1) + j - 1), real part first; not there when count is 1
  const T* roots;        // r^j at 2*j, for the radices without a butterfly of their own
  const Plan<T>* prime;  // of a radix larger than largest_radix; else null
};

// exp(-2 pi i j / length) for all lengths: by passes, or of a prime larger than largest_radix by a convolution, which a
// transform of another length makes. Of two sorts the one with the lesser cost is taken, and for lengths with a prime
// factor larger than longest_in_lanes always the second:
//   Rader's: the numbers but the first, in the order of the powers of a generator, are convolved round a circle of
//   length - 1;
//   Bluestein's: exp(-2 pi i j k / n) = chirp(j) chirp(k) / chirp(k - j), of length 2*length - 1 or more.
template <class T>
struct Plan {
  Index length;
  Index scratch;  // elements of scratch space that a transform takes
  int passes;
  Pass<T> pass[40];
  const T* half_turns;        // exp(-pi i k / length), 2*k <= length: for real transforms of twice the length
  const Plan* inner;          // of the convolution, or null
  const T* response;          // the transform of what is convolved with, over the inner length
  const std::int32_t* power;  // Rader: of the generator, numbers 0 to length - 1, the last of them 1 again; else null
  const T* chirp;             // Bluestein: exp(-pi i j^2 / length), complex
};

inline constexpr int largest_radix = 31;
// Of primes by Rader's algorithm, and of those in passes: a lane-full of 16 of the longest is 2 MB with what it takes.
inline constexpr Index longest_in_lanes = 4096;

// The plan of a length >= 1, from the cache or built.
template <class T>
class SharedPlan {
 public:
  explicit SharedPlan(Index length);
  ~SharedPlan();
  SharedPlan(const SharedPlan&) = delete;
  SharedPlan& operator=(const SharedPlan&) = delete;
  const Plan<T>& plan() const __attribute__((always_inline)) { return *plan_; }

 private:
  const Plan<T>* plan_;
};

extern template class SharedPlan<float>;
extern template class SharedPlan<double>;

// A length as a matrix of rows x columns (batch_grid.hpp), with the factors between the two steps: those of 16 rows
// side by side, so that 16, 8, 4 or 2 lanes of rows are found together.
template <class T>
struct Grid {
  static constexpr Index block = 16;
  static constexpr Index largest_table = 1 << 16;  // a longer grid has no twiddles: they are made as they are needed
  Index rows, columns;
  const T* twiddles;  // exp(-2 pi i r c / length) at 32*(r/16*columns + c) + r%16, its imaginary part 16 further
};

template <class T>
class SharedGrid {
 public:
  explicit SharedGrid(Index length);
  ~SharedGrid();
  SharedGrid(const SharedGrid&) = delete;
  SharedGrid& operator=(const SharedGrid&) = delete;
  const Grid<T>& grid() const __attribute__((always_inline)) { return *grid_; }

 private:
  const Grid<T>* grid_;
};

extern template class SharedGrid<float>;
extern template class SharedGrid<double>;

// Whether rows of the length are transformed as grids, each by itself, or one in every lane.
bool goes_as_grid(Index length);

// Powers of a root of unity of a large order, exp(-2 pi i e / order) for 0 <= e < order, as a product of two of about
// 2 sqrt(order) numbers that are kept.
struct Turns {
  Index order;
  int shift;
  const double *coarse, *fine;  // of e >> shift and of the lowest bits of e; real part first

  __attribute__((always_inline)) void operator()(Index e, double& re, double& im) const {
    const double* a = coarse + 2 * (e >> shift);
    const double* b = fine + 2 * (e & ((Index{1} << shift) - 1));
    re = a[0] * b[0] - a[1] * b[1];
    im = a[0] * b[1] + a[1] * b[0];
  }
};

class SharedTurns {
 public:
  explicit SharedTurns(Index order);
  ~SharedTurns();
  SharedTurns(const SharedTurns&) = delete;
  SharedTurns& operator=(const SharedTurns&) = delete;
  const Turns& turns() const __attribute__((always_inline)) { return *turns_; }

 private:
  const Turns* turns_;
};

// About what a transform of the length takes in cache, in ns.
double cost(Index length);

// The length >= n (a product of 2, 3 and 5) with the least cost.
Index good_size(Index n);

// n = rows * columns for a transform in two steps (long.hpp), both near the square root; rows is 1 where n has no such
// factors.
void split(Index n, Index& rows, Index& columns);

// The same where n may grow: columns a multiple of 16, rows * columns >= n.
void good_split(Index n, Index& rows, Index& columns);

}  // namespace fastdl::fft
