// Signatures, and the regulariser that learns orbits, compiled once per instruction-set level.
//
// The products of samples with orbits of templates come out of the engine block by block (gemm/stream.hpp); what is
// wanted of them is summed while a block is in L1, in the type of the samples along a block and in double from block to
// block. One side is permuted while it is packed, so that no orbit is ever in memory: <x, g t> = <g^-1 x, t>, and with
// many templates permuting the samples is less work. The choice depends on the templates alone: the samples of a call
// do not change each other's bits.
#include "core/interrupt.hpp"
#include "gemm/stream.hpp"
#include "group/bodies.hpp"
#include "simd/math.hpp"

namespace fastdl::group::FASTDL_LEVEL {
namespace {

using gemm::at_most;

// A row has `each` columns, so that where a part of the stream begins does not depend on the rows before it: a power of
// two, or whole parts. What is beyond the order of the group is computed and dropped.
Index columns_of(Index order) {
  if (order >= gemm::stream_part) return gemm::round_up(order, gemm::stream_part);
  Index each = 1;
  while (each < order) each *= 2;
  return each;
}

// Column (i, g) is row i of `data`, permuted: entry p is data[i][order_g[p]].
template <class T>
struct Permuted {
  const T* data;
  const std::int32_t* orders;
  Index d, order, each;

  void pack_rows(Index, int, Index, Index, T*) const {}  // never rows

