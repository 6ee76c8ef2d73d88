// Runs CUDA kernels on the CPU, from the same source, with the host compiler alone.
//
// The threads of a block are fibers: each runs until a barrier or a warp operation, where it waits for the others.
// Blocks run one after another. That is slower than any real device and shows what a real device hides:
//   - a barrier or warp operation that not all threads reach is a Fault that names the kernel;
//   - shared memory is allocated afresh for every block, filled with 0xff (NaN), and guarded by AddressSanitizer if
//   that is on;
//   - between two barriers the threads run in a chosen order: a result that depends on it is a race;
//   - an access to 16 bytes that are not aligned so is a Fault;
//   - any one barrier can be left out, to see that the tests would notice.
// It has no memory model, no timing, no limits of registers or shared memory. Include launch.cuh, not this header.
#pragma once

#include "machine.hpp"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)

namespace fastdl::cuda::emulation {

template <class Type>
Type& shared(Site where = Site::current()) {
  static_assert(alignof(Type) <= 16 && std::is_trivially_copyable_v<Type>);
  return *static_cast<Type*>(machine.shared(sizeof(Type), where));
}

template <class Element>
Element* dynamic_shared() {
  return static_cast<Element*>(machine.dynamic());
}

// Gives `value` to the warp, and takes what `lane` gave.
template <class T>
T exchange(unsigned mask, T value, unsigned lane, const Site& where) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  const unsigned present = machine.meet(mask, bits, where);
  if (!(present >> lane & 1))
    machine.fail("a shuffle from a lane that takes part",
                 "lane " + std::to_string(lane) + " at " + Machine::text(where));
  std::memcpy(&value, &machine.thread().received[lane], sizeof(T));
  return value;
}

inline void check_aligned(const void* address) {
  if (reinterpret_cast<std::uintptr_t>(address) % 16 != 0)
    machine.fail("the address of 16 bytes to be a multiple of 16", "one that is not");
}

inline unsigned lane() { return machine.thread().number % 32; }

}  // namespace fastdl::cuda::emulation

// ---- what CUDA declares, as far as our kernels use it ----

#define threadIdx (::fastdl::cuda::emulation::machine.thread().index)
#define blockIdx (::fastdl::cuda::emulation::machine.place())
#define blockDim (::fastdl::cuda::emulation::machine.block())
#define gridDim (::fastdl::cuda::emulation::machine.grid())
#define warpSize 32

inline void __syncthreads(fastdl::cuda::emulation::Site where = fastdl::cuda::emulation::Site::current()) {
  fastdl::cuda::emulation::machine.barrier(where);
}

inline void __syncwarp(unsigned mask = ~0u,
                       fastdl::cuda::emulation::Site where = fastdl::cuda::emulation::Site::current()) {
  fastdl::cuda::emulation::machine.meet(mask, 0, where);
}

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              fastdl::cuda::emulation::Site where = fastdl::cuda::emulation::Site::current()) {
  const unsigned own = fastdl::cuda::emulation::lane(), segment = own & ~unsigned(width - 1);
  return fastdl::cuda::emulation::exchange(mask, value, segment | (unsigned(source) & unsigned(width - 1)), where);
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 fastdl::cuda::emulation::Site where = fastdl::cuda::emulation::Site::current()) {
  const unsigned own = fastdl::cuda::emulation::lane(), within = own & unsigned(width - 1);
  return fastdl::cuda::emulation::exchange(mask, value, within >= delta ? own - delta : own, where);
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   fastdl::cuda::emulation::Site where = fastdl::cuda::emulation::Site::current()) {
  const unsigned own = fastdl::cuda::emulation::lane(), within = own & unsigned(width - 1);
  return fastdl::cuda::emulation::exchange(mask, value, within + delta < unsigned(width) ? own + delta : own, where);
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32,
                  fastdl::cuda::emulation::Site where = fastdl::cuda::emulation::Site::current()) {
  const unsigned own = fastdl::cuda::emulation::lane(), other = own ^ unsigned(bits);
  const bool within = (other & ~unsigned(width - 1)) <= (own & ~unsigned(width - 1));
  return fastdl::cuda::emulation::exchange(mask, value, within ? other : own, where);
}

inline unsigned __ballot_sync(unsigned mask, int predicate,
                              fastdl::cuda::emulation::Site where = fastdl::cuda::emulation::Site::current()) {
  const unsigned present = fastdl::cuda::emulation::machine.meet(mask, predicate != 0, where);
  unsigned ballot = 0;
  for (unsigned l = 0; l < 32; ++l)
    if (present >> l & 1) ballot |= unsigned(fastdl::cuda::emulation::machine.thread().received[l]) << l;
  return ballot;
}
