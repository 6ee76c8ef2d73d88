// What takes the finished blocks of a product whose result is never stored (stream.hpp).
#pragma once

#include <cstdint>

namespace fastdl::gemm {

inline constexpr std::int64_t stream_part = 128;

// block[i*stream_part + j] = value (row + i, column + j), in cache, to be used or overwritten. At most 48 rows, and
// stream_part columns. Any function of these arguments, behind a pointer that is called once a block.
template <class T>
struct Consumer {
  using Index = std::int64_t;
  const void* self;
  void (*take)(const void* self, Index row, Index row_end, Index column, Index width, T* block);

  template <class Function>
  explicit Consumer(const Function& function)
      : self(&function), take([](const void* s, Index row, Index row_end, Index column, Index width, T* block) {
          (*static_cast<const Function*>(s))(row, row_end, column, width, block);
        }) {}
};

}  // namespace fastdl::gemm
