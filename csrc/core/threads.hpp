// The one thread pool.
//
// A call splits its work into numbered tasks, fixed by the problem and never by which thread runs them, so that
// results are the same for any number of threads. The calling thread always takes part and helpers only join it:
// a call finishes even when every helper is busy with another caller's work, so many threads may call at once.
#pragma once

#include <cstdint>

namespace fastdl::core {

// The number of threads a call on this thread may use: this thread's limit if it has one, else the process-wide count.
int thread_count();
inline constexpr int most_threads = 4096;  // more is a slip
void set_thread_count(int n);              // n >= 1
int set_thread_limit(int n);               // 0: none; returns the previous limit

// task(context, i) for every i in [0, phases*count), on up to `threads` threads; returns when all are done. A task
// begins only when every task of the phases before its own, i / count, is done. Runs on the calling thread alone when
// threads <= 1 or when called from within a task. The first exception of a task is thrown again here, and tasks not
// yet begun are then skipped. Looks before every task whether the call is to stop (interrupt.hpp).
void run_tasks(std::int64_t phases, std::int64_t count, int threads, void (*task)(void*, std::int64_t), void* context);

// function(phase, i) for every phase in turn, and every i in [0, count) of it in parallel.
template <class Function>
void parallel_phases(std::int64_t phases, std::int64_t count, int threads, Function&& function) {
  struct Context {
    Function& function;
    std::int64_t count;
  } context{function, count};
  run_tasks(
      phases, count, threads,
      [](void* c, std::int64_t i) {
        const Context& call = *static_cast<Context*>(c);
        call.function(i / call.count, i % call.count);
      },
      &context);
}

template <class Function>
void parallel_for(std::int64_t count, int threads, Function&& function) {
  run_tasks(1, count, threads, [](void* context, std::int64_t i) { (*static_cast<Function*>(context))(i); }, &function);
}

}  // namespace fastdl::core
