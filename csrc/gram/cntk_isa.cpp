// The convolutional neural tangent kernel, compiled once per instruction-set level.
//
// The network is (q x q convolution with zero padding, ReLU) x depth, then pooling and a dense layer. S and T are
// covariance and tangent kernel of two images x, y at positions p, p':
//
//   S = T = sum over c of x[c,p] y[c,p']
//   depth times:  S <- box(S),  T <- box(T)
//                 s = sqrt(Sxx Syy - S^2), theta = atan2(s, S)
//                 S <- (s + (pi - theta) S)/pi,  T <- T (pi - theta)/pi + S
//
// where box takes the mean over q x q common offsets of p and p', from -floor((q - 1)/2) to floor(q/2). It moves p and
// p' together, so for a fixed displacement p' - p all of this happens in one map over p, of the size of the images'
// overlap: an ordinary box filter, and point by point the rest. A map of a layer stays in L1 or L2; (H W)^2 points are
// visited in all, for flatten only H W. Without a layer the mean over p and p' is a product of means, and those are
// taken first.
//
//   for each block of as many images y as a vector has lanes, and each image x        a task: one block, some rows
//     for each displacement: the products, then the layers, row by row:
//       sum the rows of the window, apply the ReLU step, sum along the row, store
//
// Lanes are images, so no size needs a mask and no lane sees another. Displacements are taken in pairs d, -d, whose
// sums are joined first: exchanging x and y changes no bit.
//
// Sxx and Syy do not depend on the pair: box applied again and again to the squared image, once for every image. They
// are computed as S is for displacement 0, so that x = y gives S = Sxx to the bit there, and theta = 0.
//
// Accuracy. S carries a relative error of a few eps of sqrt(Sxx Syy), and T besides it the error of theta times T/pi.
// theta = acos(S / sqrt(Sxx Syy)) is ill-conditioned where patches are parallel but not equal: an error of u in the
// cosine becomes u / sin(theta), at most sqrt(2u), which is 1e-3 in f32. What can be helped is the cancellation: with
// fused multiply-adds the products are not rounded before their difference is taken. Found in f32 for 16 x 16 images of
// noise, smooth ones and nearly constant ones: K is within 1e-7, 1e-7 and 7e-7. The worst case, one channel with
// kernel_size 1, where all patches are parallel: 2e-4.
//
// A point of a layer takes about 50 vector operations, a square root and a division among them. A pair of 3 x 32 x 32
// images, depth 3, kernel_size 3, mean pooling, that is 3.1 million points, takes 4.6 ms in f32 on AVX2 (Zen 3 at
// 3.2 GHz, one core, 37 cycles for 8 points in all), 12 ms in f64 and 12 ms in f32 at the baseline; flatten 4.6 us.
#include <cstddef>
#include "core/interrupt.hpp"

#include "core/interrupt.hpp"
#include "core/scratch.hpp"
#include "core/threads.hpp"
#include "gram/cntk_bodies.hpp"
#include "simd/math.hpp"

