// Thread pool, scratch buffers and the C interface's refusals.
#include <atomic>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include "check.hpp"
#include "core/scratch.hpp"
#include "core/threads.hpp"
#include "fastdl/gram.hpp"

#if !defined(_WIN32)
#include <sys/wait.h>
#include <unistd.h>
#endif

using namespace fastdl;

namespace {

void test_every_task_runs_once() {
  for (int threads : {1, 2, 3, 8})
    for (std::int64_t count : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(count));
      core::parallel_for(count, threads, [&](std::int64_t i) { ++runs[static_cast<std::size_t>(i)]; });
      bool once = true;
      for (auto& r : runs) once &= r == 1;
      CHECK(once, "%d threads, %d tasks", threads, int(count));
    }
}

// Every task sees all of the phases before its own done, and none of those after it begun.
void test_phases() {
  for (int threads : {1, 2, 4})
    for (std::int64_t count : {1, 3, 20}) {
      constexpr std::int64_t phases = 50;
      std::vector<std::atomic<std::int64_t>> done(phases);
      std::atomic<bool> in_order{true};
      core::parallel_phases(phases, count, threads, [&](std::int64_t phase, std::int64_t) {
        for (std::int64_t p = 0; p < phases; ++p) {
          const std::int64_t n = done[static_cast<std::size_t>(p)];
          if (p < phase ? n != count : p > phase && n != 0) in_order = false;
        }
        ++done[static_cast<std::size_t>(phase)];
      });
      CHECK(in_order && done[phases - 1] == count, "%d threads, %d tasks a phase", threads, int(count));
    }
  bool caught = false;
  try {
    core::parallel_phases(9, 5, 3, [](std::int64_t phase, std::int64_t i) {
      if (phase == 4 && i == 2) throw std::runtime_error("four");
      if (phase > 4) std::terminate();
    });
  } catch (const std::runtime_error&) {
    caught = true;
  }
  CHECK(caught, "an exception in a phase was lost");
}

void test_no_nesting() {
  std::atomic<int> inner{0};
  std::atomic<bool> same_thread{true};
  core::parallel_for(8, 4, [&](std::int64_t) {
    const auto id = std::this_thread::get_id();
    core::parallel_for(5, 4, [&](std::int64_t) {
      ++inner;
      if (std::this_thread::get_id() != id) same_thread = false;
    });
  });
  CHECK(inner == 40 && same_thread, "%d inner tasks", inner.load());
}

void test_exceptions_come_back() {
  for (int threads : {1, 4}) {
    bool caught = false;
    try {
      core::parallel_for(100, threads, [](std::int64_t i) {
        if (i == 13) throw std::runtime_error("thirteen");
      });
    } catch (const std::runtime_error& error) {
      caught = std::strcmp(error.what(), "thirteen") == 0;
    }
    CHECK(caught, "%d threads", threads);
  }
}

void test_many_callers() {
  std::atomic<std::int64_t> total{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 8; ++t)
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round) core::parallel_for(20, 3, [&](std::int64_t i) { total += i; });
    });
  for (auto& caller : callers) caller.join();
  CHECK(total == 8 * 200 * 190, "%lld", static_cast<long long>(total.load()));
}

