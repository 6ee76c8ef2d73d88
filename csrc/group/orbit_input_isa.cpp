// The gradient of a group convolution for its input by orbits, compiled once per instruction-set level.
//
// It is the layer transposed. A pixel of the output's gradient g gives the values dx(h) = sum over s of g(s) w(s^-1 h)
// to the pixels of every orbit, where they are added up, whatever the stride.
//
//   transform the filters and pack them as rows                rows are (channel, orbit), k is the output channels
//   for each image, block of pixels and group of channels      a task, on any thread
//     transform the gradient and pack it                       columns are pixels; the same for all orbits
//     for each stretch of channels
//       for some columns, 6 rows at a time: every product of the form, transformed back while they are in L1 and added
//       to the sums of the windows
//       write these to dx                                      (window_sums.hpp)
//
// A product of the tiles is taken in stretches of k, and the values of a pixel of dx in the order of blocks and orbits:
// both depend on the layer alone.
//
// 16 images of 33 x 33, 32 channels, 3 x 3 filters with stride 2, one thread of Zen 3 (AVX2): 57 GF/s of its own
// products for p4 and 61 for p4m; the tiles take 57% of the time at the speed of the plain matrix product, writing dx
// 20%, adding the values 8%.
#include "gemm/columns.hpp"
#include "group/bodies.hpp"
#include "group/panels.hpp"
#include "group/representations.hpp"
#include "group/window_sums.hpp"

namespace fastdl::group::FASTDL_LEVEL {
namespace {

using gemm::Stretch;

template <class T, class Form>
class OrbitInput {
  using S = gemm::Shape<T>;
  using V = simd::Vec<T>;
  static constexpr int lanes = simd::lanes<T>;
  static constexpr int kinds = int(sizeof Form::kinds / sizeof(Kind));
  using Kinds = std::make_integer_sequence<int, kinds>;

 public:
  OrbitInput(const Layer& layer, const T* w, const T* grad, T* dx, core::Scratch& scratch)
      : layer_(layer),
        w_(w),
        grad_(grad),
        dx_(dx),
        orbits_(orbits_of(layer, scratch)),
        blocks_(layer, pixels_together(layer), S::columns),
        windows_(layer, blocks_),
        depth_(gemm::balanced_depth<T>(layer.out_channels)) {
    // Sums of some 128 KB; half and twice as much made no difference.
    const Index most = 1 + core::l2_bytes() / 4 / Index(sizeof(T)) / (layer.planes() * windows_.plane());
    channels_ = divide_up(layer.in_channels, divide_up(layer.in_channels, most > 2 ? most / 2 * 2 : most));
    // Orbits of one kind after the other.
    Index* order = scratch.array<Index>(orbits_.count);
    Index* offsets = scratch.array<Index>(orbits_.count, Form::elements);
    Index found = 0;
    for (int kind = 0; kind < kinds; ++kind) {
      first_orbit_[kind] = found;
      for (Index orbit = 0; orbit < orbits_.count; ++orbit)
        if (kind_of(orbit) == kind) order[found++] = orbit;
      first_panel_[kind + 1] = first_panel_[kind] + RowPanels((found - first_orbit_[kind]) * channels_).count;
    }
    first_orbit_[kinds] = found;
    for (Index i = 0; i < found * Form::elements; ++i) {
      const Index h = i % Form::elements;
      offsets[i] = (layer.lift ? 0 : h) * windows_.plane() +
                   windows_.offset(orbits_.pixel[order[i / Form::elements] * Form::elements + h]);
    }
    order_ = order;
    offsets_ = offsets;
    filters_ = scratch.array<T>(stretches() * first_panel_[kinds] * S::rows, Form::left, layer.out_channels);
  }

  void run() const {
    const double flops = 2.0 * double(layer_.batch * layer_.pixels()) * double(layer_.out_channels) *
                         double(layer_.in_channels * orbits_.count) * double(sizeof Form::terms / sizeof(Term));
    const int threads = flops < 2e6 ? 1 : core::thread_count();
    pack_filters(threads);
    const Index down = windows_.down().phases(), across = windows_.across().phases();
    const Index rows = divide_up(blocks_.down, down), columns = divide_up(blocks_.across, across);
    // Each group of channels packs the gradient for itself.
    const Index wanted = threads > 1 ? divide_up(2 * threads, layer_.batch * rows * columns) : 1;
    const Index each = divide_up(stretches(), at_most(wanted, stretches())), groups = divide_up(stretches(), each);
    core::parallel_phases(down * across, layer_.batch * rows * columns * groups, threads, [&](Index phase, Index task) {
      const Index row = task / groups / columns % rows * down + phase / across;
      const Index column = task / groups % columns * across + phase % across;
      if (row < blocks_.down && column < blocks_.across)
        run_block(task / groups / columns / rows, row, column, task % groups * each,
                  at_most((task % groups + 1) * each, stretches()));
    });
  }

