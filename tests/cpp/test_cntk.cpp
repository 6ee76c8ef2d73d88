// The convolutional neural tangent kernel at every level this machine can run, against its definition: four loops over
// the positions of both images, in higher precision, with an error bound carried along.
//
// Also: the neural tangent kernel on 1 x 1 images; bit-equality over thread counts, batches, lanes and symmetry;
// scaling by powers of two; NaN; and the C interface's refusals.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "check.hpp"
#include "core/threads.hpp"
#include "fastdl/gram.hpp"
#include "gram/cntk_bodies.hpp"

#define TEST_LEVEL(level) {#level, fastdl::gram::level::cntk}
#include "levels.hpp"

using namespace fastdl;
using gram::CntkShape;
using Index = std::int64_t;

namespace {

std::mt19937_64 random_bits(11);
bool quick = false;  // for emulators: few shapes
bool smoke = false;  // for very slow ones: the widest level alone

template <class T>
struct Level {
  std::string name;
  void (*cntk)(const T*, Index, const T*, Index, bool, const CntkShape&, T*);
};

template <class T>
std::vector<T> random_images(Index count, const CntkShape& shape) {
  std::vector<T> images(static_cast<std::size_t>(count * shape.channels * shape.height * shape.width));
  for (T& value : images) value = T(static_cast<double>(random_bits() >> 40) * 0x1p-23 - 1);
  return images;
}

template <class T>
using Wider = std::conditional_t<sizeof(T) == 4, double, long double>;

// ---- the definition ----------------------------------------------------------------------------------------------

template <class W>
struct Expected {
  W value, bound;
};

template <class W>
using Map = std::vector<W>;  // [p][p']

template <class W>
Map<W> box(const Map<W>& a, const CntkShape& shape) {
  const Index height = shape.height, width = shape.width;
  const Index before = (shape.kernel_size - 1) / 2, after = shape.kernel_size / 2;
  const W weight = 1 / (W(shape.kernel_size) * W(shape.kernel_size));
  const auto inside = [&](Index i, Index j) { return i >= 0 && i < height && j >= 0 && j < width; };
  const auto at = [&](Index i, Index j, Index k, Index l) {
    return static_cast<std::size_t>(((i * width + j) * height + k) * width + l);
  };
  Map<W> result(a.size());
  for (Index i = 0; i < height; ++i)
    for (Index j = 0; j < width; ++j)
      for (Index k = 0; k < height; ++k)
        for (Index l = 0; l < width; ++l) {
          W sum = 0;
          for (Index down = -before; down <= after; ++down)
            for (Index right = -before; right <= after; ++right)
              if (inside(i + down, j + right) && inside(k + down, l + right))
                sum += a[at(i + down, j + right, k + down, l + right)];
          result[at(i, j, k, l)] = sum * weight;
        }
  return result;
}

template <class T>
Map<Wider<T>> products(const T* x, const T* y, const CntkShape& shape) {
  using W = Wider<T>;
  const Index pixels = shape.height * shape.width;
  Map<W> result(static_cast<std::size_t>(pixels * pixels));
  for (Index p = 0; p < pixels; ++p)
    for (Index r = 0; r < pixels; ++r)
      for (Index c = 0; c < shape.channels; ++c)
        result[static_cast<std::size_t>(p * pixels + r)] += W(x[c * pixels + p]) * W(y[c * pixels + r]);
  return result;
}

// Sxx of the image and of every layer, from the map of an image with itself: K(x,x)[p,p] is Sxx again, so only box acts
// on it.
template <class T>
std::vector<Map<Wider<T>>> variances(const T* x, const CntkShape& shape) {
  using W = Wider<T>;
  const std::size_t pixels = static_cast<std::size_t>(shape.height * shape.width);
  Map<W> map = products(x, x, shape);
  std::vector<Map<W>> layers;
  for (int h = 0; h <= shape.depth; ++h) {
    if (h > 0) map = box(map, shape);
    Map<W> diagonal(pixels);
    for (std::size_t p = 0; p < pixels; ++p) diagonal[p] = map[p * pixels + p];
    layers.push_back(diagonal);
  }
  return layers;
}

// The bound: S is off by at most u sqrt(Sxx Syy), u growing with the roundings of every layer, since S <- K(S) expands
// nothing. An error of 2u in the cosine is one of 4u / sin(theta) in theta, and never more than 2.5 sqrt(u).
// Without a layer, and with the images pooled first, there is a rounding for every pixel and every channel.
template <class T>
Expected<Wider<T>> expected(const T* x, const T* y, const CntkShape& shape) {
  using W = Wider<T>;
  const W pi = std::acos(W(-1)), eps = std::numeric_limits<T>::epsilon();
  const std::size_t pixels = static_cast<std::size_t>(shape.height * shape.width);
  const bool same = x == y;
  const auto xx = variances(x, shape), yy = variances(y, shape);
  Map<W> s = products(x, y, shape), t = s, error(s.size());
  W u = W(shape.channels) * eps;
  for (std::size_t p = 0; p < pixels; ++p)
    for (std::size_t r = 0; r < pixels; ++r)
      error[p * pixels + r] = (u + W(pixels + 4) * eps) * std::sqrt(xx[0][p]) * std::sqrt(yy[0][r]);
  for (int h = 1; h <= shape.depth; ++h) {
    s = box(s, shape);
    t = box(t, shape);
    error = box(error, shape);
    u += W(2 * shape.kernel_size + 10) * eps;
    for (std::size_t p = 0; p < pixels; ++p)
      for (std::size_t r = 0; r < pixels; ++r) {
        const std::size_t at = p * pixels + r;
        const W a = xx[static_cast<std::size_t>(h)][p], b = yy[static_cast<std::size_t>(h)][r];
        const W size = std::sqrt(a) * std::sqrt(b);
        // An image and a position with itself: exactly zero, which rounding would blur.
        const W height = same && p == r ? 0 : std::sqrt(std::max(W(0), (size - s[at]) * (size + s[at])));
        const W theta = height == 0 && s[at] == 0 ? pi / 2 : std::atan2(height, s[at]);
        const W blur = size == 0 || (same && p == r) ? 0 : std::min(4 * u * size / height, W(2.5) * std::sqrt(u));
        const W derivative = (pi - theta) / pi;
        if (h == 1) error[at] = u * size;
        s[at] = (height + (pi - theta) * s[at]) / pi;
        error[at] = derivative * error[at] + std::fabs(t[at]) * (blur / pi + 4 * eps) + 2 * u * size;
        t[at] = derivative * t[at] + s[at];
      }
  }
  Expected<W> result{0, 0};
  for (std::size_t p = 0; p < pixels; ++p)
    for (std::size_t r = 0; r < pixels; ++r) {
      if (!shape.mean_pooling && p != r) continue;
      result.value += t[p * pixels + r];
      // The last sum runs along a row in the type itself.
      result.bound += error[p * pixels + r] + std::fabs(t[p * pixels + r]) * W(shape.width + 2) * eps;
    }
  const W count = W(pixels) * (shape.mean_pooling ? W(pixels) : 1);
  return {result.value / count, result.bound / count};
}

// ---- tests -------------------------------------------------------------------------------------------------------

std::string text_of(const CntkShape& shape) {
  return std::to_string(shape.channels) + "x" + std::to_string(shape.height) + "x" + std::to_string(shape.width) +
         " depth " + std::to_string(shape.depth) + " kernel " + std::to_string(shape.kernel_size) +
         (shape.mean_pooling ? " mean" : " flatten");
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// An output with room around it that must stay as it was.
template <class T>
std::vector<T> run(const Level<T>& level, const std::vector<T>& x, Index n, const std::vector<T>* y, Index m,
                   const CntkShape& shape) {
  constexpr std::size_t margin = 20;
  const std::size_t size = static_cast<std::size_t>(n * m);
  std::vector<T> k(size + 2 * margin, T(-12345));
  level.cntk(x.data(), n, y ? y->data() : x.data(), m, !y, shape, k.data() + margin);
  for (std::size_t i = 0; i < margin; ++i)
    CHECK(k[i] == T(-12345) && k[margin + size + i] == T(-12345), "%s: wrote beside the output", level.name.c_str());
  return {k.begin() + margin, k.begin() + margin + static_cast<std::ptrdiff_t>(size)};
}

template <class T>
void test_shape(const std::vector<Level<T>>& all, const CntkShape& shape, Index n, Index m, double* worst) {
  using W = Wider<T>;
  const auto x = random_images<T>(n, shape), y = random_images<T>(m, shape);
  const Index values = shape.channels * shape.height * shape.width;
  std::vector<Expected<W>> crossed, square;
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j < m; ++j) crossed.push_back(expected(x.data() + i * values, y.data() + j * values, shape));
    for (Index j = 0; j < n; ++j) square.push_back(expected(x.data() + i * values, x.data() + j * values, shape));
  }
  for (std::size_t l = 0; l < all.size(); ++l) {
    const auto compare = [&](const std::vector<T>& k, const std::vector<Expected<W>>& right, const char* what) {
      bool good = true;
      for (std::size_t i = 0; i < k.size(); ++i) {
        const W error = std::fabs(k[i] - right[i].value);
        good &= error <= right[i].bound;
        // The relative error is told of images with several channels: of one channel, patches are often parallel.
        if (shape.channels > 1 && shape.mean_pooling && shape.height * shape.width > 1 && shape.depth > 0)
          worst[l] = std::max(worst[l], static_cast<double>(error / std::fabs(right[i].value)));
      }
      CHECK(good, "%s %s %s, %d and %d images, %s", all[l].name.c_str(), sizeof(T) == 4 ? "f32" : "f64",
            text_of(shape).c_str(), int(n), int(m), what);
    };
    compare(run(all[l], x, n, &y, m, shape), crossed, "X and Y");
    const auto half = run<T>(all[l], x, n, nullptr, n, shape);
    compare(half, square, "X");
    bool mirrored = true;
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j < i; ++j)
        mirrored &= half[static_cast<std::size_t>(i * n + j)] == half[static_cast<std::size_t>(j * n + i)];
    CHECK(mirrored, "%s %s is not symmetric", all[l].name.c_str(), text_of(shape).c_str());
    CHECK(same_bits(half, run(all[l], x, n, &x, n, shape)), "%s %s: the symmetric mode differs", all[l].name.c_str(),
          text_of(shape).c_str());
  }
}

