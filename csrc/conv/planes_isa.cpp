// Convolution of few channels a group, compiled once per instruction-set level: straight from padded planes, a block of
// filters by some vectors of pixels at a time. There a matrix product would spend its time gathering windows that few
// filters use.
#include "conv/activation.hpp"
#include "conv/bodies.hpp"
#include "conv/plane.hpp"
#include "core/interrupt.hpp"
#include "core/threads.hpp"

namespace fastdl::conv::FASTDL_LEVEL {
namespace {

using gemm::divide_up;

// Filters computed together, and with so many filters so many vectors of pixels: accumulators for most of the
// registers.
inline constexpr int most_filters = gemm::Shape<float>::vectors == 4 ? 8 : 4;
constexpr int vectors_with(int filters) { return filters == 1 ? 8 : 3 * most_filters / filters; }

template <class T>
class Convolution {
  static constexpr int lanes = simd::lanes<T>;

 public:
  Convolution(const Geometry& g, const Images<const T>& x, const T* bias, Activation activation, T* out)
      : g_(g), x_(x), bias_(bias), activation_(activation), out_(out), terms_(g.in_channels * g.taps()) {}

  void run(const T* w) const {
    constexpr int half = most_filters / 2;
    const Index block = g_.out_channels == 1 ? 1 : g_.out_channels <= half ? half : most_filters;
    const Index blocks = divide_up(g_.out_channels, block);
    core::Scratch scratch;
    // For every term the weights of a block side by side.
    T* filters = scratch.array<T>(g_.groups * blocks, terms_ * block);
    for (Index i = 0; i < g_.groups * blocks; ++i)
      for (Index k = 0; k < terms_; ++k)
        for (Index f = 0; f < block; ++f) {
          const Index filter = i % blocks * block + f;
          filters[(i * terms_ + k) * block + f] =
              filter < g_.out_channels ? w[(i / blocks * g_.out_channels + filter) * terms_ + k] : T(0);
        }
    const Index images = g_.batch * g_.groups;
    const double work = double(images * g_.out_channels) * double(g_.pixels() * terms_);
    const int threads = work < 1e6 ? 1 : core::thread_count();
    // Several images a task, which then makes its planes once; where they do not give every thread two tasks, blocks of
    // filters do, and each task fills planes of its own.
    const Index together = at_most(16, divide_up(images, 4 * threads)), pairs = 2 * threads;
    const Index split = images >= pairs ? 1 : at_most(blocks, divide_up(pairs, images));
    const Index tasks = divide_up(images, together);
    core::parallel_for(tasks * split, threads, [&](Index task) {
      const Index part = task % split, image = task / split * together;
      const Part of_task{image, at_most(image + together, images), blocks * part / split, blocks * (part + 1) / split};
      if (block == 1)
        some<1>(of_task, filters, blocks);
      else if (block == half)
        some<half>(of_task, filters, blocks);
      else
        some<most_filters>(of_task, filters, blocks);
    });
  }

 private:
  struct Part {
    Index image, image_end;  // all groups of all images are numbered through
    Index block, block_end;  // of filters
  };

  // A vector of pixels: where its windows begin in a plane, and where its outputs lie.
  struct Unit {
    Index offset, pixel;
    int count;
  };

  // All of them, row by row, and the last one again and again for `more`.
  const Unit* units_of(const Plane<T>& plane, Index more, Index& count, core::Scratch& scratch) const {
    const Index rows = g_.out[0] * g_.out[1], across = divide_up(g_.out[2], lanes);
    count = rows * across;
    Unit* units = scratch.array<Unit>(count + more);
    Unit* unit = units;
    for (Index d = 0; d < g_.out[0]; ++d)
      for (Index h = 0; h < g_.out[1]; ++h)
        for (Index w = 0; w < g_.out[2]; w += lanes)
          *unit++ = {plane.at(d, h) - plane.at(0, 0) + w, (d * g_.out[1] + h) * g_.out[2] + w,
                     int(at_most(lanes, g_.out[2] - w))};
    for (Index i = 0; i < more; ++i) unit[i] = unit[-1];
    return units;
  }