 private:
  // Columns whose products wait to be added, in L1. (From 64 to 256 made no difference, 32 was 3% slower.)
  static constexpr Index most_columns = 128;

  // Of a block, so that all numbers of the gradient take three quarters of the L2 cache. (Half of that was 15% slower
  // for p4m at the size above, whose images are then cut in two; from 512 to 2048 at most made no difference.)
  static Index pixels_together(const Layer& layer) {
    const Index fit = core::l2_bytes() * 3 / 4 / Index(sizeof(T)) / (Form::right * layer.out_channels);
    return fit < most_columns ? most_columns : at_most(fit, 1024);
  }

  Index stretches() const { return divide_up(layer_.in_channels, channels_); }

  int kind_of(Index orbit) const {
    const Index* pixel = orbits_.pixel + orbit * Form::elements;
    int kind = 0;
    for (int i = 0; i < kinds && layer_.lift; ++i)
      if (Form::kinds[i].fixing == orbits_.fixing[orbit] && pixel[Form::kinds[i].element] == pixel[0]) kind = i;
    return kind;
  }

  // Panels of rows (channel, orbit) of one kind: [number of the form][output channel][6], for every stretch of depth.
  T* panel(Index stretch, int kind, Index number) const {
    return filters_ +
           (stretch * first_panel_[kinds] + first_panel_[kind] + number) * S::rows * Form::left * layer_.out_channels;
  }

  Index channels_of(Index stretch) const { return at_most(channels_, layer_.in_channels - stretch * channels_); }

  void pack_filters(int threads) const {
    core::parallel_for(stretches() * first_panel_[kinds], threads, [&](Index task) {
      const Index stretch = task / first_panel_[kinds];
      int kind = 0;
      while (first_panel_[kind + 1] <= task % first_panel_[kinds]) ++kind;
      const Index orbits = first_orbit_[kind + 1] - first_orbit_[kind];
      const Index number = task % first_panel_[kinds] - first_panel_[kind];
      const RowPanels panels(orbits * channels_of(stretch));
      if (number < panels.count)
        pack_panel(stretch, kind, orbits, panels.first(number), panels.size(number), panel(stretch, kind, number));
    });
  }

  void pack_panel(Index stretch, int kind, Index orbits, Index row, int count, T* to) const {
    constexpr int vectors = (S::rows + lanes - 1) / lanes;
    const Index taps = layer_.taps(), filter = layer_.planes() * taps;
    Index from[S::rows][Form::elements];
    for (int r = 0; r < S::rows; ++r) {
      const Index i = row + (r < count ? r : 0), orbit = order_[first_orbit_[kind] + i % orbits];
      for (int h = 0; h < Form::elements; ++h)
        from[r][h] = (stretch * channels_ + i / orbits) * filter + (layer_.lift ? 0 : h * taps) +
                     orbits_.pixel[orbit * Form::elements + h];
    }
    for (Index k = 0; k < layer_.out_channels; k += depth_) {
      const Index depth = at_most(depth_, layer_.out_channels - k);
      for (Index o = 0; o < depth; ++o) {
        const T* w = w_ + (k + o) * layer_.in_channels * filter;
        T values[Form::elements][vectors * lanes], numbers[vectors * lanes];
        for (int h = 0; h < Form::elements; ++h)
          for (int r = 0; r < vectors * lanes; ++r) values[h][r] = w[from[r < S::rows ? r : 0][h]];
        V found[vectors][Form::left];
        for (int v = 0; v < vectors; ++v) {
          V of[Form::elements];
          for (int h = 0; h < Form::elements; ++h) of[h] = simd::load(values[h] + v * lanes);
          Form::filter(of, found[v]);
        }
        for (int i = 0; i < Form::left; ++i) {
          for (int v = 0; v < vectors; ++v) simd::store(numbers + v * lanes, found[v][i]);
          for (int r = 0; r < S::rows; ++r)
            to[(k * Form::left + Form::place[i] * depth + o) * S::rows + r] = numbers[r];
        }
      }
    }
  }

