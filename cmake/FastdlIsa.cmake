# One source, compiled once per instruction-set level.
#
#   fastdl_isa_levels(OUT)                              the levels of the target processor's family, narrowest first
#   fastdl_add_level(NAME LEVEL SOURCES…)               an object library NAME: the sources compiled for LEVEL
#
# A body sees FASTDL_LEVEL (the namespace it defines) and FASTDL_VECTOR_BYTES. It is compiled with -ffp-contract=off: a product
# and a sum are joined only where the source says so (simd::fma), so that a result does not depend on how the
# compiler shaped a loop. Only these objects get flags beyond the baseline of the platform.

set(FASTDL_FLAGS_avx2 -mavx2 -mfma)
set(FASTDL_FLAGS_avx512 -mavx2 -mfma -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512)
set(FASTDL_FLAGS_neon -DFASTDL_NEON=1)
# Not a level of the library: the 64-byte body split by the compiler into 32-byte halves, with which the tests execute it on
# machines that have no AVX-512. Nobody waits for its speed: -O1 compiles in a third of the time of -O3.
set(FASTDL_FLAGS_wide -O1 -mavx2 -mfma -Wno-psabi -DFASTDL_HAVE_WIDE=1)

set(FASTDL_BYTES_baseline 16)
set(FASTDL_BYTES_neon 16)
set(FASTDL_BYTES_avx2 32)
set(FASTDL_BYTES_avx512 64)
set(FASTDL_BYTES_wide 64)

function(fastdl_isa_levels out)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    set(${out} baseline avx2 avx512 PARENT_SCOPE)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64|ARM64)$")
    set(${out} baseline neon PARENT_SCOPE)
  else()
    set(${out} baseline PARENT_SCOPE)
  endif()
endfunction()

function(fastdl_add_level name level)
  add_library(${name} OBJECT ${ARGN})
  target_link_libraries(${name} PRIVATE fastdl_options)
  target_compile_options(${name} PRIVATE -ffp-contract=off -fno-math-errno -fno-trapping-math ${FASTDL_FLAGS_${level}})
  target_compile_definitions(${name} PRIVATE FASTDL_LEVEL=${level} FASTDL_VECTOR_BYTES=${FASTDL_BYTES_${level}})
endfunction()
