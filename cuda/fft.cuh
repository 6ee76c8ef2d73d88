// Fourier transforms of many lines in shared memory, by all threads of a block.
//
// In place: forwards by decimation in frequency, natural order in and permuted order out; backwards by decimation in
// time, permuted in and natural out. Nothing is reordered in between: where a spectrum goes to global memory or comes
// from it, Axis::place says where each frequency stands. So a line needs no second buffer, and a stage one barrier.
//
// Neighbouring threads take the same butterfly of neighbouring lines. With an odd distance between rows no two of them
// meet in a bank, along rows and along columns alike.
//
// Stages are functions of their own, called once a stage: inlined into every kernel they were most of its code, and of
// the time to compile it. They are given places in the dynamic shared memory, not pointers, so that they know which
// memory they read.
//
// Estimated limit: shared memory, 4 accesses of a number for about 12 flops (radix 4) or 21 (radix 8) a stage.
#pragma once

#include "fft.hpp"
#include "launch.cuh"

namespace fastdl::fft::cuda {

using fastdl::cuda::multiply_add;

template <class T>
__device__ __forceinline__ Complex<T> operator+(Complex<T> a, Complex<T> b) {
  return {a.re + b.re, a.im + b.im};
}
template <class T>
__device__ __forceinline__ Complex<T> operator-(Complex<T> a, Complex<T> b) {
  return {a.re - b.re, a.im - b.im};
}
template <class T>
__device__ __forceinline__ Complex<T> operator*(Complex<T> a, Complex<T> b) {
  return {multiply_add(a.re, b.re, -(a.im * b.im)), multiply_add(a.re, b.im, a.im * b.re)};
}
template <class T>
__device__ __forceinline__ Complex<T> conjugate(Complex<T> a) {
  return {a.re, -a.im};
}
template <class T>
__device__ __forceinline__ Complex<T> scaled(Complex<T> a, T factor) {
  return {a.re * factor, a.im * factor};
}
// sum + a factor
template <class T>
__device__ __forceinline__ Complex<T> multiply_add(Complex<T> a, T factor, Complex<T> sum) {
  return {multiply_add(a.re, factor, sum.re), multiply_add(a.im, factor, sum.im)};
}
// a times -i, and times i backwards
template <bool Inverse, class T>
__device__ __forceinline__ Complex<T> turned(Complex<T> a) {
  return Inverse ? Complex<T>{-a.im, a.re} : Complex<T>{a.im, -a.re};
}
template <bool Inverse, class T>
__device__ __forceinline__ Complex<T> root_of(const Complex<T>* roots, int k) {
  return Inverse ? conjugate(roots[k]) : roots[k];
}

// a / divisor for a < 2^20, by one multiplication: the half keeps the rounding on the right side.
class Divider {
 public:
  __device__ explicit Divider(int divisor) : divisor_(divisor), inverse_(1.0f / float(divisor)) {}
  __device__ __forceinline__ int quotient(int a) const { return int((float(a) + 0.5f) * inverse_); }
  __device__ __forceinline__ int remainder(int a, int quotient) const { return a - quotient * divisor_; }

