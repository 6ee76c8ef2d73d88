// The machine that the emulation runs on: fibers for the threads of a block, a scheduler with real barriers, shared
// memory. See emulation.hpp.
#pragma once

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define FASTDL_EMULATION_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FASTDL_EMULATION_ASAN 1
#endif
#endif
#if defined(FASTDL_EMULATION_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

using cudaStream_t = struct CUstream_st*;

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  dim3() = default;
  explicit dim3(unsigned x_, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

namespace fastdl::cuda::emulation {

enum class Order { forward, reverse, random };

// How the launches of this host thread run.
struct Settings {
  Order order = Order::forward;
  unsigned seed = 1;
  int skipped_barrier = -1;  // this __syncthreads of every thread, counted from 0, does nothing
};
inline thread_local Settings settings;

// The kernels that this process has run, by their addresses.
class Launched {
 public:
  void add(const void* entry) {
    const std::lock_guard lock(mutex_);
    entries_.insert(entry);
  }
  std::set<const void*> all() {
    const std::lock_guard lock(mutex_);
    return entries_;
  }

 private:
  std::mutex mutex_;
  std::set<const void*> entries_;
};
inline Launched launched;

// What the kernel did wrong: a barrier not reached by all, a warp operation on threads that are not there.
struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Where in the source a thread waits. (std::source_location needs a newer Clang than we ask for.)
struct Site {
  const char* file = "";
  int line = 0;
  static constexpr Site current(const char* here = __builtin_FILE(), int at = __builtin_LINE()) { return {here, at}; }
  bool operator==(const Site& other) const { return line == other.line && std::strcmp(file, other.file) == 0; }
};

struct Position {
  unsigned x, y, z;
};

enum class State { ready, at_barrier, in_warp, ended };

// One CUDA thread. Its fiber is used again for every block and launch.
struct Thread {
  ucontext_t context;
  char* stack = nullptr;
  void* sanitizer_stack = nullptr;
  Position index{};
  unsigned number = 0;
  int barriers = 0;  // passed so far
  State state = State::ended;
  Site where;
  // A warp operation: who takes part, what this thread gives, and, once all are there, what everyone gave.
  unsigned mask = 0;
  std::uint64_t given = 0;
  std::array<std::uint64_t, 32> received{};
};

class Machine {
 public:
  Machine() = default;
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  ~Machine() { release_fibers(); }

  // The stream that the last call was told to work on: on no other may anything be launched.
  cudaStream_t stream = nullptr;

  void run(const char* name, const void* entry, dim3 grid, dim3 block, std::size_t shared_bytes,
           cudaStream_t launched_on, const std::function<void()>& kernel) {
    const std::size_t count = std::size_t(block.x) * block.y * block.z;
    name_ = name, grid_ = grid, block_ = block, kernel_ = &kernel;
    if (count == 0 || count > 1024 || block.z > 64 || grid.x == 0 || grid.x > 0x7fffffffu || grid.y - 1 >= 65535u ||
        grid.z - 1 >= 65535u)
      fail("a grid and blocks that a device can run", std::to_string(grid.x) + " x " + std::to_string(grid.y) + " x " +
                                                          std::to_string(grid.z) + " blocks of " +
                                                          std::to_string(count) + " threads");
    if (launched_on != stream) fail("a launch on the caller's stream", "one on another");
    launched.add(entry);
    prepare_fibers(count);
    std::mt19937 random(settings.seed);
    const std::uint64_t blocks = std::uint64_t{grid.x} * grid.y * grid.z;
    for (std::uint64_t i = 0; i < blocks; ++i) {
      // Backwards as the threads, for what blocks do to each other.
      const std::uint64_t b = settings.order == Order::reverse ? blocks - 1 - i : i;
      place_ = {unsigned(b % grid.x), unsigned(b / grid.x % grid.y), unsigned(b / grid.x / grid.y)};
      shared_.clear();
      dynamic_ = allocate(shared_bytes);
      run_block(random);
    }
  }

  // ---- called by the threads ----

  Thread& thread() { return *running_; }
  Position place() const { return place_; }
  dim3 block() const { return block_; }
  dim3 grid() const { return grid_; }
  void* dynamic() { return dynamic_.get(); }

  // The shared variable declared at `where`, one a line: the first thread to come makes it.
  void* shared(std::size_t bytes, const Site& where) {
    for (const Shared& variable : shared_)
      if (variable.where == where && variable.bytes == bytes) return variable.memory.get();
    shared_.push_back({where, bytes, allocate(bytes)});
    return shared_.back().memory.get();
  }

  void barrier(const Site& where) {
    if (running_->barriers++ == settings.skipped_barrier) return;
    running_->where = where;
    wait(State::at_barrier);
  }

  // Everyone in `mask` meets here; afterwards `received` holds what each lane gave. Returns the lanes that took part.
  unsigned meet(unsigned mask, std::uint64_t given, const Site& where) {
    Thread& self = *running_;
    self.mask = mask & lanes_of(self.number / 32);
    if (!(self.mask >> self.number % 32 & 1)) fail("a mask with the calling lane in it", "another at " + text(where));
    self.given = given, self.where = where;
    wait(State::in_warp);
    return self.mask;
  }

  [[noreturn]] void fail(const std::string& expected, const std::string& got) const {
    throw Fault("[" + std::string(name_) + "] expected " + expected + ", got " + got);
  }

  static std::string text(const Site& where) {
    const std::string file = where.file;
    return file.substr(file.find_last_of('/') + 1) + ":" + std::to_string(where.line);
  }

 private:
  struct Cancelled {};  // unwinds a fiber whose block has failed
  struct Free {
    void operator()(char* memory) const { ::operator delete(memory, std::align_val_t(16)); }
  };
  using Memory = std::unique_ptr<char, Free>;
  struct Shared {
    Site where;
    std::size_t bytes;
    Memory memory;
  };

  static Memory allocate(std::size_t bytes) {
    Memory memory(static_cast<char*>(::operator new(bytes, std::align_val_t(16))));
    std::memset(memory.get(), 0xff, bytes);
    return memory;
  }

  unsigned lanes_of(unsigned warp) const {
    const std::size_t here = count_ - std::size_t(warp) * 32;
    return here >= 32 ? ~0u : (1u << here) - 1;
  }

  // ---- the scheduler ----

  void run_block(std::mt19937& random) {
    order_.resize(count_);
    for (unsigned t = 0; t < count_; ++t) {
      Thread& thread = *threads_[t];
      thread.number = t;
      thread.index = {t % block_.x, t / block_.x % block_.y, t / block_.x / block_.y};
      thread.barriers = 0;
      thread.state = State::ready;
      order_[settings.order == Order::reverse ? count_ - 1 - t : t] = &thread;
    }
    try {
      do {
        if (settings.order == Order::random) std::shuffle(order_.begin(), order_.end(), random);
        for (Thread* thread : order_) {
          if (thread->state == State::ready) resume(*thread);
          if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
        }
      } while (release_warps() || release_barrier());
    } catch (...) {
      cancelled_ = true;
      for (Thread* thread : order_)
        if (thread->state != State::ended) resume(*thread);
      cancelled_ = false;
      failure_ = nullptr;
      throw;
    }
  }

  // Lets the complete warp operations go on; false if there was none.
  bool release_warps() {
    bool released = false;
    for (std::size_t t = 0; t < count_; ++t) {
      Thread& first = *threads_[t];
      if (first.state != State::in_warp) continue;
      const std::size_t base = t / 32 * 32;
      const auto lane = [&](unsigned l) -> Thread& { return *threads_[base + l]; };
      bool complete = true;
      for (unsigned l = 0; l < 32; ++l)
        if (first.mask >> l & 1)
          complete &= lane(l).state == State::in_warp && lane(l).mask == first.mask && lane(l).where == first.where;
      if (!complete) continue;
      std::array<std::uint64_t, 32> given{};
      for (unsigned l = 0; l < 32; ++l)
        if (first.mask >> l & 1) given[l] = lane(l).given;
      const unsigned mask = first.mask;
      for (unsigned l = 0; l < 32; ++l)
        if (mask >> l & 1) lane(l).received = given, lane(l).state = State::ready;
      released = true;
    }
    return released;
  }

  // Lets the block pass a barrier that all threads have reached; false if all have ended.
  bool release_barrier() {
    const auto in = [&](State state) {
      return std::size_t(std::count_if(order_.begin(), order_.end(), [&](Thread* t) { return t->state == state; }));
    };
    const std::size_t ended = in(State::ended), waiting = in(State::at_barrier);
    if (ended == count_) return false;
    const Thread& stuck =
        **std::find_if(order_.begin(), order_.end(), [](Thread* t) { return t->state != State::ended; });
    const bool one_place =
        std::all_of(order_.begin(), order_.end(), [&](Thread* t) { return t->where == stuck.where; });
    if (waiting != count_ || !one_place)
      fail("all " + std::to_string(count_) + " threads of block (" + std::to_string(place_.x) + ", " +
               std::to_string(place_.y) + ", " + std::to_string(place_.z) + ") at one barrier",
           std::to_string(waiting) + " at barriers, " + std::to_string(in(State::in_warp)) + " at warp operations, " +
               std::to_string(ended) + " ended; thread " + std::to_string(stuck.number) + " waits at " +
               text(stuck.where));
    for (Thread* thread : order_) thread->state = State::ready;
    return true;
  }

  // ---- fibers ----

  void resume(Thread& thread) {
    running_ = &thread;
#if defined(FASTDL_EMULATION_ASAN)
    void* own = nullptr;
    __sanitizer_start_switch_fiber(&own, thread.stack, stack_bytes);
#endif
    swapcontext(&scheduler_, &thread.context);
#if defined(FASTDL_EMULATION_ASAN)
    __sanitizer_finish_switch_fiber(own, nullptr, nullptr);
#endif
    running_ = nullptr;
  }

  void yield(Thread& thread) {
#if defined(FASTDL_EMULATION_ASAN)
    __sanitizer_start_switch_fiber(&thread.sanitizer_stack, scheduler_stack_, scheduler_stack_bytes_);
#endif
    swapcontext(&thread.context, &scheduler_);
    arrived(thread);
  }

  void arrived([[maybe_unused]] Thread& thread) {
#if defined(FASTDL_EMULATION_ASAN)
    __sanitizer_finish_switch_fiber(thread.sanitizer_stack, &scheduler_stack_, &scheduler_stack_bytes_);
#endif
  }

  void wait(State state) {
    Thread& self = *running_;
    self.state = state;
    yield(self);
    if (cancelled_) throw Cancelled{};
  }

  void live(Thread& thread) {
    arrived(thread);
    for (;;) {
      try {
        (*kernel_)();
      } catch (const Cancelled&) {
      } catch (...) {
        if (!failure_) failure_ = std::current_exception();
      }
      thread.state = State::ended;
      yield(thread);
    }
  }

  // makecontext passes integers only.
  static void enter(unsigned machine_low, unsigned machine_high, unsigned number) {
    const auto address = std::uintptr_t(machine_high) << 16 << 16 | machine_low;
    Machine& machine = *reinterpret_cast<Machine*>(address);
    machine.live(*machine.threads_[number]);
  }

  // Kept from launch to launch: making 256 stacks takes longer than most test launches. A guard page ends each.
  void prepare_fibers(std::size_t count) {
    count_ = count;
    const std::size_t guard = std::size_t(sysconf(_SC_PAGESIZE));
    while (threads_.size() < count) {
      void* memory = mmap(nullptr, guard + stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (memory == MAP_FAILED) throw std::bad_alloc();
      mprotect(memory, guard, PROT_NONE);
      threads_.push_back(std::make_unique<Thread>());
      Thread& thread = *threads_.back();
      thread.stack = static_cast<char*>(memory) + guard;
      getcontext(&thread.context);
      thread.context.uc_stack.ss_sp = thread.stack;
      thread.context.uc_stack.ss_size = stack_bytes;
      thread.context.uc_link = nullptr;
      const auto address = reinterpret_cast<std::uintptr_t>(this);
      makecontext(&thread.context, reinterpret_cast<void (*)()>(enter), 3, unsigned(address),
                  unsigned(address >> 16 >> 16), unsigned(threads_.size() - 1));
    }
  }

  void release_fibers() {
    const std::size_t guard = std::size_t(sysconf(_SC_PAGESIZE));
    for (const auto& thread : threads_) {
#if defined(FASTDL_EMULATION_ASAN)
      __asan_unpoison_memory_region(thread->stack, stack_bytes);
#endif
      munmap(thread->stack - guard, guard + stack_bytes);
    }
  }

  static constexpr std::size_t stack_bytes = 256 << 10;  // reserved; only what is touched becomes memory

  const char* name_ = "";
  dim3 grid_, block_;
  Position place_{};
  const std::function<void()>* kernel_ = nullptr;
  std::size_t count_ = 0;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<Thread*> order_;
  std::vector<Shared> shared_;
  Memory dynamic_;
  ucontext_t scheduler_{};
  Thread* running_ = nullptr;
  bool cancelled_ = false;
  std::exception_ptr failure_;
  [[maybe_unused]] const void* scheduler_stack_ = nullptr;
  [[maybe_unused]] std::size_t scheduler_stack_bytes_ = 0;
};

inline thread_local Machine machine;

inline void run(const char* name, const void* entry, dim3 grid, dim3 block, std::size_t shared_bytes,
                cudaStream_t stream, const std::function<void()>& kernel) {
  machine.run(name, entry, grid, block, shared_bytes, stream, kernel);
}

}  // namespace fastdl::cuda::emulation
