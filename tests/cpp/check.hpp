// Counts checks and prints the failed ones.
#pragma once

#include <cstdio>

inline int passed = 0, failed = 0;

#define CHECK(condition, ...)                                     \
  do {                                                            \
    if (condition) {                                              \
      ++passed;                                                   \
    } else {                                                      \
      ++failed;                                                   \
      std::printf("%s:%d: %s: ", __FILE__, __LINE__, #condition); \
      std::printf(__VA_ARGS__);                                   \
      std::printf("\n");                                          \
    }                                                             \
  } while (false)

inline int summary() {
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed ? 1 : 0;
}