 private:
  int divisor_;
  float inverse_;
};

// ---- transforms of few points, in registers ----

template <int R, bool Inverse, class T>
struct Points;

template <bool Inverse, class T>
struct Points<2, Inverse, T> {
  __device__ __forceinline__ static void transform(Complex<T>* v) {
    const Complex<T> a = v[0];
    v[0] = a + v[1];
    v[1] = a - v[1];
  }
};

template <bool Inverse, class T>
struct Points<3, Inverse, T> {
  __device__ __forceinline__ static void transform(Complex<T>* v) {
    constexpr T half_root = T(0.86602540378443864676);  // sin(pi / 3)
    const Complex<T> sum = v[1] + v[2], difference = scaled(turned<Inverse>(v[1] - v[2]), half_root);
    const Complex<T> middle = multiply_add(sum, T(-0.5), v[0]);
    v[0] = v[0] + sum;
    v[1] = middle + difference;
    v[2] = middle - difference;
  }
};

template <bool Inverse, class T>
struct Points<4, Inverse, T> {
  __device__ __forceinline__ static void transform(Complex<T>* v) {
    const Complex<T> a = v[0] + v[2], b = v[0] - v[2], c = v[1] + v[3], d = turned<Inverse>(v[1] - v[3]);
    v[0] = a + c;
    v[1] = b + d;
    v[2] = a - c;
    v[3] = b - d;
  }
};

template <bool Inverse, class T>
struct Points<5, Inverse, T> {
  __device__ __forceinline__ static void transform(Complex<T>* v) {
    constexpr T c1 = T(0.30901699437494742410), c2 = T(-0.80901699437494742410);  // cos(2 pi / 5), cos(4 pi / 5)
    constexpr T s1 = T(0.95105651629515357212), s2 = T(0.58778525229247312917);   // sin of the same
    const Complex<T> a = v[1] + v[4], b = v[2] + v[3], c = turned<Inverse>(v[1] - v[4]),
                     d = turned<Inverse>(v[2] - v[3]);
    const Complex<T> p = multiply_add(b, c2, multiply_add(a, c1, v[0]));
    const Complex<T> q = multiply_add(b, c1, multiply_add(a, c2, v[0]));
    const Complex<T> s = multiply_add(d, s2, scaled(c, s1)), t = multiply_add(d, -s1, scaled(c, s2));
    v[0] = v[0] + a + b;
    v[1] = p + s;
    v[2] = q + t;
    v[3] = q - t;
    v[4] = p - s;
  }
};

template <bool Inverse, class T>
struct Points<8, Inverse, T> {
  __device__ __forceinline__ static void transform(Complex<T>* v) {
    constexpr T half_root = T(0.70710678118654752440);  // cos(pi / 4)
    Complex<T> even[4] = {v[0], v[2], v[4], v[6]}, odd[4] = {v[1], v[3], v[5], v[7]};
    Points<4, Inverse, T>::transform(even);
    Points<4, Inverse, T>::transform(odd);
    odd[1] = scaled(odd[1] + turned<Inverse>(odd[1]), half_root);
    odd[2] = turned<Inverse>(odd[2]);
    odd[3] = scaled(turned<Inverse>(odd[3]) - odd[3], half_root);
    FASTDL_UNROLL
    for (int i = 0; i < 4; ++i) {
      v[i] = even[i] + odd[i];
      v[i + 4] = even[i] - odd[i];
    }
  }
};

// ---- stages ----

// Lines of n numbers in the dynamic shared memory, from number `first` on.
struct Lines {
  int first, count, line_stride, element_stride;
};

// A stage that splits runs of R q numbers into R runs of q, or puts these together again.
template <int R, bool Inverse, class T>
__device__ __forceinline__ void stage(Complex<T>* data, const Lines& lines, int n, int q, const Complex<T>* roots) {
  const Divider by_line(lines.count), by_run(q);
  const int step = n / (R * q), distance = q * lines.element_stride;
  for (int work = int(threadIdx.x); work < lines.count * (n / R); work += int(blockDim.x)) {
    const int butterfly = by_line.quotient(work), line = by_line.remainder(work, butterfly);
    const int run = by_run.quotient(butterfly), j = by_run.remainder(butterfly, run);
    Complex<T>* const at = data + line * lines.line_stride + (run * R * q + j) * lines.element_stride;
    Complex<T> v[R];
    FASTDL_UNROLL
    for (int i = 0; i < R; ++i) v[i] = at[i * distance];
    if (!Inverse) Points<R, false, T>::transform(v);
    FASTDL_UNROLL
    for (int i = 1; i < R; ++i) v[i] = v[i] * root_of<Inverse>(roots, i * j * step);
    if (Inverse) Points<R, true, T>::transform(v);
    FASTDL_UNROLL
    for (int i = 0; i < R; ++i) at[i * distance] = v[i];
  }
}

// The same for any radix, by its definition: an output is a sum of p terms. What a round writes it has read before, so
// a round takes whole butterflies, as many as the threads can hold outputs of.
template <bool Inverse, class T>
__device__ __forceinline__ void plain_stage(Complex<T>* data, const Lines& lines, int n, int p, int q,
                                            const Complex<T>* roots) {
  constexpr int held = 4;
  const Divider by_line(lines.count), by_run(q);
  const int step = n / (p * q), whole = n / p, distance = q * lines.element_stride;
  const int butterflies = lines.count * (n / p), round = held * int(blockDim.x) / p;
  for (int first = 0; first < butterflies; first += round) {
    const int taken = butterflies - first < round ? butterflies - first : round;
    const Divider by_butterfly(taken);
    Complex<T> sum[held];
    int place[held];
    FASTDL_UNROLL
    for (int h = 0; h < held; ++h) {
      sum[h] = {T(0), T(0)};
      place[h] = -1;
      const int output = int(threadIdx.x) + h * int(blockDim.x);
      if (output >= taken * p) continue;
      // The same output of neighbouring butterflies is the work of neighbouring threads.
      const int k = by_butterfly.quotient(output), work = first + by_butterfly.remainder(output, k);
      const int butterfly = by_line.quotient(work), line = by_line.remainder(work, butterfly);
      const int run = by_run.quotient(butterfly), j = by_run.remainder(butterfly, run);
      const int start = line * lines.line_stride + (run * p * q + j) * lines.element_stride;
      for (int i = 0, turn = 0; i < p; ++i) {
        Complex<T> value = data[start + i * distance];
        if (Inverse) value = value * root_of<true>(roots, i * j * step);
        sum[h] = sum[h] + value * root_of<Inverse>(roots, turn * whole);
        turn += k;
        if (turn >= p) turn -= p;
      }
      if (!Inverse) sum[h] = sum[h] * root_of<false>(roots, k * j * step);
      place[h] = start + k * distance;
    }
    __syncthreads();
    FASTDL_UNROLL
    for (int h = 0; h < held; ++h)
      if (place[h] >= 0) data[place[h]] = sum[h];
  }
}

template <bool Inverse, class T>
__device__ FASTDL_APART void any_stage(int first, int count, int line_stride, int element_stride, int n, int radix,
                                       int q, int first_root) {
  FASTDL_DYNAMIC_SHARED(Complex<T>, memory);
  const Lines lines{first, count, line_stride, element_stride};
  Complex<T>* const data = memory + first;
  const Complex<T>* const roots = memory + first_root;
  switch (radix) {
    case 2:
      return stage<2, Inverse>(data, lines, n, q, roots);
    case 3:
      return stage<3, Inverse>(data, lines, n, q, roots);
    case 4:
      return stage<4, Inverse>(data, lines, n, q, roots);
    case 5:
      return stage<5, Inverse>(data, lines, n, q, roots);
    case 8:
      return stage<8, Inverse>(data, lines, n, q, roots);
    default:
      return plain_stage<Inverse>(data, lines, n, radix, q, roots);
  }
}

// All lines, without a factor. What they were written with must be behind a barrier; what is done ends with one. The
// roots of the axis are in the dynamic shared memory from number `roots` on.
template <bool Inverse, class T>
__device__ __forceinline__ void transform(const Axis<T>& axis, int roots, const Lines& lines) {
  for (int s = 0, q = Inverse ? 1 : axis.n; s < axis.stages; ++s) {
    const int radix = axis.radix[Inverse ? axis.stages - 1 - s : s];
    if (!Inverse) q /= radix;
    any_stage<Inverse, T>(lines.first, lines.count, lines.line_stride, lines.element_stride, axis.n, radix, q, roots);
    if (Inverse) q *= radix;
    __syncthreads();
  }
}

}  // namespace fastdl::fft::cuda
