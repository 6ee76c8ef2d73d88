// Convolution as an implicit matrix product.
#include <algorithm>

#include "conv_windows.cuh"

namespace fastdl::conv::cuda {
namespace {

// The filters in the order of the windows: to[filter, k], with zeros where a group has no channel or tap. Limited by
// memory, and small beside the product.
template <class T>
__global__ void __launch_bounds__(element_threads)
    ordered_filters_kernel(Order order, const T* w, T* to, Index depth, Index count) {
  const Index taps = order.extent[0] * order.extent[1] * order.extent[2];
  for (Index number = first_element(); number < count; number += element_step()) {
    const Index filter = number / depth, k = number % depth;
    const Position q = order.place(k);
    const Index tap = (q.at[0] * order.extent[1] + q.at[1]) * order.extent[2] + q.at[2];
    to[number] = order.has(q) ? w[(filter * order.channels + q.plane) * taps + tap] : T(0);
  }
}

// With the padding written out, for some images at a time: 256 MB of them, or one. Where it is most of the image, as
// with large dilations, the sum is taken plane by plane, which finds its elements as it goes.
template <class T>
void product_padded(const char* name, const Geometry& g, Padding padding, const T* x, const Strides& strides,
                    const T* w, const Finish<T>& finish, T* out, Stream stream) {
  Geometry padded = g;
  double pixels = 1;  // in double: the product of three extents may leave 64 bits
  for (int a = 0; a < axes; ++a) {
    padded.in[a] = g.reach(a);
    padded.lower[a] = 0;
    pixels *= double(padded.in[a]);
  }
  if (pixels >= 0x1p31 || pixels > 16 * double(g.in_pixels() + g.pixels()))
    return planes_forward(name, g, padding, x, strides, w, false, finish, out, stream);
  const Index channels = g.groups * g.in_channels, image = channels * padded.in_pixels();
  const Index most = (Index(1) << 28) / (image * Index(sizeof(T)));
  const Index together = std::clamp(most, Index(1), g.batch);
  const fastdl::cuda::Scratch<T> copy(name, together * image, stream);
  for (Index first = 0; first < g.batch; first += together) {
    padded.batch = std::min(together, g.batch - first);
    write_padded(name, g, padding, padded, x + first * strides.batch, strides, copy.data(), stream);
    product_forward<T>(name, padded, Padding::zeros, copy.data(), contiguous(channels, padded.in), w, finish,
                       out + first * g.groups * g.out_channels * g.pixels(), stream);
  }
}

}  // namespace

template <class T>
void multiply_windows(const char* name, Index batches, const gemm::cuda::Rows<T>& filters, const Windows<T>& windows,
                      const Maps<T>& maps, const Finished<T>& finished, Stream stream) {
  gemm::cuda::multiply_batch(name, batches, filters, windows, filters.stride, maps, finished, stream);
}

template <class T>
void product_forward(const char* name, const Geometry& g, Padding padding, const T* x, const Strides& strides,
                     const T* w, const Finish<T>& finish, T* out, Stream stream) {
  bool reaches_over = false;
  for (int a = 0; a < axes; ++a) reaches_over = reaches_over || g.lower[a] > 0 || g.reach(a) - g.lower[a] > g.in[a];
  if (reaches_over && padding != Padding::zeros)
    return product_padded(name, g, padding, x, strides, w, finish, out, stream);
  const Order order = order_of(g.in_channels, g.kernel);
  const Index depth = order.depth(), pixels = g.pixels();
  const fastdl::cuda::Scratch<Tap> taps(name, order.groups(), stream);
  write_taps(name, g, strides, order, taps.data(), stream);
  const fastdl::cuda::Scratch<T> ordered(name, g.groups * g.out_channels * depth, stream);
  fastdl::cuda::launch(name, ordered_filters_kernel<T>, over_elements(ordered.count(), stream), order, w,
                       ordered.data(), depth, ordered.count());

  Windows<T> windows{};
  windows.strides = strides;
  windows.group_stride = g.in_channels * strides.channel;
  for (int a = 0; a < axes; ++a) {
    windows.in[a] = int(g.in[a]);
    windows.step[a] = int(g.stride[a]);
  }
  windows.lattice = whole(g.groups, g.out);
  windows.taps = taps.data();
  windows.groups = order.groups();
  windows.step_of_lane =
      order.along_channels ? Step{strides.channel, 0} : Step{g.dilation[2] * strides.axis[2], unsigned(g.dilation[2])};
  Maps<T> maps{};
  maps.rows = g.out_channels;
  maps.row_stride = pixels;
  maps.group_stride = g.out_channels * pixels;
  maps.image_stride = g.groups * maps.group_stride;
  maps.vectorised = pixels % fastdl::cuda::Vector<T>::lanes == 0 && gemm::cuda::starts_aligned(out);
  const gemm::cuda::Rows<T> filters{ordered.data(), g.out_channels, depth, g.out_channels * depth};
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

#define FASTDL_CONV_FORWARD(T)                                                                                      \
  template void multiply_windows(const char*, Index, const gemm::cuda::Rows<T>&, const Windows<T>&, const Maps<T>&, \
                                 const Finished<T>&, Stream);                                                       \
  template void product_forward(const char*, const Geometry&, Padding, const T*, const Strides&, const T*,          \
                                const Finish<T>&, T*, Stream);
FASTDL_CONV_FORWARD(float)
FASTDL_CONV_FORWARD(double)
#undef FASTDL_CONV_FORWARD

}  // namespace fastdl::conv::cuda
