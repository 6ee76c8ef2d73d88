// Strides and addresses that can be computed with.
#pragma once

#include <cstdint>

namespace fastdl::core {

// An axis of one element may have any stride, of which not even a small multiple need be a number; 1 does as well. So
// it is with all axes of an array that is empty along one of the others.
constexpr std::int64_t usable_stride(std::int64_t extent, std::int64_t stride, std::int64_t others = 1) {
  constexpr std::int64_t far = std::int64_t{1} << 48;
  return (extent > 1 && others > 0) || (stride > -far && stride < far) ? stride : 1;
}

// What is empty may be null, on from which an address may not be counted, not even of an element that nobody looks at.
inline double nothing = 0;
template <class T>
T* usable_data(T* data) {
  return data ? data : reinterpret_cast<T*>(&nothing);
}

}  // namespace fastdl::core
