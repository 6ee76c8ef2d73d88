// Which algorithm computes what. The rules are from estimates (docs/cuda/conv.md); they depend on the shape alone, so
// the same call gives the same bits on every card.
#include "conv.hpp"

#include "conv_algorithms.hpp"
#include "launch.cuh"

namespace fastdl::conv::cuda {
namespace {

// A tile of the engine has 128 rows of channels (64 in f64); the sum plane by plane reaches a quarter of the peak at
// most, and reads its input once for every filter.
constexpr Index few = 4;

bool winograd_fits(const Geometry& g) {
  return g.in[0] == 1 && g.kernel[0] == 1 && g.out[0] == 1 && g.lower[0] == 0 && g.kernel[1] == 3 && g.kernel[2] == 3 &&
         g.stride[1] == 1 && g.stride[2] == 1 && g.dilation[1] == 1 && g.dilation[2] == 1;
}

// The side of the tiles, or 0 for another algorithm. With fewer than 16 channels the error of F(4 x 4) is too large a
// multiple of the sum's. The products save 3/4 of 18 c o flops a position, moving V and W costs 9 (c + o) numbers: they
// balance where c o = 13 (c + o), in f32 and f64 on an A100.
int winograd_tile(const Geometry& g, Algorithm algorithm) {
  if (algorithm == Algorithm::direct || !winograd_fits(g)) return 0;
  const Index c = g.in_channels, o = g.out_channels;
  const bool accurate = c >= 16;
  if (algorithm == Algorithm::winograd) return accurate ? 4 : 2;
  return accurate && c * o >= 16 * (c + o) && g.out[1] >= 4 && g.out[2] >= 4 ? 4 : 0;
}

// activation(bias) everywhere: a sum without terms. As a convolution of one channel of nothing.
template <class T>
void without_terms(const char* name, Geometry g, const Finish<T>& finish, T* out, Stream stream) {
  planes_forward<T>(name, g, Padding::zeros, nullptr, {}, nullptr, false, finish, out, stream);
}

}  // namespace

template <class T>
void forward(const char* name, const Geometry& g, Padding padding, Activation activation, Algorithm algorithm,
             const T* x, const Strides& strides, const T* w, const T* bias, T* out, Stream stream) {
  const Finish<T> finish{bias, activation};
  if (g.batch * g.groups * g.out_channels * g.pixels() == 0) return;
  if (g.in_channels == 0 || g.in_pixels() == 0) {
    Geometry none = g;
    none.in_channels = 0;
    return without_terms(name, none, finish, out, stream);
  }
  if (const int tile = winograd_tile(g, algorithm))
    return winograd_forward(name, tile, g, padding, x, strides, w, finish, out, stream);
  if (g.out_channels <= few) return planes_forward(name, g, padding, x, strides, w, false, finish, out, stream);
  product_forward(name, g, padding, x, strides, w, finish, out, stream);
}

template <class T>
void input_gradient(const char* name, const Geometry& g, const T* w, const T* grad, const T* bias, T* dx,
                    Stream stream) {
  const Finish<T> finish{bias, Activation::none};
  if (g.batch * g.groups * g.in_channels * g.in_pixels() == 0) return;
  if (g.out_channels * g.pixels() == 0) {
    Geometry none = g;
    none.in_channels = 0;
    none.out_channels = g.in_channels;
    for (int a = 0; a < axes; ++a) none.out[a] = g.in[a];
    return without_terms(name, none, finish, dx, stream);
  }
  // Of the classes of a stride that is much larger than the kernel most see no tap at all.
  double classes = 1;
  for (int a = 0; a < axes; ++a) classes *= double(g.stride[a] < g.in[a] ? g.stride[a] : g.in[a]);
  if (g.in_channels <= few || classes > 16 * double(g.taps()))
    return planes_input(name, g, w, grad, finish, dx, stream);
  product_input(name, g, w, grad, finish, dx, stream);
}

template <class T>
void weight_gradient(const char* name, const Geometry& g, const T* x, const Strides& strides, const T* grad, T* dw,
                     Stream stream) {
  const Index elements = g.groups * g.out_channels * g.in_channels * g.taps();
  if (elements == 0) return;
  if (g.batch * g.pixels() == 0 || g.in_pixels() == 0)
    return fastdl::cuda::set_zero(name, dw, std::size_t(elements) * sizeof(T), stream);
  if (g.out_channels <= few && g.in_channels <= few) return planes_weight(name, g, x, strides, grad, dw, stream);
  product_weight(name, g, x, strides, grad, dw, stream);
}

template <class T>
void correlate(const char* name, const Geometry& g, Padding padding, bool turned, const T* x, const T* w, T* out,
               Stream stream) {
  if (g.pixels() == 0) return;
  planes_forward(name, g, padding, x, contiguous(1, g.in), w, turned, Finish<T>{}, out, stream);
}

#define FASTDL_CONV(T)                                                                                          \
  template void forward(const char*, const Geometry&, Padding, Activation, Algorithm, const T*, const Strides&, \
                        const T*, const T*, T*, Stream);                                                        \
  template void input_gradient(const char*, const Geometry&, const T*, const T*, const T*, T*, Stream);         \
  template void weight_gradient(const char*, const Geometry&, const T*, const Strides&, const T*, T*, Stream);  \
  template void correlate(const char*, const Geometry&, Padding, bool, const T*, const T*, T*, Stream);
FASTDL_CONV(float)
FASTDL_CONV(double)
#undef FASTDL_CONV

}  // namespace fastdl::conv::cuda
