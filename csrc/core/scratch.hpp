// Aligned scratch space, kept by each thread and used again from call to call.
#pragma once

#include <cstddef>

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

 private:
  std::size_t block_, used_;
};

}  // namespace fastdl::core
