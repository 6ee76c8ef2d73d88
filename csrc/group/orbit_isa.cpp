// Group convolution by orbits, compiled once per instruction-set level.
//
//   transform the filters and pack them as rows                one set of panels for every number of the form
//   for each image and block of pixels                         a task, on any thread
//     for each stretch of channels
//       copy the strips that the block sees                    (strips.hpp)
//       gather every orbit, transform it and pack it           columns are pixels, k is (channel, orbit)
//       for each term of the form: one product, 6 output channels at a time
//     transform the sums back, with bias and activation        while they are in cache
//
// A sum is taken in the order of k in stretches that depend on the layer alone.
#include "gemm/columns.hpp"
#include "group/bodies.hpp"
#include "group/panels.hpp"
#include "group/representations.hpp"
#include "group/strips.hpp"

namespace fastdl::group::FASTDL_LEVEL {
namespace {

using gemm::Stretch;

template <class T, class Form>
class OrbitLayer {
  using S = gemm::Shape<T>;
  using V = simd::Vec<T>;
  static constexpr int lanes = simd::lanes<T>;

 public:
  OrbitLayer(const Layer& layer, const Maps<const T>& x, const T* w, const T* bias, conv::Activation activation, T* out,
             core::Scratch& scratch)
      : layer_(layer),
        x_(x),
        w_(w),
        bias_(bias),
        activation_(activation),
        out_(out),
        orbits_(orbits_of(layer, scratch)),
        panels_(layer.out_channels) {
    // Products of some 150 terms: longer and shorter ones were within the noise of the machine they were tried on.
    const Index most = 1 + most_terms / orbits_.count;
    channels_ = divide_up(layer.in_channels, divide_up(layer.in_channels, most));
    filters_ = scratch.array<T>(Form::left * panels_.count * S::rows, layer.in_channels, orbits_.count);
  }

  void run() const {
    const double flops = 2.0 * double(layer_.batch * layer_.pixels()) * double(layer_.out_channels) *
                         double(layer_.in_channels * orbits_.count) * double(sizeof Form::terms / sizeof(Term));
    const int threads = flops < 2e6 ? 1 : core::thread_count();
    pack_filters(threads);
    // The columns of all numbers of the form, and their sums, take about the L2 cache, of which each product reads a
    // fifth or less. (Zen 3, 512 KB, 32 channels of 32 x 32: single runs on a busy machine, in which the plain matrix
    // product went from 64 to 91 GF/s, had 70 to 73 for p4 and p4m with 128 columns and 50 to 69 with 64. Blocks of
    // fewer columns were not clearly told apart; this wants measuring again on a quiet one.)
    const Index depth = channels_ * orbits_.count, numbers = depth * Form::right + Form::sums * layer_.out_channels;
    Index most = core::l2_bytes() * 5 / 4 / Index(sizeof(T)) / numbers / S::columns * S::columns;
    most = most < S::columns ? S::columns : at_most(most, most_columns);
    if (threads > 1) {
      const Index enough = layer_.batch * layer_.pixels() / (4 * threads);
      if (enough < most) most = enough < S::columns ? S::columns : round_up(enough, S::columns);
    }
    const Blocks blocks(layer_, most, S::columns);
    const Strips<T> strips(layer_, x_, orbits_, blocks);
    core::Scratch scratch;
    const Index* offsets = strips.offsets(scratch);
    core::parallel_for(layer_.batch * blocks.count(), threads, [&](Index task) {
      run_block(task / blocks.count(), blocks.at(task % blocks.count()), blocks.pixels(), strips, offsets);
    });
  }

 private:
  static constexpr Index most_terms = 150, most_columns = 512;

  // A panel of rows of number `slot` of the filters, channels from `channel` on.
  const T* panel(int slot, Index number, Index channel, Index depth) const {
    return filters_ +
           ((slot * layer_.in_channels + channel) * orbits_.count * panels_.count + number * depth) * S::rows;
  }

