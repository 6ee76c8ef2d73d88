// Gram matrices of any kernel, their diagonals, distances and sums over groups: what the host side makes tasks of.
#include "gram_kernels.hpp"

#include "gram_rows.cuh"

namespace fastdl::gram::cuda {
namespace {

using fastdl::cuda::Scratch;

template <class T>
void matrix_to(const char* name, const Kernel& kernel, const MatrixView<const T>& x, const MatrixView<const T>& y,
               bool same, bool symmetric, const Afterwards<T>& afterwards, T* out, Index stride, Stream stream) {
  const Prepared<T> prepared(name, kernel, x, y, same, stream);
  Task<T> task = prepared.task(symmetric ? Job::symmetric_matrix : Job::matrix);
  task.out = out;
  task.out_stride = stride;
  task.afterwards = afterwards;
  prepared.run(task);
}

template <class T>
void diagonal_to(const char* name, const Kernel& kernel, const MatrixView<const T>& x, T* out, Stream stream) {
  const Prepared<T> prepared(name, kernel, x, x, true, stream);
  Task<T> task = prepared.task(Job::diagonal);
  task.out = out;
  task.out_stride = 1;
  prepared.run(task);
}

// to[i][f] = from[i][order[f]]: reads within a row, so mostly from cache; limited by memory.
template <class T>
__global__ void __launch_bounds__(256) permute(const T* from, Index rows, Index features, Index row_stride,
                                               Index column_stride, const Index* order, T* to) {
  const Index count = rows * features;
  for (Index at = Index(blockIdx.x) * blockDim.x + threadIdx.x; at < count; at += Index(gridDim.x) * blockDim.x) {
    const Index row = at / features;
    to[at] = from[row * row_stride + order[at - row * features] * column_stride];
  }
}

template <class T>
MatrixView<const T> permuted(const char* name, const MatrixView<const T>& from, const Index* order, T* to,
                             Stream stream) {
  const Index count = from.rows * from.cols, blocks = (count + 255) / 256;
  constexpr Index most = 1 << 16;
  if (count > 0)
    fastdl::cuda::launch(name, permute<T>,
                         {dim3(static_cast<unsigned>(blocks < most ? blocks : most)), dim3(256), 0, stream}, from.data,
                         from.rows, from.cols, from.row_stride, from.col_stride, order, to);
  return {to, from.rows, from.cols, from.cols, 1};
}

}  // namespace

template <class T>
void gram(const Kernel& kernel, const MatrixView<const T>& x, const MatrixView<const T>* y, T* k, Index k_row_stride,
          Stream stream) {
  matrix_to(kernel.function, kernel, x, y ? *y : x, !y, !y, Afterwards<T>{}, k, k_row_stride, stream);
}

template <class T>
void diag(const Kernel& kernel, const MatrixView<const T>& x, T* out, Stream stream) {
  diagonal_to("gram.diag", kernel, x, out, stream);
}

template <class T>
void distance(const Kernel& kernel, const MatrixView<const T>& x, const MatrixView<const T>* y, T* out, Stream stream) {
  constexpr const char* name = "gram.distance";
  const Scratch<T> own_x(name, x.rows, stream), own_y(name, y ? y->rows : 0, stream);
  diagonal_to(name, kernel, x, own_x.data(), stream);
  if (y) diagonal_to(name, kernel, *y, own_y.data(), stream);
  Afterwards<T> afterwards;
  afterwards.own_x = own_x.data();
  afterwards.own_y = y ? own_y.data() : own_x.data();
  afterwards.same = !y;
  afterwards.wanted = true;
  const MatrixView<const T>& others = y ? *y : x;
  matrix_to(name, kernel, x, others, !y, !y, afterwards, out, others.rows, stream);
}

template <class T>
void invariant(const Kernel& kernel, const MatrixView<const T>& x, const MatrixView<const T>* y,
               const std::int64_t* orders, Index count, bool group, T* out, Stream stream) {
  constexpr const char* name = "gram.invariant";
  const MatrixView<const T>& others = y ? *y : x;
  const Index columns = others.rows, features = x.cols;
  if (count == 0 && x.rows * columns > 0)
    fastdl::cuda::set_zero(name, out, std::size_t(x.rows * columns) * sizeof(T), stream);
  const Scratch<Index> table(name, orders, count * features, stream);
  const Scratch<T> turned_x(name, group ? 0 : x.rows * features, stream), turned_y(name, columns * features, stream);
  const Index times = group ? 1 : count;
  for (Index g = 0; g < times; ++g) {
    const auto left = group ? x : permuted(name, x, table.data() + g * features, turned_x.data(), stream);
    for (Index h = 0; h < count; ++h) {
      const auto right = permuted(name, others, table.data() + h * features, turned_y.data(), stream);
      Afterwards<T> afterwards;
      afterwards.wanted = true;
      if (g + h > 0) afterwards.earlier = out;
      afterwards.earlier_stride = columns;
      if (group && h == count - 1) afterwards.scale = T(count);
      matrix_to(name, kernel, left, right, false, !y, afterwards, out, columns, stream);
    }
  }
}

#define FASTDL_GRAM_KERNELS(T)                                                                                        \
  template void gram(const Kernel&, const MatrixView<const T>&, const MatrixView<const T>*, T*, Index, Stream);       \
  template void diag(const Kernel&, const MatrixView<const T>&, T*, Stream);                                          \
  template void distance(const Kernel&, const MatrixView<const T>&, const MatrixView<const T>*, T*, Stream);          \
  template void invariant(const Kernel&, const MatrixView<const T>&, const MatrixView<const T>*, const std::int64_t*, \
                          Index, bool, T*, Stream);
FASTDL_GRAM_KERNELS(float)
FASTDL_GRAM_KERNELS(double)
#undef FASTDL_GRAM_KERNELS

}  // namespace fastdl::gram::cuda
