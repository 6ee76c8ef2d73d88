// Memory for large results. What Python gives back is kept, up to a limit, for the next result of about that size:
// pages fresh from the system are cleared first, which takes 7 of the 19 ms of a Gram matrix of 64 MB.
#include <pybind11/pybind11.h>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

#include "bindings/bindings.hpp"
#include "core/aligned.hpp"
#include "fastdl/fastdl.h"

namespace fastdl::bindings {
namespace {

constexpr std::size_t line = 64;
constexpr std::size_t huge_page = std::size_t{1} << 21;
// The allocator itself keeps what is smaller.
constexpr std::size_t smallest_kept = std::size_t{1} << 20;

constexpr std::size_t round_up(std::size_t n, std::size_t multiple) { return (n + multiple - 1) / multiple * multiple; }

struct Piece {
  void* data;
  std::size_t size;
};

Piece allocate(std::size_t size) {
  if (size > SIZE_MAX / 2) throw std::bad_alloc();
  const bool huge = size >= 2 * huge_page;
  // Not a whole number of huge pages: the end would be memory that nobody asked for.
  const std::size_t whole = round_up(std::max<std::size_t>(size, 1), line);
  const Piece piece{core::take_aligned(huge ? huge_page : line, whole), whole};
  if (!piece.data) throw std::bad_alloc();
#if defined(__linux__)
  if (huge) madvise(piece.data, piece.size, MADV_HUGEPAGE);
#endif
  return piece;
}

// What was given back, the oldest first. A lock that is not free at once (it may have been held while the process was
// forked) means an ordinary allocation.
class Kept {
 public:
  Piece take(std::size_t size) {
    if (size >= smallest_kept)
      if (const std::unique_lock lock(mutex_, std::try_to_lock); lock) {
        // The newest that is not much larger: its pages are the likeliest to be in a cache.
        const auto fits = [&](const Piece& p) { return p.size >= size && p.size - size <= size / 8; };
        if (const auto found = std::find_if(pieces_.rbegin(), pieces_.rend(), fits); found != pieces_.rend()) {
          const Piece piece = *found;
          pieces_.erase(std::next(found).base());
          bytes_ -= piece.size;
          return piece;
        }
      }
    return allocate(size);
  }

  void give_back(Piece piece) noexcept {
    const std::size_t most = limit();
    if (piece.size >= smallest_kept && piece.size <= most)
      if (const std::unique_lock lock(mutex_, std::try_to_lock); lock) try {
          pieces_.push_back(piece);
          bytes_ += piece.size;
          while (bytes_ > most) drop_oldest();
          return;
        } catch (const std::bad_alloc&) {
        }
    core::release_aligned(piece.data);
  }

 private:
  // 32 MB a thread, and no more than 256, unless FASTDL_KEEP_MB says otherwise.
  static std::size_t limit() {
    static const long asked = [] {
      const char* text = std::getenv("FASTDL_KEEP_MB");
      char* end = nullptr;
      const long value = text ? std::strtol(text, &end, 10) : -1;
      return text && end != text && *end == '\0' ? std::clamp(value, 0L, 1L << 30) : -1;
    }();
    return static_cast<std::size_t>(asked >= 0 ? asked : std::min(32L * fastdl_get_num_threads(), 256L)) << 20;
  }

  void drop_oldest() {
    bytes_ -= pieces_.front().size;
    core::release_aligned(pieces_.front().data);
    pieces_.erase(pieces_.begin());
  }

  std::mutex mutex_;
  std::vector<Piece> pieces_;
  std::size_t bytes_ = 0;
};

// Never destroyed: arrays may outlive the module.
Kept& kept() {
  static Kept* const all = new Kept;
  return *all;
}

class Room {
 public:
  explicit Room(std::size_t size) : piece_(kept().take(size)), size_(size) {}
  ~Room() { kept().give_back(piece_); }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  py::buffer_info view() const { return {static_cast<unsigned char*>(piece_.data), static_cast<py::ssize_t>(size_)}; }

 private:
  Piece piece_;
  std::size_t size_;
};

}  // namespace

void register_room(py::module_& module) {
  py::class_<Room>(module, "Room", py::buffer_protocol(), "Bytes for a result, from a cache line on.")
      .def(py::init<std::size_t>(), py::arg("size"))
      .def_buffer([](const Room& room) { return room.view(); });
}

}  // namespace fastdl::bindings
