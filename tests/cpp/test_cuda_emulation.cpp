// The CUDA kernels, compiled from their own source by the host compiler and executed by fibers: see cuda/emulation.
//
// Every case runs in three thread orders, which must give the same bits, and is compared with a sum in higher
// precision. Then faults are put in on purpose, to see that they would be noticed: every single barrier of the kernel
// left out, and those of cuda_faults.cuh. (Reads out of bounds are AddressSanitizer's to find.)
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "check.hpp"
#include "cuda_faults.cuh"
#include "device.cu"
#include "gram.cu"

using namespace fastdl;
using cuda::emulation::Fault;
using cuda::emulation::Order;
using cuda::emulation::settings;
using Index = std::int64_t;

namespace {

constexpr Order orders[] = {Order::forward, Order::reverse, Order::random};
int executed = 0;  // calls of the real launcher

// padded: rows a multiple of 16 bytes apart, so that vectors are used although the row length is odd; shifted: rows,
// one element off the alignment; broadcast: one row, repeated.
enum class Layout { rows, padded, columns, padded_columns, shifted, strided, reversed, broadcast };

// A matrix in its own buffer, with room around and between its rows that must stay as it was.
template <class T>
struct Owned {
  static constexpr T guard = T(-12345);
  static constexpr Index margin = 16;  // keeps the alignment of the buffer
  std::vector<cuda::Vector<T>> buffer;
  Index origin = margin, rows, cols, row_stride, col_stride, size;

  Owned(Index rows_, Index cols_, Layout layout) : rows(rows_), cols(cols_), row_stride(cols_), col_stride(1) {
    const auto padded = [](Index n) { return (n + 3) / 4 * 4 + 4; };
    size = rows * cols;
    if (layout == Layout::padded) row_stride = padded(cols), size = rows * row_stride;
    if (layout == Layout::columns) row_stride = 1, col_stride = rows;
    if (layout == Layout::padded_columns) row_stride = 1, col_stride = padded(rows), size = cols * col_stride;
    if (layout == Layout::shifted) row_stride = padded(cols), size = rows * row_stride, origin += 1;
    if (layout == Layout::strided) row_stride = 3 * cols + 1, col_stride = 3, size = rows * row_stride;
    if (layout == Layout::reversed) row_stride = -cols, origin += rows ? (rows - 1) * cols : 0;
    if (layout == Layout::broadcast) row_stride = 0;
    constexpr Index lanes = cuda::Vector<T>::lanes;
    buffer.resize(static_cast<std::size_t>((size + 1 + 2 * margin + lanes - 1) / lanes));
    for (auto& vector : buffer) std::fill(std::begin(vector.lane), std::end(vector.lane), guard);
  }
  T* begin() { return buffer.data()->lane; }
  Index length() const { return Index(buffer.size()) * cuda::Vector<T>::lanes; }
  T* data() { return begin() + origin; }
  Index index(Index i, Index j) const { return origin + i * row_stride + j * col_stride; }
  T& at(Index i, Index j) { return begin()[index(i, j)]; }

