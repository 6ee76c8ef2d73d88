// The values of the kernels, compiled once per instruction-set level: each kernel is an epilogue of the engine, or a
// rule of its own. They become a matrix, squared distances, or blocks for a consumer that keeps no matrix: all that is
// made of them takes them from here, since there are 14 kernels and they take long to compile.
#include "gemm/stream.hpp"
#include "gram/bodies.hpp"
#include "gram/diagonal.hpp"

namespace fastdl::gram::FASTDL_LEVEL {
namespace {

// Squared distances in the feature space of a kernel, k(x, x) + k(y, y) - 2 k(x, y), from its values.
template <class T>
struct Distance {
  const T *of_x, *of_y;  // k(x, x) and k(y, y)

  FASTDL_INLINE Vec<T> operator()(Vec<T> value, Index row, Index column) const {
    const Vec<T> squared = simd::fma(value, broadcast(T(-2)), load(of_y + column) + of_x[row]);
    return simd::select(squared < Vec<T>{}, Vec<T>{}, squared);  // NaN stays
  }
};

template <class T>
struct Itself {
  FASTDL_INLINE Vec<T> operator()(Vec<T> squared) const { return squared; }
};

// Another pass over a row that is in L1: the kernel's epilogue, whichever it is, and then the distance.
template <class T>
struct DistanceAfter {
  gemm::Finish<T> kernel;
  Distance<T> distance;

