// Rules of learning with all samples seeing the same weights: products of the engine, a part of the samples after the
// other, with Y = X W' and Z = lr Y:
//
//   total = W + Z' X - M(Z' Y) W
//
// Z' X and Z' Y are few rows with a long depth, so they are made in parts that are summed in their order. Limited by
// the arithmetic of the products, 4 n k (d + k / 2) flops for n samples: estimated 1.3 Tflop/s of an A100 and 2 of an
// H100 for 64 units of 784 features in f32, whose tiles of 128 x 128 are half empty; 14 and 45 with 128 units and more.
#include "hebbian_products.hpp"
#include "hebbian_rows.cuh"

#include <vector>

namespace fastdl::hebbian::cuda {
namespace {

using fastdl::cuda::Scratch;

constexpr int threads = 256;

// z[t, i] = lr[t] y[t, i]. Limit: memory, a read and a write of a number.
template <class T>
__global__ void __launch_bounds__(threads) scale_rows(const T* y, const T* lr, Index count, Index units, T* z) {
  for (Index place = Index(blockIdx.x) * threads + threadIdx.x; place < count; place += Index(gridDim.x) * threads)
    z[place] = lr[place / units] * y[place];
}

// to += sign * the sum of the parts, in their order. Limit: memory, a read for each part, and a read and a write.
template <class T>
__global__ void __launch_bounds__(threads) add_parts(const T* parts, Index part_count, Index count, T sign, T* to) {
  const Index place = Index(blockIdx.x) * threads + threadIdx.x;
  if (place >= count) return;
  T sum = T(0);
  for (Index part = 0; part < part_count; ++part) sum += parts[part * count + place];
  to[place] = multiply_add(sign, sum, to[place]);
}

// squares = M(squares). Limited by its launch: at most a write of units^2 numbers.
template <class T>
__global__ void __launch_bounds__(threads) mask_squares(T* squares, Index units, Rule rule) {
  const Index place = Index(blockIdx.x) * threads + threadIdx.x;
  if (place >= units * units) return;
  const Index i = place / units, j = place % units;
  const bool kept = rule == Rule::oja ? i == j : rule == Rule::subspace || j <= i;
  if (!kept) squares[place] = T(0);
}

struct Starts {  // in shared memory
  Index of_thread[threads];
};

// After which sample the sum so far is not finite, for the columns of a block; y of all samples is there. A thread a
// column, sample by sample: only ever run when the result was not finite. Limit: latency, for each sample a chain of
// `units` loads and stores from L2 in features / 256 blocks: an estimated 11 us a sample for 64 units on an A100.
template <class T>
__global__ void __launch_bounds__(threads) find_divergence(Rule rule, const T* weights, Index units, Samples<T> samples,
                                                           const T* lr, const T* y, T* total, Index* diverged) {
  FASTDL_SHARED(Starts, shared);
  const Index j = Index(blockIdx.x) * threads + threadIdx.x;
  Index found = samples.count;
  for (Index t = 0; j < samples.features && t < samples.count && found == samples.count; ++t) {
    const T sample = samples.data[t * samples.row_stride + j * samples.col_stride];
    const T* const of_sample = y + t * units;
    T left = sample;
    if (rule == Rule::subspace)
      for (Index i = 0; i < units; ++i) left = multiply_add(-of_sample[i], weights[i * samples.features + j], left);
    for (Index i = 0; i < units; ++i) {
      const Index place = i * samples.features + j;
      if (rule == Rule::sanger) left = multiply_add(-of_sample[i], weights[place], left);
      if (rule == Rule::oja) left = multiply_add(-of_sample[i], weights[place], sample);
      total[place] = multiply_add(lr[t] * of_sample[i], left, total[place]);
      if (!is_finite(total[place])) found = t;
    }
  }
  shared.of_thread[threadIdx.x] = found;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int thread = 1; thread < threads; ++thread)
    if (shared.of_thread[thread] < found) found = shared.of_thread[thread];
  diverged[blockIdx.x] = found;
}

template <class T>
class Together {
 public:
  Together(const Learning& how, const T* weights, Index units, const Samples<T>& samples, const T* lr, Stream stream)
      : how_(how),
        weights_(weights),
        units_(units),
        features_(samples.features),
        samples_(samples),
        lr_(lr),
        stream_(stream),
        together_(most_together(units, samples.count)),
        learnt_parts_(parts_of<T>(units, features_, together_)),
        square_parts_(parts_of<T>(units, units, together_)),
        total_(how.name, units * features_, stream),
        squares_(how.name, units * units, stream),
        y_(how.name, together_ * units, stream),
        z_(how.name, together_ * units, stream) {
    const Index learnt = learnt_parts_.count * units * features_, squares = square_parts_.count * units * units;
    parts_ = Scratch<T>(how.name, learnt > squares ? learnt : squares, stream);
  }

