// Aligned scratch space, kept by each thread and used again from call to call.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fastdl::core {

// Takes buffers from the calling thread's arena and gives them all back when it goes out of scope. Frames nest like
// calls: a kernel may hold a frame while it calls another that opens its own.
class Scratch {
 public:
  Scratch() noexcept;
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // Uninitialised, aligned to 64 bytes. Throws std::bad_alloc.
  void* bytes(std::size_t size);

  // Room for a*b*c values of T. A size beyond the address space is refused as any other that cannot be had.
  template <class T>
  __attribute__((always_inline)) T* array(std::int64_t a, std::int64_t b = 1, std::int64_t c = 1) {
    std::size_t size;
    if (__builtin_mul_overflow(a, b, &size) || __builtin_mul_overflow(size, c, &size) ||
        __builtin_mul_overflow(size, sizeof(T), &size))
      size = SIZE_MAX;
    return static_cast<T*>(bytes(size));
  }

 private:
  std::size_t block_, used_;
};

}  // namespace fastdl::core