template <class T>
void test_shapes(const std::vector<Level<T>>& all) {
  std::vector<double> worst(all.size(), 0.0);
  int turn = 0;
  for (Index height : {1, 2, 3, 5, 8})
    for (Index width : {1, 2, 3, 5, 8})
      for (int kernel_size : {1, 2, 3, 4, 5})
        for (bool mean : {true, false}) {
          ++turn;
          if (quick && turn % 7 != 0) continue;
          const bool large = height * width > 16;
          // Every depth meets every kernel size, pooling and number of channels as the shapes go by.
          for (int depth : {1 + turn % 4, (turn / 10 + kernel_size) % 5})
            test_shape<T>(all, {1 + (turn + depth) % 3, height, width, depth, kernel_size, mean}, 2, large ? 3 : 9,
                          worst.data());
        }
  for (Index n : {0, 1, 7, 8, 9, 17})
    for (Index m : {0, 1, 7, 8, 9, 17})
      for (bool mean : {true, false}) {
        test_shape<T>(all, {2, 2, 3, 2, 3, mean}, n, m, worst.data());
        test_shape<T>(all, {2, 2, 3, 0, 3, mean}, n, m, worst.data());
      }
  for (int kernel_size : {8, 9})  // a window larger than the image
    test_shape<T>(all, {2, 3, 2, 3, kernel_size, true}, 2, 2, worst.data());
  test_shape<T>(all, {70, 1, 7, 2, 3, true}, 2, 2, worst.data());
  for (std::size_t l = 0; l < all.size(); ++l)
    std::printf("%s %s: largest relative error %.2g\n", all[l].name.c_str(), sizeof(T) == 4 ? "f32" : "f64", worst[l]);
}

