// What happens to the finished sums of a row, while they are in L1.
#pragma once

#include <type_traits>

#include "gemm/tile.hpp"

namespace fastdl::gemm {
namespace {

// An epilogue maps a vector of finished sums, lane l belonging to (row, column + l); lanes past the last column hold
// any value, and their result is dropped. This one leaves them as they are. One with a long chain of operations may
// have `along(values, row, column, count)` as well, which maps up to `longest` contiguous sums in loops of its own
// choosing, and may overwrite values up to the next whole vector; one that is made of others has `whole(c, row, column,
// count)` alone.
struct Identity {};
inline constexpr Index longest = 256;

// Applies the epilogue to `count` finished sums of a row, which begin at the corner of c and are (row, column) of the
// whole.
template <class T, class Epilogue>
void finish_row(const Epilogue& epilogue, Output<T> c, Index row, Index column, Index count) {
  constexpr int step = simd::lanes<T>;
  if constexpr (requires { epilogue.whole(c, row, column, count); }) {
    epilogue.whole(c, row, column, count);
  } else if constexpr (requires { epilogue.along(c.data, row, column, count); }) {
    T values[longest];
    for (Index j = 0; j < count; j += longest) {
      const Index here = at_most(longest, count - j);
      const Output<T> from = c.at(0, j);
      for (Index i = 0; i < here; ++i) values[i] = from.data[i * from.stride_column];
      for (Index i = here; i < round_up(here, step); ++i) values[i] = 0;
      epilogue.along(values, row, column + j, here);
      for (Index i = 0; i < here; ++i) from.data[i * from.stride_column] = values[i];
    }
  } else if (c.stride_column == 1) {
    Index j = 0;
    for (; j + step <= count; j += step) simd::store(c.data + j, epilogue(simd::load(c.data + j), row, column + j));
    if (const int rest = int(count - j); rest > 0)
      simd::store_first(c.data + j, epilogue(simd::load_first(c.data + j, rest), row, column + j), rest);
  } else {
    for (Index j = 0; j < count; j += step) {
      const int here = int(at_most(step, count - j));
      simd::Vec<T> sum{};
      for (int i = 0; i < here; ++i) sum[i] = c.data[(j + i) * c.stride_column];
      sum = epilogue(sum, row, column + j);
      for (int i = 0; i < here; ++i) c.data[(j + i) * c.stride_column] = sum[i];
    }
  }
}

// Any epilogue, behind a pointer that is called once a row of a part: the engine is compiled once for all of them.
template <class T>
struct Finish {
  const void* self = nullptr;
  void (*apply)(const void* self, Output<T> c, Index row, Index column, Index count) = nullptr;

  template <class Epilogue>
  explicit Finish(const Epilogue& epilogue) : self(&epilogue) {
    if constexpr (!std::is_same_v<Epilogue, Identity>)
      apply = [](const void* s, Output<T> c, Index row, Index column, Index count) {
        finish_row(*static_cast<const Epilogue*>(s), c, row, column, count);
      };
  }

  explicit operator bool() const { return apply != nullptr; }
  void operator()(Output<T> c, Index row, Index column, Index count) const { apply(self, c, row, column, count); }
};

}  // namespace
}  // namespace fastdl::gemm
