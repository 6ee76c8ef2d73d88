#include "hebbian_blocks.cuh"

#include "hebbian_learn.hpp"
#include "hebbian_products.hpp"

namespace fastdl::hebbian::cuda {
namespace {

template <class T>
class Blocks {
 public:
  Blocks(const Learning& how, T* const (&weights)[2], Index units, const Samples<T>& samples, const T* lr,
         Stream stream)
      : how_(how),
        weights_{weights[0], weights[1]},
        units_(units),
        samples_(samples),
        lr_(lr),
        stream_(stream),
        parts_(parts_of<T>(units, block_length, samples.features)),
        parts_room_(how.name, parts_.count * units * block_length, stream),
        tables_(how.name, units * (2 * block_length + 1), stream),
        gram_(how.name, groups_together() * tile * tile, stream),
        status_(how.name, 1, stream) {
    fastdl::cuda::set_zero(how.name, status_.data(), status_.bytes(), stream);
  }

  // From block `first` on. Gives the first one that led to weights that are not finite, or -1.
  Index run(Index first) {
    for (Index block = first; block * block_length < samples_.count; ++block) {
      if (block == first || block / blocks_of_tile == first_group_ + groups_together()) multiply_samples(block);
      settle_and_take(block);
    }
    Index failed;
    fastdl::cuda::copy_to_host(how_.name, &failed, status_.data(), sizeof failed, stream_);
    if (failed == 0) return -1;
    fastdl::cuda::set_zero(how_.name, status_.data(), status_.bytes(), stream_);
    return failed - 1;
  }

  // Of the weights before and after a block.
  T* before(Index block) const { return weights_[block % 2]; }
  T* after(Index block) const { return weights_[1 - block % 2]; }

  Samples<T> samples_of(Index block) const {
    const Index begin = block * block_length, left = samples_.count - begin;
    return {samples_.data + begin * samples_.row_stride, left < block_length ? left : block_length, samples_.features,
            samples_.row_stride, samples_.col_stride};
  }

 private:
  // Samples whose products are one tile of the engine, of which the blocks on the diagonal are used.
  static constexpr Index tile = sizeof(T) == 4 ? 128 : 64, blocks_of_tile = tile / block_length;

  // Tiles made by one launch: 16 MB of them at most.
  Index groups_together() const {
    constexpr Index most = (Index{16} << 20) / (tile * tile * Index(sizeof(T)));
    const Index all = (samples_.count + tile - 1) / tile;
    return all < most ? all : most;
  }

  // G of all blocks whose tiles there is room for, from the tile of a block on.
  void multiply_samples(Index block) {
    first_group_ = block / blocks_of_tile;
    const Index begin = first_group_ * tile, left = samples_.count - begin;
    const Index whole = left / tile < groups_together() ? left / tile : groups_together(), rest = left % tile;
    const T* from = samples_.data + begin * samples_.row_stride;
    const auto multiply_some = [&](const T* data, Index rows, T* to, Index batches) {
      const Factor<T> factor{data, rows, samples_.row_stride, samples_.col_stride, tile * samples_.row_stride};
      multiply(how_.name, factor, factor, samples_.features, to, tile, stream_, batches, tile * tile);
    };
    if (whole > 0) multiply_some(from, tile, gram_.data(), whole);
    if (whole < groups_together() && rest > 0)
      multiply_some(from + whole * tile * samples_.row_stride, rest, gram_.data() + whole * tile * tile, 1);
  }