namespace fastdl::gram::FASTDL_LEVEL {
namespace {

using Index = std::int64_t;
using simd::Vec;

// A task has at least this many vectors to pass through a layer, about 0.4 ms; less work than that in all is done by
// the calling thread.
constexpr Index task_points = Index{1} << 16;

constexpr Index smaller_of(Index a, Index b) { return a < b ? a : b; }
constexpr Index larger_of(Index a, Index b) { return a > b ? a : b; }
constexpr Index divide_up(Index a, Index b) { return (a + b - 1) / b; }

// ---- lines of a map ----------------------------------------------------------------------------------------------
// A line is `width` vectors. Windows are cut off at the border, which is zero padding. Those of 2 and 3 are written
// out: for kernel_size 2 that takes 12 % off the whole.

// How far a window goes from its position along an axis, both ways.
struct Reach {
  Index before, after;
};

// The sum over a window of `count` vectors that lie `stride` elements apart; window is count, or 0 where it is unknown.
template <class T, int window>
FASTDL_INLINE Vec<T> sum_of(const T* first, Index count, Index stride) {
  Vec<T> sum = simd::load<T>(first);
  if constexpr (window == 0) {
    for (Index i = 1; i < count; ++i) sum += simd::load<T>(first + i * stride);
  } else {
    for (int i = 1; i < window; ++i) sum += simd::load<T>(first + i * stride);
  }
  return sum;
}

template <class T, int window>
void sum_windows(const T* line, Reach reach, Index width, T* row) {
  constexpr int L = simd::lanes<T>;
  const auto cut_off = [=](Index j) {
    const Index first = larger_of(j - reach.before, 0), last = smaller_of(j + reach.after, width - 1);
    simd::store<T>(row + j * L, sum_of<T, 0>(line + first * L, last - first + 1, L));
  };
  const Index start = smaller_of(reach.before, width), end = larger_of(start, width - reach.after);
  for (Index j = 0; j < start; ++j) cut_off(j);
  for (Index j = start; j < end; ++j)
    simd::store<T>(row + j * L, sum_of<T, window>(line + (j - reach.before) * L, reach.before + reach.after + 1, L));
  for (Index j = end; j < width; ++j) cut_off(j);
}

template <class T>
void sum_along(const T* line, Reach reach, Index width, T* row) {
  const Index count = reach.before + reach.after + 1;
  const auto sum = count == 2 ? sum_windows<T, 2> : count == 3 ? sum_windows<T, 3> : sum_windows<T, 0>;
  sum(line, reach, width, row);
}

// Rows of a map, already summed along, over which box sums to give one line.
template <class T>
struct Rows {
  const T* first;
  Index count, stride;

  template <int window>
  FASTDL_INLINE Vec<T> sum(Index j, Vec<T> weight) const {
    return sum_of<T, window>(first + j * simd::lanes<T>, count, stride) * weight;
  }
};

// The ReLU step with a = |S| and theta' the angle between s and a, in [0, pi/2]:
//   S >= 0:  theta = theta',       S <- S + (s - theta' a)/pi,  D = 1 - theta'/pi
//   S < 0:   theta = pi - theta',  S <-     (s - theta' a)/pi,  D = theta'/pi
// Nothing cancels with pi, and s = 0 leaves S >= 0 as it is. At the origin theta' = pi/2.
//
// It comes in halves, each a loop of its own over a line: square root, division and polynomial in one chain are some
// 110 cycles long, and a processor looks ahead over about 130 vector operations, not three points.
template <class T>
struct Triangle {
  Vec<T> height, ratio;  // s, and the smaller of s and a over the larger
};

template <class T>
FASTDL_INLINE Triangle<T> triangle_of(Vec<T> covariance, Vec<T> x_variance, Vec<T> y_variance) {
  using V = Vec<T>;
  constexpr T smallest_normal = sizeof(T) == 4 ? T(0x1p-126) : T(0x1p-1022);
  const V size = simd::abs(covariance);
  const V square = size * size;
  // The second term is what was lost in rounding the square, where fma is fused, and else zero.
  const V difference = simd::fma(x_variance, y_variance, -square) + simd::fma(-size, size, square);
  const V height = simd::sqrt(simd::at_least(difference, T(0)));
  const auto steep = height >= size;
  const V larger = simd::at_least(simd::select(steep, height, size), smallest_normal);
  return {height, simd::select(steep, size, height) / larger};
}

template <class T>
FASTDL_INLINE void relu(Vec<T>& covariance, Vec<T>& tangent, Triangle<T> triangle) {
  using V = Vec<T>;
  using Constants = simd::MathTraits<V>;
  const V inverse_pi = simd::broadcast<T>(Constants::inverse_pi), zero{};
  const V size = simd::abs(covariance);
  const V ratio = triangle.ratio, square = ratio * ratio;
  const V slope = simd::fma(ratio * square, simd::polynomial(square, Constants::atan_polynomial), ratio);
  const V angle = simd::select(triangle.height >= size, simd::broadcast<T>(Constants::half_pi_high) - slope, slope);
  const V share = angle * inverse_pi;
  const auto negative = covariance < zero;
  const V derivative = simd::select(negative, share, simd::broadcast<T>(1) - share);
  covariance =
      simd::fma(simd::fma(-angle, size, triangle.height), inverse_pi, simd::select(negative, zero, covariance));
  tangent = simd::fma(derivative, tangent, covariance);
}

// ---- images ------------------------------------------------------------------------------------------------------

// Images and variances of a side, X or Y. The kernel is homogeneous, so every image is brought to a largest magnitude
// of 1 to 2 by a power of two, and no product of variances overflows or vanishes. Variances of a block of images lie
// as [layer][p][lane]. Where images are pooled first, their means are kept, as [image][c], scaled already.
template <class T>
struct Side {
  const T* images;
  Index count;
  int* exponents;
  T *variances, *means;
};

template <class T>
class Cntk {
 public:
  Cntk(const CntkShape& shape, T* k, Index columns, bool symmetric)
      : pooled_(shape.depth == 0 && shape.mean_pooling),
        channels_(shape.channels),
        height_(pooled_ ? 1 : shape.height),
        width_(pooled_ ? 1 : shape.width),
        pixels_(height_ * width_),
        pooled_pixels_(pooled_ ? shape.height * shape.width : 1),
        depth_(shape.depth),
        reach_{(shape.kernel_size - 1) / 2, shape.kernel_size / 2},
        mean_(shape.mean_pooling),
        symmetric_(symmetric),
        weight_(static_cast<T>(1 / (double(shape.kernel_size) * double(shape.kernel_size)))),
        k_(k),
        columns_(columns) {}

