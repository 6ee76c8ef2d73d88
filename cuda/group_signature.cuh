// Signatures: sums over the orbits of templates of functions of their products with samples.
//
//   for as many (template, element) as take 32 MB
//     write the permuted templates out, rows of d numbers
//     one matrix product with the samples (gemm.cuh): products [(template, element)][sample]
//     for each template and sample: sum over the elements, in their order
//
// 2 n m |G| d flops of the product against (n + d) m |G| numbers that are written and read again: the product is the
// limit from n and d of about 50 on. Sigmoid and tanh cost some 20 to 40 instructions for each threshold.
#pragma once

#include "group.hpp"
#include "launch.cuh"

namespace fastdl::group::cuda {

constexpr int signature_threads = 128;

// to[row][i] = t[permutation[i]] for rows (template, element) from `first` on: neighbours write neighbours, and read
// within one row of d numbers, which stays in L1.
template <class T>
__global__ void __launch_bounds__(signature_threads)
    permute_templates(const T* templates, const Index* permutations, Index d, Index order, Index first, Index rows,
                      Index pitch, T* to) {
  for (Index at = Index(blockIdx.x) * signature_threads + threadIdx.x; at < rows * d;
       at += Index(gridDim.x) * signature_threads) {
    const Index row = first + at / d, i = at % d;
    to[at / d * pitch + i] = templates[row / order * d + permutations[row % order * d + i]];
  }
}

template <class T>
__device__ __forceinline__ T nonlinear(T z, Nonlinearity which) {
  switch (which) {
    case Nonlinearity::step:  // NaN stays, here and below
      return z >= T(0) ? T(1) : z < T(0) ? T(0) : z;
    case Nonlinearity::cdf:
      return z <= T(0) ? T(1) : z > T(0) ? T(0) : z;
    case Nonlinearity::sigmoid: {
      const T small = std::exp(z < T(0) ? z : -z);
      return (z < T(0) ? small : T(1)) / (T(1) + small);
    }
    case Nonlinearity::tanh:
      return std::tanh(z);
    case Nonlinearity::relu:
      return z < T(0) ? T(0) : z;
  }
  return z;
}

template <class T>
__device__ __forceinline__ T power(T value, Index exponent) {
  T result = T(1);
  for (; exponent > 0; exponent >>= 1, value *= value)
    if (exponent & 1) result *= value;
  return result;
}

// out[sample][template][measure], or sums in double if the orbit of a template goes on in further portions.
//
// A thread has one sample, template and measure, neighbours neighbouring samples, so that products are read in whole
// sectors; measures of the same products come from L1 and L2. 32 elements are summed in T and these sums in double: one
// in 32 of its operations is in double, of which most cards have few.
template <class T>
__global__ void __launch_bounds__(signature_threads)
    sum_orbits(Signature<T> wanted, const T* products, Index pitch, Index first_template, Index templates,
               Index first_element, Index elements, double* sums, T* out) {
  const Index measures = wanted.cuts + wanted.moments;
  const Index size = templates * measures * wanted.samples;
  for (Index at = Index(blockIdx.x) * signature_threads + threadIdx.x; at < size;
       at += Index(gridDim.x) * signature_threads) {
    const Index sample = at % wanted.samples, measure = at / wanted.samples % measures;
    const Index row = at / wanted.samples / measures;
    const T* from = products + row * elements * pitch + sample;
    const bool threshold = measure < wanted.cuts;
    const T cut = threshold ? T(wanted.thresholds[measure]) : T(0);
    const Index exponent = threshold ? 0 : wanted.powers[measure - wanted.cuts];
    double total = first_element == 0 ? 0.0 : sums[at];
    for (Index g = 0; g < elements; g += 32) {
      const Index end = g + 32 < elements ? g + 32 : elements;
      T sum = T(0);
      for (Index i = g; i < end; ++i) {
        const T value = from[i * pitch];
        sum += threshold ? nonlinear(value - cut, wanted.nonlinearity) : power(value, exponent);
      }
      total += double(sum);
    }
    if (first_element + elements == wanted.order)
      out[(sample * wanted.count + first_template + row) * measures + measure] = T(total);
    else
      sums[at] = total;
  }
}

}  // namespace fastdl::group::cuda