  bool guards_stand() {
    std::vector<bool> inside(static_cast<std::size_t>(length()), false);
    for (Index i = 0; i < rows; ++i)
      for (Index j = 0; j < cols; ++j) inside[static_cast<std::size_t>(index(i, j))] = true;
    for (Index p = 0; p < length(); ++p)
      if (!inside[static_cast<std::size_t>(p)] && begin()[p] != guard) return false;
    return true;
  }
  bool same_bits(Owned& other) {
    return std::memcmp(begin(), other.begin(), static_cast<std::size_t>(length()) * sizeof(T)) == 0;
  }
};

std::mt19937_64 random_bits(7);

template <class T>
Owned<T> random_matrix(Index rows, Index cols, Layout layout) {
  Owned<T> m(rows, cols, layout);
  for (Index i = 0; i < rows; ++i)
    for (Index j = 0; j < cols; ++j) m.at(i, j) = T(static_cast<double>(random_bits() >> 40) * 0x1p-23 - 1);
  return m;
}

template <class T>
void linear(Owned<T>& x, Owned<T>& y, Owned<T>& k) {
  gram::cuda::linear(x.data(), x.rows, x.row_stride, x.col_stride, y.data(), y.rows, y.row_stride, y.col_stride, x.cols,
                     k.data(), k.row_stride, nullptr);
  ++executed;
}

template <class T>
void linear(Owned<T>& x, Owned<T>& k) {
  gram::cuda::linear(x.data(), x.rows, x.row_stride, x.col_stride, x.cols, k.data(), k.row_stride, nullptr);
  ++executed;
}

template <class T>
using Wider = std::conditional_t<sizeof(T) == 4, double, long double>;

// |K - exact| <= d eps sum |x||y|, and no more: a chain of fused multiply-adds rounds d times.
template <class T>
bool within_bound(Owned<T>& x, Owned<T>& y, Owned<T>& k) {
  for (Index i = 0; i < x.rows; ++i)
    for (Index j = 0; j < y.rows; ++j) {
      Wider<T> sum = 0, size = 0;
      for (Index f = 0; f < x.cols; ++f) {
        const Wider<T> term = static_cast<Wider<T>>(x.at(i, f)) * y.at(j, f);
        sum += term;
        size += std::fabs(term);
      }
      if (!(std::fabs(k.at(i, j) - sum) <= Wider<T>(x.cols) * std::numeric_limits<T>::epsilon() * size)) return false;
    }
  return true;
}

template <class T>
std::string describe(Index n, Index m, Index d, Layout input, Layout output) {
  return std::string(sizeof(T) == 4 ? "f32 " : "f64 ") + std::to_string(n) + " x " + std::to_string(m) + " x " +
         std::to_string(d) + ", layouts " + std::to_string(int(input)) + " and " + std::to_string(int(output));
}

// One case in both modes and three orders.
template <class T>
void test_case(Index n, Index m, Index d, Layout input, Layout output) {
  const std::string what = describe<T>(n, m, d, input, output);
  auto x = random_matrix<T>(n, d, input), y = random_matrix<T>(m, d, input);
  Owned<T> k(n, m, output), s(n, n, output);
  settings.order = Order::forward;
  linear(x, y, k);
  linear(x, s);
  CHECK(within_bound(x, y, k), "%s: error beyond its bound", what.c_str());
  CHECK(within_bound(x, x, s), "%s: error beyond its bound, symmetric", what.c_str());
  CHECK(k.guards_stand() && s.guards_stand(), "%s: wrote beside the output", what.c_str());
  bool mirrored = true;
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < i; ++j) mirrored &= std::memcmp(&s.at(i, j), &s.at(j, i), sizeof(T)) == 0;
  CHECK(mirrored, "%s: not symmetric", what.c_str());
  for (Order order : {Order::reverse, Order::random}) {
    settings.order = order;
    Owned<T> again(n, m, output), symmetric_again(n, n, output);
    linear(x, y, again);
    linear(x, symmetric_again);
    CHECK(k.same_bits(again) && s.same_bits(symmetric_again), "%s: depends on the order of threads", what.c_str());
  }
}

template <class T>
void test_sizes() {
  const Index sizes[][3] = {{0, 3, 4},     {3, 0, 4},     {5, 4, 0},      {1, 1, 1},     {7, 8, 9},      {9, 7, 8},
                            {15, 16, 17},  {17, 15, 16},  {31, 32, 33},   {33, 31, 32},  {63, 64, 65},   {65, 63, 64},
                            {64, 65, 63},  {127, 128, 7}, {128, 129, 15}, {129, 130, 1}, {130, 127, 31}, {1, 130, 127},
                            {130, 1, 128}, {8, 9, 129},   {16, 17, 130}};
  for (const auto& [n, m, d] : sizes) test_case<T>(n, m, d, Layout::rows, Layout::rows);
  for (Layout input : {Layout::padded, Layout::columns, Layout::padded_columns, Layout::shifted, Layout::strided,
                       Layout::reversed, Layout::broadcast})
    for (Layout output : {Layout::rows, Layout::padded}) {
      test_case<T>(9, 7, 17, input, output);
      test_case<T>(66, 131, 6, input, output);
    }
  test_case<T>(67, 64, 10, Layout::rows, Layout::shifted);
  test_case<T>(1, 1, 20, Layout::strided, Layout::rows);
  // Enough tiles for whole bands of rows, and for a triangle of several.
  const Index side = gemm::cuda::Shape<T>::side;
  test_case<T>(9 * side + 1, 2 * side + 3, 2, Layout::rows, Layout::rows);
}

// The triangle is covered once by its blocks, up to the largest grid.
void test_triangle() {
  bool right = true;
  const auto check = [&](Index row, Index column) {
    const auto place = gemm::cuda::triangle_place<float>(row * (row + 1) / 2 + column);
    right &= place.tile_row == row && place.tile_column == column;
  };
  for (Index row = 0; row < 300; ++row)
    for (Index column = 0; column <= row; ++column) check(row, column);
  for (Index row = 300; row < 65535; row += 7) check(row, 0), check(row, row / 2), check(row, row);
  CHECK(right, "a block computes the wrong tile");
}