  void run(const T* x, Index n, const T* y, Index m) const {
    core::Scratch scratch;
    const Index x_blocks = divide_up(n, L), y_blocks = divide_up(m, L);
    const auto side = [&](const T* images, Index count, Index blocks) {
      return Side<T>{images, count, scratch.array<int>(count), scratch.array<T>(pixels_, blocks * L, depth_),
                     pooled_ ? scratch.array<T>(count, channels_) : nullptr};
    };
    const Side<T> xs = side(x, n, x_blocks);
    const Side<T> ys = symmetric_ ? xs : side(y, m, y_blocks);

    const double layers = depth_ == 0 ? 1.0 : double(depth_);
    const double points = double(pixels_) * (mean_ ? double(pixels_) : 1.0) * layers;  // of one pair
    const int threads = points * double(n) * double(y_blocks) < double(task_points) ? 1 : core::thread_count();
    core::parallel_for(symmetric_ ? x_blocks : x_blocks + y_blocks, threads,
                       [&](Index block) { block < x_blocks ? prepare(xs, block) : prepare(ys, block - x_blocks); });
    // Several rows share the packing of a block, which for flatten is as much work as the rest.
    const Index rows = points < double(task_points) ? divide_up(task_points, static_cast<Index>(points)) : 1;
    core::parallel_for(divide_up(n, rows) * y_blocks, threads, [&](Index task) {
      const Index block = task % y_blocks, first = task / y_blocks * rows;
      compare(xs, larger_of(first, symmetric_ ? block * L : 0), smaller_of(first + rows, n), ys, block);
    });
  }

 private:
  static constexpr int L = simd::lanes<T>;

  bool pooled_;  // before anything else, to images of one pixel
  Index channels_, height_, width_, pixels_, pooled_pixels_, depth_;
  Reach reach_;
  bool mean_, symmetric_;
  T weight_;
  T* k_;
  Index columns_;

  struct Displacement {
    Index down, right;
  };

  struct Lines {
    T *covariance, *tangent, *height, *ratio;
  };

  // One image x against a block of images y, all scaled; the rest is working space.
  struct Pair {
    const T *x, *x_variances;  // [c][p] and [layer][p]
    const T *y, *y_variances;  // [c][p][lane] and [layer][p][lane]
    T* maps[2][2];             // S and T, summed along the rows: those being read, and those being written
    Lines lines;               // for one row at a time
  };