  void pack_filters(int threads) const {
    core::parallel_for(panels_.count, threads, [&](Index number) {
      const Index row = panels_.first(number);
      for (Index first = 0; first < layer_.in_channels; first += channels_) {
        const Index end = at_most(first + channels_, layer_.in_channels), depth = (end - first) * orbits_.count;
        T* to[Form::left];
        for (int slot = 0; slot < Form::left; ++slot) to[slot] = const_cast<T*>(panel(slot, number, first, depth));
        for (Index c = first; c < end; ++c)
          for (Index orbit = 0; orbit < orbits_.count; ++orbit) {
            pack_orbit(row, c, orbit, to);
            for (int slot = 0; slot < Form::left; ++slot) to[slot] += S::rows;
          }
      }
    });
  }

  FASTDL_INLINE void pack_orbit(Index row, Index channel, Index orbit, T* const (&to)[Form::left]) const {
    constexpr int vectors = (S::rows + lanes - 1) / lanes;
    const Index taps = layer_.taps(), filter = layer_.planes() * taps;
    T values[Form::elements][vectors * lanes], numbers[Form::left][vectors * lanes];
    for (int r = 0; r < S::rows; ++r) {
      const Index output = at_most(row + r, layer_.out_channels - 1);
      const T* from = w_ + (output * layer_.in_channels + channel) * filter;
      for (int h = 0; h < Form::elements; ++h)
        values[h][r] = from[(layer_.lift ? 0 : h * taps) + orbits_.pixel[orbit * Form::elements + h]];
    }
    const T scale = T(1) / T(orbits_.fixing[orbit]);
    for (int v = 0; v < vectors; ++v) {
      V of[Form::elements], found[Form::left];
      for (int h = 0; h < Form::elements; ++h) of[h] = simd::load(values[h] + v * lanes) * scale;
      Form::filter(of, found);
      for (int slot = 0; slot < Form::left; ++slot) simd::store(numbers[slot] + v * lanes, found[slot]);
    }
    for (int slot = 0; slot < Form::left; ++slot)
      for (int r = 0; r < S::rows; ++r) to[slot][r] = numbers[slot][r];
  }

  void run_block(Index image, const Block& block, Index largest, const Strips<T>& strips, const Index* offsets) const {
    const Index width = block.count(), columns = round_up(largest, S::columns), depth = channels_ * orbits_.count;
    const Index stride = columns + gemm::line<T>;  // no power of two
    core::Scratch scratch;
    T* strip = scratch.array<T>(strips.size(channels_));
    T* packed = scratch.array<T>(Form::right, depth, columns);
    T* sums = scratch.array<T>(Form::sums * layer_.out_channels, stride);
    for (Index channel = 0; channel < layer_.in_channels; channel += channels_) {
      const Index end = at_most(channel + channels_, layer_.in_channels), here = (end - channel) * orbits_.count;
      strips.copy(image, channel, end, block, strip);
      for (Index j = 0; j < width; j += S::columns)
        pack_columns(strips, block, strip, offsets, end - channel, j, width, packed + j * here, columns * depth);
      multiply(packed, columns * depth, channel, here, width, sums, stride);
    }
    for (Index o = 0; o < layer_.out_channels; ++o) finish(image, o, block, sums + o * stride, stride);
  }

  // One panel of columns of every number.
  void pack_columns(const Strips<T>& strips, const Block& block, const T* strip, const Index* offsets, Index channels,
                    Index first, Index width, T* to, Index slot_stride) const {
    Index at[S::vectors];
    const int vectors = int(divide_up(at_most(S::columns, width - first), lanes));
    for (int v = 0; v < vectors; ++v) at[v] = strips.position(block, first + v * lanes);
    pack_vectors<S::vectors>(vectors, at, strip, strips.channel(), offsets, channels, to, slot_stride);
  }

