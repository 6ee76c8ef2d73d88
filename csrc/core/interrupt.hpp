// Stopping a call from within: the host program's check, asked now and then on the thread that made the call. (The
// functions are in threads.cpp, which knows what a thread is at work on.)
#pragma once

#include <cstdint>

#include "fastdl/fastdl.h"

namespace fastdl::core {

void set_interrupt_check(fastdl_interrupt_check check);  // null: none

// A public call begins on this thread. The check is first asked some time later, so short calls never pay for it.
void begin_call() noexcept;

// Throws Interrupted when the check, asked at most every 50 ms, says so, or when the call that this thread helps has
// failed on another one. The pool looks before every task; what loops for longer than some milliseconds without one
// looks by itself.
void check_interrupt();

// The same in a loop over samples that may take nanoseconds each: for round i of so much work (multiply-adds).
__attribute__((always_inline)) inline void check_interrupt(std::int64_t i, std::int64_t work) {
  if (i % 64 == 0 || work > 4096) check_interrupt();
}

}  // namespace fastdl::core