  void pack_columns(Index first, int count, Index k, Index depth, int width, T* panel) const {
    for (int j = 0; j < width; ++j) {
      const Index column = first + (j < count ? j : count - 1);
      const T* row = data + column / each * d;
      const std::int32_t* places = orders + at_most(column % each, order - 1) * d + k;
      for (Index p = 0; p < depth; ++p) panel[p * width + j] = row[places[p]];
    }
  }
};

template <class T>
FASTDL_INLINE simd::Vec<T> nonlinear(simd::Vec<T> z, Nonlinearity which) {
  using V = simd::Vec<T>;
  const V zero{}, one = simd::broadcast(T(1));
  switch (which) {
    case Nonlinearity::step:  // NaN stays, here and below
      return simd::select(z >= zero, one, simd::select(z < zero, zero, z));
    case Nonlinearity::cdf:
      return simd::select(z <= zero, one, simd::select(z > zero, zero, z));
    case Nonlinearity::sigmoid:
      return simd::sigmoid(z);
    case Nonlinearity::tanh:
      return simd::tanh(z);
    case Nonlinearity::relu:
      return simd::select(z < zero, zero, z);
  }
  return z;
}

template <class V>
FASTDL_INLINE V power(V value, Index exponent, V one) {
  V result = one;
  for (; exponent > 0; exponent >>= 1, value = value * value)
    if (exponent & 1) result = result * value;
  return result;
}

// The sum of f over numbers [0, count).
template <class T, class Function>
FASTDL_INLINE double sum_of(const T* values, Index count, const Function& f) {
  using V = simd::Vec<T>;
  constexpr int lanes = simd::lanes<T>;
  V total{};
  Index j = 0;
  for (; j + lanes <= count; j += lanes) total += f(simd::load(values + j));
  if (const int rest = int(count - j); rest > 0)
    total += simd::select(simd::first_lanes<T>(rest), f(simd::load_first(values + j, rest)), V{});
  double sum = 0;
  for (int i = 0; i < lanes; ++i) sum += double(total[i]);
  return sum;
}

template <class T>
void measure(const T* values, Index count, const Measures& m, double* sums) {
  using V = simd::Vec<T>;
  for (Index i = 0; i < m.cuts; ++i) {
    const V cut = simd::broadcast(T(m.thresholds[i]));
    const auto add = [&](Nonlinearity which) {
      sums[i] += sum_of<T>(values, count, [&](V v) { return nonlinear<T>(v - cut, which); });
    };
    // The test of the function stands outside the loop.
    switch (m.nonlinearity) {
      case Nonlinearity::step:
        add(Nonlinearity::step);
        break;
      case Nonlinearity::cdf:
        add(Nonlinearity::cdf);
        break;
      case Nonlinearity::sigmoid:
        add(Nonlinearity::sigmoid);
        break;
      case Nonlinearity::tanh:
        add(Nonlinearity::tanh);
        break;
      case Nonlinearity::relu:
        add(Nonlinearity::relu);
        break;
    }
  }
  const V one = simd::broadcast(T(1));
  for (Index i = 0; i < m.moments; ++i)
    sums[m.cuts + i] += sum_of<T>(values, count, [&](V v) { return power(v, m.powers[i], one); });
}

template <class T>
void signature_of(const Products<T>& products, const Measures& measures, T* out) {
  const Index n = products.samples, m = products.count, d = products.d, order = products.order;
  const Index count = measures.cuts + measures.moments, results = n * m * count;
  for (Index i = 0; i < results; ++i) out[i] = 0;
  if (results == 0 || order == 0) return;
  const bool move_samples = m >= 16;
  core::Scratch scratch;
  std::int32_t* orders = scratch.array<std::int32_t>(order, d + 1);
  for (Index g = 0; g < order; ++g)
    for (Index i = 0; i < d; ++i) {
      const Index place = products.permutations[g * d + i];
      if (move_samples)
        orders[g * d + place] = std::int32_t(i);
      else
        orders[g * d + i] = std::int32_t(place);
    }
  const Index moving = move_samples ? n : m, fixed = move_samples ? m : n, each = columns_of(order);
  // As many at a time as have sums of 4 MB: [moving][fixed][count].
  const Index together = at_most(1 + (Index{4} << 20) / 8 / (fixed * count), moving);
  double* sums = scratch.array<double>(together * fixed, count);
  const T* rows = move_samples ? products.templates : products.x;
  const T* permuted = move_samples ? products.x : products.templates;
  for (Index first = 0; first < moving; first += together) {
    const Index here = at_most(together, moving - first);
    for (Index i = 0; i < here * fixed * count; ++i) sums[i] = 0;
    const auto take = [&](Index row, Index row_end, Index column, Index width, const T* block) {
      for (Index j = 0; j < width;) {
        const Index i = (column + j) / each, g = (column + j) % each, step = at_most(each - g, width - j);
        for (Index r = row; g < order && r < row_end; ++r)
          measure(block + (r - row) * gemm::stream_part + j, at_most(order - g, step), measures,
                  sums + (i * fixed + r) * count);
        j += step;
      }
    };
    gemm::stream<T>({fixed, here * each, d}, gemm::MultiplyAdd{}, gemm::Strided<T>{rows, d, 1},
                    Permuted<T>{permuted + first * d, orders, d, order, each}, gemm::Identity{},
                    gemm::Consumer<T>(take));
    for (Index i = 0; i < here; ++i)
      for (Index r = 0; r < fixed; ++r) {
        const Index sample = move_samples ? first + i : r, tem = move_samples ? r : first + i;
        for (Index c = 0; c < count; ++c) out[(sample * m + tem) * count + c] = T(sums[(i * fixed + r) * count + c]);
      }
  }
}

// Of column i against all others: r and its slope along G[k,i]. n^3 exponentials a column, along the rows of G.
void regularizer_of(const double* gramian, Index n, double sigma, double* slope, double& value) {
  using V = simd::Vec<double>;
  constexpr int lanes = simd::lanes<double>;
  const double scale = 1 / (sigma * sigma);
  core::Scratch scratch;
  double* values = scratch.array<double>(n + 1);
  core::parallel_for(n, n * n * n * n < 100000 ? 1 : core::thread_count(), [&](Index i) {
    double total = 0;
    for (Index k = 0; k < n; ++k) {
      core::check_interrupt(k, n * n);
      const V of = simd::broadcast(gramian[k * n + i]), minus = simd::broadcast(-scale);
      double down = 0;
      for (Index j = 0; j < n; ++j) {
        V terms{}, slopes{};
        for (Index l = 0; l < n; l += lanes) {
          const int rest = int(at_most(lanes, n - l));
          const V difference = of - simd::load_first(gramian + j * n + l, rest);
          V term = simd::exp(difference * difference * minus);
          if (rest < lanes) term = simd::select(simd::first_lanes<double>(rest), term, V{});
          terms += term;
          slopes += simd::select(term == V{}, V{}, term * difference);
        }
        const double weight = j == i ? double(n - 1) : -1.0;
        double term = 0, of_slopes = 0;
        for (int lane = 0; lane < lanes; ++lane) term += terms[lane], of_slopes += slopes[lane];
        total += weight * term;
        down += weight * of_slopes;
      }
      slope[k * n + i] = -4 * scale * down;
    }
    values[i] = total;
  });
  value = 0;
  for (Index i = 0; i < n; ++i) value += values[i];
}

}  // namespace

#define FASTDL_BODIES_OF(T)                                                       \
  void signature(const Products<T>& products, const Measures& measures, T* out) { \
    signature_of<T>(products, measures, out);                                     \
  }
FASTDL_BODIES_OF(float)
FASTDL_BODIES_OF(double)

void regularizer(const double* gramian, Index n, double sigma, double* slope, double& value) {
  regularizer_of(gramian, n, sigma, slope, value);
}

}  // namespace fastdl::group::FASTDL_LEVEL
