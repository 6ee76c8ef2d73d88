#include "core/scratch.hpp"

#include <algorithm>
#include <cstdint>
#include <new>
#include <vector>

#include "core/aligned.hpp"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace fastdl::core {
namespace {

constexpr std::size_t alignment = 64;
constexpr std::size_t page = 4096;
constexpr std::size_t huge_page = std::size_t{1} << 21;
// What a thread keeps between calls; larger blocks go back to the system when the last frame closes.
constexpr std::size_t keep_at_most = std::size_t{32} << 20;

constexpr std::size_t round_up(std::size_t n, std::size_t multiple) { return (n + multiple - 1) / multiple * multiple; }

struct Block {
  char* data;
  std::size_t size;
};

Block allocate(std::size_t size) {
  const std::size_t granule = size >= huge_page ? huge_page : page;
  size = round_up(size, granule);
  auto* data = static_cast<char*>(take_aligned(granule, size));
  if (!data) throw std::bad_alloc();
#if defined(__linux__)
  // Packed panels are walked with a stride of many pages: huge pages save the TLB misses.
  if (granule == huge_page) madvise(data, size, MADV_HUGEPAGE);
#endif
  return {data, size};
}

// The size that is wanted, or if that cannot be had what is needed.
Block allocate_at_least(std::size_t needed, std::size_t wanted) {
  if (wanted > needed) try {
      return allocate(wanted);
    } catch (const std::bad_alloc&) {
    }
  return allocate(needed);
}

// Blocks in use are blocks_[0 .. current]; a block never moves while a frame points into it.
struct Arena {
  std::vector<Block> blocks;
  std::size_t current = 0, used = 0;
  std::size_t peak = 0, together = 0;  // of this call, and what the next one begins with
  int frames = 0;

  ~Arena() { release_from(0); }

  void release_from(std::size_t first) {
    for (std::size_t i = first; i < blocks.size(); ++i) release_aligned(blocks[i].data);
    blocks.resize(first);
  }

  void* take(std::size_t size) {
    if (size > SIZE_MAX / 2) throw std::bad_alloc();  // so that no sum below can wrap
    size = round_up(std::max<std::size_t>(size, 1), alignment);
    while (current < blocks.size() && used + size > blocks[current].size) {
      ++current;
      used = 0;
    }
    if (current == blocks.size()) {
      const std::size_t wanted = blocks.empty() ? together : std::min(2 * blocks.back().size, keep_at_most);
      blocks.reserve(blocks.size() + 1);
      blocks.push_back(allocate_at_least(size, wanted));
    }
    void* result = blocks[current].data + used;
    used += size;
    std::size_t taken = used;
    for (std::size_t i = 0; i < current; ++i) taken += blocks[i].size;
    peak = std::max(peak, taken);
    return result;
  }

  // With no frame open, several blocks make way for one as large as what was taken, if that may be kept, when the next
  // call comes: one of the same kind then finds all it needs in one piece. (The largest of them alone held most of it,
  // and peaks were larger by the rest.) Of more than that the last and largest is kept, if it may be.
  void settle() {
    together = blocks.size() > 1 && peak <= keep_at_most ? round_up(peak, page) : 0;
    peak = 0;
    if (blocks.size() > 1) {
      if (together > 0) return release_from(0);
      std::swap(blocks.front(), blocks.back());
    }
    release_from(blocks.empty() || blocks.front().size <= keep_at_most ? std::min<std::size_t>(1, blocks.size()) : 0);
  }
};

thread_local Arena arena;

}  // namespace

Scratch::Scratch() noexcept : block_(arena.current), used_(arena.used) { ++arena.frames; }

Scratch::~Scratch() {
  arena.current = block_;
  arena.used = used_;
  if (--arena.frames == 0) arena.settle();
}

void* Scratch::bytes(std::size_t size) { return arena.take(size); }

}  // namespace fastdl::core