// On 1 x 1 images: the fully connected kernel with weights of variance 2, without biases, halved.
template <class T>
void test_single_pixel(const Level<T>& level) {
  const double pi = std::acos(-1.0);
  for (int depth = 0; depth <= 4; ++depth)
    for (bool mean : {true, false}) {
      const CntkShape shape{5, 1, 1, depth, 1, mean};
      const Index n = 6, m = 5;
      const auto x = random_images<T>(n, shape), y = random_images<T>(m, shape);
      const auto k = run(level, x, n, &y, m, shape);
      double worst = 0;
      for (Index i = 0; i < n; ++i)
        for (Index j = 0; j < m; ++j) {
          double s = 0, xx = 0, yy = 0;
          for (Index c = 0; c < 5; ++c) {
            const double a = x[static_cast<std::size_t>(i * 5 + c)], b = y[static_cast<std::size_t>(j * 5 + c)];
            s += 2 * a * b, xx += 2 * a * a, yy += 2 * b * b;
          }
          const double scale = std::sqrt(xx * yy);
          double tangent = s;
          for (int h = 0; h < depth; ++h) {
            const double height = std::sqrt(xx * yy - s * s), theta = std::atan2(height, s);
            const double derivative = 0.5 - theta / (2 * pi);
            tangent *= derivative;
            s = 2 * (height / (2 * pi) + derivative * s);
            tangent = s + 2 * tangent;
          }
          worst = std::max(worst, std::fabs(k[static_cast<std::size_t>(i * m + j)] - tangent / 2) / scale);
        }
      CHECK(worst <= 100 * double(std::max(depth, 1)) * double(std::numeric_limits<T>::epsilon()), "%s depth %d: %g",
            level.name.c_str(), depth, worst);
    }
}

