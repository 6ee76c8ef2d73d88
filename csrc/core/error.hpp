// Errors are thrown inside the library and become status codes at the C boundary.
#pragma once

#include <exception>
#include <stdexcept>

#include "core/interrupt.hpp"
#include "fastdl/fastdl.h"

namespace fastdl::core {

struct InvalidArgument : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// Numbers that were computed are infinite or NaN.
struct NotFinite : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The host program wants the call to end.
struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("interrupted") {}
};

// Stores the message for fastdl_last_error() and gives the code of the exception in flight.
fastdl_status status_of_current_exception() noexcept;

// The body of every extern "C" function that can fail.
template <class Function>
fastdl_status guarded(Function&& function) noexcept {
  begin_call();
  try {
    function();
    return FASTDL_OK;
  } catch (...) {
    return status_of_current_exception();
  }
}

}  // namespace fastdl::core
