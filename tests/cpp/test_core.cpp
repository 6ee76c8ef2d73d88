// Thread pool, scratch buffers and the C interface's refusals.
#include <atomic>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include "check.hpp"
#include "core/error.hpp"
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

// A check that says no the first time and yes from then on ends a call of any length, on all its threads.
void test_interrupt() {
  static std::atomic<int> asked{0};
  for (int threads : {1, 4}) {
    asked = 0;
    std::atomic<int> begun{0};
    fastdl_set_interrupt_check([] { return ++asked > 1 ? 1 : 0; });
    const fastdl_status status = core::guarded([&] {
      core::parallel_phases(1000, 100, threads, [&](std::int64_t, std::int64_t) {
        ++begun;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      });
    });
    CHECK(status == FASTDL_INTERRUPTED && asked == 2, "status %d, asked %d times", int(status), asked.load());
    CHECK(begun > 0 && begun < 10000, "%d tasks", begun.load());
    fastdl_set_interrupt_check(nullptr);
    begun = 0;
    core::parallel_for(100, threads, [&](std::int64_t) { ++begun; });
    CHECK(begun == 100, "%d tasks afterwards", begun.load());
  }
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

// What fuzzing found, and reading the checks for it: sizes and strides of which products are no numbers, or which no
// memory need be given for, are refused, or come to an end. Under the sanitizers every sum and product on the way is
// looked at as well.
void test_beyond_all_addresses() {
  const auto refused = [](fastdl_status status, const char* word) {
    CHECK(status == FASTDL_INVALID_ARGUMENT && std::strstr(fastdl_last_error(), word),
          "expected a refusal with '%s', got '%s'", word, fastdl_last_error());
  };
  const auto fine = [](fastdl_status status, const char* what) {
    CHECK(status == FASTDL_OK, "%s: %s", what, fastdl_last_error());
  };
  constexpr std::int64_t far = std::int64_t{1} << 62;
  float x[16] = {}, out[16] = {};
  double numbers[4] = {};

  // Matrices: empty but too long; two axes that each fit, in opposite directions; any stride of one row, or of none.
  const fastdl_matrix_f32 too_long{nullptr, far, 0, 0, 0}, opposite{x, 3, 3, far / 8, -far / 8}, k{out, 3, 3, 3, 1};
  refused(fastdl_hebbian_crosstalk_f32(&too_long, &too_long), "address space");
  refused(fastdl_gram_linear_f32(&opposite, nullptr, &k), "address space");
  const fastdl_matrix_f32 row{x, 1, 4, INT64_MIN, 1}, one{out, 1, 1, INT64_MAX, INT64_MIN};
  const fastdl_matrix_f32 without_columns{nullptr, 3, 0, far, far};
  fine(fastdl_gram_linear_f32(&row, nullptr, &one), "a row");
  fine(fastdl_gram_empirical_ntk_f32(&without_columns, nullptr, &k), "rows without columns");
  const fastdl_matrix_f32 long_and_empty{nullptr, std::int64_t{1} << 50, 0, 1, 1};
  fine(fastdl_hebbian_crosstalk_f32(&long_and_empty, &long_and_empty), "nothing, many times");
  const fastdl_matrix_f32 no_weights{nullptr, 0, 0, 1, 1};
  fine(fastdl_hebbian_hopfield_recall_f32(&no_weights, nullptr, 0, 5, nullptr, far, 0, &long_and_empty), "no units");

  // Sparse rows whose offsets go beyond all memory.
  const std::int64_t offsets[] = {0, far}, indices[] = {0};
  const fastdl_sparse_f32 sparse{1, 4, offsets, indices, x}, rows{INT64_MAX, 4, offsets, indices, x};
  const fastdl_kernel linear = fastdl_kernel_default(FASTDL_LINEAR, 4);
  refused(fastdl_gram_sparse_f32(&linear, &sparse, &sparse, 0, &one), "address space");
  refused(fastdl_gram_sparse_f32(&linear, &rows, &sparse, 0, &one), "address space");

  // Steps with a stride, and numbers of samples, that count too far.
  fastdl_hebbian_rule rule{};
  const fastdl_matrix_f32 w{x, 1, 4, 4, 1}, samples{x, 2, 4, 4, 1}, learnt{out, 1, 4, 4, 1}, centred{out, 2, 4, 4, 1};
  refused(fastdl_hebbian_learn_f32(&rule, &w, &samples, x, INT64_MAX, nullptr, &learnt), "lr within");
  refused(fastdl_hebbian_ccipca_f32(&w, &samples, INT64_MAX, 2, &learnt), "count");
  refused(fastdl_hebbian_center_f32(&samples, numbers, INT64_MAX - 1, numbers, &centred), "count");

  // Convolutions: groups of no channels; strides far longer than the input, of which only what there is counts.
  fastdl_conv_shape shape{1, far / 8, 0, 0, far / 8, {4}, {1}, {4}, {1}, {0}, {1}};
  refused(fastdl_conv_f32(&shape, FASTDL_ZEROS, FASTDL_NO_ACTIVATION, FASTDL_CONV_AUTO, x, nullptr, x, nullptr, out),
          "address space");
  const std::int64_t stride = std::int64_t{1} << 40;
  shape = {3, 1, 1, 1, 1, {1, 1, 2}, {1, 1, 1}, {1, 1, 1}, {stride, stride, stride}, {0, 0, 0}, {1, 1, 1}};
  const float filter = 3, grad = 5;
  out[0] = out[1] = 9;
  fine(fastdl_conv_input_f32(&shape, &filter, &grad, nullptr, out), "a long stride");
  CHECK(out[0] == 15 && out[1] == 0, "got %g and %g", double(out[0]), double(out[1]));
  const std::int64_t huge[] = {far, far, 0}, ones[] = {1, 1, 1}, smallest[] = {INT64_MIN, 1, 1}, two[] = {2, 1, 1};
  const fastdl_array_f32 nothing{nullptr, 3, huge, ones}, single{x, 3, ones, ones}, odd{x, 3, ones, smallest},
      wrong{x, 3, two, smallest}, result{out, 3, ones, ones}, number{x, 0, nullptr, nullptr};
  fine(fastdl_conv_correlate_f32(&single, &odd, FASTDL_MODE_SAME, FASTDL_METHOD_AUTO, &result),
       "a stride of one number");
  refused(fastdl_conv_convolve_f32(&wrong, &single, FASTDL_MODE_SAME, FASTDL_METHOD_AUTO, &result), "address space");
  refused(fastdl_conv_convolve_f32(&nothing, &single, FASTDL_MODE_FULL, FASTDL_METHOD_AUTO, &result), "address space");
  const auto no_mode = static_cast<fastdl_convolution_mode>(7);
  refused(fastdl_conv_convolve_f32(&number, &number, no_mode, FASTDL_METHOD_AUTO, &number), "a mode");

  // Groups: more measures than can be counted; filters of no channels, many times.
  const fastdl_group_measures measures{numbers, INT64_MAX, nullptr, INT64_MAX, FASTDL_GROUP_STEP};
  refused(fastdl_group_signature_f32(x, 0, x, 0, 1, nullptr, 0, &measures, out), "address space");
  fine(fastdl_group_expand_f32(FASTDL_P4, 0, std::int64_t{1} << 50, 0, 1, nullptr, nullptr), "no filters");

  // Volumes: more harmonics, and more volumes, than there is memory.
  const std::int64_t harmonics[] = {INT64_MAX}, few[] = {1};
  const double power[] = {1};
  const float* filters[] = {x};
  fastdl_harmonic_shape volume{{1, 1, 1}, 1, 1, 1, 1, harmonics, power};
  refused(fastdl_scattering_harmonic_f32(&volume, filters, x, 1, out), "address space");
  volume.harmonics = few;
  refused(fastdl_scattering_harmonic_f32(&volume, filters, x, INT64_MAX, out), "address space");
}

}  // namespace

int main() {
  test_every_task_runs_once();
  test_phases();
  test_no_nesting();
  test_exceptions_come_back();
  test_many_callers();
  test_fork();
  test_interrupt();
  test_thread_limit_is_per_thread();
  test_scratch();
  test_refusals();
  test_beyond_all_addresses();
  return summary();
}
