// Depthwise convolution with channels along the vector, compiled once per instruction-set level: a vector of channels
// is turned, so that each pixel is a vector of them, convolved, and turned back. Rows need not fill a vector, and
// strides cost nothing: what small planes and strided filters want, where kernels along rows (planes_isa.cpp) waste
// their lanes.
#include "conv/activation.hpp"
#include "conv/bodies.hpp"
#include "core/cache.hpp"
#include "core/scratch.hpp"
#include "core/threads.hpp"
#include "simd/transpose.hpp"

namespace fastdl::conv::FASTDL_LEVEL {
namespace {

using gemm::at_most;
using gemm::divide_up;
using gemm::round_up;

template <class T>
class Depthwise {
  static constexpr int lanes = simd::lanes<T>;
  static constexpr int together = 8;  // pixels of a row

 public:
  Depthwise(const Geometry& g, const Images<const T>& x, const T* bias, Activation activation, T* out)
      : g_(g), x_(x), bias_(bias), activation_(activation), out_(out) {
    width_ = (g.out[2] - 1) * g.stride[2] + (g.kernel[2] - 1) * g.dilation[2] + 1;
  }

  void run(const T* w) {
    const Index blocks = divide_up(g_.groups, lanes), taps = g_.taps();
    core::Scratch scratch;
    // The weights of a tap for a vector of channels.
    T* weights = scratch.array<T>(blocks * taps, lanes);
    for (Index b = 0; b < blocks; ++b)
      for (Index t = 0; t < taps; ++t)
        for (int i = 0; i < lanes; ++i)
          weights[(b * taps + t) * lanes + i] = w[at_most(b * lanes + i, g_.groups - 1) * taps + t];
    // As many rows of outputs at a time as leave their inputs in L2.
    const Index fit = core::l2_bytes() / 4 / (lanes * Index(sizeof(T)) * (width_ * g_.stride[1] + g_.out[2]));
    const Index parts = divide_up(g_.out[1], fit < 1 ? 1 : fit), rows = divide_up(g_.out[1], parts);
    // Where pixels go whose rows lie end to end.
    const Index seen = at_most(seen_by(rows), g_.in[1]);
    Index* places = scratch.array<Index>(seen, g_.in[2]);
    for (Index h = 0; h < seen; ++h)
      for (Index c = 0; c < g_.in[2]; ++c) places[h * g_.in[2] + c] = (h * width_ + c) * lanes;
    places_ = places;
    const double work = double(g_.batch * g_.groups) * double(g_.pixels() * (taps + 8));
    core::parallel_for(g_.batch * blocks * parts, work < 1e6 ? 1 : core::thread_count(), [&](Index task) {
      const Index block = task / parts % blocks, first = task % parts * rows;
      const Index count = at_most(rows, g_.out[1] - first);
      if (count > 0) some_rows(task / parts / blocks, block, first, count, weights + block * taps * lanes);
    });
  }

 private:
  void some_rows(Index image, Index block, Index first, Index count, const T* weights) const {
    core::Scratch scratch;
    const Index seen = seen_by(count);
    T* plane = scratch.array<T>(seen * width_ + together * g_.stride[2], lanes);
    T* sums = scratch.array<T>(round_up(count * g_.out[2], lanes), lanes);
    // A small output comes to L1 meanwhile. (512 channels of 14 x 14: 0.33 ms, and 0.36 without.)
    T* out = out_ + (image * g_.groups + block * lanes) * g_.pixels() + first * g_.out[2];
    const Index reach = (channels_of(block) - 1) * g_.pixels() + count * g_.out[2];
    if (reach * Index(sizeof(T)) <= 16384)
      for (Index i = 0; i < reach; i += 64 / Index(sizeof(T))) simd::prefetch_to_write(out + i);
    fill(image, block, first * g_.stride[1] - g_.lower[1], seen, plane);
    const bool three = g_.kernel[1] == 3 && g_.kernel[2] == 3 && g_.dilation[2] == 1;
    if (three && g_.stride[2] == 1)
      convolve<3, 1>(plane, weights, count, sums);
    else if (three && g_.stride[2] == 2)
      convolve<3, 2>(plane, weights, count, sums);
    else
      convolve<0, 0>(plane, weights, count, sums);
    finish(block, count * g_.out[2], sums, out);
  }

