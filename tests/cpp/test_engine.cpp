// The matrix-product engine at every level this machine can run, by the linear kernel, against a sum in higher
// precision.
//
// Sizes are around the lanes, the tile, the row group and the passes over k of every level; inputs and outputs are
// row-major, column-major and strided. Also: exact integers, bit-equality over thread counts, batches and symmetry, and
// that nothing beside the output is written.
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "core/threads.hpp"
#include "gram/bodies.hpp"

#define TEST_LEVEL(level) {#level, fastdl::gram::level::gram}
#include "levels.hpp"

using namespace fastdl;
using gram::Matrix;
using Index = std::int64_t;

namespace {

std::mt19937_64 random_bits(7);
bool quick = false;  // for emulators: large sizes in one layout only
bool smoke = false;  // for very slow ones: the widest level alone, and few large sizes

template <class T>
using Gram = void (*)(const gram::Kernel&, const Matrix<const T>&, const Matrix<const T>&, bool, const Matrix<T>&);

template <class T>
struct Level {
  std::string name;
  Gram<T> gram;

  void linear(const Matrix<T>& x, const Matrix<T>& y, bool symmetric, const Matrix<T>& k) const {
    const auto read = [](const Matrix<T>& m) -> Matrix<const T> {
      return {m.data, m.rows, m.cols, m.row_stride, m.col_stride};
    };
    gram(fastdl_kernel_default(FASTDL_LINEAR, x.cols), read(x), read(y), symmetric, k);
  }
};

enum class Layout { rows, columns, strided, reversed };

// A matrix in its own buffer, with room around it that must stay as it was.
template <class T>
struct Owned {
  std::vector<T> buffer;
  Matrix<T> view;
  static constexpr T guard = T(-12345);

  Owned(Index rows, Index cols, Layout layout) {
    const Index margin = 5;
    Index row = cols, col = 1, size = rows * cols, origin = margin;
    if (layout == Layout::columns) row = 1, col = rows;
    if (layout == Layout::strided) row = 3 * cols + 1, col = 3, size = rows * row;
    if (layout == Layout::reversed) row = -cols, origin = margin + (rows ? (rows - 1) * cols : 0);
    buffer.assign(static_cast<std::size_t>(size + 2 * margin), guard);
    view = {buffer.data() + origin, rows, cols, row, col};
  }
  T& at(Index i, Index j) { return view.data[i * view.row_stride + j * view.col_stride]; }

  bool guards_stand() {
    std::vector<bool> inside(buffer.size(), false);
    for (Index i = 0; i < view.rows; ++i)
      for (Index j = 0; j < view.cols; ++j) inside[static_cast<std::size_t>(&at(i, j) - buffer.data())] = true;
    for (std::size_t p = 0; p < buffer.size(); ++p)
      if (!inside[p] && buffer[p] != guard) return false;
    return true;
  }
};

template <class T>
Owned<T> random_matrix(Index rows, Index cols, Layout layout, bool integers = false) {
  Owned<T> m(rows, cols, layout);
  // From the bits of the generator alone, so that every platform makes the same numbers.
  for (Index i = 0; i < rows; ++i)
    for (Index j = 0; j < cols; ++j)
      m.at(i, j) = integers ? T(int(random_bits() % 7) - 3) : T(static_cast<double>(random_bits() >> 40) * 0x1p-23 - 1);
  return m;
}

template <class T>
using Wider = std::conditional_t<sizeof(T) == 4, double, long double>;

// |K - exact| <= 2 d eps sum |x||y|: the bound of any order of summation.
template <class T>
void compare(Owned<T>& x, Owned<T>& y, Owned<T>& k, bool exact, const std::string& what) {
  const Index d = x.view.cols;
  double worst = 0;
  for (Index i = 0; i < x.view.rows; ++i)
    for (Index j = 0; j < y.view.rows; ++j) {
      Wider<T> sum = 0, size = 0;
      for (Index f = 0; f < d; ++f) {
        const Wider<T> term = static_cast<Wider<T>>(x.at(i, f)) * y.at(j, f);
        sum += term;
        size += std::fabs(term);
      }
      const Wider<T> error = std::fabs(k.at(i, j) - sum);
      const Wider<T> bound = exact ? 0 : 2 * Wider<T>(d + 1) * std::numeric_limits<T>::epsilon() * size;
      if (!(error <= bound)) worst = std::max(worst, static_cast<double>(error - bound) + 1e-300);
    }
  CHECK(worst == 0, "%s: error beyond its bound by %g", what.c_str(), worst);
  CHECK(k.guards_stand(), "%s: wrote beside the output", what.c_str());
}

// Products without fused multiply-adds, summed in a fixed order, round alike on every processor: the baseline's digest
// must be the same on x86-64 and aarch64.
std::uint64_t digest = 14695981039346656037u;

template <class T>
void add_to_digest(const Owned<T>& m) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(m.buffer.data());
  for (std::size_t i = 0; i < m.buffer.size() * sizeof(T); ++i) digest = (digest ^ bytes[i]) * 1099511628211u;
}

