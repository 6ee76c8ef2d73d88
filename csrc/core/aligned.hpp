// Memory that begins at a multiple of a power of two. (Windows has none that free() would take back.)
#pragma once

#include <cstddef>
#include <cstdlib>

#if defined(_WIN32)
#include <malloc.h>
#endif

namespace fastdl::core {

// Null if it cannot be had.
inline void* take_aligned(std::size_t alignment, std::size_t size) {
#if defined(_WIN32)
  return _aligned_malloc(size, alignment);
#else
  void* data = nullptr;
  return posix_memalign(&data, alignment, size) == 0 ? data : nullptr;
#endif
}

inline void release_aligned(void* data) {
#if defined(_WIN32)
  _aligned_free(data);
#else
  std::free(data);
#endif
}

}  // namespace fastdl::core
