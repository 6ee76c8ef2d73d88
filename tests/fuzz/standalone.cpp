// The fuzz target without libFuzzer: so many cases of bytes that are the same in every run, for any compiler.
//   fuzz_standalone [cases] [first]; with FASTDL_FUZZ_VERBOSE=1 the number of a case is printed before it
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int count, char** arguments) {
  const long cases = count > 1 ? std::atol(arguments[1]) : 2000, first = count > 2 ? std::atol(arguments[2]) : 0;
  const bool verbose = std::getenv("FASTDL_FUZZ_VERBOSE") != nullptr;
  double slowest = 0;
  long which = 0;
  std::vector<std::uint8_t> bytes;
  for (long i = first; i < first + cases; ++i) {
    // splitmix64, begun anew for every case, so that one that fails is run again by its number
    std::uint64_t state = 0x9e3779b97f4a7c15 * std::uint64_t(i + 1);
    const auto next = [&] {
      std::uint64_t z = (state += 0x9e3779b97f4a7c15);
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
      z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
      return z ^ (z >> 31);
    };
    bytes.resize(64 + next() % 256);
    for (std::uint8_t& byte : bytes) byte = std::uint8_t(next());
    if (verbose) std::fprintf(stderr, "case %ld\n", i);
    const auto begin = std::chrono::steady_clock::now();
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (seconds > slowest) slowest = seconds, which = i;
  }
  fuzz::print_counts();
  std::printf("the slowest is case %ld with %.3f s\n", which, slowest);
  std::printf("%ld passed, 0 failed\n", cases);
  return 0;
}
