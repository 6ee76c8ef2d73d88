// What the kernels of the Gram family are given: the rows of both sides, the function by its parameters, and the task.
// Between the host side (gram_rows.cu, gram_kernels.cu, ...) and the files gram_of_*.cu that hold the kernels.
#pragma once

#include "gemm.cuh"

namespace fastdl::gram::cuda {

using gemm::cuda::Index;
using gemm::cuda::Rows;

// The function within its class: see gram_functions.cuh.
enum class Form {
  itself,
  polynomial,
  sigmoid,
  geometric,
  cosine,  // the sum is of unit vectors
  negative,
  exponential,
  matern_half,
  matern_three_halves,
  matern_five_halves,
  arc_cosine_0,
  arc_cosine_1,
  arc_cosine_2,
  network,
};

// Of a function and of a rule; a member that is not theirs is 0.
template <class T>
struct Parameters {
  Form form;
  T gamma, coef0, degree;  // gamma is also alpha^2 of geometric and sqrt(2 nu) / length_scale of matern
  int whole;               // the degree, if it is a small whole number, else -1
  const T* weight;         // 1 / length_scale of every feature, or none
  T omega, omega_over_pi, inverse_pi;
  const T *x_length, *y_length;    // of the rows, over sqrt(d) if normalised
  const T *x_inverse, *y_inverse;  // 1 / length; 0 for a row of zeros
  const T *x_unit, *y_unit;        // the rows over their lengths, contiguous
  Index features;
  int depth;
  bool tangent, biased;
  T w2, b2;
  T scale;  // without biases: w2^(depth + 1) / 2^depth
};

template <class T>
struct Pairs {
  Rows<T> x, y;
  Index features;
  Parameters<T> parameters;
};

// What becomes of a finished value of the kernel: `earlier` is added, then `scale` multiplied; with own_x and own_y,
// k(x, x) and k(y, y), the squared distance in feature space is made of it.
template <class T>
struct Afterwards {
  bool wanted = false;
  const T* earlier = nullptr;
  Index earlier_stride = 0;
  T scale = T(1);
  const T *own_x = nullptr, *own_y = nullptr;
  bool same = false;  // y is x: a sample is at distance 0 from itself, but not where the kernel is not finite
};

// Right-hand sides, element (j, c) at data[j row_stride + c column_stride].
template <class T>
struct RightSides {
  const T* data;
  Index row_stride, column_stride, count;
};

// How a product without the matrix is split (gram_matvec.cuh): columns of K between blocks, and within one between
// warps. What every part sums is added up by a second kernel.
template <class T>
struct Split {
  Index parts;         // blocks along the columns of K
  Index tiles_a_part;  // of columns
  T* partial;          // [part][warp][row][right side]
  T *largest, *total;  // softmax only: [part][warp][row]
};

// Weights of the pairs in a derivative: W, and W' too where samples stand on both sides.
template <class T>
struct PairWeights {
  const T* data;
  Index row_stride, column_stride;
  const T* turned;  // or none
  Index turned_row_stride, turned_column_stride;
  // Sums of own and gamma over the columns of a tile that one warp has: [tile column][warp][row]; or none.
  T *own, *gamma;
};

enum class Job { matrix, symmetric_matrix, product, diagonal, slopes };

template <class T>
struct Task {
  const char* name;
  Job job;
  cudaStream_t stream;
  T* out = nullptr;  // of a matrix, its rows out_stride apart; of a diagonal, its elements
  Index out_stride = 0;
  Afterwards<T> afterwards{};
  RightSides<T> right{};
  Split<T> split{};
  PairWeights<T> weights{};
};

// The kernels by their rule, which says what is summed over the features, and their class of function. One file each:
// sums of products, of squared differences (of samples, with weights, and of unit vectors), of absolute differences, of
// chi squared terms; products of sinc.
#define FASTDL_GRAM_CLASS(name) \
  template <class T>            \
  void name(const Pairs<T>& pairs, const Task<T>& task);
FASTDL_GRAM_CLASS(of_products)
FASTDL_GRAM_CLASS(of_squares)
FASTDL_GRAM_CLASS(of_weighed_squares)
FASTDL_GRAM_CLASS(of_angles)
FASTDL_GRAM_CLASS(of_absolutes)
FASTDL_GRAM_CLASS(of_chi_squares)
FASTDL_GRAM_CLASS(of_sincs)
#undef FASTDL_GRAM_CLASS

}  // namespace fastdl::gram::cuda
