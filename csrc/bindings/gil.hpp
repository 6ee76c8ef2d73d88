// The GIL, released for the time of a call.
#pragma once

#include <Python.h>

#include <chrono>
#include <thread>

namespace fastdl::bindings {

// As pybind11::gil_scoped_release, but for threads that find the interpreter gone when they want the GIL back: Python
// before 3.14 ends such a thread by unwinding its stack, which would release arrays that are no longer theirs to touch,
// and end the process where it comes to a destructor. Here it stays where it is until the process ends, as in 3.14.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil() {
    try {
      PyEval_RestoreThread(state_);
    } catch (...) {
      for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
    }
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace fastdl::bindings