// The same bits whatever the number of threads, the batch a row comes in, and the lane a column lies in.
template <class T>
void test_determinism(const Level<T>& level) {
  struct Batch {
    CntkShape shape;
    Index n, m;  // enough for several threads
  };
  for (const auto& [shape, rows, columns] :
       {Batch{{3, 6, 5, 3, 3, true}, 21, 19}, Batch{{3, 16, 15, 3, 3, false}, 90, 83},
        Batch{{3, 6, 5, 3, 2, true}, 21, 19}, Batch{{3, 5, 6, 2, 4, true}, 31, 19},
        Batch{{3, 16, 15, 3, 4, false}, 90, 83}, Batch{{2, 3, 1, 0, 3, true}, 1310, 810},
        Batch{{3, 16, 15, 0, 3, false}, 90, 83}}) {
    const Index n = quick ? 9 : rows, m = quick ? 10 : columns;
    const auto x = random_images<T>(n, shape), y = random_images<T>(m, shape);
    const Index values = shape.channels * shape.height * shape.width;
    core::set_thread_limit(1);
    const auto one = run(level, x, n, &y, m, shape), half = run<T>(level, x, n, nullptr, n, shape);
    for (int threads : {2, 3, 8}) {
      core::set_thread_limit(threads);
      CHECK(same_bits(one, run(level, x, n, &y, m, shape)), "%s with %d threads", level.name.c_str(), threads);
      CHECK(same_bits(half, run<T>(level, x, n, nullptr, n, shape)), "%s with %d threads", level.name.c_str(), threads);
    }
    core::set_thread_limit(0);
    std::vector<T> parts(one.size());
    for (Index i = 0; i < n; ++i) {
      const std::vector<T> row(x.begin() + i * values, x.begin() + (i + 1) * values);
      const auto k = run(level, row, 1, &y, m, shape);
      std::copy(k.begin(), k.end(), parts.begin() + i * m);
    }
    CHECK(same_bits(one, parts), "%s row by row", level.name.c_str());
    const auto turned = run(level, y, m, &x, n, shape);
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j < m; ++j)
        parts[static_cast<std::size_t>(i * m + j)] = turned[static_cast<std::size_t>(j * n + i)];
    CHECK(same_bits(one, parts), "%s with X and Y exchanged", level.name.c_str());
    for (Index j = 0; j < m; ++j) {
      const std::vector<T> column(y.begin() + j * values, y.begin() + (j + 1) * values);
      const auto k = run(level, x, n, &column, 1, shape);
      for (Index i = 0; i < n; ++i) parts[static_cast<std::size_t>(i * m + j)] = k[static_cast<std::size_t>(i)];
    }
    CHECK(same_bits(one, parts), "%s column by column", level.name.c_str());
  }
}

