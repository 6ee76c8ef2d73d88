#include "core/cache.hpp"

#include <algorithm>

#if !defined(_WIN32)
#include <unistd.h>
#endif

namespace fastdl::core {
namespace {

constexpr std::int64_t usual = std::int64_t{512} << 10;

std::int64_t ask_the_system() {
#if defined(_SC_LEVEL2_CACHE_SIZE)
  const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  // Virtual machines are known to report nonsense; blocks beyond 2 MB gain nothing.
  if (bytes > 0) return std::clamp<std::int64_t>(bytes, usual / 2, 4 * usual);
#endif
  return usual;
}

}  // namespace

std::int64_t l2_bytes() {
  static const std::int64_t bytes = ask_the_system();
  return bytes;
}

}  // namespace fastdl::core