// The bits of an element depend on its own two rows only.
template <class T>
void test_batches() {
  const Index n = 70, m = 75, d = 37;
  auto x = random_matrix<T>(n, d, Layout::rows), y = random_matrix<T>(m, d, Layout::rows);
  Owned<T> whole(n, m, Layout::rows), parts(n, m, Layout::rows);
  settings.order = Order::forward;
  linear(x, y, whole);
  for (Index i = 0; i < n; i += 13) {
    const Index rows = std::min<Index>(13, n - i);
    gram::cuda::linear(x.data() + i * d, rows, d, 1, y.data(), m, d, 1, d, parts.data() + i * m, m, nullptr);
    ++executed;
  }
  CHECK(whole.same_bits(parts), "batches of rows give other bits");
  Owned<T> full(n, n, Layout::rows), half(n, n, Layout::rows);
  linear(x, x, full);
  linear(x, half);
  CHECK(full.same_bits(half), "symmetric mode gives other bits");
}

template <class T>
void test_special_values() {
  const Index n = 70, m = 75, d = 11;
  auto x = random_matrix<T>(n, d, Layout::rows), y = random_matrix<T>(m, d, Layout::rows);
  x.at(13, 4) = std::numeric_limits<T>::quiet_NaN();
  y.at(66, 10) = std::numeric_limits<T>::infinity();
  Owned<T> k(n, m, Layout::rows);
  linear(x, y, k);
  bool right = true;
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < m; ++j) right &= std::isfinite(k.at(i, j)) == (i != 13 && j != 66);
  CHECK(right, "NaN or Inf left its row or column");
}

// An epilogue sees every element of the result, at its place, and nothing else.
struct Label {
  float operator()(float sum, Index row, Index column) const {
    if (row >= 130 || column >= 5) throw std::logic_error("outside");
    return sum + float(1000 * row + column);
  }
};

void test_epilogue() {
  Owned<float> x(130, 0, Layout::rows), k(130, 5, Layout::rows);
  gram::cuda::gram<float>("gram.label", nullptr, 130, 0, 1, nullptr, 5, 0, 1, 0, k.data(), 5, Label{}, nullptr);
  bool right = true;
  for (Index i = 0; i < 130; ++i)
    for (Index j = 0; j < 5; ++j) right &= k.at(i, j) == float(1000 * i + j);
  CHECK(right, "epilogue at the wrong element");
}

// ---- faults, put in on purpose ----

// With any one of its barriers left out, the kernel must give a wrong result in some order: else the tests above would
// not see a missing barrier, or the barrier is not needed.
template <class T>
void test_missing_barriers(bool symmetric) {
  const Index depth = gemm::cuda::Shape<T>::depth, side = gemm::cuda::Shape<T>::side;
  const Index n = side + 3, d = 3 * depth + 1;
  const int strips = gemm::cuda::Shape<T>::part * gemm::cuda::Shape<T>::threads_across / gemm::cuda::Shape<T>::strip;
  const int barriers = 4 + (symmetric ? 2 * strips : 0);
  auto x = random_matrix<T>(n, d, Layout::rows);
  Owned<T> right(n, n, Layout::rows);
  settings.order = Order::forward;
  linear(x, right);
  for (int skipped = 0; skipped <= barriers; ++skipped) {
    settings.skipped_barrier = skipped;
    bool noticed = false;
    for (Order order : orders) {
      settings.order = order;
      Owned<T> k(n, n, Layout::rows);
      if (symmetric)
        linear(x, k);
      else
        linear(x, x, k);
      noticed |= !k.same_bits(right);
    }
    CHECK(noticed == (skipped < barriers), "barrier %d of %d left out in %s mode", skipped, barriers,
          symmetric ? "symmetric" : "general");
  }
  settings = {};
}

template <class Call>
std::string fault_of(Call&& call) {
  try {
    call();
  } catch (const Fault& fault) {
    return fault.what();
  }
  return "";
}

