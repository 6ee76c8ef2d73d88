// Memory that begins at a multiple of a power of two. (Windows has none that free() would take back.)
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>
#include <vector>

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

// Of a cache line: a vector of 64 bytes that lies in two of them takes two loads.
template <class T>
struct CacheLines {
  using value_type = T;

  CacheLines() = default;
  template <class U>
  CacheLines(const CacheLines<U>&) {}

  T* allocate(std::size_t n) {
    void* data = n <= static_cast<std::size_t>(-1) / 2 / sizeof(T) ? take_aligned(64, n * sizeof(T)) : nullptr;
    if (!data) throw std::bad_alloc();
    return static_cast<T*>(data);
  }
  void deallocate(T* data, std::size_t) { release_aligned(data); }

  bool operator==(const CacheLines&) const = default;
};

template <class T>
using AlignedVector = std::vector<T, CacheLines<T>>;

}  // namespace fastdl::core
