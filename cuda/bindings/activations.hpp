// The activation that Python names; None is none.
#pragma once

#include "activation.hpp"
#include "bindings/arrays.hpp"

namespace fastdl::cuda::bindings {

inline Activation activation_of(const std::optional<std::string>& name) {
  if (!name) return Activation::none;
  return chosen<Activation>("activation", *name,
                            {{"relu", Activation::relu},
                             {"leaky_relu", Activation::leaky_relu},
                             {"sigmoid", Activation::sigmoid},
                             {"tanh", Activation::tanh}});
}

}  // namespace fastdl::cuda::bindings
