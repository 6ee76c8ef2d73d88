// Accuracy, special values and tails of simd/math.hpp, at every level compiled in that this processor can run.
//
//   test_math                f32: every 251st bit pattern and all patterns near the edges; f64: some million points
//   test_math --exhaustive   f32: every bit pattern (for atan2 every y, against a scattered x)
//   test_math --quick        a sixteenth of the points, for emulators
//   test_math --smoke        a thousandth of the points, for very slow ones
//
// f32 is measured against double, f64 against long double, in units in the last place of the reference rounded to the
// type; below the smallest normal number the unit is the smallest denormal. Infinity counts as the first power of two
// beyond the type, so that a result one step on the wrong side of the overflow threshold is an error of one ulp.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "math_levels.hpp"

namespace {

// ROOT is sqrt_by_estimate, which is for finite normal numbers and 0.
enum Function { EXP, TANH, SIGMOID, RSQRT, SIN, ROOT, ATAN2 };
constexpr Function all_functions[] = {EXP, TANH, SIGMOID, RSQRT, SIN, ROOT, ATAN2};
constexpr const char* function_names[] = {"exp", "tanh", "sigmoid", "rsqrt", "sin", "root", "atan2"};

constexpr double ulp_budget(Function function) { return function == ROOT ? 1.0 : 4.0; }

template <class T>
struct Type;
template <>
struct Type<float> {
  using Bits = std::uint32_t;
  using Wide = double;
  static constexpr const char* name = "f32";
};
template <>
struct Type<double> {
  using Bits = std::uint64_t;
  using Wide = long double;
  static constexpr const char* name = "f64";
};

template <class T>
using Bits = typename Type<T>::Bits;
template <class T>
using Wide = typename Type<T>::Wide;
template <class T>
using Limits = std::numeric_limits<T>;

template <class T>
T from_bits(Bits<T> bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <class T>
Bits<T> to_bits(T value) {
  Bits<T> bits;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

template <class T>
bool same(T a, T b) {
  return std::isnan(a) ? std::isnan(b) : to_bits(a) == to_bits(b);
}

// ---- the levels --------------------------------------------------------------------------------------------------

template <class T>
struct Level {
  const char* name;
  void (*unary[6])(const T*, T*, std::int64_t);  // in the order of Function
  void (*atan2)(const T*, const T*, T*, std::int64_t);

  // `x` is read for atan2 alone.
  void apply(Function function, const T* y, const T* x, T* result, std::int64_t n) const {
    if (function == ATAN2)
      atan2(y, x, result, n);
    else
      unary[function](y, result, n);
  }
};

template <class T>
std::vector<Level<T>> runnable_levels() {
  std::vector<Level<T>> levels;
#define ADD_LEVEL(level)                                                                                           \
  levels.push_back({#level,                                                                                        \
                    {fastdl::simd::level::exp, fastdl::simd::level::tanh, fastdl::simd::level::sigmoid,            \
                     fastdl::simd::level::rsqrt, fastdl::simd::level::sin, fastdl::simd::level::sqrt_by_estimate}, \
                    fastdl::simd::level::atan2})
#if FASTDL_HAVE_BASELINE
  ADD_LEVEL(baseline);
#endif
#if FASTDL_HAVE_NEON
  ADD_LEVEL(neon);
#endif
#if FASTDL_HAVE_AVX2
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) ADD_LEVEL(avx2);
#endif
#if FASTDL_HAVE_WIDE
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) ADD_LEVEL(wide);
#endif
#if FASTDL_HAVE_AVX512
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    ADD_LEVEL(avx512);
#endif
#undef ADD_LEVEL
  return levels;
}

int passed = 0;
int failed = 0;

void count(bool good) { ++(good ? passed : failed); }

// ---- reference and error -----------------------------------------------------------------------------------------

// The double result, and for a wider W one Newton step from it. Not the wide atan2 itself: on x86 that is the x87's own
// instruction, which the emulator that runs AVX-512 for us gets wrong by hundreds of ulp.
template <class W>
W arc_tangent(W y, W x) {
  const W angle = std::atan2(static_cast<double>(y), static_cast<double>(x));
  if (sizeof(W) == sizeof(double) || y == 0 || x == 0 || !std::isfinite(y) || !std::isfinite(x)) return angle;
  const W c = std::cos(angle), s = std::sin(angle);
  return angle + (y * c - x * s) / (x * c + y * s);
}

template <class T>
Wide<T> reference(Function function, T first, T second) {
  const Wide<T> y = first;
  switch (function) {
    case EXP:
      return std::exp(y);
    case TANH:
      return std::tanh(y);
    case SIGMOID:
      return 1 / (1 + std::exp(-y));
    case RSQRT:
      return 1 / std::sqrt(y);
    case SIN:
      return std::sin(y);
    case ROOT:
      return std::sqrt(y);
    default:
      return arc_tangent(y, static_cast<Wide<T>>(second));
  }
}

template <class T>
class Ulps {
 public:
  Ulps() {
    for (int exponent = 0; exponent < exponents; ++exponent) {
      // The exponent field of infinity takes the unit of the largest finite numbers; that of zero and the denormals
      // the unit of the smallest normal ones.
      const int clamped = exponent == 0 ? 1 : exponent == exponents - 1 ? exponents - 2 : exponent;
      per_ulp_[exponent] =
          std::ldexp(static_cast<Wide<T>>(1), -(clamped - 1 + Limits<T>::min_exponent - Limits<T>::digits));
    }
  }

