// Convolution as an implicit matrix product.
#include "conv_windows.cuh"

namespace fastdl::conv::cuda {

template <class T>
void multiply_windows(const char* name, Index batches, const gemm::cuda::Operand<T>& filters, const Windows<T>& windows,
                      const Maps<T>& maps, const Finished<T>& finished, Stream stream) {
  gemm::cuda::multiply_batch(name, batches, filters, windows, windows.depth, maps, finished, stream);
}

template <class T>
void product_forward(const char* name, const Geometry& g, Padding padding, const T* x, const Strides& strides,
                     const T* w, const Finish<T>& finish, T* out, Stream stream) {
  const Index depth = g.in_channels * g.taps(), pixels = g.pixels();
  const fastdl::cuda::Scratch<Tap> taps(name, depth, stream);
  write_taps(name, g, strides, taps.data(), depth, stream);

  Windows<T> windows{};
  windows.strides = strides;
  windows.group_stride = g.in_channels * strides.channel;
  for (int a = 0; a < axes; ++a) {
    windows.in[a] = int(g.in[a]);
    windows.step[a] = int(g.stride[a]);
  }
  windows.padding = padding;
  windows.lattice = whole(g.groups, g.out);
  windows.taps = taps.data();
  windows.depth = depth;
  Maps<T> maps{};
  maps.rows = g.out_channels;
  maps.pixels = pixels;
  maps.group_stride = g.out_channels * pixels;
  maps.image_stride = g.groups * maps.group_stride;
  maps.vectorised = pixels % fastdl::cuda::Vector<T>::lanes == 0 && gemm::cuda::starts_aligned(out);
  const auto filters = gemm::cuda::operand(w, g.out_channels, depth, depth, Index(1), g.out_channels * depth);
  const Finished<T> finished{finish.bias, T(fastdl::cuda::slope_of(finish.activation)), g.groups, g.out_channels};
  const Index together = images_together(g.batch, pixels);
  for (Index first = 0; first < g.batch; first += together) {
    windows.data = x + first * strides.batch;
    windows.images = g.batch - first < together ? g.batch - first : together;
    maps.data = out + first * maps.image_stride;
    maps.columns = windows.images * pixels;
    multiply_windows(name, g.groups, filters, windows, maps, finished, stream);
  }
  fastdl::cuda::activate_rest(name, out, g.batch * maps.image_stride, finish.activation, stream);
}

#define FASTDL_CONV_FORWARD(T)                                                                                         \
  template void multiply_windows(const char*, Index, const gemm::cuda::Operand<T>&, const Windows<T>&, const Maps<T>&, \
                                 const Finished<T>&, Stream);                                                          \
  template void product_forward(const char*, const Geometry&, Padding, const T*, const Strides&, const T*,             \
                                const Finish<T>&, T*, Stream);
FASTDL_CONV_FORWARD(float)
FASTDL_CONV_FORWARD(double)
#undef FASTDL_CONV_FORWARD

}  // namespace fastdl::conv::cuda
