// Dense associative memories, compiled once per instruction-set level. Recall: a state a task, with its overlaps with
// all patterns, p.s, which a unit that turns over changes by twice its column. Energies: overlaps of all states are a
// product of the engine. In double for both types, since powers and exponentials of overlaps differ by many orders of
// magnitude.
#include "core/scratch.hpp"
#include "core/threads.hpp"
#include "gemm/engine.hpp"
#include "hebbian/orders.hpp"
#include "simd/math.hpp"

namespace fastdl::hebbian::FASTDL_LEVEL {
namespace {

using F = double;
using V = Vec<F>;

FASTDL_INLINE V power(V base, double degree) {
  V result = broadcast(F(1));
  for (int rest = int(degree); rest > 0; rest >>= 1, base *= base)
    if (rest & 1) result *= base;
  return result;
}

class Patterns {
 public:
  template <class T>
  Patterns(const Matrix<const T>& p, double degree)
      : count_(p.rows), units_(p.cols), stride_(round_up(p.rows, step<F>)), degree_(degree) {
    columns_ = scratch_.array<F>(units_, stride_);
    for (Index i = 0; i < units_; ++i)
      for (Index k = 0; k < stride_; ++k)
        columns_[i * stride_ + k] = k < count_ ? F(p.data[k * p.row_stride + i * p.col_stride]) : F(0);
  }

  Index stride() const { return stride_; }
  Index units() const { return units_; }

  void measure(const F* state, F* overlaps) const {
    for (Index k = 0; k < stride_; ++k) overlaps[k] = 0;
    for (Index i = 0; i < units_; ++i) add(i, state[i], overlaps);
  }

  void add(Index i, F factor, F* overlaps) const {
    const F* column = columns_ + i * stride_;
    for (Index k = 0; k < stride_; k += step<F>)
      simd::store(overlaps + k, simd::fma(broadcast(factor), simd::load(column + k), simd::load(overlaps + k)));
  }

  // sum of F(overlaps with s_i = 1) - F(overlaps with s_i = -1), over the patterns, by a factor above 0
  F field(Index i, F state, const F* overlaps) const {
    const F* column = columns_ + i * stride_;
    const bool exponential = degree_ == F(__builtin_inf());
    // Exponentials of overlaps less the largest, or powers of overlaps divided by a power of two beyond the largest:
    // none overflows, not all vanish, and terms of whole numbers cancel as those do.
    F largest = exponential ? -F(__builtin_inf()) : F(0);
    for (Index k = 0; k < count_; ++k) {
      const F rest = overlaps[k] - state * column[k], size = column[k] < 0 ? -column[k] : column[k];
      const F most = (exponential || rest > 0 ? rest : -rest) + size;
      largest = most > largest ? most : largest;
    }
    int exponent = 0;
    if (!exponential) (void)__builtin_frexp(largest, &exponent);
    const F scale = __builtin_ldexp(1.0, -exponent);
    V sum{};
    for (Index k = 0; k < stride_; k += step<F>) {
      const V pattern = simd::load(column + k), rest = simd::load(overlaps + k) - pattern * state;
      const V up = rest + pattern, down = rest - pattern;
      const V term = exponential ? simd::exp(up - largest) - simd::exp(down - largest)
                                 : power(up * scale, degree_) - power(down * scale, degree_);
      const V none{};
      sum += simd::select(simd::first_lanes<F>(int(at_most(step<F>, count_ - k))), term, none);
    }
    F total = 0;
    for (int l = 0; l < step<F>; ++l) total += sum[l];
    return total;
  }

