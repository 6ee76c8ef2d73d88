/* fastdl: the C interface.
 *
 * Everything the library does is reached through these functions; the C++ headers beside this one and the Python
 * package are thin layers over them. Only plain C types cross the boundary, so the library and its user may be built by
 * different compilers. In this order: errors and version, instruction sets, threads, Gram matrices, convolutions,
 * convolution of arrays, Hebbian learning, groups, scattering. docs/embedding.md goes through it.
 *
 * Rules that hold for every function returning a status:
 *   - every function is there for float and double, with names ending in _f32 and _f64;
 *   - arguments are checked before any element is read or written; on an error nothing has been written. That memory is
 *     as large as it is said to be, and that outputs overlap nothing, cannot be checked;
 *   - fastdl_last_error() gives the message of this thread's last failed call: "[family.function] expected ..., got
 * ...";
 *   - memory belongs to the caller, is aligned as its type is, and is not used after the call. What a function makes, a
 *     plan or prepared filters, is ended by the function of the same name with _free;
 *   - strides count elements, may be zero or negative for inputs, and say where element (i, j) lies:
 *     data[i*row_stride + j*col_stride]. An output's elements must be distinct and overlap no input, unless it is said
 *     that it may be one;
 *   - an extent of zero is valid; its data pointer may be null;
 *   - functions may be called from any number of threads at once;
 *   - results do not depend on the number of threads, to the bit.
 *
 * Within a second number of the version, as 0.1.x, nothing that is declared here changes, and functions, structs and
 * enumerators are only added: what was compiled with an earlier one goes on with a later one.
 */
#ifndef FASTDL_FASTDL_H
#define FASTDL_FASTDL_H

#include <stdint.h>

#include "fastdl/version.h"

#if defined(_WIN32)
#if defined(FASTDL_BUILDING)
#define FASTDL_API __declspec(dllexport)
#elif defined(FASTDL_STATIC)
#define FASTDL_API
#else
#define FASTDL_API __declspec(dllimport)
#endif
#else
#define FASTDL_API __attribute__((visibility("default")))
#endif

/* C lets any number into an enumeration; so that C++ may look at one that has no name, and refuse it, it is told that
 * these are numbers of type int. */