template <class T>
void test_sizes(const Level<T>& level) {
  const Index sizes[][3] = {{0, 3, 4},      {3, 0, 4},     {4, 5, 0},     {1, 1, 1},     {7, 8, 9},     {8, 9, 7},
                            {9, 7, 8},      {15, 16, 17},  {16, 17, 15},  {17, 15, 16},  {31, 32, 33},  {32, 33, 31},
                            {33, 31, 32},   {63, 64, 65},  {64, 65, 63},  {65, 63, 64},  {48, 96, 5},   {49, 97, 129},
                            {5, 130, 1},    {130, 5, 2},   {1, 200, 300}, {200, 1, 300}, {53, 71, 257}, {53, 71, 513},
                            {37, 29, 1030}, {100, 401, 19}};
  for (const auto& size : sizes) {
    const auto [n, m, d] = size;
    for (Layout input : {Layout::rows, Layout::columns, Layout::strided, Layout::reversed})
      for (Layout output : {Layout::rows, Layout::columns, Layout::strided, Layout::reversed}) {
        if (input != Layout::rows && output != Layout::rows && input != output) continue;
        if (smoke && n * m * d > 100000 && d != 1030) continue;
        if (quick && n * m * d > 10000 && (input != Layout::rows || output != Layout::rows)) continue;
        const std::string what = level.name + " " + std::to_string(n) + "x" + std::to_string(m) + "x" +
                                 std::to_string(d) + " layouts " + std::to_string(int(input)) +
                                 std::to_string(int(output)) + (sizeof(T) == 4 ? " f32" : " f64");
        auto x = random_matrix<T>(n, d, input), y = random_matrix<T>(m, d, input);
        Owned<T> k(n, m, output), s(n, n, output);
        level.linear(x.view, y.view, false, k.view);
        compare(x, y, k, false, what);
        if (level.name == "baseline") add_to_digest(k);
        level.linear(x.view, x.view, true, s.view);
        compare(x, x, s, false, what + " symmetric");
        bool mirrored = true;
        for (Index i = 0; i < n; ++i)
          for (Index j = 0; j < i; ++j) mirrored &= s.at(i, j) == s.at(j, i);
        CHECK(mirrored, "%s", what.c_str());
      }
    auto x = random_matrix<T>(n, d, Layout::rows, true), y = random_matrix<T>(m, d, Layout::rows, true);
    Owned<T> k(n, m, Layout::rows);
    level.linear(x.view, y.view, false, k.view);
    compare(x, y, k, true, level.name + " integers");
  }
}