// What was found when device memory was released.
std::string reported() {
  try {
    cuda::leave(0);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

void test_seeded_faults() {
  constexpr unsigned count = 96;
  const cuda::Geometry geometry{dim3(2), dim3(count), count * sizeof(int)};
  std::vector<int> from(count), to(count), expected(count);
  for (unsigned t = 0; t < count; ++t) from[t] = int(t), expected[t] = int(count - 1 - t);
  bool right = true, wrong = false;
  for (Order order : orders) {
    settings.order = order;
    cuda::launch("reverse_values", reverse_values, geometry, from.data(), to.data(), true);
    right &= to == expected;
    cuda::launch("reverse_values", reverse_values, geometry, from.data(), to.data(), false);
    wrong |= to != expected;
  }
  CHECK(right && wrong, "a removed barrier is seen where it is, and nowhere else");

  int last[2] = {};
  for (const int i : {0, 1}) {
    settings.order = i == 0 ? Order::forward : Order::reverse;
    cuda::launch("last_writer", last_writer, {dim3(1), dim3(count)}, &last[i]);
  }
  CHECK(last[0] != last[1], "a race is seen in another order");
  const auto other = reinterpret_cast<cuda::Stream>(std::uintptr_t{64});
  CHECK(fault_of([&] {
          cuda::launch("last_writer", last_writer, {dim3(1), dim3(count), 0, other}, &last[0]);
        }).find("on the caller's stream") != std::string::npos,
        "a launch on another stream than the caller's");

  for (Order order : orders) {
    settings.order = order;
    std::string fault = fault_of([&] { cuda::launch("divergent", divergent_barrier, geometry, to.data()); });
    CHECK(fault.find("[divergent]") == 0 && fault.find("40 at barriers") != fault.npos, "%s", fault.c_str());
    fault = fault_of([&] { cuda::launch("two_barriers", two_barriers, geometry, to.data()); });
    CHECK(fault.find("[two_barriers]") == 0, "%s", fault.c_str());
    fault = fault_of([&] { cuda::launch("lanes", shuffle_without_some, geometry, to.data()); });
    CHECK(fault.find("[lanes]") == 0 && fault.find("16 at warp") != fault.npos, "%s", fault.c_str());
    fault = fault_of([&] { cuda::launch("outside", shuffle_from_outside, geometry, to.data()); });
    CHECK(fault.find("[outside]") == 0 && fault.find("lane 20") != fault.npos, "%s", fault.c_str());
    fault = fault_of([&] { cuda::launch("stuck", barrier_or_shuffle, geometry, to.data()); });
    CHECK(fault.find("[stuck]") == 0 && fault.find("48 at barriers, 48 at warp") != fault.npos, "%s", fault.c_str());
    fault = fault_of([&] { cuda::launch("large", divergent_barrier, {dim3(1), dim3(1025)}, to.data()); });
    CHECK(fault.find("[large]") == 0, "%s", fault.c_str());

    {
      const cuda::Scratch<int> room("off_by_one", count, nullptr);
      cuda::launch("off_by_one", off_by_one, {dim3(1), dim3(count)}, room.data(), int(count) - 1);
    }
    CHECK(reported().empty(), "writes within the memory are no fault");
#if !defined(FASTDL_EMULATION_ASAN)  // which ends the program at such a write
    {
      const cuda::Scratch<int> room("off_by_one", count - 1, nullptr);
      cuda::launch("off_by_one", off_by_one, {dim3(1), dim3(count)}, room.data(), int(count) - 1);
    }
    fault = reported();
    CHECK(fault.find("got one outside") != fault.npos, "%s", fault.c_str());
#endif
    const cuda::Scratch<float> room("unaligned", 4 * count + 4, nullptr);
    fault = fault_of([&] { cuda::launch("unaligned", unaligned, {dim3(1), dim3(count)}, room.data(), room.data()); });
    CHECK(fault.find("[unaligned]") == 0 && fault.find("multiple of 16") != fault.npos, "%s", fault.c_str());

    // After all that the machine still works.
    cuda::launch("sum_of_warp", sum_of_warp, geometry, from.data(), to.data());
    bool sums = true;
    for (unsigned t = 0; t < count; ++t) {
      const unsigned warp = t / 32, up = t % 32 ? t - 1 : t, down = t % 8 < 7 ? t + 1 : t;
      sums &= to[t] == int(496 + 32 * 32 * warp + up + 100 * down + 10000 * (t / 16 * 16 + 3) + 1000000);
    }
    CHECK(sums, "warp shuffles");
    std::vector<float> out(count);
    cuda::launch("reads_before_writing", reads_before_writing, geometry, out.data());
    CHECK(std::isnan(out[0]) && std::isnan(out[count - 1]), "shared memory is not poisoned");
  }
  settings = {};
}

template <class T>
void test_type() {
  const int failed_before = failed;
  test_sizes<T>();
  test_batches<T>();
  test_special_values<T>();
  test_missing_barriers<T>(true);
  test_missing_barriers<T>(false);
  std::printf("%s: %s\n", sizeof(T) == 4 ? "f32" : "f64", failed == failed_before ? "ok" : "FAILED");
}

}  // namespace

int main() {
  test_triangle();
  test_epilogue();
  test_seeded_faults();
  test_type<float>();
  test_type<double>();
  std::printf("%d calls of gram.linear\n", executed);
  return summary();
}
