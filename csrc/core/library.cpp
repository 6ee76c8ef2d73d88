// The parts of the C interface that belong to no family: errors, version, instruction sets, threads.
#include <new>
#include <string>

#include "core/error.hpp"
#include "core/isa.hpp"
#include "core/threads.hpp"
#include "fastdl/fastdl.h"

namespace fastdl::core {
namespace {
// A fixed array: storing the message of a failed allocation must not allocate.
thread_local char last_error[512] = "";

void remember(const char* message) noexcept {
  std::size_t i = 0;
  for (; message[i] && i + 1 < sizeof last_error; ++i) last_error[i] = message[i];
  last_error[i] = '\0';
}
}  // namespace

fastdl_status status_of_current_exception() noexcept {
  try {
    throw;
  } catch (const InvalidArgument& error) {
    remember(error.what());
    return FASTDL_INVALID_ARGUMENT;
  } catch (const NotFinite& error) {
    remember(error.what());
    return FASTDL_NOT_FINITE;
  } catch (const Interrupted& error) {
    remember(error.what());
    return FASTDL_INTERRUPTED;
  } catch (const std::bad_alloc&) {
    remember("expected room for scratch buffers, got an allocation failure");
    return FASTDL_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    remember(error.what());
  } catch (...) {
    remember("unknown error");
  }
  return FASTDL_INTERNAL;
}
}  // namespace fastdl::core

using namespace fastdl;

const char* fastdl_last_error(void) { return core::last_error; }
const char* fastdl_version(void) { return FASTDL_VERSION; }
const char* fastdl_build_info(void) { return FASTDL_BUILD_INFO; }

int fastdl_isa_count(void) { return static_cast<int>(core::available_isas().size()); }

const char* fastdl_isa_name(int index) {
  if (index < 0 || index >= fastdl_isa_count()) return nullptr;
  return core::name_of(core::available_isas()[static_cast<std::size_t>(index)]);
}

const char* fastdl_isa(void) { return core::name_of(core::active_isa()); }

fastdl_status fastdl_set_isa(const char* name) {
  return core::guarded([&] { core::set_active_isa(name); });
}

int fastdl_get_num_threads(void) { return core::thread_count(); }

fastdl_status fastdl_set_num_threads(int n) {
  return core::guarded([&] {
    if (n < 1 || n > core::most_threads)
      throw core::InvalidArgument("[set_num_threads] expected n from 1 to 4096, got " + std::to_string(n));
    core::set_thread_count(n);
  });
}

void fastdl_set_interrupt_check(fastdl_interrupt_check check) { core::set_interrupt_check(check); }

int fastdl_set_thread_limit(int n) { return n < 0 || n > core::most_threads ? -1 : core::set_thread_limit(n); }