  // The total, or where it failed.
  Index run(T* out) {
    const Index size = units_ * features_;
    const std::size_t bytes = std::size_t(size) * sizeof(T);
    fastdl::cuda::copy_on_device(how_.name, total_.data(), weights_, bytes, stream_);
    fastdl::cuda::set_zero(how_.name, squares_.data(), squares_.bytes(), stream_);
    const bool decays = how_.rule != Rule::hebb && how_.rule != Rule::normalized;
    for (Index first = 0; first < samples_.count; first += together_) {
      const Samples<T> some = samples_from(first);
      activate(some, y_.data());
      launch_over(some.count * units_, scale_rows<T>, y_.data(), lr_ + first, some.count * units_, units_, z_.data());
      add_product({z_.data(), units_, 1, units_}, {some.data, features_, some.col_stride, some.row_stride}, some.count,
                  parts_of<T>(units_, features_, some.count), features_, T(1), total_.data());
      if (decays)
        add_product({z_.data(), units_, 1, units_}, {y_.data(), units_, 1, units_}, some.count,
                    parts_of<T>(units_, units_, some.count), units_, T(1), squares_.data());
    }
    if (decays) {
      launch_over(units_ * units_, mask_squares<T>, squares_.data(), units_, how_.rule);
      add_product({squares_.data(), units_, units_, 1}, {weights_, features_, 1, features_}, units_, {1, units_},
                  features_, T(-1), total_.data());
    }
    if (first_not_finite(how_.name, total_.data(), size, stream_) >= 0)
      return first_not_finite(how_.name, weights_, size, stream_) >= 0 ? bad_from_the_start : divergence();
    if (how_.rule == Rule::normalized) normalize_rows(how_.name, total_.data(), units_, features_, stream_);
    fastdl::cuda::copy_on_device(how_.name, out, total_.data(), bytes, stream_);
    return all_finite;
  }

 private:
  // Samples whose activities there is room for: 16 MB of them.
  static Index most_together(Index units, Index count) {
    const Index fit = (Index{16} << 20) / Index(sizeof(T)) / units, some = fit < 1024 ? 1024 : fit;
    return some < count ? some : count;
  }

  Samples<T> samples_from(Index first) const {
    const Index left = samples_.count - first;
    return {samples_.data + first * samples_.row_stride, left < together_ ? left : together_, features_,
            samples_.row_stride, samples_.col_stride};
  }

  void activate(const Samples<T>& some, T* y) const {
    multiply<T>(how_.name, {some.data, some.count, some.row_stride, some.col_stride}, {weights_, units_, features_, 1},
                features_, y, units_, stream_);
  }

  template <class... Parameters, class... Arguments>
  void launch_over(Index count, void (*kernel)(Parameters...), Arguments... arguments) const {
    fastdl::cuda::launch(how_.name, kernel, blocks_for(count, threads, threads, stream_), arguments...);
  }

  void add_product(const Factor<T>& a, const Factor<T>& b, Index depth, Parts parts, Index columns, T sign,
                   T* to) const {
    multiply_in_parts(how_.name, a, b, depth, parts, parts_.data(), columns, units_ * columns, stream_);
    launch_over(units_ * columns, add_parts<T>, parts_.data(), parts.count, units_ * columns, sign, to);
  }

  // The first sample after which the sum so far is not finite; the last if it never was.
  Index divergence() const {
    fastdl::cuda::copy_on_device(how_.name, total_.data(), weights_, total_.bytes(), stream_);
    const Index blocks = (features_ + threads - 1) / threads;
    const Scratch<Index> found(how_.name, blocks, stream_);
    std::vector<Index> all(static_cast<std::size_t>(blocks));
    for (Index first = 0; first < samples_.count; first += together_) {
      const Samples<T> some = samples_from(first);
      activate(some, y_.data());
      launch_over(features_, find_divergence<T>, how_.rule, weights_, units_, some, lr_ + first, y_.data(),
                  total_.data(), found.data());
      fastdl::cuda::copy_to_host(how_.name, all.data(), found.data(), found.bytes(), stream_);
      Index least = some.count;
      for (const Index place : all) least = place < least ? place : least;
      if (least < some.count) return first + least;
    }
    return samples_.count - 1;
  }

  const Learning& how_;
  const T* weights_;
  Index units_, features_;
  Samples<T> samples_;
  const T* lr_;
  Stream stream_;
  Index together_;
  Parts learnt_parts_, square_parts_;
  Scratch<T> total_, squares_, y_, z_, parts_;
};

}  // namespace

template <class T>
Index learn_together(const Learning& how, const T* weights, Index units, const Samples<T>& samples, const T* lr, T* out,
                     Stream stream) {
  const Index size = units * samples.features;
  if (size == 0) return all_finite;
  if (samples.count == 0) {
    if (out != weights) fastdl::cuda::copy_on_device(how.name, out, weights, std::size_t(size) * sizeof(T), stream);
    return all_finite;
  }
  return Together<T>(how, weights, units, samples, lr, stream).run(out);
}

#define FASTDL_TOGETHER(T) \
  template Index learn_together(const Learning&, const T*, Index, const Samples<T>&, const T*, T*, Stream);
FASTDL_TOGETHER(float)
FASTDL_TOGETHER(double)
#undef FASTDL_TOGETHER

}  // namespace fastdl::hebbian::cuda
