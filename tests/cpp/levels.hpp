// The levels a test goes through: all that this machine can run, narrowest first, and the 64-byte body split into
// halves. A test defines TEST_LEVEL(level), the initializer of its own struct for a level, before it includes this.
#pragma once

#include <vector>

#include "core/isa.hpp"

// No level that the library could choose: it comes last, by itself.
#undef FASTDL_DECLARE_WIDE
#define FASTDL_DECLARE_WIDE(macro)

template <class Level>
std::vector<Level> levels_to_test(bool widest_only) {
  using namespace fastdl;
  std::vector<Level> list;
  for (core::Isa isa : core::available_isas()) {
    if (widest_only && isa != core::available_isas().back()) continue;
    switch (isa) {
#define LEVEL_CASE(level)              \
  case core::Isa::level:               \
    list.push_back(TEST_LEVEL(level)); \
    break;
      FASTDL_DECLARE_LEVELS(LEVEL_CASE)
#undef LEVEL_CASE
      default:
        break;
    }
  }
#if defined(FASTDL_HAVE_WIDE)
  if (!widest_only && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) list.push_back(TEST_LEVEL(wide));
#endif
  return list;
}