  template <int Filters>
  void some(const Part& part, const T* filters, Index blocks) const {
    constexpr int vectors = vectors_with(Filters);
    core::Scratch scratch;
    auto* planes = static_cast<Plane<T>*>(scratch.bytes(std::size_t(g_.in_channels) * sizeof(Plane<T>)));
    const T** term = scratch.array<const T*>(terms_);  // that of the first pixel
    for (Index c = 0; c < g_.in_channels; ++c) {
      planes[c] = Plane<T>(g_, T(0), scratch);
      for (Index t = 0; t < g_.taps(); ++t) term[c * g_.taps() + t] = planes[c].at(0, 0) + planes[c].tap(t);
    }
    Index count;
    const Unit* units = units_of(planes[0], vectors, count, scratch);
    const Index full = g_.out[2] % lanes == 0 ? count : 0;  // vectors that are whole, from the first on
    for (Index image = part.image; image < part.image_end; ++image) {
      core::check_interrupt();
      const Index group = image % g_.groups, number = image / g_.groups;
      const T* from = x_.data + number * x_.batch + group * g_.in_channels * x_.channel;
      for (Index c = 0; c < g_.in_channels; ++c) planes[c].fill(from + c * x_.channel, x_.axis);
      for (Index block = part.block; block < part.block_end; ++block) {
        const T* w = filters + (group * blocks + block) * terms_ * Filters;
        const Index channel = group * g_.out_channels + block * Filters;
        const int real = int(at_most(Filters, g_.out_channels - block * Filters));
        T* to = out_ + (number * g_.groups * g_.out_channels + channel) * g_.pixels();
        for (Index u = 0; u < count; u += vectors) {
          simd::Vec<T> sums[Filters][vectors];
          add_terms<Filters, vectors>(w, term, units + u, sums);
          const T* bias = bias_ ? bias_ + channel : nullptr;
          if (real == Filters && u + vectors <= full && activation_ == Activation::none)
            finish<Filters, vectors>(sums, bias, units + u, to);
          else
            finish_some<Filters, vectors>(sums, bias, units + u, real, int(at_most(vectors, count - u)), to);
        }
      }
    }
  }

  template <int Filters, int Vectors>
  FASTDL_INLINE void add_terms(const T* w, const T* const* term, const Unit* units,
                               simd::Vec<T> (&sums)[Filters][Vectors]) const {
    Index offset[Vectors];
    for (int v = 0; v < Vectors; ++v) offset[v] = units[v].offset;
    simd::Vec<T> acc[Filters][Vectors] = {};
    for (Index k = 0; k < terms_; ++k, w += Filters) {
      simd::Vec<T> pixels[Vectors];
#pragma GCC unroll 8
      for (int v = 0; v < Vectors; ++v) pixels[v] = simd::load(term[k] + offset[v]);
#pragma GCC unroll 8
      for (int f = 0; f < Filters; ++f) {
        const simd::Vec<T> weight = simd::broadcast(w[f]);
#pragma GCC unroll 8
        for (int v = 0; v < Vectors; ++v) acc[f][v] = simd::fma(pixels[v], weight, acc[f][v]);
      }
    }
#pragma GCC unroll 8
    for (int f = 0; f < Filters; ++f)
#pragma GCC unroll 8
      for (int v = 0; v < Vectors; ++v) sums[f][v] = acc[f][v];
  }

  // Whole vectors of all filters, straight from the registers.
  template <int Filters, int Vectors>
  FASTDL_INLINE void finish(simd::Vec<T> (&sums)[Filters][Vectors], const T* bias, const Unit* units, T* to) const {
#pragma GCC unroll 8
    for (int f = 0; f < Filters; ++f) {
      const simd::Vec<T> more = simd::broadcast(bias ? bias[f] : T(-0.0));  // which leaves them as they are
#pragma GCC unroll 8
      for (int v = 0; v < Vectors; ++v) simd::store(to + f * g_.pixels() + units[v].pixel, sums[f][v] + more);
    }
  }

  // The first `filters` by `vectors` of them, whatever they are.
  template <int Filters, int Vectors>
  void finish_some(simd::Vec<T> (&sums)[Filters][Vectors], const T* bias, const Unit* units, int filters, int vectors,
                   T* to) const {
    for (int f = 0; f < filters; ++f)
      for (int v = 0; v < vectors; ++v) {
        const simd::Vec<T> value = activated<T>(bias ? sums[f][v] + bias[f] : sums[f][v], activation_);
        T* pixels = to + f * g_.pixels() + units[v].pixel;
        if (units[v].count == lanes)
          simd::store(pixels, value);
        else
          simd::store_first(pixels, value, units[v].count);
      }
  }

  const Geometry& g_;
  const Images<const T>& x_;
  const T* bias_;
  Activation activation_;
  T* out_;
  Index terms_;  // of a sum
};

}  // namespace

#define FASTDL_BODIES_OF(T)                                                                                            \
  void planes(const Geometry& g, const Images<const T>& x, const T* w, const T* bias, Activation activation, T* out) { \
    Convolution<T>(g, x, bias, activation, out).run(w);                                                                \
  }
FASTDL_BODIES_OF(float)
FASTDL_BODIES_OF(double)

}  // namespace fastdl::conv::FASTDL_LEVEL
