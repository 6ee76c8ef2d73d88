// Convolution and correlation of real arrays in C++: typed, throwing wrappers over the C interface (fastdl.h, where
// each contract is written). Convolutions of networks have no wrapper: see throw_on_error in matrix.hpp.
#pragma once

#include <utility>
#include <vector>

#include "fastdl/matrix.hpp"

namespace fastdl::conv {

// An array of any rank; the view owns its sizes and strides, not its data. Inputs are taken as ArrayView<const T>, to
// which an ArrayView<T> converts.
template <class T>
struct ArrayView {
  T* data = nullptr;
  std::vector<std::int64_t> sizes, strides;

  ArrayView() = default;
  ArrayView(T* data_, std::vector<std::int64_t> sizes_, std::vector<std::int64_t> strides_)
      : data(data_), sizes(std::move(sizes_)), strides(std::move(strides_)) {}
  template <class U, class = std::enable_if_t<std::is_same_v<T, const U>>>
  ArrayView(const ArrayView<U>& other) : ArrayView(other.data, other.sizes, other.strides) {}

  // The struct of the C interface, which has no const variant: its functions write only to their outputs. It points
  // into this view.
  auto plain() const {
    using Value = std::remove_const_t<T>;
    using Plain = std::conditional_t<std::is_same_v<Value, float>, fastdl_array_f32, fastdl_array_f64>;
    return Plain{const_cast<Value*>(data), static_cast<int>(sizes.size()), sizes.data(), strides.data()};
  }
};

using Mode = fastdl_convolution_mode;
using Method = fastdl_convolution_method;

// out[u] = sum over t of f[t] h[u - t]
inline void convolve(const ArrayView<const float>& f, const ArrayView<const float>& h, Mode mode, Method method,
                     const ArrayView<float>& out) {
  const auto x = f.plain(), y = h.plain(), to = out.plain();
  throw_on_error(fastdl_conv_convolve_f32(&x, &y, mode, method, &to));
}
inline void convolve(const ArrayView<const double>& f, const ArrayView<const double>& h, Mode mode, Method method,
                     const ArrayView<double>& out) {
  const auto x = f.plain(), y = h.plain(), to = out.plain();
  throw_on_error(fastdl_conv_convolve_f64(&x, &y, mode, method, &to));
}

// out[u] = sum over t of f[t] h[t - u]
inline void correlate(const ArrayView<const float>& f, const ArrayView<const float>& h, Mode mode, Method method,
                      const ArrayView<float>& out) {
  const auto x = f.plain(), y = h.plain(), to = out.plain();
  throw_on_error(fastdl_conv_correlate_f32(&x, &y, mode, method, &to));
}
inline void correlate(const ArrayView<const double>& f, const ArrayView<const double>& h, Mode mode, Method method,
                      const ArrayView<double>& out) {
  const auto x = f.plain(), y = h.plain(), to = out.plain();
  throw_on_error(fastdl_conv_correlate_f64(&x, &y, mode, method, &to));
}

}  // namespace fastdl::conv