void test_fork() {
#if !defined(_WIN32)
  core::parallel_for(8, 4, [](std::int64_t) {});
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    std::atomic<int> runs{0};
    core::parallel_for(8, 4, [&](std::int64_t) { ++runs; });
    _exit(runs == 8 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child's status %d", status);
#endif
}

void test_thread_limit_is_per_thread() {
  const int before = core::thread_count();
  CHECK(fastdl_set_thread_limit(3) == 0 && core::thread_count() == 3, "%d", core::thread_count());
  int elsewhere = 0;
  std::thread([&] { elsewhere = core::thread_count(); }).join();
  CHECK(elsewhere == before, "%d", elsewhere);
  CHECK(fastdl_set_thread_limit(-1) == -1 && fastdl_set_thread_limit(0) == 3, "limit lost");
  CHECK(fastdl_set_num_threads(0) == FASTDL_INVALID_ARGUMENT, "accepted 0 threads");
}

void test_scratch() {
  core::Scratch outer;
  auto* a = static_cast<unsigned char*>(outer.bytes(100));
  std::memset(a, 1, 100);
  void* again;
  {
    core::Scratch inner;
    again = inner.bytes(5 << 20);
    std::memset(again, 2, 5 << 20);
    auto* b = static_cast<unsigned char*>(inner.bytes(64));
    std::memset(b, 3, 64);
    CHECK(reinterpret_cast<std::uintptr_t>(b) % 64 == 0, "unaligned");
  }
  bool kept = true;
  for (int i = 0; i < 100; ++i) kept &= a[i] == 1;
  CHECK(kept, "an inner frame wrote into an outer one");
  core::Scratch inner;
  CHECK(inner.bytes(5 << 20) == again, "buffer not used again");
  bool thrown = false;
  try {
    inner.bytes(SIZE_MAX - 4096);
  } catch (const std::bad_alloc&) {
    thrown = true;
  }
  CHECK(thrown, "an impossible size was granted");
}

void test_refusals() {
  float data[16] = {}, out[16];
  for (float& v : out) v = 7;
  const fastdl_matrix_f32 x{data, 4, 4, 4, 1}, narrow{data, 4, 3, 4, 1}, k{out, 4, 4, 4, 1}, k_wrong{out, 4, 3, 4, 1};
  const fastdl_matrix_f32 negative{data, -1, 4, 4, 1}, none{nullptr, 4, 4, 4, 1},
      huge{data, INT64_MAX, 4, INT64_MAX, 1};
  const fastdl_matrix_f32 flat{out, 4, 4, 0, 1}, empty{nullptr, 0, 4, 4, 1}, empty_k{nullptr, 0, 0, 0, 0};
  const auto refuses = [&](const fastdl_matrix_f32* a, const fastdl_matrix_f32* b, const fastdl_matrix_f32* c,
                           const char* word) {
    const bool refused = fastdl_gram_linear_f32(a, b, c) == FASTDL_INVALID_ARGUMENT;
    CHECK(
        refused && std::strstr(fastdl_last_error(), "[gram.linear] expected") && std::strstr(fastdl_last_error(), word),
        "expected a refusal with '%s', got '%s'", word, fastdl_last_error());
  };
  refuses(nullptr, nullptr, &k, "NULL");
  refuses(&x, nullptr, nullptr, "NULL");
  refuses(&x, &narrow, &k, "4 columns");
  refuses(&x, nullptr, &k_wrong, "4 x 4");
  refuses(&negative, nullptr, &k, "extents");
  refuses(&none, nullptr, &k, "null pointer");
  refuses(&huge, nullptr, &k, "address space");
  refuses(&x, nullptr, &flat, "distinct");
  bool untouched = true;
  for (float v : out) untouched &= v == 7;
  CHECK(untouched, "an error wrote to the output");
  CHECK(fastdl_gram_linear_f32(&empty, nullptr, &empty_k) == FASTDL_OK, "%s", fastdl_last_error());
  CHECK(fastdl_set_isa("pentium") == FASTDL_INVALID_ARGUMENT && fastdl_set_isa(nullptr) == FASTDL_INVALID_ARGUMENT,
        "unknown level");
  CHECK(fastdl_isa_name(-1) == nullptr && fastdl_isa_name(99) == nullptr, "level out of range");
  bool thrown = false;
  try {
    gram::linear(MatrixView<const float>(data, 4, 4), MatrixView<float>(out, 4, 3));
  } catch (const std::invalid_argument&) {
    thrown = true;
  }
  CHECK(thrown, "the C++ wrapper did not throw");
}

}  // namespace

int main() {
  test_every_task_runs_once();
  test_phases();
  test_no_nesting();
  test_exceptions_come_back();
  test_many_callers();
  test_fork();
  test_thread_limit_is_per_thread();
  test_scratch();
  test_refusals();
  return summary();
}