  int exponent_of(const T* image) const {
    T largest = 0;
    for (Index f = 0; f < channels_ * pixels_ * pooled_pixels_; ++f) {
      const T size = image[f] < 0 ? -image[f] : image[f];
      if (size > largest) largest = size;
    }
    if (largest == 0 || largest - largest != 0) return 0;  // Inf gives NaN under any scale
    constexpr int limit = sizeof(T) == 4 ? 126 : 1022;
    const int exponent = __builtin_ilogb(static_cast<double>(largest));
    return exponent > limit ? limit : exponent < -limit ? -limit : exponent;
  }

  static T scale_of(int exponent) { return static_cast<T>(__builtin_ldexp(1.0, -exponent)); }

  void pool(const T* image, T scale, T* means) const {
    for (Index c = 0; c < channels_; ++c) {
      double sum = 0;
      for (Index p = 0; p < pooled_pixels_; ++p) sum += static_cast<double>(image[c * pooled_pixels_ + p] * scale);
      means[c] = static_cast<T>(sum / double(pooled_pixels_));
    }
  }

  // An image as [c][p], and what its values are to be multiplied with.
  struct Image {
    const T* values;
    T scale;
  };

  Image image_of(const Side<T>& side, Index index) const {
    if (pooled_) return {side.means + index * channels_, T(1)};
    return {side.images + index * channels_ * pixels_, scale_of(side.exponents[index])};
  }

  // The images of a block as [c][p][lane]; lanes without an image are zero.
  void pack(const Side<T>& side, Index block, T* packed) const {
    const Index values = channels_ * pixels_;
    for (int lane = 0; lane < L; ++lane) {
      const Index index = block * L + lane;
      const bool present = index < side.count;
      const Image image = present ? image_of(side, index) : Image{};
      for (Index f = 0; f < values; ++f) packed[f * L + lane] = present ? image.values[f] * image.scale : T(0);
    }
  }

  void prepare(const Side<T>& side, Index block) const {
    core::Scratch scratch;
    T* packed = scratch.array<T>(channels_ * pixels_, L);
    T* map = scratch.array<T>(pixels_, L);
    T* line = scratch.array<T>(width_, L);
    for (Index index = block * L; index < smaller_of(block * L + L, side.count); ++index) {
      const T* image = side.images + index * channels_ * pixels_ * pooled_pixels_;
      side.exponents[index] = exponent_of(image);
      if (pooled_) pool(image, scale_of(side.exponents[index]), side.means + index * channels_);
    }
    if (depth_ == 0) return;
    pack(side, block, packed);
    T* variances = side.variances + block * L * pixels_ * depth_;
    for (Index layer = 0; layer < depth_; ++layer) {
      T* layer_variances = variances + layer * pixels_ * L;
      for (Index i = 0; i < height_; ++i) {
        const Index at = i * width_ * L;
        if (layer == 0) multiply<true>(packed + at, packed + at, width_, line);
        sum_along<T>(layer == 0 ? line : layer_variances - pixels_ * L + at, reach_, width_, map + at);
      }
      for (Index i = 0; i < height_; ++i) {
        const Rows<T> rows = window(map, i, height_, width_);
        for (Index j = 0; j < width_; ++j)
          simd::store<T>(layer_variances + (i * width_ + j) * L, rows.template sum<0>(j, simd::broadcast<T>(weight_)));
      }
    }
  }

