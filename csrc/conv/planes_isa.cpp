// Convolution of few channels a group, compiled once per instruction-set level: straight from padded planes, a block of
// filters by some vectors of pixels at a time. There a matrix product would spend its time gathering windows that few
// filters use, and a single filter is bound by memory.
#include "conv/activation.hpp"
#include "conv/bodies.hpp"
#include "conv/plane.hpp"
#include "core/threads.hpp"

namespace fastdl::conv::FASTDL_LEVEL {
namespace {

// Filters computed together, and vectors of pixels with them: accumulators for most of the registers.
inline constexpr int most_filters = gemm::Shape<float>::vectors == 4 ? 8 : 4;
inline constexpr int most_vectors = 3;

// sums[f][pixel] of Filters filters, whose weights lie side by side for every channel and tap
template <int Filters, int Vectors, class T>
FASTDL_INLINE void strip(const Geometry& g, const Plane<T>* planes, const T* w, Index od, Index oh, Index ow, T* sums) {
  constexpr int lanes = simd::lanes<T>;
  simd::Vec<T> acc[Filters][Vectors] = {};
  for (Index c = 0; c < g.in_channels; ++c, w += g.taps() * Filters)
    each_row_of_taps(g, od, oh, [&](Index d, Index h, Index tap) {
      const T *row = planes[c].row(d, h) + ow, *weight = w + tap * Filters;
      for (Index q = 0; q < g.kernel[2]; ++q, weight += Filters) {
        const T* from = row + planes[c].tap(q);
        simd::Vec<T> pixels[Vectors];
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v) pixels[v] = simd::load(from + v * lanes);
#pragma GCC unroll 8
        for (int f = 0; f < Filters; ++f)
#pragma GCC unroll 4
          for (int v = 0; v < Vectors; ++v) acc[f][v] = simd::fma(pixels[v], simd::broadcast(weight[f]), acc[f][v]);
      }
    });
#pragma GCC unroll 8
  for (int f = 0; f < Filters; ++f)
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) simd::store(sums + (f * most_vectors + v) * lanes, acc[f][v]);
}

template <class T>
class Convolution {
  static constexpr int lanes = simd::lanes<T>;

 public:
  Convolution(const Geometry& g, const Images<const T>& x, const T* bias, Activation activation, T* out)
      : g_(g), x_(x), bias_(bias), activation_(activation), out_(out) {}

  void run(const T* w) const {
    const Index block = g_.out_channels == 1                ? 1
                        : g_.out_channels <= most_filters / 2 ? most_filters / 2
                                                              : most_filters;
    const Index blocks = gemm::divide_up(g_.out_channels, block), each = g_.in_channels * g_.taps();
    core::Scratch scratch;
    T* filters = scratch.array<T>(g_.groups * blocks, each * block);
    for (Index i = 0; i < g_.groups * blocks; ++i)
      for (Index k = 0; k < each; ++k)
        for (Index f = 0; f < block; ++f) {
          const Index filter = i % blocks * block + f;
          filters[(i * each + k) * block + f] =
              filter < g_.out_channels ? w[(i / blocks * g_.out_channels + filter) * each + k] : T(0);
        }
    const Index images = g_.batch * g_.groups;
    const double work = double(images * g_.out_channels) * double(g_.pixels() * each);
    const int threads = work < 1e6 ? 1 : core::thread_count();
    // Where images do not give every thread some tasks, blocks of filters do.
    const Index split = images >= 4 * threads ? 1 : gemm::at_most(blocks, gemm::divide_up(4 * threads, images));
    core::parallel_for(images * split, threads, [&](Index task) {
      const Index image = task / split, first = blocks * (task % split) / split;
      const Index end = blocks * (task % split + 1) / split;
      const T* of_group = filters + image % g_.groups * blocks * each * block;
      if (block == 1)
        some<1>(image, of_group, first, end);
      else if (block < most_filters)
        some<most_filters / 2>(image, of_group, first, end);
      else
        some<most_filters>(image, of_group, first, end);
    });
  }

 private:
  // Blocks [first, end) of a group of one image, which are numbered together.
  template <int Filters>
  void some(Index image, const T* filters, Index first, Index end) const {
    core::Scratch scratch;
    auto* planes = static_cast<Plane<T>*>(scratch.bytes(std::size_t(g_.in_channels) * sizeof(Plane<T>)));
    const Index group = image % g_.groups;
    const T* from = x_.data + image / g_.groups * x_.batch + group * g_.in_channels * x_.channel;
    for (Index c = 0; c < g_.in_channels; ++c) {
      planes[c] = Plane<T>(g_, T(0), scratch);
      planes[c].fill(from + c * x_.channel, x_.axis);
    }
    for (Index od = 0; od < g_.out[0]; ++od)
      for (Index oh = 0; oh < g_.out[1]; ++oh)
        for (Index block = first; block < end; ++block) {
          const T* of_block = filters + block * g_.in_channels * g_.taps() * Filters;
          for (Index ow = 0; ow < g_.out[2]; ow += most_vectors * lanes) {
            T sums[Filters * most_vectors * lanes];
            const Index count = gemm::at_most(most_vectors * lanes, g_.out[2] - ow);
            if (count <= lanes)
              strip<Filters, 1>(g_, planes, of_block, od, oh, ow, sums);
            else if (count <= 2 * lanes)
              strip<Filters, 2>(g_, planes, of_block, od, oh, ow, sums);
            else
              strip<Filters, most_vectors>(g_, planes, of_block, od, oh, ow, sums);
            const Index place = (od * g_.out[1] + oh) * g_.out[2] + ow;
            for (int f = 0; f < Filters && block * Filters + f < g_.out_channels; ++f) {
              const Index channel = group * g_.out_channels + block * Filters + f;
              finish_pixels(sums + f * most_vectors * lanes, count, bias_ ? bias_[channel] : T(0), activation_,
                            out_ + (image / g_.groups * g_.groups * g_.out_channels + channel) * g_.pixels() + place);
            }
          }
        }
  }

  const Geometry& g_;
  const Images<const T>& x_;
  const T* bias_;
  Activation activation_;
  T* out_;
};

}  // namespace

#define FASTDL_BODIES_OF(T)                                                                                            \
  void planes(const Geometry& g, const Images<const T>& x, const T* w, const T* bias, Activation activation, T* out) { \
    Convolution<T>(g, x, bias, activation, out).run(w);                                                                \
  }
FASTDL_BODIES_OF(float)
FASTDL_BODIES_OF(double)

}  // namespace fastdl::conv::FASTDL_LEVEL
