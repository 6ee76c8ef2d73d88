// The orders of a recall on the device, and when there is nothing left to ask.
#pragma once

#include <vector>

#include "hebbian.hpp"

namespace fastdl::hebbian::cuda {

struct Asked {
  const Index* data;  // `sweeps` rows of `units`; none: all at once
  Index sweeps, units, max_sweeps;
  Index patience;  // sweeps without a change after which there can be none: one, if all units are asked in it
};

// Brought to the device for the time of a call.
class AskedUnits {
 public:
  AskedUnits(const char* name, const Orders& orders, Index units, Stream stream)
      : room_(name, orders.data, orders.together ? 0 : orders.sweeps * orders.units, stream),
        asked_{room_.data(), orders.together ? 0 : orders.sweeps, orders.units, orders.max_sweeps, 1} {
    std::vector<bool> seen;
    for (Index sweep = 0; sweep < asked_.sweeps; ++sweep) {
      seen.assign(static_cast<std::size_t>(units), false);
      Index count = 0;
      for (Index i = 0; i < orders.units; ++i) {
        const auto unit = static_cast<std::size_t>(orders.data[sweep * orders.units + i]);
        count += !seen[unit];
        seen[unit] = true;
      }
      if (count < units) asked_.patience = orders.sweeps;
    }
  }
  const Asked& operator*() const { return asked_; }

 private:
  fastdl::cuda::Scratch<Index> room_;
  Asked asked_;
};

}  // namespace fastdl::hebbian::cuda
