// The gradient of a group convolution for its filters by orbits, compiled once per instruction-set level.
//
// On an orbit it is a correlation of the output's gradient with the input: for every term of the form one product over
// the pixels of all images, rows the output channels, columns the orbits of all input channels. As for the plain
// convolution (conv/weights_isa.cpp) the blocks of pixels are taken in parts, each by one task with sums of its own,
// which are added in order; the parts depend on the layer alone.
#include "core/interrupt.hpp"
#include "gemm/columns.hpp"
#include "group/bodies.hpp"
#include "group/panels.hpp"
#include "group/representations.hpp"
#include "group/strips.hpp"

namespace fastdl::group::FASTDL_LEVEL {
namespace {

using gemm::Stretch;

template <class T, class Form>
class OrbitWeights {
  using S = gemm::Shape<T>;
  using V = simd::Vec<T>;
  static constexpr int lanes = simd::lanes<T>;

 public:
  OrbitWeights(const Layer& layer, const Maps<const T>& x, const T* grad, T* dw, core::Scratch& scratch)
      : layer_(layer),
        x_(x),
        grad_(grad),
        dw_(dw),
        orbits_(orbits_of(layer, scratch)),
        panels_(layer.out_channels),
        columns_(layer.in_channels * orbits_.count) {}

  void run() const {
    const Blocks blocks(layer_, most_pixels, lanes);
    const Index all = layer_.batch * blocks.count(), numbers = Form::sums * layer_.out_channels * columns_;
    const Index room = 1 + (Index{24} << 20) / (numbers * Index(sizeof(T)));
    const Index parts = at_most(at_most(16, room), all), each = divide_up(all, parts);
    const int threads = core::thread_count();
    const Strips<T> strips(layer_, x_, orbits_, blocks);
    core::Scratch scratch;
    const Index* offsets = strips.offsets(scratch);
    T* sums = scratch.array<T>(parts, numbers);
    core::parallel_for(parts, threads, [&](Index part) {
      for (Index i = part * each; i < at_most((part + 1) * each, all); ++i) {
        core::check_interrupt();
        add_block(i / blocks.count(), blocks.at(i % blocks.count()), round_up(blocks.pixels(), lanes), strips, offsets,
                  i == part * each, sums + part * numbers);
      }
    });
    const Index used = divide_up(all, each);
    core::parallel_for(layer_.out_channels, threads, [&](Index o) { finish(o, sums, used, numbers); });
  }

 private:
  static constexpr Index most_pixels = 256;

  // Adds what a block of pixels gives, or begins with it.
  void add_block(Index image, const Block& block, Index room, const Strips<T>& strips, const Index* offsets,
                 bool begins, T* sums) const {
    const Index depth = block.count();
    core::Scratch scratch;
    T* rows = scratch.array<T>(Form::left * panels_.count * S::rows, depth);
    pack_rows(image, block, room, rows);
    const Index together = channels_together();
    T* strip = scratch.array<T>(strips.size(together));
    T* turned = scratch.array<T>(Form::right * S::columns, room);
    T* packed = scratch.array<T>(Form::right * S::columns, depth);
    for (Index channel = 0; channel < layer_.in_channels; channel += together) {
      const Index end = at_most(channel + together, layer_.in_channels), here = (end - channel) * orbits_.count;
      strips.copy(image, channel, end, block, strip);
      for (Index j = 0; j < here; j += S::columns) {
        const int count = int(at_most(S::columns, here - j));
        gather(strips, block, room, strip, offsets, j, count, turned);
        for (int slot = 0; slot < Form::right; ++slot)
          gemm::Strided<T>{turned + slot * S::columns * room, room, 1}.pack_columns(
              0, count, 0, depth, gemm::padded<T>(count), packed + slot * S::columns * depth);
        multiply(rows, packed, depth, begins, channel * orbits_.count + j, count, sums);
      }
    }
  }

  // Strips of about 128 KB.
  Index channels_together() const {
    const Index most = 1 + (Index{128} << 10) / Index(sizeof(T)) / (layer_.planes() * (most_pixels + 1) * 2);
    return at_most(most, layer_.in_channels);
  }