  void run_block(Index image, Index row, Index column, Index first, Index end) const {
    const Block block = blocks_.at(row * blocks_.across + column);
    const Index room = round_up(blocks_.pixels(), S::columns), stride = most_columns + gemm::line<T>;
    core::Scratch scratch;
    T* packed = scratch.array<T>(Form::right * layer_.out_channels, room);
    T* products = scratch.array<T>(Form::sums * S::rows, stride);
    const Index plane = windows_.plane(), planes = channels_ * layer_.planes();
    T* sums = scratch.array<T>(planes * plane + 2 * windows_.beyond) + windows_.beyond;
    if (first_orbit_[kinds - 1] == 0)  // all orbits are of one pixel
      pack_gradient<true>(image, block, room, packed);
    else
      pack_gradient<false>(image, block, room, packed);
    for (Index stretch = first; stretch < end; ++stretch) {
      const Index channels = channels_of(stretch);
      std::memset(sums, 0, std::size_t(channels * layer_.planes() * plane) * sizeof(T));
      for (Index j = 0; j < block.count(); j += most_columns)
        [&]<int... K>(std::integer_sequence<int, K...>) {
          (add_orbits<K>(stretch, channels, packed, room, j, at_most(most_columns, block.count() - j), products, stride,
                         sums),
           ...);
        }(Kinds{});
      T* to = dx_ + (image * layer_.in_channels + stretch * channels_) * layer_.planes() * layer_.in[0] * layer_.in[1];
      for (Index i = 0; i < channels * layer_.planes(); ++i)
        windows_.write(row, column, sums + i * plane, to + i * layer_.in[0] * layer_.in[1]);
    }
  }

  // The product that reads number i of the gradient: its numbers follow each other in k.
  static constexpr Product product_with(int i) {
    for (const Product& product : Form::products)
      if (product.right <= i && i < product.right + product.length) return product;
    return {};
  }

  // The transformed gradient, as columns: [numbers of a product][panel of columns][number][output channel][column] for
  // every stretch of depth. Two channels at a time are written side by side and read in long pieces (against one: 1.64
  // for 2.27 ms of 16 images of 28 x 28 to 3 channels from 64 of p4, 9.6 for 11.1 of 2 of 224 x 224 from 32; all of a
  // panel at once is slower where the gradient is not in cache).
  template <bool One>
  void pack_gradient(Index image, const Block& block, Index room, T* packed) const {
    const Index pixels = layer_.pixels(), count = block.count();
    const T* from =
        grad_ + image * layer_.out_channels * Form::elements * pixels + block.row * layer_.out[1] + block.column;
    for (Index k = 0; k < layer_.out_channels; k += depth_) {
      const Index depth = at_most(depth_, layer_.out_channels - k);
      T* to = packed + k * Form::right * room;
      for (Index o = 0; o < depth; o += 2)
        for (Index first = 0; first < count; first += S::columns)
          pack_columns<S::vectors, One>(from + (k + o) * Form::elements * pixels + first, o, at_most(2, depth - o),
                                        depth, at_most(S::columns, count - first), first, room, to);
    }
  }

  // Output channels [channel, channel + channels) of one panel; the first number alone, or all.
  template <int Vectors, bool One>
  FASTDL_INLINE void pack_columns(const T* from, Index channel, Index channels, Index depth, Index count, Index first,
                                  Index room, T* packed) const {
    if constexpr (Vectors > 1)
      if (count <= (Vectors - 1) * lanes)
        return pack_columns<Vectors - 1, One>(from, channel, channels, depth, count, first, room, packed);
    constexpr int width = Vectors * lanes;
    const Index pixels = layer_.pixels();
    const int rest = int(count - (Vectors - 1) * lanes);
    for (Index o = channel; o < channel + channels; ++o, from += Form::elements * pixels)
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) {
        V values[Form::elements], numbers[Form::right];
#pragma GCC unroll 8
        for (int s = 0; s < Form::elements; ++s) {
          const T* at = from + s * pixels + v * lanes;
          values[s] = v + 1 < Vectors || rest == lanes ? simd::load(at) : simd::load_first(at, rest);
        }
        Form::input(values, numbers);
#pragma GCC unroll 8
        for (int i = 0; i < (One ? 1 : Form::right); ++i) {
          const Product product = product_with(i);
          T* panel = packed + (product.right * room + first * product.length + (i - product.right) * width) * depth;
          simd::store(panel + o * width + v * lanes, numbers[i]);
        }
      }
  }