template <class T>
void test_special_values(const Level<T>& level, int depth, int kernel_size) {
  for (bool mean : {true, false}) {
    const CntkShape shape{2, 4, 3, depth, kernel_size, mean};
    const Index n = 9, m = 20, values = 24;
    const auto x = random_images<T>(n, shape), y = random_images<T>(m, shape);
    auto bad_x = x, bad_y = y;
    bad_x[5 * 24 + 7] = std::numeric_limits<T>::quiet_NaN();
    bad_y[13 * 24 + 20] = std::numeric_limits<T>::infinity();
    const auto clean = run(level, x, n, &y, m, shape), k = run(level, bad_x, n, &bad_y, m, shape);
    bool right = true;
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j < m; ++j) {
        const std::size_t at = static_cast<std::size_t>(i * m + j);
        // Without a layer Inf is multiplied and no more: it stays what it is.
        right &= i == 5             ? std::isnan(k[at])
                 : j == 13 && depth ? std::isnan(k[at])
                 : j == 13          ? std::isinf(k[at])
                                    : k[at] == clean[at];
      }
    CHECK(right, "%s: NaN or Inf left its row or column", level.name.c_str());

    // A power of two in an image is one in its row, also where its square is out of range; a black image gives zero.
    auto scaled = x;
    constexpr int shift = sizeof(T) == 4 ? 90 : 700;
    for (Index f = 0; f < values; ++f) {
      scaled[static_cast<std::size_t>(2 * values + f)] = std::ldexp(x[static_cast<std::size_t>(2 * values + f)], shift);
      scaled[static_cast<std::size_t>(3 * values + f)] =
          std::ldexp(x[static_cast<std::size_t>(3 * values + f)], -shift);
      scaled[static_cast<std::size_t>(4 * values + f)] = 0;
    }
    const auto big = run(level, scaled, n, &y, m, shape);
    right = true;
    for (Index j = 0; j < m; ++j) {
      const auto at = [&](Index i) { return static_cast<std::size_t>(i * m + j); };
      right &= big[at(2)] == std::ldexp(clean[at(2)], shift) && big[at(3)] == std::ldexp(clean[at(3)], -shift) &&
               big[at(4)] == 0 && big[at(1)] == clean[at(1)];
    }
    CHECK(right, "%s: scaled images", level.name.c_str());

    if (depth != 2) continue;
    // An image against itself: theta is zero where the positions agree, so flatten is Sxx, once for T and once for
    // every layer. Against its negative the first ReLU leaves nothing, and the second finds a right angle: Sxx/pi.
    auto copies = random_images<T>(2, shape);
    for (Index f = 0; f < values; ++f)
      copies[static_cast<std::size_t>(values + f)] = -copies[static_cast<std::size_t>(f)];
    const auto pair = run<T>(level, copies, 2, nullptr, 2, shape);
    if (!mean) {
      const auto sums = variances(copies.data(), shape);
      Wider<T> total = 0;
      for (std::size_t p = 0; p < 12; ++p) total += sums[2][p] / 12;
      const double same = std::fabs(static_cast<double>(pair[0] / (3 * total) - 1));
      const double opposite = std::fabs(static_cast<double>(pair[1] / (total / std::acos(Wider<T>(-1))) - 1));
      constexpr double bound = 20 * double(std::numeric_limits<T>::epsilon());
      CHECK(same <= bound && pair[3] == pair[0], "%s: an image against itself, off by %g", level.name.c_str(), same);
      CHECK(opposite <= bound, "%s: an image against its negative, off by %g", level.name.c_str(), opposite);
    }
  }
}

template <class T>
void test_type() {
  random_bits.seed(11);
  const auto all = levels_to_test<Level<T>>(smoke);
  test_shapes(all);
  for (const auto& level : all) {
    const int failed_before = failed;
    test_single_pixel(level);
    test_determinism(level);
    test_special_values(level, 2, 3);
    test_special_values(level, 2, 4);
    test_special_values(level, 0, 3);
    std::printf("%s %s: %s\n", level.name.c_str(), sizeof(T) == 4 ? "f32" : "f64",
                failed == failed_before ? "ok" : "FAILED");
  }
}

void refused(fastdl_status status, const char* part) {
  CHECK(status == FASTDL_INVALID_ARGUMENT && std::strstr(fastdl_last_error(), part), "status %d, '%s' without '%s'",
        int(status), fastdl_last_error(), part);
}

