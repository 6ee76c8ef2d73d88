// The algorithms that conv.cu chooses from. Every result has elements, and every sum has terms.
#pragma once

#include "conv.hpp"

namespace fastdl::conv::cuda {

// What follows the sums.
template <class T>
struct Finish {
  const T* bias = nullptr;
  Activation activation = Activation::none;
};

// An implicit matrix product on the engine (gemm.cuh): any convolution.
template <class T>
void product_forward(const char* name, const Geometry& g, Padding padding, const T* x, const Strides& strides,
                     const T* w, const Finish<T>& finish, T* out, Stream stream);
template <class T>
void product_input(const char* name, const Geometry& g, const T* w, const T* grad, const Finish<T>& finish, T* dx,
                   Stream stream);
template <class T>
void product_weight(const char* name, const Geometry& g, const T* x, const Strides& strides, const T* grad, T* dw,
                    Stream stream);

// The images of `padded`, which has no padding, from those of g with all of it: conv_padded.cu.
template <class T>
void write_padded(const char* name, const Geometry& g, Padding padding, const Geometry& padded, const T* x,
                  const Strides& strides, T* to, Stream stream);

// Plane by plane, from tiles in shared memory: any convolution, best with few filters a group.
template <class T>
void planes_forward(const char* name, const Geometry& g, Padding padding, const T* x, const Strides& strides,
                    const T* w, bool turned, const Finish<T>& finish, T* out, Stream stream);
template <class T>
void planes_input(const char* name, const Geometry& g, const T* w, const T* grad, const Finish<T>& finish, T* dx,
                  Stream stream);
// One block a tap or a few: best with few channels and few filters a group.
template <class T>
void planes_weight(const char* name, const Geometry& g, const T* x, const Strides& strides, const T* grad, T* dw,
                   Stream stream);

// Winograd's for 3 x 3 filters of stride and dilation 1, by tiles of 2 x 2 or 4 x 4.
template <class T>
void winograd_forward(const char* name, int tile, const Geometry& g, Padding padding, const T* x,
                      const Strides& strides, const T* w, const Finish<T>& finish, T* out, Stream stream);

}  // namespace fastdl::conv::cuda