 private:
  Index count_, units_, stride_;
  double degree_;
  core::Scratch scratch_;
  F* columns_;
};

// One state, until nothing changes.
void run_state(const Patterns& patterns, const Orders& orders, Index max_sweeps, F* state, F* next, F* overlaps) {
  patterns.measure(state, overlaps);
  const auto wanted = [&](Index i) {
    core::check_interrupt(i, patterns.stride());
    return patterns.field(i, state[i], overlaps) >= F(0) ? F(1) : F(-1);
  };
  const auto set = [&](Index i, F value) {
    if (state[i] == value) return false;
    state[i] = value;
    patterns.add(i, value + value, overlaps);
    return true;
  };
  orders.run(max_sweeps, [&](const Index* order) {
    bool turned = false;
    if (orders.sweeps > 0) {
      for (Index i = 0; i < orders.asked; ++i) turned |= set(order[i], wanted(order[i]));
    } else {
      for (Index i = 0; i < patterns.units(); ++i) next[i] = wanted(i);
      for (Index i = 0; i < patterns.units(); ++i) turned |= set(i, next[i]);
    }
    return turned;
  });
}

// function(row, its state, two arrays for units and one for overlaps) for every state
template <class T, class Function>
void each_state(const Patterns& patterns, const Matrix<T>& s, const Function& function) {
  const int threads = double(s.rows) * double(s.cols) * double(patterns.stride()) < 1e5 ? 1 : core::thread_count();
  core::parallel_for(s.rows, threads, [&](Index i) {
    core::Scratch own;
    F* state = own.array<F>(s.cols);
    F* next = own.array<F>(s.cols);
    F* overlaps = own.array<F>(patterns.stride());
    for (Index j = 0; j < s.cols; ++j) state[j] = F(s.data[i * s.row_stride + j * s.col_stride]);
    function(i, state, next, overlaps);
  });
}

template <class T>
void dense_recall_of(const Matrix<const T>& p, double degree, bool together, Index max_sweeps, const Index* orders,
                     Index sweeps, Index asked, const Matrix<T>& s) {
  if (s.cols == 0) return;
  const Patterns patterns(p, degree);
  const Orders asked_units(orders, together ? 0 : sweeps, asked, p.cols);
  each_state(patterns, s, [&](Index i, F* state, F* next, F* overlaps) {
    run_state(patterns, asked_units, max_sweeps, state, next, overlaps);
    for (Index j = 0; j < s.cols; ++j) s.data[i * s.row_stride + j * s.col_stride] = T(state[j]);
  });
}

// A matrix as an operand of a product in double.
template <class T>
struct Widened {
  const Matrix<const T>& m;

  void pack_rows(Index first, int count, Index k, Index depth, F* panel) const {
    constexpr int rows = gemm::Shape<F>::rows;
    for (int r = 0; r < rows; ++r) put(first + at_most(r, count - 1), k, depth, rows, panel + r);
  }

  void pack_columns(Index first, int count, Index k, Index depth, int width, F* panel) const {
    for (int j = 0; j < width; ++j) put(first + at_most(j, count - 1), k, depth, width, panel + j);
  }

 private:
  void put(Index row, Index k, Index depth, Index apart, F* to) const {
    const T* from = m.data + row * m.row_stride + k * m.col_stride;
    for (Index p = 0; p < depth; ++p) to[p * apart] = F(from[p * m.col_stride]);
  }
};

// out[i] = -sum of F(overlaps of state i)
template <class T>
void dense_energy_of(const Matrix<const T>& p, double degree, const Matrix<const T>& s, T* out, Index stride) {
  const Index wide = round_up(p.rows, step<F>), fit = (Index{16} << 20) / Index(sizeof(F)) / (wide + 1);
  const Index most = at_most(fit < 1 ? 1 : fit, s.rows);  // states, of which 16 MB of overlaps are there at a time
  core::Scratch scratch;
  F* overlaps = scratch.array<F>(most, wide);
  for (Index first = 0; first < s.rows; first += most) {
    const Index states = at_most(most, s.rows - first);
    const Matrix<const T> some{s.data + first * s.row_stride, states, s.cols, s.row_stride, s.col_stride};
    gemm::multiply<F>({states, p.rows, p.cols}, false, gemm::MultiplyAdd{}, Widened<T>{some}, Widened<T>{p},
                      {overlaps, wide, 1}, gemm::Identity{});
    core::parallel_for(states, double(states * wide) < 1e5 ? 1 : core::thread_count(), [&](Index i) {
      F total = 0;
      for (Index k = 0; k < p.rows; k += step<F>) {
        const V m = simd::load(overlaps + i * wide + k);
        const V value = degree == F(__builtin_inf()) ? simd::exp(m) : power(m, degree);
        for (int l = 0; l < at_most(step<F>, p.rows - k); ++l) total -= value[l];
      }
      out[(first + i) * stride] = T(total);
    });
  }
}

}  // namespace

#define FASTDL_BODIES_OF(T)                                                                                           \
  void dense_recall(const Matrix<const T>& p, double degree, bool together, std::int64_t max_sweeps,                  \
                    const std::int64_t* orders, std::int64_t sweeps, std::int64_t units, const Matrix<T>& s) {        \
    dense_recall_of<T>(p, degree, together, max_sweeps, orders, sweeps, units, s);                                    \
  }                                                                                                                   \
  void dense_energy(const Matrix<const T>& p, double degree, const Matrix<const T>& s, T* out, std::int64_t stride) { \
    dense_energy_of<T>(p, degree, s, out, stride);                                                                    \
  }
FASTDL_BODIES_OF(float)
FASTDL_BODIES_OF(double)

}  // namespace fastdl::hebbian::FASTDL_LEVEL