// The same bits whatever the number of threads, the batch a row comes in, and the mode.
template <class T>
void test_determinism(const Level<T>& level) {
  const Index n = quick ? 101 : 205, m = quick ? 131 : 331, d = quick ? 300 : 700;
  auto x = random_matrix<T>(n, d, Layout::rows), y = random_matrix<T>(m, d, Layout::rows);
  Owned<T> one(n, m, Layout::rows), again(n, m, Layout::rows);
  core::set_thread_limit(1);
  level.linear(x.view, y.view, false, one.view);
  for (int threads : {2, 3, 5, 8}) {
    core::set_thread_limit(threads);
    again.buffer.assign(again.buffer.size(), T(0));
    level.linear(x.view, y.view, false, again.view);
    bool same = true;
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j < m; ++j) same &= std::memcmp(&one.at(i, j), &again.at(i, j), sizeof(T)) == 0;
    CHECK(same, "%s with %d threads", level.name.c_str(), threads);
  }
  core::set_thread_limit(0);
  for (Index batch : {1, 2, 5, 6, 7, 48, 100}) {
    Owned<T> parts(n, m, Layout::rows);
    for (Index i = 0; i < n; i += batch) {
      const Index rows = std::min(batch, n - i);
      level.linear({x.view.data + i * d, rows, d, d, 1}, y.view, false, {parts.view.data + i * m, rows, m, m, 1});
    }
    bool same = true;
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j < m; ++j) same &= std::memcmp(&one.at(i, j), &parts.at(i, j), sizeof(T)) == 0;
    CHECK(same, "%s in batches of %d", level.name.c_str(), int(batch));
  }
  Owned<T> full(n, n, Layout::rows), half(n, n, Layout::rows);
  level.linear(x.view, x.view, false, full.view);
  level.linear(x.view, x.view, true, half.view);
  CHECK(full.buffer == half.buffer, "%s: symmetric mode differs", level.name.c_str());
}

// More rows than one task packs, in both modes.
template <class T>
void test_tall(const Level<T>& level) {
  const Index n = 4300, m = 3, d = 2;
  auto x = random_matrix<T>(n, d, Layout::rows, true), y = random_matrix<T>(m, d, Layout::rows, true);
  for (int threads : {1, 3}) {
    core::set_thread_limit(threads);
    Owned<T> k(n, m, Layout::rows), s(n, n, Layout::rows);
    level.linear(x.view, y.view, false, k.view);
    level.linear(x.view, x.view, true, s.view);
    bool right = true;
    for (Index i = 0; i < n; ++i) {
      for (Index j = 0; j < m; ++j) right &= k.at(i, j) == x.at(i, 0) * y.at(j, 0) + x.at(i, 1) * y.at(j, 1);
      for (Index j = 0; j < n; ++j) right &= s.at(i, j) == x.at(i, 0) * x.at(j, 0) + x.at(i, 1) * x.at(j, 1);
    }
    CHECK(right && k.guards_stand() && s.guards_stand(), "%s with %d threads", level.name.c_str(), threads);
  }
  core::set_thread_limit(0);
}

template <class T>
void test_special_values(const Level<T>& level) {
  const Index n = 70, m = 75, d = 20;
  auto x = random_matrix<T>(n, d, Layout::rows), y = random_matrix<T>(m, d, Layout::rows);
  x.at(13, 4) = std::numeric_limits<T>::quiet_NaN();
  y.at(66, 7) = std::numeric_limits<T>::infinity();
  Owned<T> k(n, m, Layout::rows);
  level.linear(x.view, y.view, false, k.view);
  bool right = true;
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < m; ++j) right &= std::isfinite(k.at(i, j)) == (i != 13 && j != 66);
  CHECK(right, "%s: NaN or Inf left its row or column", level.name.c_str());
}

template <class T>
void test_type() {
  random_bits.seed(7);
  for (const auto& level : levels_to_test<Level<T>>(smoke)) {
    const int failed_before = failed;
    test_sizes(level);
    test_determinism(level);
    test_special_values(level);
    if (!quick) test_tall(level);
    std::printf("%s %s: %s\n", level.name.c_str(), sizeof(T) == 4 ? "f32" : "f64",
                failed == failed_before ? "ok" : "FAILED");
  }
}

}  // namespace

int main(int argc, char** argv) {
  smoke = argc > 1 && std::string(argv[1]) == "--smoke";
  quick = smoke || (argc > 1 && std::string(argv[1]) == "--quick");
  test_type<float>();
  test_type<double>();
  std::printf("baseline digest: %016llx\n", static_cast<unsigned long long>(digest));
  return summary();
}
