// The two ways through samples in their order, as hebbian_learn.cu puts them together.
#pragma once

#include "hebbian.hpp"

namespace fastdl::hebbian::cuda {

// The weights and thresholds go through the samples one by one. On divergence they are anything.
template <class T>
Index learn_one_by_one(const Learning& how, T* weights, Index units, const Samples<T>& samples, const T* lr, T* theta,
                       Stream stream);

// The rules up to subspace by blocks of samples: the weights end in the one of the two buffers that is returned, or in
// none on divergence. They begin in the first.
template <class T>
struct Ended {
  T* weights;
  Index diverged;
};
template <class T>
Ended<T> learn_by_blocks(const Learning& how, T* const (&weights)[2], Index units, const Samples<T>& samples,
                         const T* lr, Stream stream);

}  // namespace fastdl::hebbian::cuda