  double error(T result, Wide<T> expected) const {
    if (std::isnan(expected)) return std::isnan(result) ? 0.0 : HUGE_VAL;
    if (std::isnan(result)) return HUGE_VAL;
    const T rounded = static_cast<T>(expected);
    if (rounded == result) {
      if (std::isinf(rounded)) return 0.0;
    } else if (std::isinf(rounded) || std::isinf(result)) {
      return static_cast<double>(std::fabs(finite(result) - finite(rounded == expected ? rounded : expected)) *
                                 unit(rounded));
    }
    return static_cast<double>(std::fabs(result - expected) * unit(rounded));
  }

 private:
  static constexpr int exponents = 2 * Limits<T>::max_exponent;
  Wide<T> per_ulp_[exponents];

  Wide<T> unit(T rounded) const {
    return per_ulp_[(to_bits(rounded) >> (Limits<T>::digits - 1)) & static_cast<Bits<T>>(exponents - 1)];
  }

  static Wide<T> finite(Wide<T> value) {
    return std::isinf(value) ? std::copysign(std::ldexp(static_cast<Wide<T>>(1), Limits<T>::max_exponent), value)
                             : value;
  }
};

// ---- accuracy ----------------------------------------------------------------------------------------------------

struct Worst {
  double ulps = -1.0;
  double y = 0.0;
  double x = 0.0;
};

// Collects points, and measures all levels against one evaluation of the reference, which is most of the run time.
template <class T>
class Accuracy {
 public:
  Accuracy(Function function, const std::vector<Level<T>>& levels)
      : function_(function), levels_(levels), worst_(levels.size()) {
    y_.reserve(batch);
    x_.reserve(batch);
  }

  void add(T y, T x = T(0)) {
    if (function_ == ROOT && !(y > 0 && std::isnormal(y))) return;
    y_.push_back(y);
    x_.push_back(x);
    if (y_.size() == batch) flush();
  }

  void report() {
    flush();
    for (std::size_t i = 0; i < levels_.size(); ++i) {
      const Worst& worst = worst_[i];
      const bool good = worst.ulps >= 0 && worst.ulps <= ulp_budget(function_) && odd_[i];
      std::printf("%-8s %s %-9s worst %.3f ulp at ", function_names[function_], Type<T>::name, levels_[i].name,
                  worst.ulps);
      if (function_ == ATAN2)
        std::printf("y = %a (%.9g), x = %a (%.9g)", worst.y, worst.y, worst.x, worst.x);
      else
        std::printf("%a (%.9g)", worst.y, worst.y);
      std::printf(", %lld points%s%s\n", static_cast<long long>(points_), odd_[i] ? "" : ", NOT ODD",
                  good ? "" : "  FAILED");
      count(good);
    }
  }

 private:
  static constexpr std::size_t batch = 1 << 14;
  Function function_;
  const std::vector<Level<T>>& levels_;
  std::vector<Worst> worst_;
  std::vector<bool> odd_ = std::vector<bool>(levels_.size(), true);
  std::vector<T> y_, x_, result_, mirrored_;
  std::vector<Wide<T>> expected_;
  std::int64_t points_ = 0;
  Ulps<T> ulps_;

  void flush() {
    const std::size_t n = y_.size();
    const std::int64_t length = static_cast<std::int64_t>(n);
    expected_.resize(n);
    result_.resize(n);
    for (std::size_t i = 0; i < n; ++i) expected_[i] = reference(function_, y_[i], x_[i]);
    for (std::size_t level = 0; level < levels_.size(); ++level) {
      levels_[level].apply(function_, y_.data(), x_.data(), result_.data(), length);
      Worst& worst = worst_[level];
      for (std::size_t i = 0; i < n; ++i) {
        const double error = ulps_.error(result_[i], expected_[i]);
        if (error > worst.ulps) worst = {error, y_[i], x_[i]};
      }
      if (function_ == TANH || function_ == SIN) odd_[level] = odd_[level] && is_odd(levels_[level], length);
    }
    points_ += length;
    y_.clear();
    x_.clear();
  }

