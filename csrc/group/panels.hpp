// How output channels are cut into the row panels of the tiles.
#pragma once

#include "gemm/shape.hpp"
#include "group/layer.hpp"

namespace fastdl::group {
namespace {

// Panels of 6 rows, but that one to three rows are not left alone: a tile of so few rows waits for its own sums, so by
// count two panels of 4 take 8 steps where one of 6 and one of 2 take 10. (In a profile of 8 channels of 8 x 8 the
// panels of 2 had 13% of the time. That the whole layer became quicker did not stand out of the noise.)
struct RowPanels {
  Index rows, count;

  explicit RowPanels(Index rows_) : rows(rows_), count(gemm::divide_up(rows_, most)) {}

  FASTDL_GROUP_INLINE Index first(Index panel) const {
    const Index rest = rows - (count - 1) * most;  // of the last one
    return panel + 1 == count && count > 1 && rest < 4 ? (count - 2) * most + (most + rest + 1) / 2 : panel * most;
  }
  FASTDL_GROUP_INLINE int size(Index panel) const {
    return int((panel + 1 == count ? rows : first(panel + 1)) - first(panel));
  }

 private:
  static constexpr Index most = gemm::Shape<float>::rows;
};

}  // namespace
}  // namespace fastdl::group