  // Rows of the image, with its surroundings, that so many rows of outputs see.
  Index seen_by(Index rows) const { return (rows - 1) * g_.stride[1] + (g_.kernel[1] - 1) * g_.dilation[1] + 1; }

  // Where the vector of pixels from `first` on begins: the last one ends with them, if there are as many, and repeats a
  // part of the one before. (With masked stores in its place, 8 images of 512 channels from 14 x 14 to 7 x 7 took 0.26
  // ms on AVX2, and 0.22 without.)
  static Index vector_at(Index first, Index count) { return count < lanes ? 0 : at_most(first, count - lanes); }

  int channels_of(Index block) const { return int(at_most(lanes, g_.groups - block * lanes)); }

  // Rows [first, first + count) of the image with its surroundings, zeros, each pixel a vector of channels.
  void fill(Index image, Index block, Index first, Index count, T* plane) const {
    const Index left = at_most(g_.lower[2], width_), inside = at_most(g_.in[2], width_ - left);
    const auto clear = [](T* to, Index pixels) {
      for (Index i = 0; i < pixels; ++i) simd::store(to + i * lanes, simd::Vec<T>{});
    };
    const Index begin = first < 0 ? at_most(-first, count) : 0;
    const Index end = first + begin < g_.in[1] ? at_most(count, g_.in[1] - first) : begin;
    clear(plane, begin * width_);
    for (Index h = begin; h < end; ++h) {
      clear(plane + h * width_ * lanes, left);
      clear(plane + (h * width_ + left + inside) * lanes, width_ - left - inside);
    }
    clear(plane + end * width_ * lanes, (count - end) * width_);
    if (end == begin || inside <= 0) return;
    const T* from = x_.data + image * x_.batch + block * lanes * x_.channel + (first + begin) * x_.axis[1];
    T* to = plane + (begin * width_ + left) * lanes;
    if (x_.axis[2] != 1)
      copy(from, channels_of(block), end - begin, inside, to);
    else if (x_.axis[1] == g_.in[2] && inside == g_.in[2])
      turn(from, channels_of(block), (end - begin) * inside, to);  // all rows are one
    else
      for (Index h = 0; h < end - begin; ++h)
        turn(from + h * x_.axis[1], channels_of(block), inside, to + h * width_ * lanes);
  }

  // Channels contiguous, or whatever lies where.
  void copy(const T* from, int channels, Index rows, Index inside, T* to) const {
    for (Index h = 0; h < rows; ++h)
      for (Index c = 0; c < inside; ++c) {
        const T* pixel = from + h * x_.axis[1] + c * x_.axis[2];
        T* at = to + (h * width_ + c) * lanes;
        if (x_.channel == 1 && channels == lanes)
          simd::store(at, simd::load(pixel));
        else
          for (int i = 0; i < lanes; ++i) at[i] = pixel[(i < channels ? i : channels - 1) * x_.channel];
      }
  }

  // `count` pixels of each channel, contiguous, of one row or more.
  void turn(const T* from, int channels, Index count, T* to) const {
    const T* source[lanes];
    for (int i = 0; i < lanes; ++i) source[i] = from + (i < channels ? i : channels - 1) * x_.channel;
    for (Index first = 0; first < count; first += lanes) {
      const Index p = vector_at(first, count);
      simd::Vec<T> square[lanes];
      if (count >= lanes) {
#pragma GCC unroll 16
        for (int i = 0; i < lanes; ++i) square[i] = simd::load(source[i] + p);
        simd::transpose<T>(square);
#pragma GCC unroll 16
        for (int i = 0; i < lanes; ++i) simd::store(to + places_[p + i], square[i]);
      } else {
#pragma GCC unroll 16
        for (int i = 0; i < lanes; ++i) square[i] = simd::load_first(source[i], int(count));
        simd::transpose<T>(square);
        T pixels[lanes * lanes];
        std::memcpy(pixels, square, sizeof pixels);
        for (int i = 0; i < int(count); ++i) simd::store(to + places_[i], simd::load(pixels + i * lanes));
      }
    }
  }