  // line[j] = sum over c of x[c][j] y[c][j], in the order of c. x has one value for all lanes, or one for each.
  template <bool x_has_lanes>
  void multiply(const T* x, const T* y, Index width, T* line) const {
    constexpr int step = x_has_lanes ? L : 1;
    const auto value = [](const T* p) __attribute__((always_inline)) {
      if constexpr (x_has_lanes)
        return simd::load<T>(p);
      else
        return simd::broadcast<T>(*p);
    };
    Index j = 0;
    for (; j + 4 <= width; j += 4) {  // four chains, for images of many channels
      Vec<T> sums[4] = {};
      for (Index c = 0; c < channels_; ++c)
        for (int r = 0; r < 4; ++r)
          sums[r] =
              simd::fma(value(x + (c * pixels_ + j + r) * step), simd::load<T>(y + (c * pixels_ + j + r) * L), sums[r]);
      for (int r = 0; r < 4; ++r) simd::store<T>(line + (j + r) * L, sums[r]);
    }
    for (; j < width; ++j) {
      Vec<T> sum{};
      for (Index c = 0; c < channels_; ++c)
        sum = simd::fma(value(x + (c * pixels_ + j) * step), simd::load<T>(y + (c * pixels_ + j) * L), sum);
      simd::store<T>(line + j * L, sum);
    }
  }

  // The rows of a map of height x width that box sums for row i.
  Rows<T> window(const T* map, Index i, Index height, Index width) const {
    const Index first = larger_of(i - reach_.before, 0), last = smaller_of(i + reach_.after, height - 1);
    return {map + first * width * L, last - first + 1, width * L};
  }

  // One row through a layer, but for the sums along it. The first layer starts with T = S; of the last layer T alone is
  // wanted, and its sum over the row goes to total.
  template <bool first, bool last, int window>
  static void relu_line(Rows<T> covariances, Rows<T> tangents, T weight, const T* x_variances, const T* y_variances,
                        Index width, const Lines& lines, double* total) {
    const Vec<T> factor = simd::broadcast<T>(weight);
    for (Index j = 0; j < width; ++j) {
      const Vec<T> s = covariances.template sum<window>(j, factor);
      const Triangle<T> triangle =
          triangle_of<T>(s, simd::broadcast<T>(x_variances[j]), simd::load<T>(y_variances + j * L));
      simd::store<T>(lines.covariance + j * L, s);
      simd::store<T>(lines.height + j * L, triangle.height);
      simd::store<T>(lines.ratio + j * L, triangle.ratio);
    }
    Vec<T> sum{};
    for (Index j = 0; j < width; ++j) {
      Vec<T> s = simd::load<T>(lines.covariance + j * L);
      Vec<T> t = first ? s : tangents.template sum<window>(j, factor);
      relu<T>(s, t, {simd::load<T>(lines.height + j * L), simd::load<T>(lines.ratio + j * L)});
      if constexpr (last) {
        sum += t;
      } else {
        simd::store<T>(lines.covariance + j * L, s);
        simd::store<T>(lines.tangent + j * L, t);
      }
    }
    if constexpr (last) add_lanes(sum, total);
  }

  static void add_lanes(Vec<T> sum, double* total) {
    for (int lane = 0; lane < L; ++lane) total[lane] += static_cast<double>(sum[lane]);
  }

  template <int window>
  static auto relu_line_of(bool first, bool last) {
    return first ? (last ? relu_line<true, true, window> : relu_line<true, false, window>)
                 : (last ? relu_line<false, true, window> : relu_line<false, false, window>);
  }

