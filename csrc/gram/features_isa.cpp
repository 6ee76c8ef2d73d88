// Gram matrices of the channels of feature maps, and of Jacobians, compiled once per instruction-set level.
#include "gemm/engine.hpp"
#include "gram/bodies.hpp"
#include "gram/rows.hpp"

namespace fastdl::gram::FASTDL_LEVEL {
namespace {

using gemm::at_most;

// Rows less their means, which there may be none of.
template <class T>
struct RowsLessMeans {
  gemm::Strided<T> base;
  const T* means;

  void pack_rows(Index first, int count, Index k, Index depth, T* panel) const {
    constexpr int rows = gemm::Shape<T>::rows;
    base.pack_rows(first, count, k, depth, panel);
    if (!means) return;
    for (Index p = 0; p < depth; ++p)
      for (int r = 0; r < count; ++r) panel[p * rows + r] -= means[first + r];
  }

  void pack_columns(Index first, int count, Index k, Index depth, int width, T* panel) const {
    base.pack_columns(first, count, k, depth, width, panel);
    if (!means) return;
    for (Index p = 0; p < depth; ++p)
      for (int j = 0; j < count; ++j) panel[p * width + j] -= means[first + j];
  }
};

template <class T>
struct Scaled {
  T factor;
  FASTDL_INLINE simd::Vec<T> operator()(simd::Vec<T> sum, Index, Index) const { return sum * factor; }
};

template <class T>
void feature_gram_of(const T* x, Index samples, Index channels, Index positions, bool center, T* out) {
  // Many samples are shared out among the threads, each whole; of few, the engine shares out each.
  const int threads = core::thread_count();
  const double flops = double(samples) * double(channels) * double(channels) * double(positions);
  core::parallel_for(samples, flops > 4e6 && samples >= threads ? threads : 1, [&](Index sample) {
    const T* maps = x + sample * channels * positions;
    core::Scratch scratch;
    T* means = center ? scratch.array<T>(channels) : nullptr;
    for (Index c = 0; center && c < channels; ++c) {
      const T* map = maps + c * positions;
      means[c] = T(sum_over(positions, [&](Index p) { return double(map[p]); }) / double(positions));
    }
    const RowsLessMeans<T> rows{{maps, positions, 1}, means};
    const gemm::Output<T> to{out + sample * channels * channels, channels, 1};
    gemm::multiply<T>({channels, channels, positions}, true, gemm::MultiplyAdd{}, rows, rows, to,
                      Scaled<T>{T(1 / double(positions))});
  });
}

// Parameters in one sum of T; what they come to is added in double.
inline constexpr Index together = 1 << 16;

template <class T>
void tangent_of(const Matrix<const T>& x, const Matrix<const T>& y, bool symmetric, const Matrix<T>& k) {
  const auto product = [&](Index row, Index rows, Index columns, Index f, Index depth, bool halves,
                           gemm::Output<T> to) {
    const auto from = [&](const Matrix<const T>& m, Index first) {
      return gemm::Strided<T>{m.data + first * m.row_stride + f * m.col_stride, m.row_stride, m.col_stride};
    };
    gemm::multiply<T>({rows, columns, depth}, halves, gemm::MultiplyAdd{}, from(x, row), from(y, 0), to,
                      gemm::Identity{});
  };
  const gemm::Output<T> whole{k.data, k.row_stride, k.col_stride};
  if (x.cols <= together) return product(0, x.rows, y.rows, 0, x.cols, symmetric, whole);
  const Index step = at_most(x.rows, (Index{1} << 20) / (y.rows + 1) + 1);
  core::Scratch scratch;
  T* part = scratch.array<T>(step, y.rows);
  double* sums = scratch.array<double>(step, y.rows);
  for (Index row = 0; row < x.rows; row += step) {
    const Index rows = at_most(step, x.rows - row), columns = symmetric ? row + rows : y.rows;
    for (Index f = 0; f < x.cols; f += together) {
      product(row, rows, columns, f, at_most(together, x.cols - f), symmetric && rows == x.rows, {part, columns, 1});
      for (Index i = 0; i < rows * columns; ++i) sums[i] = (f == 0 ? 0 : sums[i]) + double(part[i]);
    }
    for (Index i = 0; i < rows; ++i)
      for (Index j = 0; j < columns; ++j)
        k.data[(row + i) * k.row_stride + j * k.col_stride] = T(sums[i * columns + j]);
  }
  if (symmetric) gemm::mirror_all(whole, k.rows);
}

}  // namespace

#define FASTDL_BODIES_OF(T)                                                                                       \
  void feature_gram(const T* x, std::int64_t samples, std::int64_t channels, std::int64_t positions, bool center, \
                    T* out) {                                                                                     \
    feature_gram_of<T>(x, samples, channels, positions, center, out);                                             \
  }                                                                                                               \
  void empirical_ntk(const Matrix<const T>& x, const Matrix<const T>& y, bool symmetric, const Matrix<T>& k) {    \
    tangent_of<T>(x, y, symmetric, k);                                                                            \
  }
FASTDL_BODIES_OF(float)
FASTDL_BODIES_OF(double)

}  // namespace fastdl::gram::FASTDL_LEVEL
