// Kernels of solid harmonic scattering. A volume is nz by ny by nx; transforms go along one axis after the other
// (fft_lines.cuh), for all filters of a degree at a time.
#pragma once

#include "fft_lines.cuh"
#include "scattering_parts.cuh"

namespace fastdl::scattering::cuda {

using fft::cuda::Numbers;

constexpr int most_powers = 64;

struct Powers {
  int count;
  double power[most_powers];
};

// Lines along z, read: the spectrum of an input times a filter. A task is an input and one of `count` filters.
template <class T>
struct Products {
  const Complex<T>*spectra, *filters;
  Index voxels, plane;
  int count;
  bool lines_first = true;

  __device__ __forceinline__ void enter(Index task) {
    spectra += task / count * voxels;
    filters += task % count * voxels;
  }
  __device__ __forceinline__ Complex<T> operator()(int line, int element) const {
    const Index place = element * plane + line;
    return spectra[place] * filters[place];
  }
};

template <class T>
__device__ __forceinline__ T powered(T u, double power) {
  if (power == 1) return u;
  if (power == 2) return u * u;
  if (power == 0.5) return std::sqrt(u);
  return std::pow(u, T(power));
}

// The slope of u^power; 0 at 0.
template <class T>
__device__ __forceinline__ T slope(T u, double power) {
  return u == T(0) ? T(0) : powered(u, power - 1) * T(power);
}

// u (groups, voxels): `factor` times the root of the sum over `harmonics` of |z|^2, z (groups, harmonics, voxels).
// Limit: memory, a read of 8 bytes (float32) a harmonic and a write of 4.
template <class T>
__global__ void __launch_bounds__(most_threads)
    harmonic_moduli_kernel(const Complex<T>* z, int harmonics, Index voxels, Index groups, T factor, T* u) {
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < groups * voxels;
       i += Index(gridDim.x) * blockDim.x) {
    const Index group = i / voxels, place = i - group * voxels;
    const Complex<T>* const from = z + group * harmonics * voxels + place;
    T sum = 0;
    for (int m = 0; m < harmonics; ++m) {
      const Complex<T> value = fft::cuda::scaled(from[m * voxels], factor);
      sum = multiply_add(value.re, value.re, multiply_add(value.im, value.im, sum));
    }
    u[i] = std::sqrt(sum);
  }
}

// Where the sums of a degree go, and the gradients of them come from: of volume v, scale s and power p at
// ((v paths + first + s) degrees + degree) powers + p.
template <class T>
struct Sums {
  T* values;
  Index paths, first;
  int degrees, degree, scales;
  __device__ __forceinline__ T* at(Index group, int powers) const {
    const Index volume = group / scales, scale = group - volume * scales;
    return values + ((volume * paths + first + scale) * degrees + degree) * powers;
  }
};

// The sums of powers of u (groups, voxels), a block a group. Each thread sums up runs of 32 in T, and these, like the
// sums of all threads, in double: a sum of a million has the accuracy of one of some hundreds. Limit: reads of u from
// L2, once a power, through as many multiprocessors as there are groups: about 0.1 TB/s each, estimated.
template <class T>
__global__ void __launch_bounds__(most_threads)
    power_sums_kernel(const T* u, Index voxels, Powers powers, Sums<T> sums) {
  struct Partial {
    double sum[most_threads];
  };
  FASTDL_SHARED(Partial, partial);
  const Index group = blockIdx.x;
  const T* const from = u + group * voxels;
  T* const to = sums.at(group, powers.count);
  for (int p = 0; p < powers.count; ++p) {
    double total = 0;
    for (Index first = threadIdx.x; first < voxels; first += Index(32) * most_threads) {
      T run = 0;
      for (int k = 0; k < 32; ++k) {
        const Index i = first + Index(k) * most_threads;
        if (i < voxels) run += powered(from[i], powers.power[p]);
      }
      total += double(run);
    }
    partial.sum[threadIdx.x] = total;
    __syncthreads();
    for (int half = most_threads / 2; half > 0; half /= 2) {
      if (int(threadIdx.x) < half) partial.sum[threadIdx.x] += partial.sum[threadIdx.x + half];
      __syncthreads();
    }
    if (threadIdx.x == 0) to[p] = T(partial.sum[0]);
    __syncthreads();
  }
}

// g (groups, voxels): the gradient for u from that for the sums of its powers. Limit: memory, one read and one write of
// a number; or some 80 instructions for every power whose slope takes std::pow, as those of 1/2 and 1.
template <class T>
__global__ void __launch_bounds__(most_threads)
    power_slopes_kernel(const T* u, Index voxels, Index groups, Powers powers, Sums<T> sums, T* g) {
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < groups * voxels;
       i += Index(gridDim.x) * blockDim.x) {
    const T* const grad = sums.at(i / voxels, powers.count);
    const T value = u[i];
    T sum = 0;
    for (int p = 0; p < powers.count; ++p) sum = multiply_add(slope(value, powers.power[p]), grad[p], sum);
    g[i] = sum;
  }
}

// z (groups, harmonics, voxels) times `factor` g/u, and 0 where u is 0. Limit: memory, a read and a write of a complex
// number, and a read of u and of g, which other harmonics find in L2 as far as they fit.
template <class T>
__global__ void __launch_bounds__(most_threads)
    harmonic_directions_kernel(Complex<T>* z, int harmonics, Index voxels, Index groups, T factor, const T* u,
                               const T* g) {
  const Index each = harmonics * voxels;
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < groups * each; i += Index(gridDim.x) * blockDim.x) {
    const Index group = i / each, place = group * voxels + (i - group * each) % voxels;
    const T modulus = u[place], ratio = modulus == T(0) ? T(0) : g[place] / modulus;
    z[i] = fft::cuda::scaled(fft::cuda::scaled(z[i], factor), ratio);
  }
}

// back (inputs, voxels) = the sum over the filters, in their order, of waves (inputs, filters, voxels) times conjugate
// filters; added to what is there where `more` says so. Limit: memory, two reads of a complex number a filter.
template <class T>
__global__ void __launch_bounds__(most_threads)
    harmonic_gather_kernel(const Complex<T>* waves, const Complex<T>* filters, int count, Index voxels, Index inputs,
                           bool more, Complex<T>* back) {
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < inputs * voxels;
       i += Index(gridDim.x) * blockDim.x) {
    const Index input = i / voxels, place = i - input * voxels;
    Complex<T> sum = more ? back[i] : Complex<T>{T(0), T(0)};
    for (int f = 0; f < count; ++f)
      sum = sum + waves[(input * count + f) * voxels + place] * fft::cuda::conjugate(filters[f * voxels + place]);
    back[i] = sum;
  }
}

// g = g + factor times the real parts of z, or without g where it is not to be added to. g of one input is `stride`
// numbers from that of the next. Limit: memory, a read of a complex number, and a read and a write of a real one.
template <class T>
__global__ void __launch_bounds__(most_threads)
    real_parts_kernel(const Complex<T>* z, Index voxels, Index inputs, T factor, bool more, T* g, Index stride) {
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < inputs * voxels;
       i += Index(gridDim.x) * blockDim.x) {
    const Index input = i / voxels;
    T& to = g[input * stride + (i - input * voxels)];
    to = multiply_add(z[i].re, factor, more ? to : T(0));
  }
}

}  // namespace fastdl::scattering::cuda
