// The Gram family on the GPU, any of its kernels, as the host calls it. What is said in gram.hpp holds here too; T is
// float or double, `y` null means that y is x. Results are contiguous unless a stride is given.
#pragma once

#include "device.hpp"

namespace fastdl::gram::cuda {

using Index = std::int64_t;
using fastdl::cuda::Stream;

// As fastdl_kernel_kind and fastdl_kernel (csrc/include/fastdl/fastdl.h), which say what the parameters are.
enum class Kind {
  linear,
  polynomial,
  sigmoid,
  rbf,
  laplacian,
  cosine,
  additive_chi2,
  chi2,
  matern,
  geometric,
  sinc,
  arc_cosine,
  nngp,
  ntk,
};

struct Kernel {
  const char* function;  // the public one, for messages
  Kind kind;
  double gamma, coef0, degree;
  double length_scale, nu;
  const double* length_scales;  // memory of the host, or none
  double alpha, omega;
  int order;
  int depth, normalize;
  double w_std, b_std;
};

// Element (i, j) lies at data[i row_stride + j col_stride].
template <class T>
struct MatrixView {
  T* data = nullptr;
  Index rows = 0, cols = 0;
  Index row_stride = 0, col_stride = 1;
};

// K[i, j] = k(x_i, y_j), rows k_row_stride apart; symmetric to the bit without y.
template <class T>
void gram(const Kernel& kernel, const MatrixView<const T>& x, const MatrixView<const T>* y, T* k, Index k_row_stride,
          Stream stream);

// out[i] = k(x_i, x_i)
template <class T>
void diag(const Kernel& kernel, const MatrixView<const T>& x, T* out, Stream stream);

// k(x_i, x_i) + k(y_j, y_j) - 2 k(x_i, y_j)
template <class T>
void distance(const Kernel& kernel, const MatrixView<const T>& x, const MatrixView<const T>* y, T* out, Stream stream);

// k summed over `count` permutations of x and of y, or of y alone and times count for a group. `orders` is memory of
// the host.
template <class T>
void invariant(const Kernel& kernel, const MatrixView<const T>& x, const MatrixView<const T>* y,
               const std::int64_t* orders, Index count, bool group, T* out, Stream stream);

// K(x, y) v, without K
template <class T>
void matvec(const Kernel& kernel, const MatrixView<const T>& x, const MatrixView<const T>& y,
            const MatrixView<const T>& v, T* out, Stream stream);

// row-softmax(scale q k') v, without the matrix
template <class T>
void softmax_matvec(const MatrixView<const T>& q, const MatrixView<const T>& k, const MatrixView<const T>& v,
                    double scale, T* out, Stream stream);

// Gradients of sum grad * K by x and y; what is returned is the one by gamma, 0 where there is none. Not of sinc.
template <class T>
double gram_vjp(const Kernel& kernel, const MatrixView<const T>& x, const MatrixView<const T>* y,
                const MatrixView<const T>& grad, T* dx, T* dy, Stream stream);
// The same of sum grad * (K v), and by v.
template <class T>
double matvec_vjp(const Kernel& kernel, const MatrixView<const T>& x, const MatrixView<const T>* y,
                  const MatrixView<const T>& v, const MatrixView<const T>& grad, T* dx, T* dy, T* dv, Stream stream);

// (I - U) K (I - U) with U = 1/n
template <class T>
void center(const MatrixView<const T>& k, T* out, Stream stream);

// hsic, or cka if `aligned`, of two n x n matrices, to one number on the device
template <class T>
void dependence(const MatrixView<const T>& k, const MatrixView<const T>& l, bool unbiased, bool aligned, T* out,
                Stream stream);

// x (samples, channels, positions), contiguous; out (samples, channels, channels)
template <class T>
void feature_gram(const T* x, Index samples, Index channels, Index positions, bool centred, T* out, Stream stream);

template <class T>
void empirical_ntk(const MatrixView<const T>& x, const MatrixView<const T>* y, T* k, Stream stream);

// The convolutional neural tangent kernel of images (n, channels, height, width) and (m, ...), contiguous, that fit.
template <class T>
void cntk(const T* x, Index n, const T* y, Index m, Index channels, Index height, Index width, int depth,
          Index kernel_size, bool flatten, T* k, Stream stream);
bool cntk_fits(Index height, Index width, int itemsize);

}  // namespace fastdl::gram::cuda