  // Adds the sum of the last T over all p with p' = p + d, for every lane.
  void add_displacement(const Pair& pair, Displacement d, double* total) const {
    const Index x_row = larger_of(-d.down, 0), x_column = larger_of(-d.right, 0);
    const Index height = height_ - larger_of(d.down, -d.down), width = width_ - larger_of(d.right, -d.right);
    const Index x = x_row * width_ + x_column, y = x + d.down * width_ + d.right;
    for (Index i = 0; i < height; ++i) {
      const Index at = i * width_;
      multiply<false>(pair.x + x + at, pair.y + (y + at) * L, width, pair.lines.covariance);
      if (depth_ == 0)
        add_lanes(sum_of<T, 0>(pair.lines.covariance, width, L), total);
      else
        sum_along<T>(pair.lines.covariance, reach_, width, pair.maps[0][0] + i * width * L);
    }
    for (Index layer = 0; layer < depth_; ++layer) {
      T* const* from = pair.maps[layer % 2];
      T* const* to = pair.maps[(layer + 1) % 2];
      const bool first = layer == 0, last = layer == depth_ - 1;
      const auto of_two = relu_line_of<2>(first, last), of_three = relu_line_of<3>(first, last);
      const auto any = relu_line_of<0>(first, last);
      for (Index i = 0; i < height; ++i) {
        const Index at = layer * pixels_ + i * width_;
        const Rows<T> covariances = window(from[0], i, height, width), tangents = window(from[1], i, height, width);
        const auto line = covariances.count == 3 ? of_three : covariances.count == 2 ? of_two : any;
        line(covariances, tangents, weight_, pair.x_variances + x + at, pair.y_variances + (y + at) * L, width,
             pair.lines, total);
        if (last) continue;
        sum_along<T>(pair.lines.covariance, reach_, width, to[0] + i * width * L);
        sum_along<T>(pair.lines.tangent, reach_, width, to[1] + i * width * L);
      }
    }
  }

  void add_all_displacements(const Pair& pair, double* total) const {
    for (Index down = 0; down < height_; ++down)
      for (Index right = down == 0 ? 0 : 1 - width_; right < width_; ++right) {
        core::check_interrupt();
        double there[L] = {}, back[L] = {};
        add_displacement(pair, {down, right}, there);
        if (down != 0 || right != 0) add_displacement(pair, {-down, -right}, back);
        for (int lane = 0; lane < L; ++lane) total[lane] += there[lane] + back[lane];
      }
  }

  // Rows [first, last) of the output, and the columns of one block.
  void compare(const Side<T>& xs, Index first, Index last, const Side<T>& ys, Index block) const {
    if (first >= last) return;
    core::Scratch scratch;
    T* y = scratch.array<T>(channels_ * pixels_, L);
    T* x = scratch.array<T>(channels_ * pixels_);
    T* x_variances = scratch.array<T>(pixels_, depth_);
    Pair pair{x, x_variances, y, ys.variances + block * L * pixels_ * depth_, {}, {}};
    for (auto& map : pair.maps)
      for (T*& buffer : map) buffer = scratch.array<T>(pixels_, L);
    T** lines[] = {&pair.lines.covariance, &pair.lines.tangent, &pair.lines.height, &pair.lines.ratio};
    for (T** line : lines) *line = scratch.array<T>(width_, L);
    pack(ys, block, y);

    const double count = double(pixels_) * (mean_ ? double(pixels_) : 1.0);
    for (Index row = first; row < last; ++row) {
      const Image image = image_of(xs, row);
      for (Index f = 0; f < channels_ * pixels_; ++f) x[f] = image.values[f] * image.scale;
      const T* variances = xs.variances + row / L * L * pixels_ * depth_ + row % L;
      for (Index f = 0; f < pixels_ * depth_; ++f) x_variances[f] = variances[f * L];

      double total[L] = {};
      if (mean_)
        add_all_displacements(pair, total);
      else
        add_displacement(pair, {0, 0}, total);
      const Index end = symmetric_ ? row + 1 : columns_;
      for (int lane = 0; lane < L && block * L + lane < end; ++lane) {
        const Index column = block * L + lane;
        const T value = static_cast<T>(__builtin_ldexp(total[lane] / count, xs.exponents[row] + ys.exponents[column]));
        k_[row * columns_ + column] = value;
        if (symmetric_) k_[column * columns_ + row] = value;
      }
    }
  }
};

}  // namespace

void cntk(const float* x, std::int64_t n, const float* y, std::int64_t m, bool symmetric, const CntkShape& shape,
          float* k) {
  Cntk<float>(shape, k, m, symmetric).run(x, n, y, m);
}
void cntk(const double* x, std::int64_t n, const double* y, std::int64_t m, bool symmetric, const CntkShape& shape,
          double* k) {
  Cntk<double>(shape, k, m, symmetric).run(x, n, y, m);
}

}  // namespace fastdl::gram::FASTDL_LEVEL
