// The size of the cache that blocks are cut to.
#pragma once

#include <cstdint>

namespace fastdl::core {

// Bytes of the L2 cache of one core; 512 KB where the system does not tell. Only speed depends on it.
std::int64_t l2_bytes();

}  // namespace fastdl::core
