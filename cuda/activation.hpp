// The activations of layers, as the host names them.
#pragma once

namespace fastdl::cuda {

enum class Activation { none, relu, leaky_relu, sigmoid, tanh };

}  // namespace fastdl::cuda