  bool is_odd(const Level<T>& level, std::int64_t length) {
    mirrored_ = y_;
    for (T& value : mirrored_) value = -value;
    level.apply(function_, mirrored_.data(), nullptr, mirrored_.data(), length);
    bool odd = true;
    for (std::size_t i = 0; i < mirrored_.size(); ++i) odd = odd && same(mirrored_[i], -result_[i]);
    return odd;
  }
};

// splitmix64: one fixed sequence on every platform
class Random {
 public:
  std::uint64_t operator()() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  template <class T>
  T any() {
    return from_bits<T>(static_cast<Bits<T>>((*this)() >> (64 - 8 * sizeof(T))));
  }

  // Any sign and mantissa, the binary exponent even in [low, high].
  template <class T>
  T log_uniform(int low, int high) {
    const int exponent = low + static_cast<int>((*this)() % static_cast<std::uint64_t>(high - low + 1));
    const Bits<T> fraction = to_bits(any<T>()) & ((Bits<T>(1) << (Limits<T>::digits - 1)) - 1);
    const T magnitude = std::ldexp(from_bits<T>(to_bits(T(1)) | fraction), exponent);
    return (*this)() & 1 ? -magnitude : magnitude;
  }

 private:
  std::uint64_t state_ = 1;
};

// Where something changes: type limits, over- and underflow of exp and sigmoid, saturation of tanh, the borders of the
// argument reductions, quadrant and octant borders.
template <class T>
std::vector<T> edges() {
  const T largest = Limits<T>::max();
  const T smallest = Limits<T>::min();
  const T denormal_log = std::log(Limits<T>::denorm_min());
  const T ln2 = static_cast<T>(0.693147180559945309417L);
  std::vector<T> values = {0, smallest, Limits<T>::epsilon(), largest, Limits<T>::infinity()};
  for (const T value : {std::log(largest), std::log(smallest), denormal_log, denormal_log - ln2})
    values.push_back(value);
  for (const int quarters : {1, 2, 3, 6}) values.push_back(static_cast<T>(quarters) / 4 * ln2);
  for (const double value :
       {0.25, 0.5, 1.0, 2.0, 4.0, 9.01, 10.0, 19.06, 20.0, 89.0, 104.0, 710.0, 746.0, 12867.0, 823549.0})
    values.push_back(static_cast<T>(value));
  const std::size_t positive = values.size();
  for (std::size_t i = 0; i < positive; ++i) values.push_back(-values[i]);
  return values;
}

// The `reach` patterns on either side of every edge.
template <class T, class Visit>
void near_edges(int reach, Visit visit) {
  for (const T edge : edges<T>())
    for (int step = -reach; step <= reach; ++step) visit(from_bits<T>(to_bits(edge) + static_cast<Bits<T>>(step)));
}

template <class T>
void add_near(Accuracy<T>& accuracy, Function function, int reach, Random& random) {
  near_edges<T>(reach, [&](T value) {
    if (function != ATAN2) return accuracy.add(value);
    accuracy.add(value, T(1));
    accuracy.add(T(-1), value);
    accuracy.add(value, random.any<T>());
    accuracy.add(random.any<T>(), value);
    accuracy.add(value, value);
    accuracy.add(value, -from_bits<T>(to_bits(value) + 1));
  });
}

// Around every multiple of pi/2 within the range of the reduction of sin, where its result is smallest or largest.
template <class T>
void add_multiples_of_pi(Accuracy<T>& accuracy, int thinning) {
  const int last = sizeof(T) == 4 ? 2 * 4100 : 2 * 262200;
  for (int halves = 1; halves <= last; halves += 1 + (thinning > 1) * 2 * thinning) {
    const T value = static_cast<T>(halves * 1.57079632679489661923L);
    for (int step = -2; step <= 2; ++step) accuracy.add(from_bits<T>(to_bits(value) + static_cast<Bits<T>>(step)));
  }
}

void check_accuracy(Function function, const std::vector<Level<float>>& levels, std::uint64_t stride, int thinning) {
  Accuracy<float> accuracy(function, levels);
  Random random;
  for (std::uint64_t pattern = 0; pattern < std::uint64_t(1) << 32; pattern += stride) {
    const float y = from_bits<float>(static_cast<std::uint32_t>(pattern));
    if (function != ATAN2) {
      accuracy.add(y);
      continue;
    }
    // Two patterns in three have a ratio that is neither huge nor tiny, where the polynomial works hardest.
    const std::uint64_t kind = pattern / stride % 3;
    accuracy.add(
        y, kind == 0 ? random.any<float>() : y * random.log_uniform<float>(kind == 1 ? -3 : -20, kind == 1 ? 2 : 20));
  }
  if (function == SIN) add_multiples_of_pi(accuracy, thinning);
  add_near(accuracy, function, 20000 / thinning, random);
  accuracy.report();
}

void check_accuracy(Function function, const std::vector<Level<double>>& levels, std::uint64_t, int thinning) {
  Accuracy<double> accuracy(function, levels);
  Random random;
  const int points = 1500000 / thinning;
  for (int i = 0; i < points / 3; ++i) accuracy.add(random.any<double>(), random.any<double>());
  for (int i = 0; i < points; ++i) {
    if (function == ATAN2) {
      const double y = random.log_uniform<double>(-1060, 1000);
      accuracy.add(y, y * random.log_uniform<double>(i % 2 ? -3 : -60, i % 2 ? 2 : 60));
    } else if (function == RSQRT || function == ROOT) {
      accuracy.add(std::fabs(random.log_uniform<double>(-1074, 1023)));
    } else if (function == SIN) {
      accuracy.add(random.log_uniform<double>(i % 2 ? -2 : -30, i % 2 ? 21 : 4));
    } else {
      accuracy.add(random.log_uniform<double>(i % 2 ? -8 : -60, 9));
    }
  }
  // The tails of exp and sigmoid, linearly: the denormal results are a small part of a logarithmic range.
  for (int i = 0; i < points / 3; ++i)
    accuracy.add(-760.0 + 1500.0 * static_cast<double>(random() >> 11) * 0x1p-53, 1.0);
  if (function == SIN) add_multiples_of_pi(accuracy, thinning);
  add_near(accuracy, function, 4000 / thinning, random);
  accuracy.report();
}

// ---- special values ----------------------------------------------------------------------------------------------

template <class T>
struct Special {
  T input;
  T expected;
};

template <class T>
std::vector<Special<T>> special_values(Function function) {
  constexpr T infinity = Limits<T>::infinity();
  constexpr T nan = Limits<T>::quiet_NaN();
  constexpr T largest = Limits<T>::max();
  constexpr T smallest = Limits<T>::denorm_min();
  constexpr T normal = Limits<T>::min();
  constexpr T tiny = Limits<T>::epsilon() * Limits<T>::epsilon();
  const T zero = 0;
  const T one = 1;
  switch (function) {
    case EXP:
      return {{zero, one},     {-zero, one},     {infinity, infinity}, {-infinity, zero},
              {nan, nan},      {-nan, nan},      {largest, infinity},  {-largest, zero},
              {smallest, one}, {-smallest, one}, {tiny, one},          {-tiny, one}};
    case TANH:
      return {{zero, zero},     {-zero, -zero},     {infinity, one},         {-infinity, -one},
              {nan, nan},       {-nan, nan},        {largest, one},          {-largest, -one},
              {normal, normal}, {-normal, -normal}, {smallest, smallest},    {-smallest, -smallest},
              {tiny, tiny},     {-tiny, -tiny},     {normal / 2, normal / 2}};
    case SIGMOID:
      return {{zero, one / 2}, {-zero, one / 2}, {infinity, one},  {-infinity, zero},   {nan, nan},
              {-nan, nan},     {largest, one},   {-largest, zero}, {smallest, one / 2}, {-tiny, one / 2}};
    case RSQRT:
      return {{zero, infinity}, {-zero, -infinity}, {infinity, zero}, {-infinity, nan}, {nan, nan},  {-nan, nan},
              {-one, nan},      {-smallest, nan},   {one, one},       {4, one / 2},     {one / 4, 2}};
    case SIN:
      return {{zero, zero}, {-zero, -zero},       {infinity, nan},         {-infinity, nan}, {nan, nan},
              {-nan, nan},  {smallest, smallest}, {-smallest, -smallest},  {normal, normal}, {-normal, -normal},
              {tiny, tiny}, {-tiny, -tiny},       {normal / 2, normal / 2}};
    case ROOT:
      return {{zero, zero}, {nan, nan}, {-nan, nan}, {one, one}, {4, 2}, {one / 4, one / 2}};
    default:
      return {};
  }
}

template <class T>
void check_special(Function function, const Level<T>& level) {
  std::vector<T> y, x, expected;
  if (function == ATAN2) {
    constexpr T infinity = Limits<T>::infinity();
    constexpr T magnitudes[] = {T(0), Limits<T>::denorm_min(), Limits<T>::min(), T(1), Limits<T>::max(), infinity};
    std::vector<T> values = {Limits<T>::quiet_NaN()};
    for (const T magnitude : magnitudes) {
      values.push_back(magnitude);
      values.push_back(-magnitude);
    }
    for (const T first : values)
      for (const T second : values) {
        y.push_back(first);
        x.push_back(second);
        expected.push_back(static_cast<T>(reference(ATAN2, first, second)));
      }
  } else {
    for (const Special<T>& special : special_values<T>(function)) {
      y.push_back(special.input);
      expected.push_back(special.expected);
    }
    x.resize(y.size());
  }
  bool good = true;
  const Ulps<T> ulps;
  // Every value passes through every lane, and now and then through the tail.
  for (std::size_t shift = 0; shift < 16; ++shift) {
    y.insert(y.begin(), T(1));
    x.insert(x.begin(), T(1));
    std::vector<T> result(y.size());
    level.apply(function, y.data(), x.data(), result.data(), static_cast<std::int64_t>(y.size()));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const T actual = result[i + shift + 1];
      // Angles of odd multiples of 45 degrees come from the polynomial and may be off by one; all others are exact.
      const bool diagonal = function == ATAN2 && y[i + shift + 1] != 0 &&
                            std::fabs(y[i + shift + 1]) == std::fabs(x[i + shift + 1]) &&
                            std::signbit(actual) == std::signbit(expected[i]);
      if (same(actual, expected[i]) || (diagonal && ulps.error(actual, expected[i]) <= 1.0)) continue;
      if (good)
        std::printf("%-8s %s %-9s special value FAILED: (%g, %g) gives %.17g, expected %.17g\n",
                    function_names[function], Type<T>::name, level.name, static_cast<double>(y[i + shift + 1]),
                    static_cast<double>(x[i + shift + 1]), static_cast<double>(actual),
                    static_cast<double>(expected[i]));
      good = false;
    }
  }
  count(good);
}

