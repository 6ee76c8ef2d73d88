// From a kernel and its samples to what the tasks run on: the class of function, its parameters, and what has to be
// known of every row.
#pragma once

#include "gram_kernels.hpp"
#include "gram_pairs.cuh"

namespace fastdl::gram::cuda {

template <class T>
gemm::cuda::Operand<T> operand_of(const MatrixView<const T>& rows) {
  return gemm::cuda::operand(rows.data, rows.rows, rows.cols, rows.row_stride, rows.col_stride);
}

// The samples as the tiles read them: as they are, if their features come in whole aligned groups, else as a copy.
template <class T>
class Samples {
 public:
  Samples() = default;
  Samples(const char* name, const MatrixView<const T>& from, Stream stream);
  const Rows<T>& rows() const { return rows_; }

 private:
  fastdl::cuda::Scratch<T> copy_;
  Rows<T> rows_{};
};

// Rows [first, first + count) of a view.
template <class T>
MatrixView<T> some_rows(const MatrixView<T>& from, Index first, Index count) {
  return {from.data + first * from.row_stride, count, from.cols, from.row_stride, from.col_stride};
}

template <class T>
MatrixView<T> transposed(const MatrixView<T>& from) {
  return {from.data, from.cols, from.rows, from.col_stride, from.row_stride};
}

// 1 / length, length and the rows over their lengths, of which those that are wanted live here.
template <class T>
struct Lengths {
  fastdl::cuda::Scratch<T> inverse, length, unit;
};

template <class T>
class Prepared {
 public:
  // same: y is x
  Prepared(const char* name, const Kernel& kernel, const MatrixView<const T>& x, const MatrixView<const T>& y,
           bool same, Stream stream);

  Task<T> task(Job job) const {
    Task<T> task{};
    task.name = name_;
    task.job = job;
    task.stream = stream_;
    return task;
  }
  void run(const Task<T>& task) const { of_(pairs_, task); }

  const Pairs<T>& pairs() const { return pairs_; }
  const T* weight() const { return weight_.data(); }
  // As run, but over no features: for derivatives that do not depend on the sums.
  void run_without_sums(const Task<T>& task) const {
    Pairs<T> pairs = pairs_;
    pairs.features = 0;
    of_(pairs, task);
  }

 private:
  void choose(const Kernel& kernel, const MatrixView<const T>& x, const MatrixView<const T>& y, bool same);
  Lengths<T> measured(const MatrixView<const T>& rows, double scale) const;
  void use_angles(const MatrixView<const T>& x, const MatrixView<const T>& y, bool same, double scale);
  void take_rows(const MatrixView<const T>& x, const MatrixView<const T>& y, bool same);

  const char* name_;
  Stream stream_;
  void (*of_)(const Pairs<T>&, const Task<T>&) = nullptr;
  Pairs<T> pairs_;
  Lengths<T> x_, y_;
  Samples<T> x_rows_, y_rows_;
  fastdl::cuda::Scratch<T> weight_;
};

}  // namespace fastdl::gram::cuda
