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

  // Room for rows x cols values of T. A size beyond the address space is refused as any other that cannot be had.
  template <class T>
  __attribute__((always_inline)) T* array(std::int64_t rows, std::int64_t cols = 1) {
    std::size_t count, size;
    if (__builtin_mul_overflow(rows, cols, &count) || __builtin_mul_overflow(count, sizeof(T), &size)) size = SIZE_MAX;
    return static_cast<T*>(bytes(size));
  }

 private:
  std::size_t block_, used_;
};

}  // namespace fastdl::core
