// One hot loop of the engine, called through the C interface on fixed data: once to warm up, and once to be counted.
//
//   instructions          the compiler of the library, then a name a line
//   instructions NAME     run a loop
//
// instructions.py lets valgrind collect within `counted` alone. Sizes are a few millions of instructions each, with
// edges that fill no tile.
#include <fastdl/fastdl.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

// Found by this name. What follows the call keeps it from becoming a jump, which would leave the function.
extern "C" __attribute__((noinline)) void counted(const std::function<fastdl_status()>& loop, fastdl_status* status) {
  *status = loop();
  asm volatile("" ::: "memory");
}

namespace {

using Loop = std::function<fastdl_status()>;

// Numbers from -1 to 1, the same in every run.
template <class T>
std::vector<T> numbers(std::int64_t count) {
  static std::uint64_t state = 20240607;
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = T(double(state >> 11) * 0x1p-52 - 1);
  }
  return values;
}

// A matrix with its memory.
struct Matrix {
  std::vector<float> values;
  std::int64_t rows, cols;

  Matrix(std::int64_t rows_, std::int64_t cols_) : values(numbers<float>(rows_ * cols_)), rows(rows_), cols(cols_) {}
  fastdl_matrix_f32 view() { return {values.data(), rows, cols, cols, 1}; }
};

Loop linear_f64() {
  return [X = numbers<double>(130 * 150), Y = numbers<double>(110 * 150), out = numbers<double>(130 * 110)]() mutable {
    const fastdl_matrix_f64 x{X.data(), 130, 150, 150, 1}, y{Y.data(), 110, 150, 150, 1},
        K{out.data(), 130, 110, 110, 1};
    return fastdl_gram_linear_f64(&x, &y, &K);
  };
}

// Of m = 0 other samples: of one set.
Loop gram(fastdl_kernel_kind kind, std::int64_t n, std::int64_t m, std::int64_t d) {
  return [kind, m, d, X = Matrix(n, d), Y = Matrix(m, d), out = Matrix(n, m == 0 ? n : m)]() mutable {
    fastdl_kernel kernel = fastdl_kernel_default(kind, d);
    kernel.depth = 2;
    const fastdl_matrix_f32 x = X.view(), y = Y.view(), K = out.view();
    return fastdl_gram_f32(&kernel, &x, m == 0 ? nullptr : &y, &K);
  };
}

Loop softmax_matvec() {
  return [Q = Matrix(101, 32), K = Matrix(131, 32), V = Matrix(131, 32), to = Matrix(101, 32)]() mutable {
    const fastdl_matrix_f32 q = Q.view(), k = K.view(), v = V.view(), out = to.view();
    return fastdl_gram_softmax_matvec_f32(&q, &k, &v, 0.2, &out);
  };
}

// A 3 x 3 convolution of one image that keeps its size.
Loop conv2d(fastdl_conv_algorithm algorithm, std::int64_t channels, std::int64_t filters, std::int64_t groups,
            std::int64_t side) {
  const fastdl_conv_shape shape{
      2, 1, channels, filters, groups, {side, side, 0}, {3, 3, 0}, {side, side, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}};
  return [shape, algorithm, x = numbers<float>(channels * side * side),
          w = numbers<float>(filters * channels / groups * 9), out = numbers<float>(filters * side * side)]() mutable {
    return fastdl_conv_f32(&shape, FASTDL_ZEROS, FASTDL_NO_ACTIVATION, algorithm, x.data(), nullptr, w.data(), nullptr,
                           out.data());
  };
}

Loop p4_orbits() {
  constexpr std::int64_t channels = 9, side = 13;
  const fastdl_group_shape shape{FASTDL_P4, 0, 1, channels, channels, {side, side}, {side, side}, 3, {1, 1}, {1, 1}};
  return [shape, x = numbers<float>(channels * 4 * side * side), w = numbers<float>(channels * channels * 4 * 9),
          out = numbers<float>(channels * 4 * side * side)]() mutable {
    return fastdl_group_conv_f32(&shape, FASTDL_NO_ACTIVATION, FASTDL_GROUP_ORBIT, x.data(), nullptr, w.data(), nullptr,
                                 out.data());
  };
}

// A bump around a frequency of a grid of n x n, as the spectrum of a wavelet is: exactly 0 away from it.
std::vector<double> bump(std::int64_t n, double down, double across, double width) {
  std::vector<double> values;
  const auto distance = [n](std::int64_t i, double centre) {
    const double frequency = double(i) / double(n) - centre;
    return frequency - std::round(frequency);
  };
  for (std::int64_t i = 0; i < n * n; ++i) {
    const double y = distance(i / n, down) / width, x = distance(i % n, across) / width;
    values.push_back(y * y + x * x < 16 ? std::exp(-(y * y + x * x) / 2) : 0);
  }
  return values;
}

