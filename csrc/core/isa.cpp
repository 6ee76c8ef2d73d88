#include "core/isa.hpp"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "core/error.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace fastdl::core {
namespace {

constexpr std::array<const char*, 4> names{"baseline", "avx2", "avx512", "neon"};

// How wide a level is, for the cap: "avx2" and "neon" rank alike, so a cap means the same on every processor.
constexpr int rank(Isa level) {
  switch (level) {
    case Isa::baseline:
      return 0;
    case Isa::avx2:
    case Isa::neon:
      return 1;
    default:
      return 2;
  }
}

#if defined(__x86_64__)
// __builtin_cpu_supports would need a library of Clang's that is not linked on Windows.
struct Processor {
  bool avx2 = false, avx512 = false;

  Processor() {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return;
    constexpr unsigned avx_and_saved = bit_AVX | bit_OSXSAVE;
    if ((c & avx_and_saved) != avx_and_saved || !(c & bit_FMA)) return;
    // Which registers the operating system saves: 6 are those of AVX, 0xe6 with those of AVX-512. Darwin saves the
    // latter from their first use on, and does not tell before.
    unsigned saved, above;
    asm volatile("xgetbv" : "=a"(saved), "=d"(above) : "c"(0));
    if ((saved & 6) != 6 || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return;
    avx2 = b & bit_AVX2;
    constexpr unsigned wide = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
#if defined(__APPLE__)
    avx512 = avx2 && (b & wide) == wide;
#else
    avx512 = avx2 && (b & wide) == wide && (saved & 0xe6) == 0xe6;
#endif
  }
};
#endif

bool runs_here([[maybe_unused]] Isa level) {
#if defined(__x86_64__)
  static const Processor here;
#if defined(FASTDL_HAVE_AVX2)
  if (level == Isa::avx2) return here.avx2;
#endif
#if defined(FASTDL_HAVE_AVX512)
  if (level == Isa::avx512) return here.avx512;
#endif
#endif
#if defined(FASTDL_HAVE_NEON)
  if (level == Isa::neon) return true;  // part of the aarch64 baseline
#endif
  return level == Isa::baseline;
}

struct Levels {
  std::array<Isa, 4> list{};
  std::size_t count = 0;
  std::atomic<Isa> active{Isa::baseline};

  Levels() {
    for (Isa level : {Isa::baseline, Isa::avx2, Isa::neon, Isa::avx512})
      if (runs_here(level)) list[count++] = level;
    active = list[count - 1];
    if (const char* wanted = std::getenv("FASTDL_ISA"); wanted && *wanted) cap(wanted);
  }

  void cap(const char* wanted) {
    for (std::size_t named = 0; named < names.size(); ++named) {
      if (std::strcmp(wanted, names[named]) != 0) continue;
      for (std::size_t i = 0; i < count; ++i)
        if (rank(list[i]) <= rank(static_cast<Isa>(named))) active = list[i];
      return;
    }
    std::fprintf(stderr, "fastdl: FASTDL_ISA expected baseline, avx2, avx512 or neon, got '%s'; ignored\n", wanted);
  }
};

Levels& levels() {
  static Levels instance;
  return instance;
}

}  // namespace

const char* name_of(Isa level) { return names[static_cast<std::size_t>(level)]; }

std::span<const Isa> available_isas() { return {levels().list.data(), levels().count}; }

Isa active_isa() { return levels().active.load(std::memory_order_relaxed); }

void set_active_isa(const char* name) {
  std::string known;
  for (Isa level : available_isas()) {
    if (name && std::strcmp(name, name_of(level)) == 0) {
      levels().active = level;
      return;
    }
    known += known.empty() ? name_of(level) : std::string(", ") + name_of(level);
  }
  throw InvalidArgument("[set_isa] expected one of " + known + ", got '" + (name ? name : "NULL") + "'");
}

}  // namespace fastdl::core
