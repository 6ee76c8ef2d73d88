// A libFuzzer target on the whole C interface: the first bytes choose the instruction set, the family and the function,
// the others its arguments. Without libFuzzer standalone.cpp calls it.
#include <map>

#include "fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
// A scratch buffer that is too large for the machine is refused, as it would be without the sanitizer.
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options();
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1:max_allocation_size_mb=1024"; }

namespace fuzz {

namespace {

std::map<std::string, Counts>& all_counts() {
  static std::map<std::string, Counts> all;
  return all;
}

}  // namespace

Counts& counts_of(const char* name) { return all_counts()[name]; }

void print_counts() {
  for (const auto& [name, counts] : all_counts())
    std::printf("%-32s %7ld succeeded %7ld refused %5ld other %6ld skipped\n", name.c_str(), counts.succeeded,
                counts.refused, counts.other, counts.skipped);
}

namespace {

void core_case(Case& c) {
  static constexpr const char* names[] = {nullptr, "", "pentium", "baseline", "avx2", "avx512", "neon"};
  static constexpr int numbers[] = {1, 2, 3, 0, -1, 4097, INT32_MIN, INT32_MAX};
  const char* name = names[c.below(std::size(names))];
  const int number = numbers[c.below(std::size(numbers))];
  if (!name || !*name || std::strcmp(name, "pentium") == 0) c.refuse();
  switch (c.below(4)) {
    case 0:
      c.call("set_isa", [&] { return fastdl_set_isa(name); });
      break;
    case 1: {
      Case other(nullptr, 0);
      if (number < 1 || number > 4096) other.refuse();
      other.call("set_num_threads", [&] { return fastdl_set_num_threads(number); });
      break;
    }
    case 2: {
      const bool valid = number >= 0 && number <= 4096;
      if ((fastdl_set_thread_limit(number) == -1) == valid || fastdl_get_num_threads() < 1) std::abort();
      fastdl_set_thread_limit(0);
      break;
    }
    default: {
      const char* level = fastdl_isa_name(number);
      const bool there = number >= 0 && number < fastdl_isa_count();
      if ((level != nullptr) != there || !fastdl_isa() || !fastdl_version() || !fastdl_build_info()) std::abort();
      // One that never stops a call, from now on, or none.
      fastdl_set_interrupt_check(number > 1 ? +[] { return 0; } : nullptr);
      (void)fastdl_kernel_default(static_cast<fastdl_kernel_kind>(number), c.special());
    }
  }
}

}  // namespace
}  // namespace fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Case c(data, size);
  fastdl_set_isa(fastdl_isa_name(c.byte() % fastdl_isa_count()));
  switch (c.below(17)) {
    case 0:
    case 1:
    case 2:
    case 3:
      fuzz::gram_case(c);
      break;
    case 4:
    case 5:
    case 6:
    case 7:
      fuzz::conv_case(c);
      break;
    case 8:
    case 9:
    case 10:
      fuzz::group_case(c);
      break;
    case 11:
    case 12:
    case 13:
      fuzz::hebbian_case(c);
      break;
    case 14:
    case 15:
      fuzz::scattering_case(c);
      break;
    default:
      fuzz::core_case(c);
  }
  return 0;
}
