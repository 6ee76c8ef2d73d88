// Kernels summed over a group of permutations, compiled once per instruction-set level.
//
// The columns of K are taken 128 at a time, once for every element of the group: permuted rows of y lie side by side as
// so many more rows, blocks of their K come out of the engine (gemm/stream.hpp) and are added up in the output.
#include "core/scratch.hpp"
#include "core/threads.hpp"
#include "gemm/mirror.hpp"
#include "gemm/shape.hpp"
#include "gram/bodies.hpp"

namespace fastdl::gram::FASTDL_LEVEL {
namespace {

using gemm::at_most;
using gemm::divide_up;
using gemm::Index;
using gemm::stream_part;

inline constexpr Index copy_bytes = Index{4} << 20;  // of permuted rows, as many as the engine packs at a time

// to[i][f] = from[first + i][order[f]] for i < count, the last row again and again beyond the end of `from`
template <class T>
void permute(const Matrix<const T>& from, Index first, Index count, const std::int64_t* order, T* to) {
  for (Index i = 0; i < count; ++i) {
    const T* row = from.data + at_most(first + i, from.rows - 1) * from.row_stride;
    for (Index f = 0; f < from.cols; ++f) to[i * from.cols + f] = row[order[f] * from.col_stride];
  }
}

// Which columns of which elements are side by side: part p of the copies is 128 columns from `column + p / elements *
// 128` on, permuted by element `element + p % elements`.
struct Columns {
  Index column, column_end;
  Index element, elements;

  Index parts() const { return divide_up(column_end - column, stream_part) * elements; }
};

// Adds the sum over the elements to k, or puts it there if it `begins`, and then times `scale`.
template <class T>
void add_columns(const Kernel& kernel, const Matrix<const T>& x, const Matrix<const T>& copies, const Columns& columns,
                 bool begins, T scale, const Matrix<T>& k) {
  const auto add = [&](Index row, Index row_end, Index at, Index, const T* block) {
    const Index part = at / stream_part, element = part % columns.elements;
    const Index j = columns.column + part / columns.elements * stream_part;
    const Index width = at_most(stream_part, columns.column_end - j);
    const bool puts = begins && element == 0;
    const T factor = element == columns.elements - 1 ? scale : T(1);
    for (Index i = row; i < row_end; ++i) {
      T* to = k.data + i * k.row_stride + j * k.col_stride;
      const T* from = block + (i - row) * stream_part;
      for (Index c = 0; c < width; ++c) {
        T& sum = to[c * k.col_stride];
        sum = ((puts ? T(0) : sum) + from[c]) * factor;
      }
    }
  };
  blocks(kernel, x, copies, gemm::Consumer<T>(add));
}

template <class T>
void invariant_of(const Kernel& kernel, const Matrix<const T>& x, const Matrix<const T>& y, bool symmetric,
                  const std::int64_t* orders, Index count, bool group, const Matrix<T>& k) {
  if (count == 0) {
    for (Index i = 0; i < k.rows; ++i)
      for (Index j = 0; j < k.cols; ++j) k.data[i * k.row_stride + j * k.col_stride] = 0;
    return;
  }
  const Index d = x.cols, row_bytes = (d + 1) * Index(sizeof(T));
  const auto order = [&](Index g) { return orders + g * d; };
  const auto fitting = [&](Index rows) { return copy_bytes / (rows * row_bytes) + 1; };
  const Index elements = at_most(count, fitting(stream_part));
  // Of a symmetric result only the rows from a block's first column on are computed: narrow blocks save more.
  const Index parts =
      at_most(at_most(fitting(stream_part * count), symmetric ? 4 : 1 << 20), divide_up(y.rows, stream_part));
  const Index column_step = parts * stream_part, row_step = group ? x.rows : at_most(x.rows, fitting(1));

  core::Scratch scratch;
  T* copies = scratch.array<T>(column_step * elements, d);
  T* turned = group ? nullptr : scratch.array<T>(row_step, d);
  for (Index column = 0; column < y.rows; column += column_step)
    for (Index element = 0; element < count; element += elements) {
      const Columns columns{column, at_most(column + column_step, y.rows), element, at_most(elements, count - element)};
      core::parallel_for(columns.parts(), core::thread_count(), [&](Index part) {
        permute(y, column + part / columns.elements * stream_part, stream_part,
                order(element + part % columns.elements), copies + part * stream_part * d);
      });
      const Matrix<const T> others{copies, columns.parts() * stream_part, d, d, 1};
      const bool begins = element == 0, ends = element + columns.elements == count;
      for (Index row = symmetric ? column : 0; row < x.rows; row += row_step) {
        const Index here = at_most(row_step, x.rows - row);
        const Matrix<T> to{k.data + row * k.row_stride, here, k.cols, k.row_stride, k.col_stride};
        if (group) {
          const Matrix<const T> some{x.data + row * x.row_stride, here, d, x.row_stride, x.col_stride};
          add_columns(kernel, some, others, columns, begins, ends ? T(count) : T(1), to);
        } else {
          for (Index g = 0; g < count; ++g) {
            permute(x, row, here, order(g), turned);
            add_columns(kernel, Matrix<const T>{turned, here, d, d, 1}, others, columns, begins && g == 0, T(1), to);
          }
        }
      }
    }
  if (symmetric) gemm::mirror_all(gemm::Output<T>{k.data, k.row_stride, k.col_stride}, k.rows);
}

}  // namespace

#define FASTDL_BODIES_OF(T)                                                                                \
  void invariant(const Kernel& kernel, const Matrix<const T>& x, const Matrix<const T>& y, bool symmetric, \
                 const std::int64_t* orders, std::int64_t count, bool group, const Matrix<T>& k) {         \
    invariant_of<T>(kernel, x, y, symmetric, orders, count, group, k);                                     \
  }
FASTDL_BODIES_OF(float)
FASTDL_BODIES_OF(double)

}  // namespace fastdl::gram::FASTDL_LEVEL
