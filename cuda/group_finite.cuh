// Filters written out for all elements, pooling over a group, and the matrix of a function on a finite group. All are
// bound by memory: a number is read once, or a few times from L1 and L2, and written once; but for the filters, where
// the place of a number takes longer than its bytes.
#pragma once

#include "group_forms.cuh"

namespace fastdl::group::cuda {

constexpr int element_threads = 256;

// out[o,s,i,t] = A_s w[o,i,s^-1 t], or A_s w[o,i]: one number a thread, taken from the pixel that s moves here. Limit,
// estimated: some 250 instructions a number, most of them divisions of 64 bits; once a call.
template <class T>
__global__ void __launch_bounds__(element_threads)
    expand_filters(const T* w, Orbits filter, int elements, Index out_channels, Index in_channels, T* out) {
  const int taps = filter.k * filter.k, planes = filter.lift ? 1 : elements;
  const Index size = out_channels * elements * in_channels * planes * taps;
  for (Index at = Index(blockIdx.x) * element_threads + threadIdx.x; at < size;
       at += Index(gridDim.x) * element_threads) {
    const int q = int(at % taps), t = int(at / taps % planes);
    const Index i = at / taps / planes % in_channels, row = at / taps / planes / in_channels, o = row / elements;
    const int back = inverse_of(filter.group, int(row % elements));
    const Pixel from = moved(filter.group, back, filter.k, {q / filter.k, q % filter.k});
    const int plane = filter.lift ? 0 : product_of(filter.group, back, t);
    out[at] = w[((o * in_channels + i) * planes + plane) * taps + from.row * filter.k + from.column];
  }
}

// dw[o,i,u] = sum over s, in their order, of A_s^-1 G[o,s,i,su]: one number a thread. Limit: as expand_filters, for |G|
// times fewer numbers with |G| reads each.
template <class T>
__global__ void __launch_bounds__(element_threads)
    contract_filters(const T* expanded, Orbits filter, int elements, Index out_channels, Index in_channels, T* dw) {
  const int taps = filter.k * filter.k, planes = filter.lift ? 1 : elements;
  const Index size = out_channels * in_channels * planes * taps;
  for (Index at = Index(blockIdx.x) * element_threads + threadIdx.x; at < size;
       at += Index(gridDim.x) * element_threads) {
    const int q = int(at % taps), u = int(at / taps % planes);
    const Index i = at / taps / planes % in_channels, o = at / taps / planes / in_channels;
    T sum = T(0);
    for (int s = 0; s < elements; ++s) {
      const Pixel to = moved(filter.group, s, filter.k, {q / filter.k, q % filter.k});
      const int t = filter.lift ? 0 : product_of(filter.group, s, u);
      sum += expanded[(((o * elements + s) * in_channels + i) * planes + t) * taps + to.row * filter.k + to.column];
    }
    dw[at] = sum;
  }
}

// The mean or the length of values whose sum, or sum of squares, leaves the type: brought near 1 by a power of 2.
template <class T>
__device__ __forceinline__ T far_from_one(const T* x, Index elements, Index stride, double largest, Pool mode) {
  const int shift = ilogb(largest);
  double total = 0;
  for (Index i = 0; i < elements; ++i) {
    const double value = ldexp(double(x[i * stride]), -shift);
    total = mode == Pool::l2 ? fma(value, value, total) : total + value;
  }
  return T(ldexp(mode == Pool::l2 ? sqrt(total) : total / double(elements), shift));
}

// out[i][p] of x[i][element][p]: one number a thread, neighbours at neighbouring pixels, the elements in their order.
template <class T>
__global__ void __launch_bounds__(element_threads)
    pool_elements(const T* x, Index count, Index elements, Index pixels, Pool mode, T* out) {
  // Squares below have lost digits, if they are not 0.
  const T least = mode == Pool::l2 ? T(sizeof(T) == 4 ? 1e-30 : 1e-290) : T(0);
  for (Index at = Index(blockIdx.x) * element_threads + threadIdx.x; at < count * pixels;
       at += Index(gridDim.x) * element_threads) {
    const T* from = x + at / pixels * elements * pixels + at % pixels;
    T total = from[0], largest = std::abs(total);
    if (mode == Pool::l2) total *= total;
    for (Index element = 1; element < elements; ++element) {
      const T value = from[element * pixels], size = std::abs(value);
      if (size > largest || size != size) largest = size;
      if (mode == Pool::max)
        total = value > total || value != value ? value : total;  // NaN wins, and stays
      else
        total = mode == Pool::l2 ? fastdl::cuda::multiply_add(value, value, total) : total + value;
    }
    const T size = std::abs(total);
    const bool beyond = size < least || size == T(HUGE_VAL);
    if (mode == Pool::l2) total = std::sqrt(total);
    if (mode == Pool::mean) total /= T(elements);
    if ((mode == Pool::l2 || mode == Pool::mean) && beyond && largest > T(0) && largest < T(HUGE_VAL))
      total = far_from_one(from, elements, pixels, double(largest), mode);
    out[at] = total;
  }
}

// to[w][u - first] = h[quotient[w][u]] for u in [first, first + columns): a gather from h, which stays in L1 or L2; the
// table, 8 bytes a number, is the limit.
template <class T>
__global__ void __launch_bounds__(element_threads)
    shift_function(const T* h, const Index* quotient, Index n, Index first, Index columns, Index pitch, T* to) {
  for (Index at = Index(blockIdx.x) * element_threads + threadIdx.x; at < n * columns;
       at += Index(gridDim.x) * element_threads) {
    const Index w = at / columns, u = at % columns;
    to[w * pitch + u] = h[quotient[w * n + first + u]];
  }
}

}  // namespace fastdl::group::cuda