  // `rows` rows of outputs. Side and Stride: of the filters, for those that are common; or 0.
  template <int Side, int Stride>
  void convolve(const T* plane, const T* weights, Index rows, T* to) const {
    const Index height = Side ? Side : g_.kernel[1], width = Side ? Side : g_.kernel[2], columns = g_.out[2];
    const Index down = g_.dilation[1] * width_ * lanes, across = (Side ? 1 : g_.dilation[2]) * lanes;
    const Index next = (Stride ? Stride : g_.stride[2]) * lanes;
    for (Index h = 0; h < rows; ++h) {
      const T* from = plane + h * g_.stride[1] * width_ * lanes;
      for (Index c = 0; c < columns; c += together, from += together * next) {
        simd::Vec<T> acc[together] = {};
        const T* weight = weights;
#pragma GCC unroll 3
        for (Index j = 0; j < height; ++j)
#pragma GCC unroll 3
          for (Index q = 0; q < width; ++q, weight += lanes) {
            const T* pixel = from + j * down + q * across;
            const simd::Vec<T> factor = simd::load(weight);
#pragma GCC unroll 8
            for (int v = 0; v < together; ++v) acc[v] = simd::fma(simd::load(pixel + v * next), factor, acc[v]);
          }
        const Index count = columns - c;
#pragma GCC unroll 8
        for (int v = 0; v < together; ++v)
          if (v < count) simd::store(to + v * lanes, acc[v]);
        to += at_most(together, count) * lanes;
      }
    }
  }

  // `count` pixels of the outputs, from vectors of channels.
  void finish(Index block, Index count, const T* sums, T* out) const {
    const int channels = channels_of(block);
    const Index pixels = g_.pixels();
    const simd::Vec<T> bias = bias_ ? simd::load_first(bias_ + block * lanes, channels) : simd::Vec<T>{};
    const auto all = [&](Activation which) {
      for (Index first = 0; first < count; first += lanes) {
        const Index p = vector_at(first, count);
        simd::Vec<T> square[lanes];
#pragma GCC unroll 16
        for (int i = 0; i < lanes; ++i) square[i] = activated<T>(simd::load(sums + (p + i) * lanes) + bias, which);
        simd::transpose<T>(square);
        if (count >= lanes && channels == lanes) {
#pragma GCC unroll 16
          for (int i = 0; i < lanes; ++i) simd::store(out + i * pixels + p, square[i]);
        } else {
          T rows[lanes * lanes];
          std::memcpy(rows, square, sizeof rows);
          for (int i = 0; i < channels; ++i)
            simd::store_first(out + i * pixels + p, simd::load(rows + i * lanes), int(at_most(lanes, count)));
        }
      }
    };
    if (activation_ == Activation::none)
      all(Activation::none);
    else
      all(activation_);
  }

  const Geometry& g_;
  const Images<const T>& x_;
  const T* bias_;
  Activation activation_;
  T* out_;
  Index width_;  // of what the windows of a row see
  const Index* places_ = nullptr;
};

}  // namespace

#define FASTDL_BODIES_OF(T)                                                                                     \
  void depthwise(const Geometry& g, const Images<const T>& x, const T* w, const T* bias, Activation activation, \
                 T* out) {                                                                                      \
    Depthwise<T>(g, x, bias, activation, out).run(w);                                                           \
  }
FASTDL_BODIES_OF(float)
FASTDL_BODIES_OF(double)

}  // namespace fastdl::conv::FASTDL_LEVEL
