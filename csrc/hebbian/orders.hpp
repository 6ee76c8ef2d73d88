// In which order the units of a memory are asked, sweep after sweep, and when there is nothing left to ask.
#pragma once

#include "core/interrupt.hpp"
#include "core/scratch.hpp"
#include "hebbian/strips.hpp"

namespace fastdl::hebbian {
namespace {

struct Orders {
  const Index* data;    // `sweeps` rows of `asked` units, which are gone through again and again
  Index sweeps, asked;  // none: all units at once
  Index patience = 1;   // sweeps without a change after which there can be none: one, if all units are asked in it

  Orders(const Index* orders, Index sweeps_, Index asked_, Index units) : data(orders), sweeps(sweeps_), asked(asked_) {
    core::Scratch scratch;
    bool* seen = scratch.array<bool>(units);
    for (Index sweep = 0; sweep < sweeps; ++sweep) {
      for (Index i = 0; i < units; ++i) seen[i] = false;
      for (Index i = 0; i < asked; ++i) seen[orders[sweep * asked + i]] = true;
      for (Index i = 0; i < units; ++i)
        if (!seen[i]) patience = sweeps;
    }
  }

  // 0, 1, 2 ... in every sweep
  bool natural(Index units) const {
    bool found = sweeps == 1 && asked == units;
    for (Index i = 0; found && i < asked; ++i) found = data[i] == i;
    return found;
  }

  // sweep(its order), which tells whether a unit turned over, until none can any more
  template <class Sweep>
  void run(Index max_sweeps, const Sweep& sweep) const {
    for (Index number = 0, quiet = 0; number < max_sweeps && quiet < patience; ++number) {
      core::check_interrupt();
      quiet = sweep(sweeps > 0 ? data + number % sweeps * asked : nullptr) ? 0 : quiet + 1;
    }
  }
};

}  // namespace
}  // namespace fastdl::hebbian