  // The transformed gradient of the output, as rows: [slot][panel of 6 channels][pixel][6].
  void pack_rows(Index image, const Block& block, Index room, T* to) const {
    const Index pixels = layer_.pixels(), depth = block.count();
    core::Scratch scratch;
    T* turned = scratch.array<T>(Form::left * S::rows, room);
    for (Index p = 0; p < panels_.count; ++p) {
      const Index row = panels_.first(p);
      const int count = panels_.size(p);
      for (int r = 0; r < count; ++r) {
        const T* from = grad_ + (image * layer_.out_channels + row + r) * Form::elements * pixels +
                        block.row * layer_.out[1] + block.column;
        for (Index j = 0; j < depth; j += lanes) {
          V values[Form::elements], numbers[Form::left];
          const int rest = int(at_most(lanes, depth - j));
#pragma GCC unroll 8
          for (int s = 0; s < Form::elements; ++s)
            values[s] =
                rest == lanes ? simd::load(from + s * pixels + j) : simd::load_first(from + s * pixels + j, rest);
          Form::filter(values, numbers);
#pragma GCC unroll 8
          for (int slot = 0; slot < Form::left; ++slot)
            simd::store(turned + (slot * S::rows + r) * room + j, numbers[slot]);
        }
      }
      for (int slot = 0; slot < Form::left; ++slot)
        gemm::Strided<T>{turned + slot * S::rows * room, room, 1}.pack_rows(
            0, count, 0, depth, to + (slot * panels_.count + p) * S::rows * depth);
    }
  }

  // turned[slot][column][pixel], of orbits [first, first + count) of the channels in the strip
  void gather(const Strips<T>& strips, const Block& block, Index room, const T* strip, const Index* offsets,
              Index first, int count, T* turned) const {
    for (int i = 0; i < count; ++i) {
      const Index* offset = offsets + (first + i) % orbits_.count * Form::elements;
      const T* from = strip + (first + i) / orbits_.count * strips.channel();
      for (Index j = 0; j < block.count(); j += lanes) {
        const Index at = strips.position(block, j);
        V values[Form::elements], numbers[Form::right];
#pragma GCC unroll 8
        for (int h = 0; h < Form::elements; ++h) values[h] = simd::load(from + offset[h] + at);
        Form::input(values, numbers);
#pragma GCC unroll 8
        for (int slot = 0; slot < Form::right; ++slot)
          simd::store(turned + (slot * S::columns + i) * room + j, numbers[slot]);
      }
    }
  }

  void multiply(const T* rows, const T* packed, Index depth, bool begins, Index column, int count, T* sums) const {
    int before = -1;
    for (const Term& term : Form::gradient_terms) {
      const Stretch stretch{begins && term.to != before ? 0 : 1, depth, depth + 1};
      before = term.to;
      for (Index p = 0; p < panels_.count; ++p)
        gemm::row_panel<T>(
            rows + (term.left * panels_.count + p) * S::rows * depth, nullptr, packed + term.right * S::columns * depth,
            stretch,
            gemm::Output<T>{sums + (term.to * layer_.out_channels + panels_.first(p)) * columns_ + column, columns_, 1},
            panels_.size(p), count, count, 0, gemm::MultiplyAdd{});
    }
  }

  // The sums of the parts, transformed back, of one output channel.
  void finish(Index output, T* sums, Index parts, Index numbers) const {
    const Index taps = layer_.taps(), filter = layer_.planes() * taps;
    T y[Form::elements][lanes];
    for (Index j = 0; j < columns_; j += lanes) {
      const int count = int(at_most(lanes, columns_ - j));
      V of[Form::sums], found[Form::elements];
      for (int i = 0; i < Form::sums; ++i) {
        const T* from = sums + (i * layer_.out_channels + output) * columns_ + j;
        of[i] = simd::load_first(from, count);
        for (Index part = 1; part < parts; ++part) of[i] += simd::load_first(from + part * numbers, count);
      }
      Form::output(of, found);
      for (int u = 0; u < Form::elements; ++u) simd::store(y[u], found[u]);
      for (int i = 0; i < count; ++i) {
        const Index channel = (j + i) / orbits_.count, orbit = (j + i) % orbits_.count;
        T* to = dw_ + (output * layer_.in_channels + channel) * filter;
        for (int u = 0; u < Form::elements; ++u)
          to[(layer_.lift ? 0 : u * taps) + orbits_.pixel[orbit * Form::elements + u]] = y[u][i];
      }
    }
  }

  const Layer& layer_;
  const Maps<const T>& x_;
  const T* grad_;
  T* dw_;
  Orbits orbits_;
  RowPanels panels_;
  Index columns_;
};

}  // namespace

#define FASTDL_BODIES_OF(T)                                                              \
  void orbit_weights(const Layer& layer, const Maps<const T>& x, const T* grad, T* dw) { \
    with_form(layer.group, [&](auto form) {                                              \
      core::Scratch scratch;                                                             \
      OrbitWeights<T, decltype(form)>(layer, x, grad, dw, scratch).run();                \
    });                                                                                  \
  }
FASTDL_BODIES_OF(float)
FASTDL_BODIES_OF(double)

}  // namespace fastdl::group::FASTDL_LEVEL
