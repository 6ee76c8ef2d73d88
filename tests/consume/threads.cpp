// The same bits from any number of threads, from many callers at once, and from a process that was forked.
#include <fastdl/gram.hpp>

#include <cstdio>
#include <thread>
#include <vector>
#if !defined(_WIN32)
#include <sys/wait.h>
#include <unistd.h>
#endif

namespace {

constexpr std::int64_t n = 700, d = 40;
std::vector<float> points(n* d), expected(n* n);

bool as_expected() {
  std::vector<float> K(n * n);
  fastdl::gram::gram(fastdl::gram::kernel(FASTDL_RBF, d), {points.data(), n, d},
                     fastdl::MatrixView<float>{K.data(), n, n});
  return K == expected;
}

}  // namespace

int main() {
  for (std::size_t i = 0; i < points.size(); ++i) points[i] = static_cast<float>(i * 2654435761U % 1000) / 1000;
  fastdl::throw_on_error(fastdl_set_num_threads(1));
  fastdl::gram::gram(fastdl::gram::kernel(FASTDL_RBF, d), {points.data(), n, d},
                     fastdl::MatrixView<float>{expected.data(), n, n});

  bool right = true;
  for (int threads : {1, 2, 3, 8}) {
    fastdl::throw_on_error(fastdl_set_num_threads(threads));
    right &= as_expected();
  }
  std::printf("threads: %s\n", right ? "same" : "different");

  // A limit is of the thread that sets it, and what was set before comes back.
  right = fastdl_set_thread_limit(2) == 0 && fastdl_get_num_threads() == 2;
  std::thread([&] { right &= fastdl_get_num_threads() == 8; }).join();
  right &= fastdl_set_thread_limit(0) == 2 && fastdl_get_num_threads() == 8;
  std::printf("limit: %s\n", right ? "of one thread" : "of others too");

  std::vector<char> found(4, 0);
  std::vector<std::thread> callers;
  for (char& one : found) callers.emplace_back([&] { one = as_expected(); });
  for (std::thread& caller : callers) caller.join();
  right = found == std::vector<char>(4, 1);
  std::printf("callers: %s\n", right ? "same" : "different");

#if !defined(_WIN32)
  const pid_t child = fork();
  if (child == 0) _exit(as_expected() ? 0 : 1);
  int status = 1;
  waitpid(child, &status, 0);
  std::printf("forked: %s\n", status == 0 ? "same" : "different");
#endif
}