// ---- tails -------------------------------------------------------------------------------------------------------

template <class T>
void check_tails(Function function, const Level<T>& level) {
  constexpr int longest = 70;
  constexpr int guard = 64;
  constexpr T marker = T(-12345.5);
  Random random;
  std::vector<T> full_y(128), full_x(128), full(128);
  for (T& value : full_y) value = std::fabs(random.log_uniform<T>(-4, 4));
  for (T& value : full_x) value = random.log_uniform<T>(-4, 4);
  level.apply(function, full_y.data(), full_x.data(), full.data(), 128);
  bool good = true;
  for (int n = 0; n <= longest; ++n) {
    const std::size_t length = static_cast<std::size_t>(n);
    // Of the exact length, so that an address sanitizer sees a read beyond.
    const std::vector<T> y(full_y.begin(), full_y.begin() + n), x(full_x.begin(), full_x.begin() + n);
    std::vector<T> result(length + 2 * guard, marker);
    level.apply(function, y.data(), x.data(), result.data() + guard, n);
    for (std::size_t i = 0; i < result.size(); ++i) {
      const bool inside = i >= guard && i < guard + length;
      good = good && same(result[i], inside ? full[i - guard] : marker);
    }
    std::vector<T> in_place = y;
    level.apply(function, in_place.data(), x.data(), in_place.data(), n);
    for (std::size_t i = 0; i < length; ++i) good = good && same(in_place[i], full[i]);
  }
  if (!good) std::printf("%-8s %s %-9s tail FAILED\n", function_names[function], Type<T>::name, level.name);
  count(good);
}

template <class T>
void check_type(std::uint64_t stride, int thinning) {
  const std::vector<Level<T>> levels = runnable_levels<T>();
  for (const Function function : all_functions) {
    check_accuracy(function, levels, stride, thinning);
    for (const Level<T>& level : levels) {
      check_special(function, level);
      check_tails(function, level);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t stride = 251;
  int thinning = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--exhaustive") {
      stride = 1;
    } else if (argument == "--quick") {
      stride = 251 * 16 + 1;
      thinning = 16;
    } else if (argument == "--smoke") {
      stride = 251 * 1024 + 1;
      thinning = 1024;
    } else {
      std::fprintf(stderr, "usage: %s [--exhaustive | --quick | --smoke]\n", argv[0]);
      return 2;
    }
  }
  check_type<float>(stride, thinning);
  check_type<double>(stride, thinning);
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 && passed > 0 ? 0 : 1;
}
