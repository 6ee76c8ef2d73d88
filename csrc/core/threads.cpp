#include "core/threads.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif
#if !defined(_WIN32)
#include <pthread.h>
#endif

#include "core/error.hpp"
#include "core/interrupt.hpp"

namespace fastdl::core {
namespace {

// A helper that wakes on its caller's processor takes turns with it, until the scheduler looks again some milliseconds
// later: a product of that length then gained nothing from two threads (512 cubed: 76 of 145 GF/s). So it may not run
// there for a moment, from before it is woken until it is at work. (A caller that yields instead loses a whole slice to
// any other process: 3.9 ms for a convolution of 0.15.)
#if defined(__linux__)
int this_cpu() { return sched_getcpu(); }

struct Place {
  pthread_t thread = pthread_self();
  bool asleep = false, moved = false;
  cpu_set_t allowed;

  // Keeps the thread off a processor, if it has another one.
  void leave(int other) {
    if (other < 0 || moved || pthread_getaffinity_np(thread, sizeof allowed, &allowed) != 0) return;
    cpu_set_t rest = allowed;
    CPU_CLR(static_cast<unsigned>(other), &rest);
    moved = CPU_COUNT(&rest) > 0 && pthread_setaffinity_np(thread, sizeof rest, &rest) == 0;
  }
  void come_back() {
    if (moved) pthread_setaffinity_np(thread, sizeof allowed, &allowed);
    moved = false;
  }
};
#else
int this_cpu() { return -1; }

struct Place {
  bool asleep = false;
  void leave(int) {}
  void come_back() {}
};
#endif

struct Job {
  void (*task)(void*, std::int64_t);
  void* context;
  std::int64_t count, phase;  // of all tasks, and of one phase
  int caller_cpu = this_cpu();
  std::atomic<std::int64_t> next{0}, finished{0};
  std::atomic<int> helpers_inside{0};
  std::atomic<bool> failed{false};
  // The rest is guarded by the pool's mutex.
  int helpers_wanted;
  std::exception_ptr error;
  Job* following = nullptr;

  Job(std::int64_t phases, std::int64_t in_phase, int helpers, void (*task_)(void*, std::int64_t), void* context_)
      : task(task_), context(context_), count(phases * in_phase), phase(in_phase), helpers_wanted(helpers) {}
};

thread_local bool inside_task = false;
thread_local bool is_helper = false;
thread_local const Job* current_job = nullptr;
thread_local int thread_limit = 0;

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// A wake-up costs 5-50 us, as much as a small product: what is awaited soon is watched for about that long first.
template <class Ready>
bool watch_for(Ready ready) {
  for (int i = 0; i < 2000; ++i) {
    if (ready()) return true;
    pause();
  }
  return false;
}

class Pool {
 public:
  void run(Job& job) {
    const int helpers = job.helpers_wanted;
    {
      std::lock_guard lock(mutex_);
      start_workers(job.helpers_wanted);
      job.following = open_;
      open_ = &job;
      open_count_.fetch_add(1, std::memory_order_release);
      for (Place* place : places_)
        if (place->asleep || nobody_came_) place->leave(job.caller_cpu);
    }
    if (job.helpers_wanted == 1)
      wake_.notify_one();
    else
      wake_.notify_all();
    work_on(job);
    std::unique_lock lock(mutex_);
    close(job);
    nobody_came_ = job.helpers_wanted == helpers;
    lock.unlock();
    const auto alone = [&] { return job.helpers_inside.load(std::memory_order_acquire) == 0; };
    watch_for(alone);
    lock.lock();
    // The last tasks of others may be long: signals are asked for meanwhile, without the lock, as that takes the GIL.
    while (!done_.wait_for(lock, std::chrono::milliseconds(20), alone)) {
      lock.unlock();
      ask_for(job);
      lock.lock();
    }
    if (job.error) std::rethrow_exception(job.error);
  }

 private:
  void start_workers(int wanted) {
    while (workers_ < wanted) {
      try {
        places_.reserve(static_cast<std::size_t>(workers_) + 1);  // in a worker nobody could be told of a failure
        std::thread([this] { serve(); }).detach();
      } catch (const std::exception&) {
        return;  // no more threads to be had: the caller does the work alone
      }
      ++workers_;
    }
  }

  void serve() {
    inside_task = is_helper = true;
    Place place;
    std::unique_lock lock(mutex_);
    places_.push_back(&place);
    for (;;) {
      Job* job = find_open();
      if (!job) {
        lock.unlock();
        watch_for([&] { return open_count_.load(std::memory_order_acquire) != 0; });  // calls often follow closely
        lock.lock();
        place.asleep = true;
        wake_.wait(lock, [&] { return (job = find_open()) != nullptr; });
        place.asleep = false;
      }
      --job->helpers_wanted;
      job->helpers_inside.fetch_add(1, std::memory_order_relaxed);
      if (job->caller_cpu == this_cpu()) place.leave(job->caller_cpu);
      place.come_back();
      lock.unlock();
      work_on(*job);
      lock.lock();
      if (job->helpers_inside.fetch_sub(1, std::memory_order_release) == 1) done_.notify_all();
    }
  }

  Job* find_open() const {
    for (Job* job = open_; job; job = job->following)
      if (job->helpers_wanted > 0 && job->next.load(std::memory_order_relaxed) < job->count) return job;
    return nullptr;
  }

  void close(Job& job) {
    Job** link = &open_;
    while (*link != &job) link = &(*link)->following;
    *link = job.following;
    open_count_.fetch_sub(1, std::memory_order_release);
  }

