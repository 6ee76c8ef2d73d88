// Network convolution by transforms, compiled once per instruction-set level.
//
// The transforms are linear, so the sum over channels is taken of spectra: for every element of them (a vector of
// frequencies) a product of complex matrices, tiles x channels times channels x outputs. Spectra are therefore stored
// element by element, [element][tile or output][channel], and one such matrix of w stays in L2 over a batch of tiles.
#include "conv/activation.hpp"
#include "conv/fft_bodies.hpp"
#include "conv/fft_cost.hpp"
#include "conv/signal_tile.hpp"

namespace fastdl::conv::FASTDL_LEVEL {
namespace {

// out[p][o] = sum over c of x[p][c] w[o][c] for P of the first and O of the second, of which there are `outputs`.
template <class T, int P, int O>
FASTDL_INLINE void multiply_some(const T* x, const T* w, T* out, Index channels, Index outputs) {
  Complex<T> sums[P][O] = {};
  for (Index c = 0; c < channels; ++c) {
    Complex<T> right[O];
#pragma GCC unroll 2
    for (int o = 0; o < O; ++o) right[o] = load_element(w + (o * channels + c) * width<T>);
#pragma GCC unroll 2
    for (int p = 0; p < P; ++p) {
      const Complex<T> left = load_element(x + (p * channels + c) * width<T>);
#pragma GCC unroll 2
      for (int o = 0; o < O; ++o) {
        Complex<T>& sum = sums[p][o];
        sum.re = simd::fma(left.re, right[o].re, simd::fma(-left.im, right[o].im, sum.re));
        sum.im = simd::fma(left.re, right[o].im, simd::fma(left.im, right[o].re, sum.im));
      }
    }
  }
#pragma GCC unroll 2
  for (int p = 0; p < P; ++p)
#pragma GCC unroll 2
    for (int o = 0; o < O; ++o) store_element(out + (p * outputs + o) * width<T>, sums[p][o]);
}

// All of them, 2 x 2 at a time: 8 sums and as many operands fill 16 registers.
template <class T>
void multiply(const T* x, Index tiles, const T* w, Index outputs, Index channels, T* out) {
  for (Index p = 0; p < tiles; p += 2)
    for (Index o = 0; o < outputs; o += 2) {
      const T *left = x + p * channels * width<T>, *right = w + o * channels * width<T>;
      T* to = out + (p * outputs + o) * width<T>;
      const bool two_tiles = p + 1 < tiles, two_outputs = o + 1 < outputs;
      if (two_tiles && two_outputs)
        multiply_some<T, 2, 2>(left, right, to, channels, outputs);
      else if (two_tiles)
        multiply_some<T, 2, 1>(left, right, to, channels, outputs);
      else if (two_outputs)
        multiply_some<T, 1, 2>(left, right, to, channels, outputs);
      else
        multiply_some<T, 1, 1>(left, right, to, channels, outputs);
    }
}

// For `outputs` of the layer's outputs: those from w and out on.
template <class T>
void correlate_of(const T* x, const T* w, const Layer& layer, const Blocks& blocks, Index outputs, T* out) {
  const int rank = layer.rank;
  const Index channels = layer.channels;
  const Index x_size = product(rank, layer.size), w_size = product(rank, layer.kernel);
  const Index out_size = product(rank, layer.out_size);
  const Tile<T> tile(rank, blocks);
  const Index elements = tile.spectrum_size(), tiles = count_tiles(rank, layer.out_size, blocks.tile);
  const int threads = core::thread_count();
  core::Scratch scratch;
  T* factors = scratch.array<T>(elements, outputs * channels, width<T>);
  core::parallel_for(outputs * channels, threads, [&](Index which) {
    core::Scratch local;
    T* reversed = local.array<T>(w_size);
    for (Index t = 0; t < w_size; ++t) reversed[t] = w[which * w_size + w_size - 1 - t];
    tile.spectrum_of(whole<const T>(reversed, rank, layer.kernel), true, factors + which * width<T>,
                     outputs * channels);
  });
  // So many tiles at a time that their spectra take about 8 MB.
  const Index all = layer.images * tiles;
  const Index fit = (Index{8} << 20) / (elements * (channels + outputs) * width<T> * Index{sizeof(T)});
  const Index batch = at_most(all, fit < 4 ? 4 : fit);
  T* spectra = scratch.array<T>(elements, batch * channels, width<T>);
  T* products = scratch.array<T>(elements, batch * outputs, width<T>);
  for (Index first = 0; first < all; first += batch) {
    const Index count = at_most(batch, all - first);
    const auto boxes = [&](Index p, Index channel, Index output, Box<const T>& f, Box<T>& to) {
      const Index image = (first + p) / tiles;
      f = whole(x + (image * channels + channel) * x_size, rank, layer.size);
      to = whole(out + (image * layer.outputs + output) * out_size, rank, layer.out_size);
      place_tile((first + p) % tiles, rank, blocks.tile, layer.kernel, layer.offset, f, to);
    };
    core::parallel_for(count * channels, threads, [&](Index which) {
      Box<const T> f;
      Box<T> unused;
      boxes(which / channels, which % channels, 0, f, unused);
      tile.spectrum_of(f, false, spectra + which * width<T>, count * channels);
    });
    core::parallel_for(elements, threads, [&](Index e) {
      multiply(spectra + e * count * channels * width<T>, count, factors + e * outputs * channels * width<T>, outputs,
               channels, products + e * count * outputs * width<T>);
    });
    core::parallel_for(count * outputs, threads, [&](Index which) {
      Box<const T> unused;
      Box<T> to;
      boxes(which / outputs, 0, which % outputs, unused, to);
      tile.result_of(products + which * width<T>, count * outputs, to);
    });
  }
}

template <class T>
void fft_correlate_of(const T* x, Index images, Index channels, const Index* size, int rank, const T* w, Index outputs,
                      const Index* kernel, T* out) {
  if (images == 0 || outputs == 0) return;
  const Layer layer(rank, images, channels, outputs, size, kernel);
  const Blocks blocks = best_blocks(layer);
  // So many outputs at a time that the spectra of their filters take about 16 MB.
  const Index spectrum = Tile<T>(rank, blocks).spectrum_size() * width<T> * Index{sizeof(T)};
  const Index fit = (Index{16} << 20) / (spectrum * channels + 1), most = fit < 1 ? 1 : fit;
  const Index parts = gemm::divide_up(outputs, most);
  for (Index part = 0; part < parts; ++part) {
    const Index first = outputs * part / parts, end = outputs * (part + 1) / parts;
    correlate_of(x, w + first * channels * product(rank, kernel), layer, blocks, end - first,
                 out + first * product(rank, layer.out_size));
  }
}

template <class T>
void keep_strided_of(const Geometry& g, const Index* found, const T* values, Index first, Index images, Index group,
                     const T* bias, Activation activation, T* out, std::atomic<bool>& finite) {
  const Index pixels = found[0] * found[1] * found[2], channels = g.groups * g.out_channels;
  core::parallel_for(images * g.out_channels, core::thread_count(), [&](Index plane) {
    core::Scratch scratch;
    T* row = scratch.array<T>(g.out[2]);
    const Index channel = group * g.out_channels + plane % g.out_channels;
    T* to = out + ((first + plane / g.out_channels) * channels + channel) * g.pixels();
    for (Index d = 0; d < g.out[0]; ++d)
      for (Index h = 0; h < g.out[1]; ++h, to += g.out[2]) {
        const T* from = values + plane * pixels + (d * g.stride[0] * found[1] + h * g.stride[1]) * found[2];
        T nothing = 0;  // unless a value is not finite
        for (Index i = 0; i < g.out[2]; ++i) {
          row[i] = from[i * g.stride[2]];
          nothing += row[i] * 0;
        }
        if (nothing != 0) finite.store(false, std::memory_order_relaxed);
        finish_pixels(row, g.out[2], bias ? bias[channel] : T(0), activation, to);
      }
  });
}

}  // namespace

#define FASTDL_BODIES_OF(T)                                                                                            \
  void fft_correlate(const T* x, Index images, Index channels, const Index* size, int rank, const T* w, Index outputs, \
                     const Index* kernel, T* out) {                                                                    \
    fft_correlate_of<T>(x, images, channels, size, rank, w, outputs, kernel, out);                                     \
  }                                                                                                                    \
  void keep_strided(const Geometry& g, const Index* found, const T* values, Index first, Index images, Index group,    \
                    const T* bias, Activation activation, T* out, std::atomic<bool>& finite) {                         \
    keep_strided_of<T>(g, found, values, first, images, group, bias, activation, out, finite);                         \
  }
FASTDL_BODIES_OF(float)
FASTDL_BODIES_OF(double)

}  // namespace fastdl::conv::FASTDL_LEVEL
