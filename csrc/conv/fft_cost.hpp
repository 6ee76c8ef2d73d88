// Network convolution by transforms: how it is cut into tiles, and how long it takes.
#pragma once

#include <cstdint>

#include "conv/signal_bodies.hpp"
#include "fft/plan.hpp"

namespace fastdl::conv {

// The shape of a convolution: sizes of the input, of the kernel, and of the result.
struct Layer {
  int rank;
  std::int64_t images, channels, outputs;
  const std::int64_t *size, *kernel;
  std::int64_t out_size[most_axes], offset[most_axes];

  Layer(int rank_, std::int64_t images_, std::int64_t channels_, std::int64_t outputs_, const std::int64_t* size_,
        const std::int64_t* kernel_)
      : rank(rank_), images(images_), channels(channels_), outputs(outputs_), size(size_), kernel(kernel_) {
    for (int a = 0; a < rank; ++a) {
      out_size[a] = size[a] - kernel[a] + 1;
      offset[a] = kernel[a] - 1;
    }
  }
};

namespace {

// Tiles of at least `side` numbers along every axis, but no more than there are.
Blocks blocks_of(const Layer& layer, std::int64_t side) {
  Blocks blocks{};
  for (int a = 0; a < layer.rank; ++a) {
    const std::int64_t wanted = side < layer.kernel[a] ? layer.kernel[a] : side;
    const std::int64_t least = layer.size[a] < wanted ? layer.size[a] : wanted;
    if (layer.rank == 1) {
      fft::good_split((least + 1) / 2, blocks.rows, blocks.columns);
      blocks.length[a] = 2 * blocks.rows * blocks.columns;
    } else {
      blocks.length[a] = a == 0 ? 2 * fft::good_size((least + 1) / 2) : fft::good_size(least);
    }
    blocks.tile[a] = blocks.length[a] - layer.kernel[a] + 1;
  }
  return blocks;
}

// The time of it in ns, as in signal_cost.hpp: transforms, and 0.12 for a product of two complex numbers and a sum.
// Those of filters take 1.7 times as long, since they lie far apart.
double price(const Layer& layer, const Blocks& blocks) {
  double numbers = 0.5, work = 0, tiles = static_cast<double>(layer.images);
  for (int a = 0; a < layer.rank; ++a) {
    const std::int64_t length = a == 0 ? blocks.length[a] / 2 : blocks.length[a];
    numbers *= static_cast<double>(blocks.length[a]);
    work += layer.rank == 1 ? fft::cost(blocks.rows) / static_cast<double>(blocks.rows) +
                                  fft::cost(blocks.columns) / static_cast<double>(blocks.columns)
                            : fft::cost(length) / static_cast<double>(length);
    tiles *= static_cast<double>((layer.out_size[a] + blocks.tile[a] - 1) / blocks.tile[a]);
  }
  const auto channels = static_cast<double>(layer.channels), outputs = static_cast<double>(layer.outputs);
  const double transform = work / 8 + 2;
  return numbers * (tiles * ((channels + outputs) * transform + channels * outputs * 0.12) +
                    channels * outputs * transform * 1.7);
}

// As for 8 images, however many there are: the tiles decide how sums are rounded, and an image's result should not
// depend on the images beside it.
Blocks best_blocks(Layer layer) {
  layer.images = 8;
  Blocks best = blocks_of(layer, 16);
  double least = price(layer, best);
  for (std::int64_t side = 24; side <= 4096; side += side / 2) {
    const Blocks blocks = blocks_of(layer, side);
    if (const double time = price(layer, blocks); time < least) {
      least = time;
      best = blocks;
    }
  }
  return best;
}

}  // namespace
}  // namespace fastdl::conv