void test_interface() {
  float x[4] = {1, 2, 3, 4}, k[4] = {9, 9, 9, 9};
  refused(fastdl_gram_cntk_f32(nullptr, 1, x, 1, 1, 2, 2, 1, 3, 1, k), "X with data");
  refused(fastdl_gram_cntk_f32(x, -1, x, 1, 1, 2, 2, 1, 3, 1, k), "X with extents >= 0");
  refused(fastdl_gram_cntk_f32(x, 1, x, 1, 1, -2, 2, 1, 3, 1, k), "[gram.cntk] expected X with extents >= 0");
  refused(fastdl_gram_cntk_f32(x, 1, x, -1, 1, 2, 2, 1, 3, 1, k), "Y with extents >= 0");
  refused(fastdl_gram_cntk_f32(x, 1, x, 1, 1, 2, 2, -1, 3, 1, k), "expected depth >= 0, got -1");
  refused(fastdl_gram_cntk_f32(x, 1, x, 1, 1, 2, 2, 1, 0, 1, k), "expected kernel_size >= 1, got 0");
  refused(fastdl_gram_cntk_f32(x, 1, x, 1, 1, 2, 2, 0, -1, 1, k), "expected kernel_size >= 1, got -1");
  refused(fastdl_gram_cntk_f32(x, 1, x, 1, 1, 2, 2, 1, 3, 1, nullptr), "K with data");
  refused(fastdl_gram_cntk_f32(x, 1, nullptr, 2, 1, 2, 2, 1, 3, 1, k), "m = n");
  refused(fastdl_gram_cntk_f32(x, 1, x, 1, INT64_MAX, 2, 2, 1, 3, 1, k), "address space");
  CHECK(k[0] == 9, "a refused call wrote");
  CHECK(fastdl_gram_cntk_f32(x, 1, x, 1, INT64_MAX / 64, 2, 2, 1, 3, 1, k) == FASTDL_OUT_OF_MEMORY, "no such memory");
  CHECK(fastdl_gram_cntk_f32(nullptr, 0, nullptr, 0, 1, 2, 2, 1, 3, 1, nullptr) == FASTDL_OK, "empty");
  CHECK(fastdl_gram_cntk_f32(x, 1, nullptr, 0, 1, 2, 2, 1, 3, 1, nullptr) == FASTDL_OK, "empty Y");
  CHECK(fastdl_gram_cntk_f32(nullptr, 2, nullptr, 1, 3, 0, 5, 1, 3, 1, k) == FASTDL_OK && k[0] == 0 && k[1] == 0 &&
            k[2] == 9,
        "images without pixels");
  double d[4] = {1, 2, 3, 4}, value[1] = {9};
  CHECK(fastdl_gram_cntk_f64(d, 1, nullptr, 1, 0, 2, 2, 1, 3, 0, value) == FASTDL_OK && value[0] == 0, "no channels");

  // One channel of 1 x 1: x y (1 + depth) for positive values, through the C++ header.
  const gram::ImagesView<double> images{d, 2, 1, 1, 1}, others{d + 2, 2, 1, 1, 1};
  double square[4], crossed[4];
  gram::cntk(images, 2, 1, gram::Pooling::mean, square);
  gram::cntk(images, others, 2, 1, gram::Pooling::flatten, crossed);
  const auto near = [](double a, double b) { return std::fabs(a - b) <= 1e-7 * b; };
  CHECK(near(square[0], 3) && near(square[1], 6) && near(square[2], 6) && near(square[3], 12), "square");
  CHECK(near(crossed[0], 9) && near(crossed[1], 12) && near(crossed[2], 18) && near(crossed[3], 24), "crossed");
  // Without a layer: a product of means, and a mean of products; nothing is rounded here.
  const gram::ImagesView<double> wide{d, 1, 1, 2, 2};
  gram::cntk(wide, 0, 2, gram::Pooling::mean, square);
  gram::cntk(wide, wide, 0, 2, gram::Pooling::flatten, crossed);
  CHECK(square[0] == 6.25 && crossed[0] == 7.5, "without a layer: %g, %g", square[0], crossed[0]);
  bool caught = false;
  try {
    gram::cntk(images, gram::ImagesView<double>{d, 1, 2, 1, 1}, 1, 1, gram::Pooling::mean, crossed);
  } catch (const std::invalid_argument&) {
    caught = true;
  }
  CHECK(caught, "images of two shapes");
}

}  // namespace

int main(int argc, char** argv) {
  smoke = argc > 1 && std::string(argv[1]) == "--smoke";
  quick = smoke || (argc > 1 && std::string(argv[1]) == "--quick");
  test_type<float>();
  test_type<double>();
  test_interface();
  return summary();
}