  void settle_and_take(Index block) {
    const Samples<T> here = samples_of(block);
    T *first = tables_.data(), *second = first + units_ * block_length, *scale = second + units_ * block_length;
    multiply_in_parts<T>(how_.name, {before(block), units_, samples_.features, 1},
                         {here.data, here.count, here.row_stride, here.col_stride}, samples_.features, parts_,
                         parts_room_.data(), block_length, units_ * block_length, stream_);
    const T* const gram = gram_.data() + (block / blocks_of_tile - first_group_) * tile * tile +
                          block % blocks_of_tile * block_length * (tile + 1);
    const T* const lr = lr_ + block * block_length;
    const Settled<T> settled{
        units_, int(here.count), block + 1, status_.data(), parts_room_.data(), parts_.count, gram, tile,
        lr,     first,           second,    scale};
    const Taken<T> taken{before(block),
                         here.data,
                         after(block),
                         units_,
                         samples_.features,
                         here.row_stride,
                         here.col_stride,
                         int(here.count),
                         block + 1,
                         status_.data(),
                         first,
                         second,
                         scale};
    if (how_.rule == Rule::sanger) {
      settle_all<true>(settled);
      take_all<Taking::deflation>(taken);
    } else if (how_.rule == Rule::subspace) {
      settle_all<false>(settled);
      take_all<Taking::projection>(taken);
    } else {
      fastdl::cuda::launch(how_.name, settle_units<T>, blocks_for(units_, unit_warps, 32 * unit_warps, stream_),
                           settled, how_.rule, before(block), samples_.features);
      take_all<Taking::by_units>(taken);
    }
  }

  template <bool deflates>
  void settle_all(const Settled<T>& settled) const {
    // With 12 (f64: 24) KB of sums and tables: within the 48 KB that every device gives.
    constexpr std::size_t most_bytes = (sizeof(T) == 4 ? 35 : 23) << 10;
    const std::size_t bytes = std::size_t(units_) * block_length * sizeof(T);
    const Index warps = (units_ + 3) / 4 < most_warps ? (units_ + 3) / 4 : most_warps;
    fastdl::cuda::launch(how_.name, settle_together<T, deflates>,
                         blocks_for(1, 1, unsigned(32 * warps), stream_, bytes <= most_bytes ? bytes : 0), settled,
                         bytes <= most_bytes);
  }

  template <Taking how>
  void take_all(const Taken<T>& taken) const {
    fastdl::cuda::launch(how_.name, take<T, how>,
                         blocks_for(samples_.features, columns_of_block, columns_of_block, stream_), taken);
  }

  const Learning& how_;
  T* weights_[2];
  Index units_;
  Samples<T> samples_;
  const T* lr_;
  Stream stream_;
  Parts parts_;
  fastdl::cuda::Scratch<T> parts_room_, tables_, gram_;
  fastdl::cuda::Scratch<Index> status_;
  Index first_group_ = 0;
};

}  // namespace

template <class T>
Ended<T> learn_by_blocks(const Learning& how, T* const (&weights)[2], Index units, const Samples<T>& samples,
                         const T* lr, Stream stream) {
  Blocks<T> blocks(how, weights, units, samples, lr, stream);
  const Index count = (samples.count + block_length - 1) / block_length;
  for (Index block = 0; block < count;) {
    const Index failed = blocks.run(block);
    if (failed < 0) break;
    // Sample by sample from the weights before: which one it was, or that products were not finite on the way only.
    const Samples<T> here = blocks.samples_of(failed);
    fastdl::cuda::copy_on_device(how.name, blocks.after(failed), blocks.before(failed),
                                 std::size_t(units * samples.features) * sizeof(T), stream);
    const Index diverged =
        learn_one_by_one<T>(how, blocks.after(failed), units, here, lr + failed * block_length, nullptr, stream);
    if (diverged != all_finite) return {nullptr, failed * block_length + diverged};
    block = failed + 1;
  }
  T* const end = blocks.before(count);
  if (how.rule == Rule::normalized) normalize_rows(how.name, end, units, samples.features, stream);
  return {end, all_finite};
}

#define FASTDL_BLOCKS(T) \
  template Ended<T> learn_by_blocks(const Learning&, T* const(&)[2], Index, const Samples<T>&, const T*, Stream);
FASTDL_BLOCKS(float)
FASTDL_BLOCKS(double)
#undef FASTDL_BLOCKS

}  // namespace fastdl::hebbian::cuda
