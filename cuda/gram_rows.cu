// What the kernels of the Gram family know of every row, and from a kernel's name to its class of function.
#include "gram_rows.cuh"

#include <cmath>
#include <vector>

namespace fastdl::gram::cuda {
namespace {

using fastdl::cuda::Scratch;

// The length of every row, and the row over it. A warp takes a row, coalesced if its features are contiguous, and sums
// in double: f32 then keeps its digits and its range. Rows of f64 whose squares leave that range are brought near 1
// first, by a power of two. Limited by memory: the rows are read twice, the second time from L2, and written once.
template <class T>
__global__ void __launch_bounds__(256) measure(const T* x, Index rows, Index features, Index row_stride,
                                               Index column_stride, double scale, T* inverse, T* length, T* unit) {
  const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
  for (Index row = Index(blockIdx.x) * warps + threadIdx.x / 32; row < rows; row += Index(gridDim.x) * warps) {
    const T* from = x + row * row_stride;
    double squared = 0, largest = 0;
    const auto add_up = [&](int shift) {
      squared = 0;
      FASTDL_NO_UNROLL
      for (Index f = lane; f < features; f += 32) {
        double value = double(from[f * column_stride]);
        if (shift != 0) value = std::ldexp(value, shift);
        squared = fastdl::cuda::multiply_add(value, value, squared);
        largest = std::fmax(largest, std::fabs(value));
      }
      FASTDL_UNROLL
      for (int width = 16; width > 0; width /= 2) {
        squared += __shfl_xor_sync(~0u, squared, width);
        largest = std::fmax(largest, __shfl_xor_sync(~0u, largest, width));
      }
    };
    add_up(0);
    int shift = 0;
    if (sizeof(T) == 8 && !(squared > 1e-290 && squared < 1e290) && largest > 0 && largest < HUGE_VAL) {
      shift = -std::ilogb(largest);
      add_up(shift);
    }
    const bool zero = squared == 0, finite = squared < HUGE_VAL;
    // Not finite: a row of NaN, and a length that is not 0.
    const double factor = zero ? 0 : finite ? 1 / std::sqrt(squared) : squared - squared;
    if (lane == 0) {
      const T rounded = T(std::ldexp(factor, shift));
      inverse[row] = rounded == T(0) && !zero ? T(sizeof(T) == 4 ? 0x1p-149 : 0x1p-1074) : rounded;
      length[row] = T(std::ldexp(std::sqrt(squared * scale), -shift));
    }
    FASTDL_NO_UNROLL
    for (Index f = lane; f < features; f += 32) {
      const double value = double(from[f * column_stride]);
      unit[row * features + f] = T(factor * (shift != 0 ? std::ldexp(value, shift) : value));
    }
  }
}

// to[row][f], with zeros from the last feature on. Limited by memory.
template <class T>
__global__ void __launch_bounds__(256) put_in_order(const T* from, Index features, Index row_stride,
                                                    Index column_stride, T* to, Index pitch, Index count) {
  for (Index at = Index(blockIdx.x) * blockDim.x + threadIdx.x; at < count; at += Index(gridDim.x) * blockDim.x) {
    const Index row = at / pitch, f = at - row * pitch;
    to[at] = f < features ? from[row * row_stride + f * column_stride] : T(0);
  }
}

// A parameter as T: what is beyond its range becomes its largest number, so that it times 0 is still 0.
template <class T>
T finite(double value) {
  constexpr double most = sizeof(T) == 4 ? 0x1.fffffep127 : 0x1.fffffffffffffp1023;
  return T(value > most ? most : value < -most ? -most : value);
}

}  // namespace

template <class T>
Samples<T>::Samples(const char* name, const MatrixView<const T>& from, Stream stream) {
  constexpr Index group = gemm::cuda::FourOfRow<T>::held;
  const bool ordered = from.col_stride == 1 && from.cols % group == 0 && from.row_stride % group == 0 &&
                       from.row_stride >= 0 && gemm::cuda::starts_aligned(from.data);
  rows_ = {from.data, from.rows, from.row_stride};
  if (ordered || from.rows * from.cols == 0) return;
  const Index pitch = (from.cols + group - 1) / group * group, count = from.rows * pitch;
  copy_ = fastdl::cuda::Scratch<T>(name, count, stream);
  rows_ = {copy_.data(), from.rows, pitch};
  constexpr Index most = 1 << 16;
  const Index blocks = (count + 255) / 256;
  fastdl::cuda::launch(name, put_in_order<T>,
                       {dim3(static_cast<unsigned>(blocks < most ? blocks : most)), dim3(256), 0, stream}, from.data,
                       from.cols, from.row_stride, from.col_stride, copy_.data(), pitch, count);
}

template <class T>
Lengths<T> Prepared<T>::measured(const MatrixView<const T>& rows, double scale) const {
  Lengths<T> found{{name_, rows.rows, stream_}, {name_, rows.rows, stream_}, {name_, rows.rows * rows.cols, stream_}};
  if (rows.rows == 0) return found;
  constexpr Index most = 1 << 16;
  const Index blocks = (rows.rows + 7) / 8;
  fastdl::cuda::launch(name_, measure<T>,
                       {dim3(static_cast<unsigned>(blocks < most ? blocks : most)), dim3(256), 0, stream_}, rows.data,
                       rows.rows, rows.cols, rows.row_stride, rows.col_stride, scale, found.inverse.data(),
                       found.length.data(), found.unit.data());
  return found;
}

template <class T>
void Prepared<T>::use_angles(const MatrixView<const T>& x, const MatrixView<const T>& y, bool same, double scale) {
  x_ = measured(x, scale);
  if (!same) y_ = measured(y, scale);
  const Lengths<T>& other = same ? x_ : y_;
  Parameters<T>& p = pairs_.parameters;
  p.x_inverse = x_.inverse.data(), p.y_inverse = other.inverse.data();
  p.x_length = x_.length.data(), p.y_length = other.length.data();
  p.x_unit = x_.unit.data(), p.y_unit = other.unit.data();
  p.features = x.cols;
  take_rows({p.x_unit, x.rows, x.cols, x.cols, 1}, {p.y_unit, y.rows, y.cols, y.cols, 1}, same);
}

template <class T>
void Prepared<T>::take_rows(const MatrixView<const T>& x, const MatrixView<const T>& y, bool same) {
  x_rows_ = Samples<T>(name_, x, stream_);
  if (!same) y_rows_ = Samples<T>(name_, y, stream_);
  pairs_.x = x_rows_.rows();
  pairs_.y = same ? pairs_.x : y_rows_.rows();
}

template <class T>
Prepared<T>::Prepared(const char* name, const Kernel& kernel, const MatrixView<const T>& x,
                      const MatrixView<const T>& y, bool same, Stream stream)
    : name_(name), stream_(stream), pairs_{{}, {}, x.cols, {}} {
  choose(kernel, x, y, same);
  if (!pairs_.parameters.x_unit) take_rows(x, y, same);
}

template <class T>
void Prepared<T>::choose(const Kernel& kernel, const MatrixView<const T>& x, const MatrixView<const T>& y, bool same) {
  Parameters<T>& p = pairs_.parameters;
  p.gamma = finite<T>(kernel.gamma);
  const auto take = [&](auto of, Form form) {
    of_ = of;
    p.form = form;
  };
  switch (kernel.kind) {
    case Kind::linear:
      return take(of_products<T>, Form::itself);
    case Kind::polynomial: {
      const bool whole = kernel.degree <= 1024 && kernel.degree == double(int(kernel.degree));
      p.coef0 = finite<T>(kernel.coef0);
      p.degree = T(kernel.degree);
      p.whole = whole ? int(kernel.degree) : -1;
      return take(of_products<T>, Form::polynomial);
    }
    case Kind::sigmoid:
      p.coef0 = finite<T>(kernel.coef0);
      return take(of_products<T>, Form::sigmoid);
    case Kind::geometric:
      p.gamma = T(kernel.alpha * kernel.alpha);
      return take(of_products<T>, Form::geometric);
    case Kind::cosine:
      use_angles(x, y, same, 1);
      return take(of_products<T>, Form::cosine);
    case Kind::rbf:
      return take(of_squares<T>, Form::exponential);
    case Kind::matern: {
      const double scale = kernel.length_scales ? 1 : 1 / kernel.length_scale;
      if (kernel.length_scales && x.cols > 0) {
        std::vector<T> weights;
        for (Index f = 0; f < x.cols; ++f) weights.push_back(T(1 / kernel.length_scales[f]));
        weight_ = Scratch<T>(name_, weights.data(), x.cols, stream_);
        p.weight = weight_.data();
      }
      const bool gaussian = !(kernel.nu == 0.5 || kernel.nu == 1.5 || kernel.nu == 2.5);
      p.gamma = finite<T>(gaussian ? 0.5 * scale * scale : std::sqrt(2 * kernel.nu) * scale);
      return take(p.weight ? of_weighed_squares<T> : of_squares<T>, gaussian           ? Form::exponential
                                                                    : kernel.nu == 0.5 ? Form::matern_half
                                                                    : kernel.nu == 1.5 ? Form::matern_three_halves
                                                                                       : Form::matern_five_halves);
    }
    case Kind::laplacian:
      return take(of_absolutes<T>, Form::exponential);
    case Kind::additive_chi2:
      return take(of_chi_squares<T>, Form::negative);
    case Kind::chi2:
      return take(of_chi_squares<T>, Form::exponential);
    case Kind::sinc:
      p.omega = T(kernel.omega);
      p.omega_over_pi = T(kernel.omega / 3.14159265358979323846);
      p.inverse_pi = T(1 / 3.14159265358979323846);
      return take(of_sincs<T>, Form::itself);
    case Kind::arc_cosine:
      use_angles(x, y, same, 1);
      return take(of_angles<T>, kernel.order == 0   ? Form::arc_cosine_0
                                : kernel.order == 1 ? Form::arc_cosine_1
                                                    : Form::arc_cosine_2);
    case Kind::nngp:
    case Kind::ntk: {
      const double w2 = kernel.w_std * kernel.w_std, b2 = kernel.b_std * kernel.b_std;
      use_angles(x, y, same, kernel.normalize && x.cols > 0 ? 1 / double(x.cols) : 1);
      p.depth = kernel.depth;
      p.tangent = kernel.kind == Kind::ntk;
      p.biased = b2 > 0;
      p.w2 = T(w2), p.b2 = T(b2);
      p.scale = T(w2 * std::pow(w2 / 2, kernel.depth));
      return take(of_angles<T>, Form::network);
    }
  }
}

template class Samples<float>;
template class Samples<double>;
template class Prepared<float>;
template class Prepared<double>;

}  // namespace fastdl::gram::cuda
