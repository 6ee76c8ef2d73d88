// What this processor can do at most: multiply-adds a second, and bytes a second to and from memory. Compiled on the
// fly by machine.py, once per instruction set, and called from Python.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

namespace {

#if defined(__AVX512F__)
constexpr int vector_width = 64;
constexpr int accumulators = 16;
#elif defined(__AVX__)
constexpr int vector_width = 32;
constexpr int accumulators = 12;
#else
constexpr int vector_width = 16;
// Where there are 32 registers (aarch64), up to four units of four cycles each want 16 chains; SSE has 16 registers
// in all, and two of them hold the constants.
#if defined(__aarch64__)
constexpr int accumulators = 16;
#else
constexpr int accumulators = 12;
#endif
#endif

template <class Scalar>
struct VectorOf {
  typedef Scalar type __attribute__((vector_size(vector_width)));
};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Independent chains of multiply-adds, all in registers. Returns the flops done.
template <class Scalar>
__attribute__((noinline)) double multiply_add(long iterations) {
  using Vector = typename VectorOf<Scalar>::type;
  // Read through volatile, each chain from a start of its own: GCC 12 saw that equal chains stay equal, computed one
  // of them, and reported 1.5 times the rate of the processor. The chains tend to 1 and stay normal numbers.
  volatile Scalar factor = Scalar(0.5), term = Scalar(0.5), start = Scalar(1);
  const Vector a = factor - Vector{}, b = term - Vector{};
  Vector sums[accumulators];
  for (Vector& sum : sums) sum = start - Vector{};
  for (long i = 0; i < iterations; ++i) {
#pragma GCC unroll 16
    for (int k = 0; k < accumulators; ++k) sums[k] = sums[k] * a + b;
  }
  Vector total{};
  for (const Vector& sum : sums) total += sum;
  volatile Scalar sink = total[0];
  (void)sink;
  return 2.0 * (vector_width / sizeof(Scalar)) * accumulators * static_cast<double>(iterations);
}

// The best rate of `work` over runs for `seconds`, all threads starting together. What disturbs a machine only slows.
template <class Work>
double best_rate(int threads, double seconds, Work work) {
  double best = 0;
  const double stop = now() + seconds;
  do {
    std::atomic<int> waiting{threads};
    std::vector<double> begins(threads), ends(threads), amounts(threads);
    auto body = [&](int index) {
      waiting.fetch_sub(1);
      while (waiting.load() > 0) std::this_thread::yield();
      begins[index] = now();
      amounts[index] = work(index);
      ends[index] = now();
    };
    std::vector<std::thread> others;
    for (int index = 1; index < threads; ++index) others.emplace_back(body, index);
    body(0);
    for (std::thread& other : others) other.join();
    double amount = 0;
    for (double part : amounts) amount += part;
    const double taken = *std::max_element(ends.begin(), ends.end()) - *std::min_element(begins.begin(), begins.end());
    best = std::max(best, amount / taken);
  } while (now() < stop);
  return best;
}

template <class Scalar>
double multiply_add_rate(int threads, double seconds) {
  // Runs of about 4 ms: long beside the start of a thread, short enough that some run undisturbed.
  long iterations = 100000;
  const double begin = now();
  multiply_add<Scalar>(iterations);
  iterations = std::max(1000L, static_cast<long>(iterations * 4e-3 / (now() - begin)));
  return best_rate(threads, seconds, [=](int) { return multiply_add<Scalar>(iterations); });
}

}  // namespace

extern "C" {

int vector_bytes() { return vector_width; }

double multiply_add_f32(int threads, double seconds) { return multiply_add_rate<float>(threads, seconds); }

double multiply_add_f64(int threads, double seconds) { return multiply_add_rate<double>(threads, seconds); }

// The triad of STREAM, counted as STREAM counts it: two reads and a write, without the read that a write may cause.
double triad(int threads, double seconds, std::size_t elements) {
  std::vector<double> a(elements, 0.0), b(elements, 1.0), c(elements, 2.0);
  volatile double factor = 3.0;
  return best_rate(threads, seconds, [&](int index) {
    const std::size_t begin = elements * index / threads, end = elements * (index + 1) / threads;
    const double scale = factor;
    double* __restrict target = a.data();
    const double *left = b.data(), *right = c.data();
    for (std::size_t i = begin; i < end; ++i) target[i] = left[i] + scale * right[i];
    return 3.0 * sizeof(double) * static_cast<double>(end - begin);
  });
}
}
