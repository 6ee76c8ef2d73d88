// Instruction-set levels: which this machine has, which one is in use, and the one dispatch of a public call.
#pragma once

#include <span>

namespace fastdl::core {

enum class Isa { baseline, avx2, avx512, neon };

const char* name_of(Isa level);

// What the library was compiled with and the processor can run, narrowest first; never empty.
std::span<const Isa> available_isas();

// The widest available level, capped by FASTDL_ISA, or what set_active_isa chose.
Isa active_isa();

// Throws InvalidArgument when the name is unknown or the level cannot run here.
void set_active_isa(const char* name);

}  // namespace fastdl::core

// FASTDL_DECLARE_LEVELS(macro): macro(level) for every level compiled in, to declare a family's bodies.
// FASTDL_DISPATCH(call): runs `call` in the namespace of the active level. It stands once in a public function, outside
// all loops; every level has the same functions, so a missing one is a compile error.
#if defined(FASTDL_HAVE_AVX2)
#define FASTDL_DECLARE_AVX2(macro) macro(avx2)
#define FASTDL_CASE_AVX2(call)    \
  case ::fastdl::core::Isa::avx2: \
    avx2::call;                   \
    break;
#else
#define FASTDL_DECLARE_AVX2(macro)
#define FASTDL_CASE_AVX2(call)
#endif
#if defined(FASTDL_HAVE_AVX512)
#define FASTDL_DECLARE_AVX512(macro) macro(avx512)
#define FASTDL_CASE_AVX512(call)    \
  case ::fastdl::core::Isa::avx512: \
    avx512::call;                   \
    break;
#else
#define FASTDL_DECLARE_AVX512(macro)
#define FASTDL_CASE_AVX512(call)
#endif
#if defined(FASTDL_HAVE_NEON)
#define FASTDL_DECLARE_NEON(macro) macro(neon)
#define FASTDL_CASE_NEON(call)    \
  case ::fastdl::core::Isa::neon: \
    neon::call;                   \
    break;
#else
#define FASTDL_DECLARE_NEON(macro)
#define FASTDL_CASE_NEON(call)
#endif

#if defined(FASTDL_HAVE_WIDE)  // in the tests: bodies of 64 bytes, for machines without AVX-512
#define FASTDL_DECLARE_WIDE(macro) macro(wide)
#else
#define FASTDL_DECLARE_WIDE(macro)
#endif

#define FASTDL_DECLARE_LEVELS(macro)                                                                 \
  macro(baseline) FASTDL_DECLARE_AVX2(macro) FASTDL_DECLARE_AVX512(macro) FASTDL_DECLARE_NEON(macro) \
      FASTDL_DECLARE_WIDE(macro)

#define FASTDL_DISPATCH(call)             \
  switch (::fastdl::core::active_isa()) { \
    FASTDL_CASE_AVX2(call)                \
    FASTDL_CASE_AVX512(call)              \
    FASTDL_CASE_NEON(call)                \
    default:                              \
      baseline::call;                     \
  }