  void whole(gemm::Output<T> c, Index row, Index column, Index count) const {
    if (kernel) kernel(c, row, column, count);
    gemm::finish_row(distance, c, row, column, count);
  }
};

// run(rule, left, right, epilogue) for values of the kernel. Products of unit vectors are cosines: the lengths go into
// the packed rows, and nothing is left for an epilogue. (3001 x 2003 of 2 features on two threads: 0.8 ms, and 1.4 with
// one.)
template <class T, class Run>
void with_values(const Kernel& kernel, Rows<T>& rows, const Run& run) {
  if (kernel.kind != FASTDL_COSINE) return with_kernel(kernel, rows, run);
  const T *of_x, *of_y;
  rows.inverse_lengths(of_x, of_y);
  run(gemm::MultiplyAdd{}, Units<T>{rows.x, of_x}, Units<T>{rows.y, of_y}, gemm::Identity{});
}

// with(rows, turned, run) calls run(rule, left, right, epilogue), which computes k, or its transpose. all: the rows
// that y is some of, or null.
template <class T, class With>
void to_matrix(const Matrix<const T>& x, const Matrix<const T>& y, bool symmetric, const Matrix<const T>* all,
               const Matrix<T>& k, const With& with) {
  // The engine writes whole vectors along a row of its output, and packs its second operand at a cost that few rows do
  // not repay: an output whose columns are contiguous, or a short wide one, is computed as its transpose.
  const bool turned = k.row_stride == 1 ? k.col_stride != 1 : !symmetric && x.rows < 6 && x.rows < y.rows;
  Rows<T> rows(x, y, symmetric, turned, all);
  const gemm::Extents size{rows.x.rows, rows.y.rows, rows.x.cols};
  const gemm::Output<T> output{k.data, turned ? k.col_stride : k.row_stride, turned ? k.row_stride : k.col_stride};
  with(rows, turned, [&](const auto& rule, const auto& left, const auto& right, const auto& epilogue) {
    gemm::multiply<T>(size, symmetric, rule, left, right, output, epilogue);
  });
}

template <class T>
void gram_of(const Kernel& kernel, const Matrix<const T>& x, const Matrix<const T>& y, bool symmetric,
             const Matrix<const T>* all, const Distance<T>* distance, const Matrix<T>& k) {
  to_matrix(x, y, symmetric, all, k, [&](Rows<T>& rows, bool turned, const auto& run) {
    with_values(kernel, rows, [&](const auto& rule, const auto& left, const auto& right, const auto& epilogue) {
      if (!distance) return run(rule, left, right, epilogue);
      const Distance<T> here = turned ? Distance<T>{distance->of_y, distance->of_x} : *distance;
      run(rule, left, right, DistanceAfter<T>{gemm::Finish<T>(epilogue), here});
    });
  });
}

template <class T>
void part_of(const Kernel& kernel, const Matrix<const T>& x, Index row, Index column, const Matrix<T>& k) {
  const auto some = [&](Index first, Index count) {
    return Matrix<const T>{x.data + first * x.row_stride, count, x.cols, x.row_stride, x.col_stride};
  };
  gram_of<T>(kernel, some(row, k.rows), some(column, k.cols), row == column && k.rows == k.cols, &x, nullptr, k);
}

template <class T>
void distance_of(const Kernel& kernel, const Matrix<const T>& x, const Matrix<const T>& y, bool symmetric,
                 const Matrix<T>& out) {
  // That of products is the distance itself, for which differences of squares are too inaccurate.
  if (kernel.kind == FASTDL_LINEAR)
    return to_matrix<T>(x, y, symmetric, nullptr, out,
                        [](Rows<T>& rows, bool, const auto& run) { with_distance(rows, nullptr, Itself<T>{}, run); });
  Arrays<T> arrays;
  const auto own = [&](const Matrix<const T>& rows) {
    T* to = arrays.make(rows.rows + simd::lanes<T>);
    diagonal_of<T>(kernel, rows, to, 1);
    for (int i = 0; i < simd::lanes<T>; ++i) to[rows.rows + i] = 0;
    return to;
  };
  const T* of_x = own(x);
  const Distance<T> distance{of_x, symmetric ? of_x : own(y)};
  gram_of<T>(kernel, x, y, symmetric, nullptr, &distance, out);
  // 0 for a sample and itself, but not where the kernel is not finite.
  if (symmetric)
    for (Index i = 0; i < x.rows; ++i) out.data[i * (out.row_stride + out.col_stride)] = of_x[i] - of_x[i];
}

template <class T>
void blocks_of(const Kernel& kernel, const Matrix<const T>& x, const Matrix<const T>& y, gemm::Consumer<T> consumer) {
  Rows<T> rows(x, y, false);
  with_values(kernel, rows, [&](const auto& rule, const auto& left, const auto& right, const auto& epilogue) {
    gemm::stream<T>({x.rows, y.rows, x.cols}, rule, left, right, epilogue, consumer);
  });
}

}  // namespace

#define FASTDL_BODIES_OF(T)                                                                               \
  void gram(const Kernel& kernel, const Matrix<const T>& x, const Matrix<const T>& y, bool symmetric,     \
            const Matrix<T>& k) {                                                                         \
    gram_of<T>(kernel, x, y, symmetric, nullptr, nullptr, k);                                             \
  }                                                                                                       \
  void part(const Kernel& kernel, const Matrix<const T>& x, std::int64_t row, std::int64_t column,        \
            const Matrix<T>& k) {                                                                         \
    part_of<T>(kernel, x, row, column, k);                                                                \
  }                                                                                                       \
  void diagonal(const Kernel& kernel, const Matrix<const T>& x, T* out, std::int64_t stride) {            \
    diagonal_of<T>(kernel, x, out, stride);                                                               \
  }                                                                                                       \
  void distance(const Kernel& kernel, const Matrix<const T>& x, const Matrix<const T>& y, bool symmetric, \
                const Matrix<T>& out) {                                                                   \
    distance_of<T>(kernel, x, y, symmetric, out);                                                         \
  }                                                                                                       \
  void blocks(const Kernel& kernel, const Matrix<const T>& x, const Matrix<const T>& y,                   \
              const gemm::Consumer<T>& consumer) {                                                        \
    blocks_of<T>(kernel, x, y, consumer);                                                                 \
  }
FASTDL_BODIES_OF(float)
FASTDL_BODIES_OF(double)

}  // namespace fastdl::gram::FASTDL_LEVEL