  void work_on(Job& job) {
    const bool was_inside = inside_task;
    inside_task = true;
    const Job* const job_around = std::exchange(current_job, &job);
    for (std::int64_t i; (i = job.next.fetch_add(1, std::memory_order_relaxed)) < job.count;) {
      // Tasks are handed out in order, so whoever has those of the phases before is at work on them. After a failure
      // nothing is begun any more, and nothing awaited.
      const std::int64_t before = i / job.phase * job.phase;
      const auto failed = [&] { return job.failed.load(std::memory_order_relaxed); };
      const auto open = [&] { return job.finished.load(std::memory_order_acquire) >= before || failed(); };
      try {
        while (!watch_for(open)) {
          check_interrupt();
          std::this_thread::yield();
        }
        if (!failed()) {
          check_interrupt();
          job.task(job.context, i);
        }
      } catch (...) {
        fail(job);
      }
      job.finished.fetch_add(1, std::memory_order_release);
    }
    inside_task = was_inside;
    current_job = job_around;
  }

  // What the caller of a job does while others finish it.
  void ask_for(Job& job) {
    if (job.failed.load(std::memory_order_relaxed)) return;
    try {
      check_interrupt();
    } catch (...) {
      fail(job);
    }
  }

  // With the exception that is being handled. The first one counts.
  void fail(Job& job) {
    std::lock_guard lock(mutex_);
    if (!job.error) job.error = std::current_exception();
    job.failed.store(true, std::memory_order_relaxed);
  }

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  Job* open_ = nullptr;
  std::atomic<int> open_count_{0};
  int workers_ = 0;
  bool nobody_came_ = false;    // to the job before: perhaps they wait for this very processor
  std::vector<Place*> places_;  // of the workers, which never end
};

// Never destroyed: workers may still wait on it while the process exits.
std::atomic<Pool*> the_pool{nullptr};

#if !defined(_WIN32)
// A forked child has the pool's memory but none of its threads: it starts over with a new one. The old one is leaked,
// since its mutex may have been held by a thread that no longer exists.
void start_over_after_fork() {
  the_pool.store(new Pool, std::memory_order_release);
  inside_task = is_helper = false;
  current_job = nullptr;
}
#endif

Pool& pool() {
  static const bool once = [] {
    the_pool.store(new Pool, std::memory_order_release);
#if !defined(_WIN32)
    pthread_atfork(nullptr, nullptr, start_over_after_fork);
#endif
    return true;
  }();
  (void)once;
  return *the_pool.load(std::memory_order_acquire);
}

// Of 50 ms or thereabouts: at 1.2 to 5 GHz, which is what time stamps count at, 24 to 100 ms.
#if defined(__x86_64__)
std::uint64_t ticks() { return __builtin_ia32_rdtsc(); }
constexpr std::uint64_t asking_interval = 120'000'000;
#else
std::uint64_t ticks() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::microseconds(1));
}
constexpr std::uint64_t asking_interval = 50'000;
#endif

std::atomic<fastdl_interrupt_check> interrupt_check{nullptr};
thread_local std::uint64_t last_asked = 0;

int default_thread_count() {
  if (const char* text = std::getenv("FASTDL_NUM_THREADS"); text && *text) {
    char* end = nullptr;
    const long n = std::strtol(text, &end, 10);
    if (*end == '\0' && n >= 1 && n <= most_threads) return static_cast<int>(n);
    std::fprintf(stderr, "fastdl: FASTDL_NUM_THREADS expected an integer from 1 to 4096, got '%s'; ignored\n", text);
  }
#if defined(__linux__)
  // The processors this process may use, which in a container or under taskset are fewer than the machine has.
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return std::max(1, CPU_COUNT(&allowed));
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

std::atomic<int>& process_threads() {
  static std::atomic<int> count{default_thread_count()};
  return count;
}

}  // namespace

int thread_count() { return thread_limit > 0 ? thread_limit : process_threads().load(std::memory_order_relaxed); }

void set_thread_count(int n) { process_threads().store(n, std::memory_order_relaxed); }

int set_thread_limit(int n) {
  const int previous = thread_limit;
  thread_limit = n;
  return previous;
}

void set_interrupt_check(fastdl_interrupt_check check) { interrupt_check.store(check, std::memory_order_relaxed); }

void begin_call() noexcept {
  if (!inside_task) last_asked = ticks();
}

void check_interrupt() {
  if (current_job && current_job->failed.load(std::memory_order_relaxed)) throw Interrupted();
  const fastdl_interrupt_check check = interrupt_check.load(std::memory_order_relaxed);
  if (!check || is_helper) return;
  const std::uint64_t now = ticks();
  if (now - last_asked < asking_interval) return;
  last_asked = now;
  // It may run handlers of signals, and they this library: what they call is no part of this job.
  const Job* const job_around = std::exchange(current_job, nullptr);
  const bool stop = check();
  current_job = job_around;
  if (stop) throw Interrupted();
}

void run_tasks(std::int64_t phases, std::int64_t count, int threads, void (*task)(void*, std::int64_t), void* context) {
  threads = static_cast<int>(std::min<std::int64_t>(threads, count));
  if (threads <= 1 || inside_task) {
    for (std::int64_t i = 0; i < phases * count; ++i) {
      check_interrupt();
      task(context, i);
    }
    return;
  }
  Job job(phases, count, threads - 1, task, context);
  pool().run(job);
}

}  // namespace fastdl::core