  // The products of columns [first, first + count) with the rows of one kind, to the sums.
  template <int K>
  void add_orbits(Index stretch, Index channels, const T* packed, Index room, Index first, Index count, T* products,
                  Index stride, T* sums) const {
    constexpr const Kind& kind = Form::kinds[K];
    const Index orbits = first_orbit_[K + 1] - first_orbit_[K], width = round_up(count, lanes);
    const RowPanels panels(orbits * channels);
    for (Index p = 0; p < panels.count; ++p) {
      const T* rows = panel(stretch, K, p);
      for (int i = 0; i < Form::sums; ++i) {
        if (kind.source[i] != i) continue;
        const Product& product = Form::products[i];
        const gemm::Output<T> to{products + i * S::rows * stride, stride, 1};
        for (Index k = 0; k < layer_.out_channels; k += depth_) {
          const Index depth = at_most(depth_, layer_.out_channels - k);
          gemm::row_panel<T>(rows + (k * Form::left + product.left * depth) * S::rows, nullptr,
                             packed + k * Form::right * room + (product.right * room + first * product.length) * depth,
                             Stretch{k, product.length * depth, product.length * layer_.out_channels}, to,
                             panels.size(p), width, width, 0, gemm::MultiplyAdd{});
        }
      }
      for (int r = 0; r < panels.size(p); ++r) {
        const Index row = panels.first(p) + r;
        add_orbit<K>(products + r * stride, S::rows * stride, count,
                     offsets_ + (first_orbit_[K] + row % orbits) * Form::elements,
                     sums + row / orbits * layer_.planes() * windows_.plane() + first);
      }
    }
  }

  template <int K>
  FASTDL_INLINE void add_orbit(const T* products, Index stride, Index count, const Index* offsets, T* sums) const {
    constexpr const Kind& kind = Form::kinds[K];
    constexpr int pixels = Form::elements / kind.fixing;
    T* to[pixels];
#pragma GCC unroll 8
    for (int h = 0; h < pixels; ++h) to[h] = sums + offsets[h];
    const auto add = [&](Index j, int rest) {
      V numbers[Form::sums], y[Form::elements];
#pragma GCC unroll 8
      for (int i = 0; i < Form::sums; ++i)
        numbers[i] = kind.source[i] == none ? V{} : simd::load(products + kind.source[i] * stride + j);
      Form::output(numbers, y);
#pragma GCC unroll 8
      for (int h = 0; h < pixels; ++h)
        if (rest == lanes)
          simd::store(to[h] + j, simd::load(to[h] + j) + y[h]);
        else
          simd::store_first(to[h] + j, simd::load_first(to[h] + j, rest) + y[h], rest);
    };
    Index j = 0;
    for (; j + lanes <= count; j += lanes) add(j, lanes);
    if (j < count) add(j, int(count - j));
  }

  const Layer& layer_;
  const T *w_, *grad_;
  T* dx_;
  Orbits orbits_;
  Blocks blocks_;
  WindowSums<T> windows_;
  Index depth_;     // of a stretch of output channels
  Index channels_;  // of a stretch of input channels
  Index first_orbit_[kinds + 1], first_panel_[kinds + 1] = {};
  const Index *order_, *offsets_;  // the orbits by kinds; [orbit * elements + h]: where the sums of a pixel lie
  T* filters_;
};

}  // namespace

#define FASTDL_BODIES_OF(T)                                                \
  void orbit_input(const Layer& layer, const T* w, const T* grad, T* dx) { \
    with_form(layer.group, [&](auto form) {                                \
      core::Scratch scratch;                                               \
      OrbitInput<T, decltype(form)>(layer, w, grad, dx, scratch).run();    \
    });                                                                    \
  }
FASTDL_BODIES_OF(float)
FASTDL_BODIES_OF(double)

}  // namespace fastdl::group::FASTDL_LEVEL