  template <int Vectors>
  FASTDL_INLINE void pack_vectors(int vectors, const Index (&at)[S::vectors], const T* strip, Index stride,
                                  const Index* offsets, Index channels, T* to, Index slot_stride) const {
    if constexpr (Vectors > 1)
      if (vectors < Vectors)
        return pack_vectors<Vectors - 1>(vectors, at, strip, stride, offsets, channels, to, slot_stride);
    for (Index c = 0; c < channels; ++c, strip += stride)
      for (Index orbit = 0; orbit < orbits_.count; ++orbit, to += Vectors * lanes) {
        const Index* offset = offsets + orbit * Form::elements;
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v) {
          V values[Form::elements], numbers[Form::right];
#pragma GCC unroll 8
          for (int h = 0; h < Form::elements; ++h) values[h] = simd::load(strip + offset[h] + at[v]);
          Form::input(values, numbers);
#pragma GCC unroll 8
          for (int slot = 0; slot < Form::right; ++slot)
            simd::store(to + slot * slot_stride + v * lanes, numbers[slot]);
        }
      }
  }

  void multiply(const T* packed, Index slot_stride, Index channel, Index depth, Index width, T* sums,
                Index stride) const {
    int before = -1;
    for (const Term& term : Form::terms) {
      const bool begins = channel == 0 && term.to != before;
      before = term.to;
      const Stretch stretch{begins ? 0 : 1, depth, depth + 1};
      for (Index p = 0; p < panels_.count; ++p) {
        const T* rows = panel(term.left, p, channel, depth);
        gemm::row_panel<T>(
            rows, p + 1 < panels_.count ? rows + S::rows * depth : nullptr, packed + term.right * slot_stride, stretch,
            gemm::Output<T>{sums + (term.to * layer_.out_channels + panels_.first(p)) * stride, stride, 1},
            panels_.size(p), width, width, 0, gemm::MultiplyAdd{});
      }
    }
  }

  // The sums of one output channel to the planes of the output.
  void finish(Index image, Index channel, const Block& block, const T* sums, Index stride) const {
    const Index pixels = layer_.pixels(), count = block.count();
    T* to = out_ + (image * layer_.out_channels + channel) * Form::elements * pixels + block.row * layer_.out[1] +
            block.column;
    const T bias = bias_ ? bias_[channel] : T(0);
    const auto all = [&](conv::Activation activation) {
      for (Index j = 0; j < count; j += lanes) {
        V numbers[Form::sums], y[Form::elements];
#pragma GCC unroll 8
        for (int i = 0; i < Form::sums; ++i) numbers[i] = simd::load(sums + i * layer_.out_channels * stride + j);
        Form::output(numbers, y);
        const int rest = int(at_most(lanes, count - j));
#pragma GCC unroll 8
        for (int s = 0; s < Form::elements; ++s) {
          const V value = conv::activated<T>(y[s] + bias, activation);
          if (rest == lanes)
            simd::store(to + s * pixels + j, value);
          else
            simd::store_first(to + s * pixels + j, value, rest);
        }
      }
    };
    // The test of the activation stands outside the loop.
    if (activation_ == conv::Activation::none)
      all(conv::Activation::none);
    else if (activation_ == conv::Activation::relu)
      all(conv::Activation::relu);
    else
      all(activation_);
  }

  const Layer& layer_;
  const Maps<const T>& x_;
  const T *w_, *bias_;
  conv::Activation activation_;
  T* out_;
  Orbits orbits_;
  RowPanels panels_;
  Index channels_;  // of a stretch
  T* filters_;
};

}  // namespace

#define FASTDL_BODIES_OF(T)                                                                                      \
  void orbit(const Layer& layer, const Maps<const T>& x, const T* w, const T* bias, conv::Activation activation, \
             T* out) {                                                                                           \
    with_form(layer.group, [&](auto form) {                                                                      \
      core::Scratch scratch;                                                                                     \
      OrbitLayer<T, decltype(form)>(layer, x, w, bias, activation, out, scratch).run();                          \
    });                                                                                                          \
  }
FASTDL_BODIES_OF(float)
FASTDL_BODIES_OF(double)

}  // namespace fastdl::group::FASTDL_LEVEL