// Two scales of four wavelets on images of 32 x 32 padded to 48 x 48; those of the second follow all of the first.
Loop scattering() {
  constexpr std::int64_t side = 32, padded = 48, angles = 4, outputs = 8, batch = 8,
                         channels = 1 + 2 * angles + angles * angles;
  std::vector<std::int64_t> places, of_first, of_second, of_pairs, levels_of_pairs(angles, 1);
  for (std::int64_t i = 0; i < padded; ++i) places.push_back((i + side - 8) % side);
  std::vector<std::vector<double>> psi, averages;
  std::vector<const double*> first, second;
  for (std::int64_t a = 0; a < angles; ++a) {
    const double angle = 3.141592653589793 * double(a) / angles, y = std::sin(angle), x = std::cos(angle);
    psi.push_back(bump(padded, 0.375 * y, 0.375 * x, 0.07));
    psi.push_back(bump(padded, 0.1875 * y, 0.1875 * x, 0.035));
    of_first.push_back(1 + a);
    of_second.push_back(1 + angles + a);
    of_pairs.push_back(1 + 2 * angles + a * angles);
  }
  for (std::size_t a = 0; a < angles; ++a) {
    first.push_back(psi[2 * a].data());
    second.push_back(psi[2 * a + 1].data());
  }
  std::vector<fastdl_scattering_level> levels;
  for (std::int64_t step = 1; step <= 2; ++step) {
    std::vector<double> kernel;
    for (std::int64_t i = 0; i < padded / step; ++i) kernel.push_back(i < 16 / step ? 1.0 / 16 : 0);
    averages.push_back(kernel);
  }
  for (std::int64_t step = 1; step <= 2; ++step) {
    const fastdl_scattering_axis axis{padded / step, 16 / step, 4 / step, outputs,
                                      averages[std::size_t(step - 1)].data()};
    levels.push_back({axis, axis});
  }
  const fastdl_scattering_group groups[] = {
      {0, angles, angles, first.data(), of_first.data(), second.data(), levels_of_pairs.data(), of_pairs.data()},
      {1, angles, 0, second.data(), of_second.data(), nullptr, nullptr, of_second.data()}};
  const fastdl_scattering_tree tree{side, side, places.data(), places.data(), 2, 2, channels, levels.data(), groups};
  fastdl_scattering_plan_f32* plan = nullptr;  // until the program ends
  const fastdl_status made = fastdl_scattering_plan_make_f32(&tree, &plan);
  return [made, plan, x = numbers<float>(batch * side * side),
          out = numbers<float>(batch * channels * outputs * outputs)]() mutable {
    return made != FASTDL_OK ? made : fastdl_scattering_forward_f32(plan, x.data(), batch, out.data());
  };
}

Loop sanger() {
  return [W = Matrix(20, 150), X = Matrix(90, 150), to = Matrix(20, 150)]() mutable {
    fastdl_hebbian_rule rule{};
    rule.kind = FASTDL_HEBBIAN_SANGER;
    rule.algorithm = FASTDL_HEBBIAN_BLOCKS;
    const float step = 1e-3F;
    const fastdl_matrix_f32 w = W.view(), x = X.view(), out = to.view();
    return fastdl_hebbian_learn_f32(&rule, &w, &x, &step, 0, nullptr, &out);
  };
}

// States that are their patterns with every tenth unit turned over run back to them, a unit after the other.
Loop recall() {
  constexpr std::int64_t units = 150, patterns = 6, states = 40;
  Matrix P(patterns, units), W(units, units), S(states, units);
  for (float& value : P.values) value = value < 0 ? -1 : 1;
  for (std::int64_t i = 0; i < units; ++i)
    for (std::int64_t j = 0; j < units; ++j) {
      float sum = 0;
      for (std::int64_t p = 0; p < patterns && i != j; ++p)
        sum += P.values[std::size_t(p * units + i)] * P.values[std::size_t(p * units + j)];
      W.values[std::size_t(i * units + j)] = sum / 256;
    }
  for (std::int64_t i = 0; i < states * units; ++i) {
    const float unit = P.values[std::size_t(i / units % patterns * units + i % units)];
    S.values[std::size_t(i)] = i * 7 % 10 == 0 ? -unit : unit;
  }
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < units; ++i) order.push_back(i * 7 % units);
  return [W, S, order, run = S]() mutable {
    run.values = S.values;
    const fastdl_matrix_f32 w = W.view(), s = run.view();
    return fastdl_hebbian_hopfield_recall_f32(&w, nullptr, 0, 100, order.data(), 1, std::int64_t(order.size()), &s);
  };
}

// Makers, so that only the loop that is run has its data made.
const std::vector<std::pair<std::string, std::function<Loop()>>> loops{
    {"linear float32", [] { return gram(FASTDL_LINEAR, 150, 130, 170); }},
    {"linear float64", linear_f64},
    {"linear symmetric", [] { return gram(FASTDL_LINEAR, 190, 0, 170); }},
    {"rbf", [] { return gram(FASTDL_RBF, 150, 0, 70); }},
    {"laplacian", [] { return gram(FASTDL_LAPLACIAN, 130, 0, 70); }},
    {"ntk", [] { return gram(FASTDL_NTK, 150, 0, 70); }},
    {"softmax_matvec", softmax_matvec},
    {"conv2d direct", [] { return conv2d(FASTDL_CONV_DIRECT, 17, 25, 1, 21); }},
    {"conv2d winograd", [] { return conv2d(FASTDL_CONV_WINOGRAD, 33, 41, 1, 25); }},
    {"conv2d depthwise", [] { return conv2d(FASTDL_CONV_AUTO, 17, 17, 17, 61); }},
    {"p4 orbits", p4_orbits},
    {"scattering", scattering},
    {"sanger blocks", sanger},
    {"hopfield recall", recall},
};

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) {
    std::printf("%s\n", fastdl_build_info());
    for (const auto& [name, make] : loops) std::printf("%s\n", name.c_str());
    return 0;
  }
  for (const auto& [name, make] : loops) {
    if (name != arguments[1]) continue;
    const Loop loop = make();
    fastdl_status status = loop();
    if (status == FASTDL_OK) counted(loop, &status);
    if (status != FASTDL_OK) std::fprintf(stderr, "%s\n", fastdl_last_error());
    return status == FASTDL_OK ? 0 : 1;
  }
  std::fprintf(stderr, "expected one of the loops, got %s\n", arguments[1]);
  return 1;
}