#ifdef __cplusplus
#define FASTDL_INT : int
extern "C" {
#else
#define FASTDL_INT
#endif

typedef enum fastdl_status FASTDL_INT {
  FASTDL_OK = 0,
  FASTDL_INVALID_ARGUMENT = 1, /* a shape, stride, pointer or value; Python's ValueError */
  FASTDL_OUT_OF_MEMORY = 2,    /* scratch space could not be had; Python's MemoryError */
  FASTDL_INTERNAL = 3,         /* a defect of the library; please report it */
  FASTDL_NOT_FINITE = 4,       /* weights that were learnt became infinite or NaN; Python's FloatingPointError */
  FASTDL_INTERRUPTED = 5       /* the interrupt check said so; Python's KeyboardInterrupt */
} fastdl_status;

/* The message of the last call on this thread that did not return FASTDL_OK; "" if there was none. It stays until the
 * next such call, and is cut at 511 characters. */
FASTDL_API const char* fastdl_last_error(void);

/* The version of the library that is loaded, to compare with FASTDL_VERSION of the headers. */
FASTDL_API const char* fastdl_version(void);

/* How the library was compiled: compiler and flags, for bug reports and benchmark records. */
FASTDL_API const char* fastdl_build_info(void);

/* ---- instruction sets ------------------------------------------------------------------------------------------
 * Levels are called "baseline", "avx2", "avx512" and "neon". The widest that both the library and the processor
 * have is used, capped by the environment variable FASTDL_ISA, read once. */

FASTDL_API int fastdl_isa_count(void);                     /* how many levels this machine can run */
FASTDL_API const char* fastdl_isa_name(int index);         /* narrowest first; NULL when out of range */
FASTDL_API const char* fastdl_isa(void);                   /* the level in use */
FASTDL_API fastdl_status fastdl_set_isa(const char* name); /* for tests and measurements; process-wide */

/* ---- threads ---------------------------------------------------------------------------------------------------
 * One pool for the process, started by the first call that is large enough to gain from it. Its default size is
 * FASTDL_NUM_THREADS, or the number of processors this process may run on. */

FASTDL_API int fastdl_get_num_threads(void);            /* what a call on this thread would use at most */
FASTDL_API fastdl_status fastdl_set_num_threads(int n); /* process-wide, 1 to 4096 */
/* For calls made by the calling thread only, instead of the process-wide number; 0 for none. Returns what was set
 * before, or -1 if n is not from 0 to 4096. */
FASTDL_API int fastdl_set_thread_limit(int n);

/* A function of the host program that a long call asks some twenty times a second, on the thread that made it, whether
 * to stop: if it returns other than 0, the call returns FASTDL_INTERRUPTED soon after, with results that are only
 * partly written. It must not call the library. One for the process; NULL, as at first, for none. */
typedef int (*fastdl_interrupt_check)(void);
FASTDL_API void fastdl_set_interrupt_check(fastdl_interrupt_check check);

/* ---- Gram matrices ---------------------------------------------------------------------------------------------- */

typedef struct fastdl_matrix_f32 {
  float* data;
  int64_t rows, cols;
  int64_t row_stride, col_stride;
} fastdl_matrix_f32;

typedef struct fastdl_matrix_f64 {
  double* data;
  int64_t rows, cols;
  int64_t row_stride, col_stride;
} fastdl_matrix_f64;

/* K[i,j] = sum over f of X[i,f]*Y[j,f].   X is n x d, Y is m x d, K is n x m. X and Y are only read.
 * Y == NULL means Y = X; half the work is then done, and K is symmetric to the bit. */
FASTDL_API fastdl_status fastdl_gram_linear_f32(const fastdl_matrix_f32* X, const fastdl_matrix_f32* Y,
                                                const fastdl_matrix_f32* K);
FASTDL_API fastdl_status fastdl_gram_linear_f64(const fastdl_matrix_f64* X, const fastdl_matrix_f64* Y,
                                                const fastdl_matrix_f64* K);

/* The kernels k(x, y). Of the parameters only those named beside a kernel are read.
 *
 * - LINEAR: x.y
 * - POLYNOMIAL: (gamma x.y + coef0)^degree; degree >= 1
 * - SIGMOID: tanh(gamma x.y + coef0)
 * - RBF: exp(-gamma |x - y|^2); gamma >= 0
 * - LAPLACIAN: exp(-gamma |x - y|_1); gamma >= 0
 * - COSINE: x.y / (|x| |y|), 0 for a zero row
 * - ADDITIVE_CHI2: -sum (x - y)^2 / (x + y), 0/0 = 0; X, Y >= 0, which is not checked
 * - CHI2: exp(gamma ADDITIVE_CHI2); gamma >= 0
 * - MATERN: of |(x - y) / length_scale|; nu = 0.5, 1.5, 2.5 or infinity; length_scale > 0, or length_scales, one a
 *   feature, if not NULL
 * - GEOMETRIC: 1 / (1 - alpha^2 x.y); |alpha^2 x.y| < 1, which is not checked
 * - SINC: product of sin(omega (x - y)) / (pi (x - y)); omega > 0
 * - ARC_COSINE: (|x| |y|)^order J_order(angle) / pi; order = 0, 1 or 2
 * - NNGP, NTK: of a ReLU network with `depth` hidden layers; depth, w_std, b_std >= 0; normalize: x.y / d
 */
typedef enum fastdl_kernel_kind FASTDL_INT {
  FASTDL_LINEAR = 0,
  FASTDL_POLYNOMIAL,
  FASTDL_SIGMOID,
  FASTDL_RBF,
  FASTDL_LAPLACIAN,
  FASTDL_COSINE,
  FASTDL_ADDITIVE_CHI2,
  FASTDL_CHI2,
  FASTDL_MATERN,
  FASTDL_GEOMETRIC,
  FASTDL_SINC,
  FASTDL_ARC_COSINE,
  FASTDL_NNGP,
  FASTDL_NTK
} fastdl_kernel_kind;

typedef struct fastdl_kernel {
  fastdl_kernel_kind kind;
  double gamma, coef0, degree;
  double length_scale, nu;
  const double* length_scales;
  double alpha, omega;
  int order;
  int depth, normalize;
  double w_std, b_std;
} fastdl_kernel;

/* The kernel with its usual parameters for rows of d features: gamma = 1/d (CHI2: 1), coef0 = 1, degree = 3,
 * length_scale = 1, nu = 1.5, alpha = 0.5, omega = 1, order = 1, depth = 1, w_std = 1, b_std = 0, normalize = 1. */
FASTDL_API fastdl_kernel fastdl_kernel_default(fastdl_kernel_kind kind, int64_t d);

/* K[i,j] = k(x_i, y_j), of X n x d and Y m x d; Y == NULL means Y = X, and K is then symmetric to the bit. */
FASTDL_API fastdl_status fastdl_gram_f32(const fastdl_kernel* kernel, const fastdl_matrix_f32* X,
                                         const fastdl_matrix_f32* Y, const fastdl_matrix_f32* K);
FASTDL_API fastdl_status fastdl_gram_f64(const fastdl_kernel* kernel, const fastdl_matrix_f64* X,
                                         const fastdl_matrix_f64* Y, const fastdl_matrix_f64* K);

/* K[i,j] = k(x_(row+i), x_(column+j)), to the bit as fastdl_gram has it there for all of X and no Y: the parts of a
 * matrix that is larger than memory. */
FASTDL_API fastdl_status fastdl_gram_part_f32(const fastdl_kernel* kernel, const fastdl_matrix_f32* X, int64_t row,
                                              int64_t column, const fastdl_matrix_f32* K);
FASTDL_API fastdl_status fastdl_gram_part_f64(const fastdl_kernel* kernel, const fastdl_matrix_f64* X, int64_t row,
                                              int64_t column, const fastdl_matrix_f64* K);

/* out[i] = k(x_i, x_i); out is n x 1. */
FASTDL_API fastdl_status fastdl_gram_diag_f32(const fastdl_kernel* kernel, const fastdl_matrix_f32* X,
                                              const fastdl_matrix_f32* out);
FASTDL_API fastdl_status fastdl_gram_diag_f64(const fastdl_kernel* kernel, const fastdl_matrix_f64* X,
                                              const fastdl_matrix_f64* out);

/* out = K v with K[i,j] = k(x_i, y_j), which is never formed; v is m x p, out n x p. Y == NULL means Y = X. */
FASTDL_API fastdl_status fastdl_gram_matvec_f32(const fastdl_kernel* kernel, const fastdl_matrix_f32* X,
                                                const fastdl_matrix_f32* Y, const fastdl_matrix_f32* v,
                                                const fastdl_matrix_f32* out);
FASTDL_API fastdl_status fastdl_gram_matvec_f64(const fastdl_kernel* kernel, const fastdl_matrix_f64* X,
                                                const fastdl_matrix_f64* Y, const fastdl_matrix_f64* v,
                                                const fastdl_matrix_f64* out);

/* Sparse rows: the entries of row i are [offsets[i], offsets[i+1]) of indices and values, indices ascending and below
 * cols. offsets has rows + 1 numbers and begins with 0. */
typedef struct fastdl_sparse_f32 {
  int64_t rows, cols;
  const int64_t *offsets, *indices;
  const float* values;
} fastdl_sparse_f32;

typedef struct fastdl_sparse_f64 {
  int64_t rows, cols;
  const int64_t *offsets, *indices;
  const double* values;
} fastdl_sparse_f64;

/* K as fastdl_gram, of sparse X (n x d) and Y given transposed (d x m); the kernel LINEAR, POLYNOMIAL, RBF or COSINE.
 * symmetric != 0 tells that Y is X. */
FASTDL_API fastdl_status fastdl_gram_sparse_f32(const fastdl_kernel* kernel, const fastdl_sparse_f32* X,
                                                const fastdl_sparse_f32* Y_transposed, int symmetric,
                                                const fastdl_matrix_f32* K);
FASTDL_API fastdl_status fastdl_gram_sparse_f64(const fastdl_kernel* kernel, const fastdl_sparse_f64* X,
                                                const fastdl_sparse_f64* Y_transposed, int symmetric,
                                                const fastdl_matrix_f64* K);

/* out = P V, row i of P the softmax of scale q_i.k_j over j; Q is n x d, K m x d, V m x p, out n x p. P is never
 * formed. A row whose largest score is infinite is NaN; scores that leave float32 are taken in double. */
FASTDL_API fastdl_status fastdl_gram_softmax_matvec_f32(const fastdl_matrix_f32* Q, const fastdl_matrix_f32* K,
                                                        const fastdl_matrix_f32* V, double scale,
                                                        const fastdl_matrix_f32* out);
FASTDL_API fastdl_status fastdl_gram_softmax_matvec_f64(const fastdl_matrix_f64* Q, const fastdl_matrix_f64* K,
                                                        const fastdl_matrix_f64* V, double scale,
                                                        const fastdl_matrix_f64* out);

/* The gradients of the sum of grad * K with respect to X, Y and gamma, K as in fastdl_gram; grad is n x m as K is, and
 * dX, dY are of the shapes of X, Y. Y == NULL means Y = X: dX then has both parts, and dY is NULL as well. *gamma is 0
 * for a kernel that has none; gamma may be NULL. Where k has no gradient, 0 is taken as said below. */
FASTDL_API fastdl_status fastdl_gram_vjp_f32(const fastdl_kernel* kernel, const fastdl_matrix_f32* X,
                                             const fastdl_matrix_f32* Y, const fastdl_matrix_f32* grad,
                                             const fastdl_matrix_f32* dX, const fastdl_matrix_f32* dY, double* gamma);
FASTDL_API fastdl_status fastdl_gram_vjp_f64(const fastdl_kernel* kernel, const fastdl_matrix_f64* X,
                                             const fastdl_matrix_f64* Y, const fastdl_matrix_f64* grad,
                                             const fastdl_matrix_f64* dX, const fastdl_matrix_f64* dY, double* gamma);

/* The gradients of the sum of grad * (K v) with respect to X, Y, v and gamma, K as in fastdl_gram_matvec and never
 * formed; grad is n x p as K v is, and dX, dY, dv are of the shapes of X, Y, v. Y == NULL means Y = X: dX then has both
 * parts, and dY is NULL as well. *gamma is 0 for a kernel that has none; gamma may be NULL.
 * Where k has no gradient, 0 is taken: at equal features for LAPLACIAN, at equal rows for MATERN with nu = 0.5, at two
 * zeros for the CHI2 kernels, at zero rows for COSINE and ARC_COSINE of order 0, and at parallel rows for ARC_COSINE of
 * order 0 and NTK. For the other ARC_COSINE, NNGP and NTK a zero row is at right angles with all others. */
FASTDL_API fastdl_status fastdl_gram_matvec_vjp_f32(const fastdl_kernel* kernel, const fastdl_matrix_f32* X,
                                                    const fastdl_matrix_f32* Y, const fastdl_matrix_f32* v,
                                                    const fastdl_matrix_f32* grad, const fastdl_matrix_f32* dX,
                                                    const fastdl_matrix_f32* dY, const fastdl_matrix_f32* dv,
                                                    double* gamma);
FASTDL_API fastdl_status fastdl_gram_matvec_vjp_f64(const fastdl_kernel* kernel, const fastdl_matrix_f64* X,
                                                    const fastdl_matrix_f64* Y, const fastdl_matrix_f64* v,
                                                    const fastdl_matrix_f64* grad, const fastdl_matrix_f64* dX,
                                                    const fastdl_matrix_f64* dY, const fastdl_matrix_f64* dv,
                                                    double* gamma);

/* The convolutional neural tangent kernel of (q x q convolution with zero padding, ReLU) x depth, then pooling over the
 * positions and a dense layer (Arora et al. 2019). X is n and Y m images of channels x height x width, contiguous, and
 * K is n x m, contiguous. With p, p' positions and box(A)[p,p'] = (1/q^2) times the sum of A[p+o, p'+o] over the q x q
 * offsets o from -floor((q-1)/2) to floor(q/2) along both axes that leave neither image:
 *
 *   S = T = sum over c of X[i,c,p]*Y[j,c,p']
 *   depth times:  S <- box(S),  T <- box(T)
 *                 s = sqrt(max(0, Sxx*Syy - S^2)), theta = atan2(s, S), or pi/2 where both are zero
 *                 S <- (s + (pi - theta)*S)/pi,  T <- T*(pi - theta)/pi + S
 *   K[i,j] = the mean of T over all p, p' (mean_pooling != 0) or over p = p' (flatten)
 *
 * where Sxx and Syy are S of the image with itself at (p,p) and (p',p').
 * depth >= 0; q = kernel_size >= 1. Images without values give zeros.
 * Y == NULL means Y = X and m = n; half the work is then done. K(x,y) = K(y,x) to the bit in either case.
 * The images are scaled by powers of two within, so the size of their values does not matter.
 * Where patches of x and y are parallel but not equal, theta has an error of up to the square root of the type's
 * precision, and T that relative error at those p, p'. */
FASTDL_API fastdl_status fastdl_gram_cntk_f32(const float* X, int64_t n, const float* Y, int64_t m, int64_t channels,
                                              int64_t height, int64_t width, int depth, int kernel_size,
                                              int mean_pooling, float* K);
FASTDL_API fastdl_status fastdl_gram_cntk_f64(const double* X, int64_t n, const double* Y, int64_t m, int64_t channels,
                                              int64_t height, int64_t width, int depth, int kernel_size,
                                              int mean_pooling, double* K);

/* out[i,j] = k(x_i, x_i) + k(y_j, y_j) - 2 k(x_i, y_j), at least 0: squared distances in the kernel's feature space.
 * Y == NULL means Y = X; out is then symmetric to the bit, with zeros on its diagonal. */
FASTDL_API fastdl_status fastdl_gram_distance_f32(const fastdl_kernel* kernel, const fastdl_matrix_f32* X,
                                                  const fastdl_matrix_f32* Y, const fastdl_matrix_f32* out);
FASTDL_API fastdl_status fastdl_gram_distance_f64(const fastdl_kernel* kernel, const fastdl_matrix_f64* X,
                                                  const fastdl_matrix_f64* Y, const fastdl_matrix_f64* out);

/* K[i,j] = sum over g and h of k(g x_i, h y_j), (g x)[f] = x[permutations[g*d + f]], for `order` permutations of the d
 * features. group != 0 tells that they form a group and that one permutation of both rows does not change k (so no
 * length_scales): only one of the sums is then taken, and K is order times it. Y == NULL means Y = X. */
FASTDL_API fastdl_status fastdl_gram_invariant_f32(const fastdl_kernel* kernel, const fastdl_matrix_f32* X,
                                                   const fastdl_matrix_f32* Y, const int64_t* permutations,
                                                   int64_t order, int group, const fastdl_matrix_f32* K);
FASTDL_API fastdl_status fastdl_gram_invariant_f64(const fastdl_kernel* kernel, const fastdl_matrix_f64* X,
                                                   const fastdl_matrix_f64* Y, const int64_t* permutations,
                                                   int64_t order, int group, const fastdl_matrix_f64* K);

/* out = (I - U) K (I - U) with U[i,j] = 1/n, of K n x n. */
FASTDL_API fastdl_status fastdl_gram_center_f32(const fastdl_matrix_f32* K, const fastdl_matrix_f32* out);
FASTDL_API fastdl_status fastdl_gram_center_f64(const fastdl_matrix_f64* K, const fastdl_matrix_f64* out);

/* The Hilbert-Schmidt independence criterion of K and L, both n x n, and the centred alignment HSIC(K, L) /
 * sqrt(HSIC(K, K) HSIC(L, L)). n >= 2, or 4 for the unbiased estimate. */
FASTDL_API fastdl_status fastdl_gram_hsic_f32(const fastdl_matrix_f32* K, const fastdl_matrix_f32* L, int unbiased,
                                              float* out);
FASTDL_API fastdl_status fastdl_gram_cka_f32(const fastdl_matrix_f32* K, const fastdl_matrix_f32* L, int unbiased,
                                             float* out);
FASTDL_API fastdl_status fastdl_gram_hsic_f64(const fastdl_matrix_f64* K, const fastdl_matrix_f64* L, int unbiased,
                                              double* out);
FASTDL_API fastdl_status fastdl_gram_cka_f64(const fastdl_matrix_f64* K, const fastdl_matrix_f64* L, int unbiased,
                                             double* out);

/* out[s] = F F' / positions for the maps F of each sample, channels x positions; less their means if center != 0. x is
 * samples x channels x positions and out samples x channels x channels, both contiguous. */
FASTDL_API fastdl_status fastdl_gram_feature_gram_f32(const float* x, int64_t samples, int64_t channels,
                                                      int64_t positions, int center, float* out);
FASTDL_API fastdl_status fastdl_gram_feature_gram_f64(const double* x, int64_t samples, int64_t channels,
                                                      int64_t positions, int center, double* out);

/* K = J1 J2' for Jacobians, a row for every sample: as fastdl_gram_linear, but the sums of 65536 parameters at a time
 * are added in double. J2 == NULL means J2 = J1. */
FASTDL_API fastdl_status fastdl_gram_empirical_ntk_f32(const fastdl_matrix_f32* J1, const fastdl_matrix_f32* J2,
                                                       const fastdl_matrix_f32* K);
FASTDL_API fastdl_status fastdl_gram_empirical_ntk_f64(const fastdl_matrix_f64* J1, const fastdl_matrix_f64* J2,
                                                       const fastdl_matrix_f64* K);

/* ---- convolutions -----------------------------------------------------------------------------------------------
 * Of images (batch, channels, positions along 1 to 3 axes):
 *
 *   out[n,o,p] = activation(bias[o] + sum over c, q of w[o,c,q] * x[n,c, stride*p + dilation*q - lower])
 *
 * for the channels c of o's group. All arrays are contiguous in the order of their axes, but that x may have strides.
 */

typedef struct fastdl_conv_shape {
  int rank;                                         /* axes of positions; of the arrays below so many are read */
  int64_t batch, in_channels, out_channels, groups; /* w is out_channels x in_channels/groups x kernel */
  int64_t in[3], kernel[3], out[3];
  int64_t stride[3], lower[3], dilation[3]; /* lower: the padding before the first position */
} fastdl_conv_shape;
/* The padding after the last position follows from `out`. A padding below 0 leaves positions out. */

/* What lies outside of x. REFLECT needs the padding, on both sides, to be smaller than the extent of x. */
typedef enum fastdl_padding FASTDL_INT {
  FASTDL_ZEROS = 0,
  FASTDL_CIRCULAR,
  FASTDL_REFLECT,
  FASTDL_REPLICATE
} fastdl_padding;

typedef enum fastdl_activation FASTDL_INT {
  FASTDL_NO_ACTIVATION = 0,
  FASTDL_RELU,
  FASTDL_LEAKY_RELU, /* slope 0.01 */
  FASTDL_SIGMOID_ACTIVATION,
  FASTDL_TANH
} fastdl_activation;

/* AUTO takes what a cost model says is fastest. WINOGRAD is for 3 x 3 filters of stride and dilation 1. FFT has errors
 * relative to the largest results, and spreads what is not finite. */
typedef enum fastdl_conv_algorithm FASTDL_INT {
  FASTDL_CONV_AUTO = 0,
  FASTDL_CONV_DIRECT,
  FASTDL_CONV_WINOGRAD,
  FASTDL_CONV_FFT
} fastdl_conv_algorithm;

/* x_strides: of batch, channels and each axis, in elements; NULL for contiguous. bias may be NULL. */
FASTDL_API fastdl_status fastdl_conv_f32(const fastdl_conv_shape* shape, fastdl_padding padding,
                                         fastdl_activation activation, fastdl_conv_algorithm algorithm, const float* x,
                                         const int64_t* x_strides, const float* w, const float* bias, float* out);
FASTDL_API fastdl_status fastdl_conv_f64(const fastdl_conv_shape* shape, fastdl_padding padding,
                                         fastdl_activation activation, fastdl_conv_algorithm algorithm, const double* x,
                                         const int64_t* x_strides, const double* w, const double* bias, double* out);

/* The same with filters that are made ready once: they keep a copy of the weights and, where Winograd's algorithm will
 * serve inputs of this shape, the transformed filters. Calls must have the same channels, kernel, stride and dilation;
 * batch, extents and padding may differ. They do not change, and may be used from many threads at once. */
typedef struct fastdl_conv_filters_f32 fastdl_conv_filters_f32;
FASTDL_API fastdl_status fastdl_conv_prepare_f32(const fastdl_conv_shape* shape, fastdl_conv_algorithm algorithm,
                                                 const float* w, fastdl_conv_filters_f32** filters);
FASTDL_API void fastdl_conv_filters_free_f32(fastdl_conv_filters_f32* filters); /* NULL is none */
FASTDL_API fastdl_status fastdl_conv_prepared_f32(const fastdl_conv_filters_f32* filters,
                                                  const fastdl_conv_shape* shape, fastdl_padding padding,
                                                  fastdl_activation activation, const float* x,
                                                  const int64_t* x_strides, const float* bias, float* out);
typedef struct fastdl_conv_filters_f64 fastdl_conv_filters_f64;
FASTDL_API fastdl_status fastdl_conv_prepare_f64(const fastdl_conv_shape* shape, fastdl_conv_algorithm algorithm,
                                                 const double* w, fastdl_conv_filters_f64** filters);
FASTDL_API void fastdl_conv_filters_free_f64(fastdl_conv_filters_f64* filters); /* NULL is none */
FASTDL_API fastdl_status fastdl_conv_prepared_f64(const fastdl_conv_filters_f64* filters,
                                                  const fastdl_conv_shape* shape, fastdl_padding padding,
                                                  fastdl_activation activation, const double* x,
                                                  const int64_t* x_strides, const double* bias, double* out);

/* The gradients of the sum of grad * out, without bias and activation, with zeros as padding. fastdl_conv_input is also
 * the transposed convolution of `grad`, with `bias` (or NULL) for the channels of dx. */
FASTDL_API fastdl_status fastdl_conv_input_f32(const fastdl_conv_shape* shape, const float* w, const float* grad,
                                               const float* bias, float* dx);
FASTDL_API fastdl_status fastdl_conv_weight_f32(const fastdl_conv_shape* shape, const float* x,
                                                const int64_t* x_strides, const float* grad, float* dw);
FASTDL_API fastdl_status fastdl_conv_input_f64(const fastdl_conv_shape* shape, const double* w, const double* grad,
                                               const double* bias, double* dx);
FASTDL_API fastdl_status fastdl_conv_weight_f64(const fastdl_conv_shape* shape, const double* x,
                                                const int64_t* x_strides, const double* grad, double* dw);

/* Pooling of in_channels channels; out_channels, groups and dilation are not read. indices, which may be NULL, gets the
 * place of each maximum in its plane: of equals the first, and NaN is larger than all. padding_counts != 0: the mean is
 * over the whole window, with zeros outside of x. Every window must hold a position of x. */
FASTDL_API fastdl_status fastdl_max_pool_f32(const fastdl_conv_shape* shape, const float* x, const int64_t* x_strides,
                                             float* out, int64_t* indices);
FASTDL_API fastdl_status fastdl_avg_pool_f32(const fastdl_conv_shape* shape, const float* x, const int64_t* x_strides,
                                             int padding_counts, float* out);
FASTDL_API fastdl_status fastdl_max_pool_grad_f32(const fastdl_conv_shape* shape, const float* grad,
                                                  const int64_t* indices, float* dx);
FASTDL_API fastdl_status fastdl_avg_pool_grad_f32(const fastdl_conv_shape* shape, const float* grad, int padding_counts,
                                                  float* dx);
FASTDL_API fastdl_status fastdl_max_pool_f64(const fastdl_conv_shape* shape, const double* x, const int64_t* x_strides,
                                             double* out, int64_t* indices);
FASTDL_API fastdl_status fastdl_avg_pool_f64(const fastdl_conv_shape* shape, const double* x, const int64_t* x_strides,
                                             int padding_counts, double* out);
FASTDL_API fastdl_status fastdl_max_pool_grad_f64(const fastdl_conv_shape* shape, const double* grad,
                                                  const int64_t* indices, double* dx);
FASTDL_API fastdl_status fastdl_avg_pool_grad_f64(const fastdl_conv_shape* shape, const double* grad,
                                                  int padding_counts, double* dx);

/* ---- convolution of real arrays --------------------------------------------------------------------------------- */

/* An array of any rank: element (i, j, ...) lies at data[i*strides[0] + j*strides[1] + ...]. */
typedef struct fastdl_array_f32 {
  float* data;
  int rank;
  const int64_t *sizes, *strides;
} fastdl_array_f32;

typedef struct fastdl_array_f64 {
  double* data;
  int rank;
  const int64_t *sizes, *strides;
} fastdl_array_f64;

/* Which part of the result is wanted, along every axis, of f with n and h with m numbers:
 *   FULL      all n + m - 1 of them; none if n or m is 0
 *   SAME      the n in the middle of FULL, from number (m - 1)/2 on
 *   VALID     the |n - m| + 1 to which nothing outside of f (or of h, if it is the larger one) contributes; none if n
 *             or m is 0. One of f and h must be at least as large as the other along every axis
 *   CIRCULAR  n, where f is one period of a periodic array and h is folded onto such a period */
typedef enum fastdl_convolution_mode FASTDL_INT {
  FASTDL_MODE_FULL = 0,
  FASTDL_MODE_SAME,
  FASTDL_MODE_VALID,
  FASTDL_MODE_CIRCULAR
} fastdl_convolution_mode;

/* DIRECT       sums of products, in their type. What is not finite reaches only the results that it contributes to.
 * FFT          by one Fourier transform. Errors are relative to the largest results; what is not finite spreads to all.
 * OVERLAP_ADD  by transforms of tiles along the longest axis, for an h that is short there. What is not finite spreads
 *              over its tiles.
 * AUTO         what is quickest; but DIRECT if something is not finite and there are fewer than 2^36 products. */
typedef enum fastdl_convolution_method FASTDL_INT {
  FASTDL_METHOD_AUTO = 0,
  FASTDL_METHOD_DIRECT,
  FASTDL_METHOD_FFT,
  FASTDL_METHOD_OVERLAP_ADD
} fastdl_convolution_method;

/* convolve:  out[u] = sum over t of f[t]*h[u-t]
 * correlate: out[u] = sum over t of f[t]*h[t-u], the convolution with h reversed along every axis; in the modes FULL,
 *            SAME and VALID its result is numbered as that convolution's.
 * f, h and out have the same rank, at most 64. */
FASTDL_API fastdl_status fastdl_conv_convolve_f32(const fastdl_array_f32* f, const fastdl_array_f32* h,
                                                  fastdl_convolution_mode mode, fastdl_convolution_method method,
                                                  const fastdl_array_f32* out);
FASTDL_API fastdl_status fastdl_conv_convolve_f64(const fastdl_array_f64* f, const fastdl_array_f64* h,
                                                  fastdl_convolution_mode mode, fastdl_convolution_method method,
                                                  const fastdl_array_f64* out);
FASTDL_API fastdl_status fastdl_conv_correlate_f32(const fastdl_array_f32* f, const fastdl_array_f32* h,
                                                   fastdl_convolution_mode mode, fastdl_convolution_method method,
                                                   const fastdl_array_f32* out);
FASTDL_API fastdl_status fastdl_conv_correlate_f64(const fastdl_array_f64* f, const fastdl_array_f64* h,
                                                   fastdl_convolution_mode mode, fastdl_convolution_method method,
                                                   const fastdl_array_f64* out);

/* ---- Hebbian learning ------------------------------------------------------------------------------------------- */

/* What a sample x does to the weights W, k units by d features, with y = W x and a step lr:
 *
 * - HEBB: W += lr y x'
 * - NORMALIZED: the same, and every row is then rescaled to length 1; zeros stay
 * - OJA: w_i += lr y_i (x - y_i w_i)
 * - SANGER: w_i += lr y_i (x - sum over j <= i of y_j w_j)
 * - SUBSPACE: w_i += lr y_i (x - sum over j of y_j w_j)
 * - BCM: w_i += lr y_i (y_i - theta_i) x, then theta_i += (y_i^2 - theta_i) / tau; tau > 0
 * - KROTOV: w_i += lr g_i (x - y_i w_i), g 1 for the largest y, -delta for number `rank` >= 2, 0 for all others
 * - SOFT: w_i += lr s_i (x - y_i w_i), s = softmax(y / temperature); temperature > 0 */
typedef enum fastdl_hebbian_kind FASTDL_INT {
  FASTDL_HEBBIAN_HEBB = 0,
  FASTDL_HEBBIAN_NORMALIZED,
  FASTDL_HEBBIAN_OJA,
  FASTDL_HEBBIAN_SANGER,
  FASTDL_HEBBIAN_SUBSPACE,
  FASTDL_HEBBIAN_BCM,
  FASTDL_HEBBIAN_KROTOV,
  FASTDL_HEBBIAN_SOFT
} fastdl_hebbian_kind;

/* LOOP takes a sample after the other; BLOCKS gives the same, to rounding, from products of blocks of samples; AUTO is
 * the quicker one. */
typedef enum fastdl_hebbian_algorithm FASTDL_INT {
  FASTDL_HEBBIAN_AUTO = 0,
  FASTDL_HEBBIAN_LOOP,
  FASTDL_HEBBIAN_BLOCKS
} fastdl_hebbian_algorithm;

typedef struct fastdl_hebbian_rule {
  fastdl_hebbian_kind kind;
  fastdl_hebbian_algorithm algorithm;
  int together; /* all samples see the same weights W: only for the first five */
  double tau, delta, temperature;
  int64_t rank;
  double norm; /* of KROTOV, at least 1 */
} fastdl_hebbian_rule;

/* out = W after all n samples X, in their order. lr is a step for every sample, lr[t*lr_stride]. theta, of BCM only, is
 * k numbers, read and written. out may be W itself: nothing is written before all is computed, and nothing at all when
 * weights become infinite or NaN (FASTDL_NOT_FINITE; the message names the sample). */
FASTDL_API fastdl_status fastdl_hebbian_learn_f32(const fastdl_hebbian_rule* rule, const fastdl_matrix_f32* W,
                                                  const fastdl_matrix_f32* X, const float* lr, int64_t lr_stride,
                                                  float* theta, const fastdl_matrix_f32* out);
FASTDL_API fastdl_status fastdl_hebbian_learn_f64(const fastdl_hebbian_rule* rule, const fastdl_matrix_f64* W,
                                                  const fastdl_matrix_f64* X, const double* lr, int64_t lr_stride,
                                                  double* theta, const fastdl_matrix_f64* out);

/* Foldiak's rule: activities settle in `steps` steps u += (f(W x + V u - threshold) - u) / 10 from 0, where
 * f(a) = 1 / (1 + exp(-steepness a)), and y = [u > 1/2] learns: W += lr y (x - W), V = min(0, V - lateral_lr (y y' -
 * activity^2)) with zeros on the diagonal, threshold += threshold_lr (y - activity). */
typedef struct fastdl_hebbian_settling {
  double lateral_lr, threshold_lr, activity, steepness;
  int64_t steps;
} fastdl_hebbian_settling;

/* out = W after all samples, as above; lateral, k x k, and threshold, k numbers, are read and written. */
FASTDL_API fastdl_status fastdl_hebbian_foldiak_f32(const fastdl_hebbian_settling* how, const fastdl_matrix_f32* W,
                                                    const fastdl_matrix_f32* X, const float* lr, int64_t lr_stride,
                                                    const fastdl_matrix_f32* lateral, float* threshold,
                                                    const fastdl_matrix_f32* out);
FASTDL_API fastdl_status fastdl_hebbian_foldiak_f64(const fastdl_hebbian_settling* how, const fastdl_matrix_f64* W,
                                                    const fastdl_matrix_f64* X, const double* lr, int64_t lr_stride,
                                                    const fastdl_matrix_f64* lateral, double* threshold,
                                                    const fastdl_matrix_f64* out);

/* Candid covariance-free principal components: out = V, k x d, after n further samples, of which `count` came before.
 */
FASTDL_API fastdl_status fastdl_hebbian_ccipca_f32(const fastdl_matrix_f32* V, const fastdl_matrix_f32* X,
                                                   int64_t count, double amnesic, const fastdl_matrix_f32* out);
FASTDL_API fastdl_status fastdl_hebbian_ccipca_f64(const fastdl_matrix_f64* V, const fastdl_matrix_f64* X,
                                                   int64_t count, double amnesic, const fastdl_matrix_f64* out);

/* out[t] = x_t less the mean of all samples up to it; `mean`, d numbers, is that of `count` samples before, and `after`
 * that of all. */
FASTDL_API fastdl_status fastdl_hebbian_center_f32(const fastdl_matrix_f32* X, const double* mean, int64_t count,
                                                   double* after, const fastdl_matrix_f32* out);
FASTDL_API fastdl_status fastdl_hebbian_center_f64(const fastdl_matrix_f64* X, const double* mean, int64_t count,
                                                   double* after, const fastdl_matrix_f64* out);

/* W = P' P / d for n patterns of d units, symmetric to the bit; with zero_diagonal no unit is coupled to itself. */
FASTDL_API fastdl_status fastdl_hebbian_hopfield_weights_f32(const fastdl_matrix_f32* P, int zero_diagonal,
                                                             const fastdl_matrix_f32* W);
FASTDL_API fastdl_status fastdl_hebbian_hopfield_weights_f64(const fastdl_matrix_f64* P, int zero_diagonal,
                                                             const fastdl_matrix_f64* W);

/* out[i] = -s W s'/2 + b s' for the states s, rows of S. b is d x 1, or NULL for 0; out is m x 1. */
FASTDL_API fastdl_status fastdl_hebbian_hopfield_energy_f32(const fastdl_matrix_f32* W, const fastdl_matrix_f32* S,
                                                            const fastdl_matrix_f32* b, const fastdl_matrix_f32* out);
FASTDL_API fastdl_status fastdl_hebbian_hopfield_energy_f64(const fastdl_matrix_f64* W, const fastdl_matrix_f64* S,
                                                            const fastdl_matrix_f64* b, const fastdl_matrix_f64* out);

/* The states S, rows of +1 and -1, are replaced by what they run to: s_i = sign(W s' - b)_i, sign(0) = 1, for all units
 * together or one after the other, in the orders of `units` numbers, `sweeps` of them, which are gone through again
 * and again; at most max_sweeps in all, or until nothing changes. */
FASTDL_API fastdl_status fastdl_hebbian_hopfield_recall_f32(const fastdl_matrix_f32* W, const fastdl_matrix_f32* b,
                                                            int together, int64_t max_sweeps, const int64_t* orders,
                                                            int64_t sweeps, int64_t units, const fastdl_matrix_f32* S);
FASTDL_API fastdl_status fastdl_hebbian_hopfield_recall_f64(const fastdl_matrix_f64* W, const fastdl_matrix_f64* b,
                                                            int together, int64_t max_sweeps, const int64_t* orders,
                                                            int64_t sweeps, int64_t units, const fastdl_matrix_f64* S);

/* The same two for a dense associative memory of the patterns P, n x d: energies are -sum over patterns of F(p.s), and
 * a unit takes the sign with the lower one. F is the power `degree`, a whole number from 1 to 1000, or for infinity the
 * exponential function. */
FASTDL_API fastdl_status fastdl_hebbian_dense_hopfield_energy_f32(const fastdl_matrix_f32* P,
                                                                  const fastdl_matrix_f32* S, double degree,
                                                                  const fastdl_matrix_f32* out);
FASTDL_API fastdl_status fastdl_hebbian_dense_hopfield_energy_f64(const fastdl_matrix_f64* P,
                                                                  const fastdl_matrix_f64* S, double degree,
                                                                  const fastdl_matrix_f64* out);
FASTDL_API fastdl_status fastdl_hebbian_dense_hopfield_f32(const fastdl_matrix_f32* P, double degree, int together,
                                                           int64_t max_sweeps, const int64_t* orders, int64_t sweeps,
                                                           int64_t units, const fastdl_matrix_f32* S);
FASTDL_API fastdl_status fastdl_hebbian_dense_hopfield_f64(const fastdl_matrix_f64* P, double degree, int together,
                                                           int64_t max_sweeps, const int64_t* orders, int64_t sweeps,
                                                           int64_t units, const fastdl_matrix_f64* S);

/* out = (G with zero diagonal) P, G = P P' / d */
FASTDL_API fastdl_status fastdl_hebbian_crosstalk_f32(const fastdl_matrix_f32* P, const fastdl_matrix_f32* out);
FASTDL_API fastdl_status fastdl_hebbian_crosstalk_f64(const fastdl_matrix_f64* P, const fastdl_matrix_f64* out);

/* ---- groups -----------------------------------------------------------------------------------------------------
 * Layers that commute with the symmetries of the square grid. Element r of P4 turns by r quarters counter-clockwise,
 * element 4f + r of P4M then flips the rows if f is 1; P2 has the half turn, PM the flip. A_s moves the pixels of a
 * filter as s does.
 *
 *   out[n,o,s,p] = activation(bias[o] + sum over c, t, q of (A_s w[o,c,s^-1 t])[q] * x[n,c,t, stride*p + q - lower])
 *
 * or, with lift != 0, of images and filters without elements t: (A_s w[o,c])[q] * x[n,c, stride*p + q - lower].
 * Channels are those of one element. All arrays are contiguous in the order of their axes, but that x may have strides.
 */

typedef enum fastdl_planar_group FASTDL_INT { FASTDL_P2 = 0, FASTDL_P4, FASTDL_PM, FASTDL_P4M } fastdl_planar_group;

typedef struct fastdl_group_shape {
  fastdl_planar_group group;
  int lift;
  int64_t batch, in_channels, out_channels;
  int64_t in[2], out[2], kernel; /* filters are kernel x kernel */
  int64_t stride[2], lower[2];   /* lower: the padding before the first position */
} fastdl_group_shape;

/* EXPAND is a plain convolution with the filters of all elements written out. ORBIT takes the sums over orbits apart by
 * the representations of the group, which is exact and needs fewer multiplications. AUTO is the quicker one. */
typedef enum fastdl_group_algorithm FASTDL_INT {
  FASTDL_GROUP_AUTO = 0,
  FASTDL_GROUP_EXPAND,
  FASTDL_GROUP_ORBIT
} fastdl_group_algorithm;

/* x_strides: of batch, of channels and elements together, of rows and columns, in elements; NULL for contiguous. bias
 * may be NULL. */
FASTDL_API fastdl_status fastdl_group_conv_f32(const fastdl_group_shape* shape, fastdl_activation activation,
                                               fastdl_group_algorithm algorithm, const float* x,
                                               const int64_t* x_strides, const float* w, const float* bias, float* out);
FASTDL_API fastdl_status fastdl_group_conv_f64(const fastdl_group_shape* shape, fastdl_activation activation,
                                               fastdl_group_algorithm algorithm, const double* x,
                                               const int64_t* x_strides, const double* w, const double* bias,
                                               double* out);

/* The gradients of the sum of grad * out, without bias and activation, for x and for w. */
FASTDL_API fastdl_status fastdl_group_conv_input_f32(const fastdl_group_shape* shape, fastdl_group_algorithm algorithm,
                                                     const float* w, const float* grad, float* dx);
FASTDL_API fastdl_status fastdl_group_conv_input_f64(const fastdl_group_shape* shape, fastdl_group_algorithm algorithm,
                                                     const double* w, const double* grad, double* dx);
FASTDL_API fastdl_status fastdl_group_conv_weight_f32(const fastdl_group_shape* shape, fastdl_group_algorithm algorithm,
                                                      const float* x, const int64_t* x_strides, const float* grad,
                                                      float* dw);
FASTDL_API fastdl_status fastdl_group_conv_weight_f64(const fastdl_group_shape* shape, fastdl_group_algorithm algorithm,
                                                      const double* x, const int64_t* x_strides, const double* grad,
                                                      double* dw);

/* out[o,s,c,t] = A_s w[o,c,s^-1 t], or without t with lift != 0: filters of a plain convolution. */
FASTDL_API fastdl_status fastdl_group_expand_f32(fastdl_planar_group group, int lift, int64_t out_channels,
                                                 int64_t in_channels, int64_t kernel, const float* w, float* out);
FASTDL_API fastdl_status fastdl_group_expand_f64(fastdl_planar_group group, int lift, int64_t out_channels,
                                                 int64_t in_channels, int64_t kernel, const double* w, double* out);

/* L2 is the root of the sum of squares. */
typedef enum fastdl_group_pool FASTDL_INT {
  FASTDL_GROUP_POOL_MAX = 0,
  FASTDL_GROUP_POOL_MEAN,
  FASTDL_GROUP_POOL_SUM,
  FASTDL_GROUP_POOL_L2
} fastdl_group_pool;

/* out[i,p] of x[i,element,p]; NaN is larger than all. */
FASTDL_API fastdl_status fastdl_group_pool_f32(const float* x, int64_t count, int64_t elements, int64_t pixels,
                                               fastdl_group_pool mode, float* out);
FASTDL_API fastdl_status fastdl_group_pool_f64(const double* x, int64_t count, int64_t elements, int64_t pixels,
                                               fastdl_group_pool mode, double* out);

/* out[i,u] = sum over w of f[i,w] * h[w^-1 u] on a finite group, quotient[w*order + u] = w^-1 u. */
FASTDL_API fastdl_status fastdl_group_convolve_f32(const float* f, int64_t count, const float* h, int64_t order,
                                                   const int64_t* quotient, float* out);
FASTDL_API fastdl_status fastdl_group_convolve_f64(const double* f, int64_t count, const double* h, int64_t order,
                                                   const int64_t* quotient, double* out);

/* STEP: 1 from 0 on; CDF: 1 up to 0. */
typedef enum fastdl_group_nonlinearity FASTDL_INT {
  FASTDL_GROUP_STEP = 0,
  FASTDL_GROUP_CDF,
  FASTDL_GROUP_SIGMOID,
  FASTDL_GROUP_TANH,
  FASTDL_GROUP_RELU
} fastdl_group_nonlinearity;

typedef struct fastdl_group_measures {
  const double* thresholds;
  int64_t cuts;
  const int64_t* powers;
  int64_t moments;
  fastdl_group_nonlinearity nonlinearity;
} fastdl_group_measures;

/* With z = <x_i, g t_j>, (g t)[f] = t[permutations[g*d + f]], out[i,j] is, one after the other, the sums over g of
 * nonlinearity(z - threshold) for every threshold and of z^power for every power. x is samples x d, templates count x d
 * and permutations order x d. No orbit is ever in memory. */
FASTDL_API fastdl_status fastdl_group_signature_f32(const float* x, int64_t samples, const float* templates,
                                                    int64_t count, int64_t d, const int64_t* permutations,
                                                    int64_t order, const fastdl_group_measures* measures, float* out);
FASTDL_API fastdl_status fastdl_group_signature_f64(const double* x, int64_t samples, const double* templates,
                                                    int64_t count, int64_t d, const int64_t* permutations,
                                                    int64_t order, const fastdl_group_measures* measures, double* out);

/* The sum over i, j, k, l of (n [i=j] - 1) exp(-(G[k,i] - G[l,j])^2 / sigma^2), G = W' W, and its gradient for W, d x
 * n, in n^4 steps. */
FASTDL_API fastdl_status fastdl_group_regularizer_f32(const float* W, int64_t d, int64_t n, double sigma,
                                                      float* gradient, double* value);
FASTDL_API fastdl_status fastdl_group_regularizer_f64(const double* W, int64_t d, int64_t n, double sigma,
                                                      double* gradient, double* value);

/* ---- scattering ---------------------------------------------------------------------------------------------------
 * A tree of wavelets on grids of several resolutions, the levels; level 0 is the padded signal. Signals of one axis are
 * images of one column. */

/* Averages along an axis of `size` samples, taken as periodic:
 *   out[p] = sum over d of kernel[d] * in[first + p*step - d],  p < count, d < size */
typedef struct fastdl_scattering_axis {
  int64_t size, first, step, count;
  const double* kernel;
} fastdl_scattering_axis;

/* A resolution, and the averages that paths which end on it are given out by; of the same counts on all levels. Sizes
 * divide those of level 0. */
typedef struct fastdl_scattering_level {
  fastdl_scattering_axis down, across;
} fastdl_scattering_level;

/* Wavelets of the first order with results on one level, and those of the second order that are applied to the modulus
 * of each. Spectra are real and in full: of psi[m] on level 0, of psi_2[f] on `level`; the result of follower f is on
 * level_2[f]. Member m is given out as number channel[m], and with follower f as channel_2[m] + f. */
typedef struct fastdl_scattering_group {
  int64_t level, members, followers;
  const double* const* psi;
  const int64_t* channel;
  const double* const* psi_2;
  const int64_t* level_2;
  const int64_t* channel_2;
} fastdl_scattering_group;

/* A transform of images of height x width; place_y and place_x say which of their samples is at each place of level 0.
 * Channel 0 is the average of the image, and together with those of all groups there are `channels`. */
typedef struct fastdl_scattering_tree {
  int64_t height, width;
  const int64_t *place_y, *place_x;
  int64_t levels, groups, channels;
  const fastdl_scattering_level* level;
  const fastdl_scattering_group* group;
} fastdl_scattering_tree;

/* A transform made ready; it keeps nothing of the tree's memory, does not change, and may be used from many threads at
 * once. Made and used in one precision. Freeing NULL does nothing. */
typedef struct fastdl_scattering_plan_f32 fastdl_scattering_plan_f32;
typedef struct fastdl_scattering_plan_f64 fastdl_scattering_plan_f64;
FASTDL_API fastdl_status fastdl_scattering_plan_make_f32(const fastdl_scattering_tree* tree,
                                                         fastdl_scattering_plan_f32** plan);
FASTDL_API fastdl_status fastdl_scattering_plan_make_f64(const fastdl_scattering_tree* tree,
                                                         fastdl_scattering_plan_f64** plan);
/* The same with filters that are asked for one at a time, so that they need not be in memory together: give(context,
 * group, follower, number) returns the spectrum of member `number` of a group, or with follower != 0 of its follower of
 * that number, which must stay until it is called again; NULL ends with FASTDL_INVALID_ARGUMENT. It may be called more
 * than once for a filter, and is not called after the plan is made. psi and psi_2 of the tree are not looked at. */
typedef const double* (*fastdl_scattering_filter)(void* context, int64_t group, int follower, int64_t number);
FASTDL_API fastdl_status fastdl_scattering_plan_make_from_f32(const fastdl_scattering_tree* tree,
                                                              fastdl_scattering_filter give, void* context,
                                                              fastdl_scattering_plan_f32** plan);
FASTDL_API fastdl_status fastdl_scattering_plan_make_from_f64(const fastdl_scattering_tree* tree,
                                                              fastdl_scattering_filter give, void* context,
                                                              fastdl_scattering_plan_f64** plan);
FASTDL_API void fastdl_scattering_plan_free_f32(fastdl_scattering_plan_f32* plan);
FASTDL_API void fastdl_scattering_plan_free_f64(fastdl_scattering_plan_f64* plan);

/* out = all paths of x: (batch, channels, rows, columns) of (batch, height, width), both contiguous. */
FASTDL_API fastdl_status fastdl_scattering_forward_f32(const fastdl_scattering_plan_f32* plan, const float* x,
                                                       int64_t batch, float* out);
FASTDL_API fastdl_status fastdl_scattering_forward_f64(const fastdl_scattering_plan_f64* plan, const double* x,
                                                       int64_t batch, double* out);

/* dx = the gradient for x of the sum of all results times grad, which has their shape. */
FASTDL_API fastdl_status fastdl_scattering_vjp_f32(const fastdl_scattering_plan_f32* plan, const float* x,
                                                   const float* grad, int64_t batch, float* dx);
FASTDL_API fastdl_status fastdl_scattering_vjp_f64(const fastdl_scattering_plan_f64* plan, const double* x,
                                                   const double* grad, int64_t batch, double* dx);

/* Without averages: the moduli of every path themselves, on rows top to bottom - 1 and columns left to right - 1 of its
 * level; of channel 0 the padded image on level 0. There is a part for every level. out[c] is (batch, rows, columns),
 * contiguous, for every channel c. */
typedef struct fastdl_scattering_part {
  int64_t top, bottom, left, right;
} fastdl_scattering_part;
FASTDL_API fastdl_status fastdl_scattering_moduli_f32(const fastdl_scattering_plan_f32* plan,
                                                      const fastdl_scattering_part* part, const float* x, int64_t batch,
                                                      float* const* out);
FASTDL_API fastdl_status fastdl_scattering_moduli_f64(const fastdl_scattering_plan_f64* plan,
                                                      const fastdl_scattering_part* part, const double* x,
                                                      int64_t batch, double* const* out);

/* dx = the gradient for x of the sum of all results times grad, which has their form. */
FASTDL_API fastdl_status fastdl_scattering_moduli_vjp_f32(const fastdl_scattering_plan_f32* plan,
                                                          const fastdl_scattering_part* part, const float* x,
                                                          const float* const* grad, int64_t batch, float* dx);
FASTDL_API fastdl_status fastdl_scattering_moduli_vjp_f64(const fastdl_scattering_plan_f64* plan,
                                                          const fastdl_scattering_part* part, const double* x,
                                                          const double* const* grad, int64_t batch, double* dx);

/* Solid harmonic scattering of volumes of size[0] x size[1] x size[2], periodic. With z(l, m, j) the convolution of x
 * with filter m of degree l and scale j, and U(l, j) the root of the sum over m of |z|^2,
 *   out[j][l][i] = sum over all voxels of U(l, j)^power[i]
 * and in order 2, after these, for all pairs j1 < j2 the same of U(l, j2) of U(l, j1). filters[l] are spectra, (scales,
 * harmonics[l], voxels) complex numbers with the real part first. */
typedef struct fastdl_harmonic_shape {
  int64_t size[3], scales, degrees, order, powers;
  const int64_t* harmonics;
  const double* power;
} fastdl_harmonic_shape;

/* out is (batch, paths, degrees, powers) of x (batch, voxels), both contiguous. */
FASTDL_API fastdl_status fastdl_scattering_harmonic_f32(const fastdl_harmonic_shape* shape, const float* const* filters,
                                                        const float* x, int64_t batch, float* out);
FASTDL_API fastdl_status fastdl_scattering_harmonic_f64(const fastdl_harmonic_shape* shape,
                                                        const double* const* filters, const double* x, int64_t batch,
                                                        double* out);

/* dx = the gradient for x of the sum of all results times grad, which has their shape. */
FASTDL_API fastdl_status fastdl_scattering_harmonic_vjp_f32(const fastdl_harmonic_shape* shape,
                                                            const float* const* filters, const float* x,
                                                            const float* grad, int64_t batch, float* dx);
FASTDL_API fastdl_status fastdl_scattering_harmonic_vjp_f64(const fastdl_harmonic_shape* shape,
                                                            const double* const* filters, const double* x,
                                                            const double* grad, int64_t batch, double* dx);

/* Scattering of images on rotations and translations. Level j is that of scale 2^j, of 2^j times fewer samples along
 * both axes, with the averages that are given out of it. With psi(j, t) = first[(j*angles + t)*places], t < L = angles,
 * and psi(t + L) its conjugate in space,
 *   Y(j1, t) = |x * psi(j1, t)|
 *   Y(j1, j2, s, k, t) = |sum over r < 2 L of (Y(j1, r) * psi(j2, s + r)) h_k(t - r)|,  j2 > j1
 * for s < L and k < filters. Channels are the average of the image; those of Y(j1), meant over all angles; and in order
 * 2 those of Y(j1, j2, s, k), with j1 outermost. Spectra are real and in full: of `first` on level 0 for each scale and
 * angle; second[j1] on level j1 for each scale above j1 and each angle. The spectrum of a padded image is first
 * multiplied by the phases, ny and nx complex numbers with the real part first, which must take real images to real
 * ones. h_k is 2 L complex numbers. */
typedef struct fastdl_roto_bank {
  int64_t height, width;
  const int64_t *place_y, *place_x;
  int64_t scales, angles, filters, order;
  const fastdl_scattering_level* level;
  const double *phase_y, *phase_x;
  const double* first;
  const double* const* second;
  const double* angular;
} fastdl_roto_bank;

/* A transform made ready, as fastdl_scattering_plan. */
typedef struct fastdl_roto_plan_f32 fastdl_roto_plan_f32;
typedef struct fastdl_roto_plan_f64 fastdl_roto_plan_f64;
FASTDL_API fastdl_status fastdl_roto_plan_make_f32(const fastdl_roto_bank* bank, fastdl_roto_plan_f32** plan);
FASTDL_API fastdl_status fastdl_roto_plan_make_f64(const fastdl_roto_bank* bank, fastdl_roto_plan_f64** plan);
FASTDL_API void fastdl_roto_plan_free_f32(fastdl_roto_plan_f32* plan);
FASTDL_API void fastdl_roto_plan_free_f64(fastdl_roto_plan_f64* plan);

/* out = all paths of x: (batch, channels, rows, columns) of (batch, height, width), both contiguous. */
FASTDL_API fastdl_status fastdl_scattering_roto_f32(const fastdl_roto_plan_f32* plan, const float* x, int64_t batch,
                                                    float* out);
FASTDL_API fastdl_status fastdl_scattering_roto_f64(const fastdl_roto_plan_f64* plan, const double* x, int64_t batch,
                                                    double* out);

/* dx = the gradient for x of the sum of all results times grad, which has their shape. */
FASTDL_API fastdl_status fastdl_scattering_roto_vjp_f32(const fastdl_roto_plan_f32* plan, const float* x,
                                                        const float* grad, int64_t batch, float* dx);
FASTDL_API fastdl_status fastdl_scattering_roto_vjp_f64(const fastdl_roto_plan_f64* plan, const double* x,
                                                        const double* grad, int64_t batch, double* dx);

/* The fast wavelet transform of images, periodic at their edges, whose sizes are multiples of 2^scales. Along an axis
 *   low pass  (n) = sum over t of low[t] * in[2 n + t],    high pass (n) = sum over t of high[t] * in[2 n + t]
 * and at each scale the average is low both down and across; details are high across, high down, and high both. The
 * number of taps is even. */
typedef struct fastdl_wavelet_shape {
  int64_t batch, height, width, scales, taps;
  const double *low, *high;
} fastdl_wavelet_shape;

/* approximation = the averages of the last scale, (batch, height / 2^scales, width / 2^scales); details[j - 1] those of
 * scale j from the finest on, (batch, 3, height / 2^j, width / 2^j); of x (batch, height, width); all contiguous. */
FASTDL_API fastdl_status fastdl_scattering_wavelet_f32(const fastdl_wavelet_shape* shape, const float* x,
                                                       float* approximation, float* const* details);
FASTDL_API fastdl_status fastdl_scattering_wavelet_f64(const fastdl_wavelet_shape* shape, const double* x,
                                                       double* approximation, double* const* details);

/* x = the adjoint of the above, which of orthogonal filters is its inverse. */
FASTDL_API fastdl_status fastdl_scattering_wavelet_inverse_f32(const fastdl_wavelet_shape* shape,
                                                               const float* approximation, const float* const* details,
                                                               float* x);
FASTDL_API fastdl_status fastdl_scattering_wavelet_inverse_f64(const fastdl_wavelet_shape* shape,
                                                               const double* approximation,
                                                               const double* const* details, double* x);

#ifdef __cplusplus
}
#endif
#endif /* FASTDL_FASTDL_H */
