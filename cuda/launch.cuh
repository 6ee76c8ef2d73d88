// The two worlds a kernel is compiled for, behind one launch(): nvcc for the GPU, and any C++20 compiler for the
// emulation, which runs the threads of a block as fibers. A kernel's source is the same in both; what differs is
// spelled here:
//
//   FASTDL_SHARED(Type, name)            a variable in shared memory, static
//   FASTDL_DYNAMIC_SHARED(Element, name) a pointer to the dynamic shared memory of the launch
//   FASTDL_UNROLL                        unroll the next loop: its indices must be constants for arrays in registers
//   FASTDL_UNROLL_BY(n)                  n rounds of it at a time
//   FASTDL_NO_UNROLL                     leave it rolled: memory is the limit, and code has to be fetched as well
//   FASTDL_APART                         a function that is called, not inlined
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>

#if defined(__CUDACC__)
#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

#define FASTDL_UNROLL _Pragma("unroll")
#define FASTDL_UNROLL_BY(n) FASTDL_PRAGMA(unroll n)
#define FASTDL_PRAGMA(text) _Pragma(#text)
#define FASTDL_NO_UNROLL _Pragma("unroll 1")
#define FASTDL_APART __noinline__
#define FASTDL_SHARED(Type, name) __shared__ Type name
#define FASTDL_DYNAMIC_SHARED(Element, name)                                    \
  extern __shared__ __align__(16) unsigned char fastdl_dynamic_shared_memory[]; \
  Element* const name = reinterpret_cast<Element*>(fastdl_dynamic_shared_memory)
#else
#include "emulation/emulation.hpp"

#define FASTDL_UNROLL
#define FASTDL_UNROLL_BY(n)
#define FASTDL_NO_UNROLL
#define FASTDL_APART __attribute__((noinline))
#define FASTDL_SHARED(Type, name) Type& name = ::fastdl::cuda::emulation::shared<Type>()
#define FASTDL_DYNAMIC_SHARED(Element, name) Element* const name = ::fastdl::cuda::emulation::dynamic_shared<Element>()
#endif

namespace fastdl::cuda {

// Fused in both worlds, so that the emulation gives the GPU's bits.
__device__ __forceinline__ float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
__device__ __forceinline__ double multiply_add(double a, double b, double c) { return fma(a, b, c); }

// The same number, of which the compiler knows nothing: what is made of it in a loop is made there, of one register,
// and not kept in others from before the loop. For short computations in loops where registers are short.
__device__ __forceinline__ int anew(int number) {
#if defined(__CUDACC__)
  asm volatile("" : "+r"(number));
#endif
  return number;
}
__device__ __forceinline__ std::int64_t anew(std::int64_t number) {
#if defined(__CUDACC__)
  asm volatile("" : "+l"(number));
#endif
  return number;
}

// What one 16-byte load or store moves: the widest access of a thread, and four times fewer instructions than scalars.
template <class T>
struct alignas(16) Vector {
  static constexpr int lanes = 16 / sizeof(T);
  T lane[lanes];
};

// The 16 bytes at an address, which must be a multiple of 16: a device refuses any other, and so does the emulation.
template <class T>
__device__ __forceinline__ const Vector<T>& vector_at(const T* address) {
#if !defined(__CUDACC__)
  emulation::check_aligned(address);
#endif
  return *reinterpret_cast<const Vector<T>*>(address);
}
template <class T>
__device__ __forceinline__ Vector<T>& vector_at(T* address) {
  return const_cast<Vector<T>&>(vector_at(const_cast<const T*>(address)));
}

// Writes 16 bytes to global memory, at a multiple of 16, in one instruction: of an assignment beside a branch that
// writes some of the lanes, nvcc makes four.
template <class T>
__device__ __forceinline__ void store_vector(T* address, const Vector<T>& values) {
#if defined(__CUDACC__)
  const std::size_t place = __cvta_generic_to_global(address);
  if constexpr (sizeof(T) == 4)
    asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(place), "f"(values.lane[0]), "f"(values.lane[1]),
                 "f"(values.lane[2]), "f"(values.lane[3])
                 : "memory");
  else
    asm volatile("st.global.v2.f64 [%0], {%1, %2};" ::"l"(place), "d"(values.lane[0]), "d"(values.lane[1]) : "memory");
#else
  vector_at(address) = values;
#endif
}

struct Geometry {
  dim3 grid, block;
  std::size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};

// Runs kernel(arguments...) on the stream and throws when the launch is refused. `name` is the public function's, for
// messages. It asks the launch itself for its error: cudaGetLastError would also report, and swallow, what other
// libraries left behind.
template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), const Geometry& geometry, Arguments&&... arguments) {
  std::tuple<Parameters...> values(std::forward<Arguments>(arguments)...);
#if defined(__CUDACC__)
  const void* const entry = reinterpret_cast<const void*>(kernel);
  cudaError_t error = cudaSuccess;
  constexpr std::size_t default_shared_bytes = 48 << 10;
  if (geometry.shared_bytes > default_shared_bytes)
    error = cudaFuncSetAttribute(entry, cudaFuncAttributeMaxDynamicSharedMemorySize, int(geometry.shared_bytes));
  if (error == cudaSuccess)
    error = std::apply(
        [&](auto&... value) {
          void* addresses[] = {static_cast<void*>(&value)..., nullptr};
          return cudaLaunchKernel(entry, geometry.grid, geometry.block, addresses, geometry.shared_bytes,
                                  geometry.stream);
        },
        values);
  if (error != cudaSuccess) {
    cudaGetLastError();  // reported here, so not to be found again by the next who asks
    throw std::runtime_error("[" + std::string(name) +
                             "] expected the kernel to start on the current device, got: " + cudaGetErrorString(error));
  }
#else
  emulation::run(name, reinterpret_cast<const void*>(kernel), geometry.grid, geometry.block, geometry.shared_bytes,
                 geometry.stream, [&] { std::apply(kernel, values); });
#endif
}

}  // namespace fastdl::cuda
