// The input gradient and the transposed convolution as implicit matrix products, one for each class of positions.
#include "conv_windows.cuh"

namespace fastdl::conv::cuda {
namespace {

Index common_divisor(Index a, Index b) { return b == 0 ? a : common_divisor(b, a % b); }

// Which taps the classes see: along an axis every step-th from the first that fits, `count` at most.
struct Classes {
  Geometry g;
  Index classes[axes], step[axes], count[axes];
  Index number() const { return classes[0] * classes[1] * classes[2]; }
};

Classes classes_of(const Geometry& g) {
  Classes c{};
  c.g = g;
  for (int a = 0; a < axes; ++a) {
    c.classes[a] = g.stride[a] < g.in[a] ? g.stride[a] : g.in[a];
    c.step[a] = g.stride[a] / common_divisor(g.stride[a], g.dilation[a]);
    c.count[a] = (g.kernel[a] + c.step[a] - 1) / c.step[a];
  }
  return c;
}

// The number-th tap along an axis that elements of a class see, or -1.
__device__ __forceinline__ Index tap_along(const Classes& c, int axis, Index of_class, Index number) {
  const Index stride = c.g.stride[axis], kernel = c.g.kernel[axis], dilation = c.g.dilation[axis];
  const Index first = of_class + c.g.lower[axis];
  for (Index q = 0; q < c.step[axis] && q < kernel; ++q)
    if ((first - dilation * q) % stride == 0) {
      const Index tap = q + number * c.step[axis];
      return tap < kernel ? tap : -1;
    }
  return -1;
}

// The table of every class: k = (filter, tap). Limited by its launch: 24 bytes for four terms of a sum, each used for
// all positions of its class.
__global__ void __launch_bounds__(element_threads)
    input_taps_kernel(Classes c, Order order, Strides strides, Tap* to, Index groups, Index count) {
  for (Index number = first_element(); number < count; number += element_step()) {
    const Position of_class = position_of(number / groups, c.classes), q = order.first(number % groups);
    Tap tap{q.plane * strides.channel, {0, 0, 0}, order.there(q)};
    for (int a = 0; a < axes; ++a) {
      const Index along = tap_along(c, a, of_class.at[a], q.at[a]);
      const Index at = (of_class.at[a] + c.g.lower[a] - c.g.dilation[a] * along) / c.g.stride[a];
      tap.at[a] = along < 0 ? nowhere : int(at);
      tap.offset += along < 0 ? 0 : at * strides.axis[a];
    }
    // Some classes see one tap less than others.
    if (!order.along_channels)
      while (tap.lanes > 1 && tap_along(c, axes - 1, of_class.at[axes - 1], q.at[axes - 1] + tap.lanes - 1) < 0)
        --tap.lanes;
    to[number] = tap;
  }
}

// The filters of every class and group: to[class, group, channel, k], with zeros where k has no filter or tap. Limit:
// the instructions that find a tap, several divisions of 64 bits for the read and the write of one number; small beside
// the product, which takes each number for all positions.
template <class T>
__global__ void __launch_bounds__(element_threads)
    input_filters_kernel(Classes c, Order order, const T* w, T* to, Index depth, Index count) {
  const Geometry& g = c.g;
  for (Index number = first_element(); number < count; number += element_step()) {
    const Index row = number / depth, channel = row % g.in_channels, batch = row / g.in_channels, k = number % depth;
    const Position q = order.place(k);
    const Position of_class = position_of(batch / g.groups, c.classes);
    Index tap = order.has(q) ? 0 : -1;
    for (int a = 0; a < axes; ++a) {
      const Index along = tap_along(c, a, of_class.at[a], q.at[a]);
      tap = tap < 0 || along < 0 ? -1 : tap * g.kernel[a] + along;
    }
    const Index filter = batch % g.groups * g.out_channels + q.plane;
    to[number] =
        tap < 0 ? T(0) : w[(filter * g.in_channels + channel) * (g.kernel[0] * g.kernel[1] * g.kernel[2]) + tap];
  }
}

}  // namespace

template <class T>
void product_input(const char* name, const Geometry& g, const T* w, const T* grad, const Finish<T>& finish, T* dx,
                   Stream stream) {
  const Classes c = classes_of(g);
  const Order order = order_of(g.out_channels, c.count);
  const Index number = c.number(), depth = order.depth(), batches = number * g.groups;
  const Strides strides = contiguous(g.groups * g.out_channels, g.out);
  const fastdl::cuda::Scratch<Tap> taps(name, number * order.groups(), stream);
  const fastdl::cuda::Scratch<T> filters(name, batches * g.in_channels * depth, stream);
  fastdl::cuda::launch(name, input_taps_kernel, over_elements(taps.count(), stream), c, order, strides, taps.data(),
                       order.groups(), taps.count());
  fastdl::cuda::launch(name, input_filters_kernel<T>, over_elements(filters.count(), stream), c, order, w,
                       filters.data(), depth, filters.count());

  Windows<T> windows{};
  windows.strides = strides;
  windows.group_stride = g.out_channels * strides.channel;
  windows.lattice = whole(g.groups, g.in);
  Index largest = 1;  // class: that of the first elements
  for (int a = 0; a < axes; ++a) {
    windows.in[a] = int(g.out[a]);
    windows.step[a] = 1;
    windows.lattice.spread[a] = int(c.classes[a]);  // the stride, or all where one position is left
    windows.lattice.classes[a] = int(c.classes[a]);
    largest *= (g.in[a] + g.stride[a] - 1) / g.stride[a];
  }
  windows.taps = taps.data();
  windows.groups = order.groups();
  const Index back = g.dilation[2] * c.step[2] / g.stride[2];  // taps run against the positions that they saw
  windows.step_of_lane =
      order.along_channels ? Step{strides.channel, 0} : Step{-back * strides.axis[2], unsigned(-back)};
  const gemm::cuda::Rows<T> left{filters.data(), g.in_channels, depth, g.in_channels * depth};
  const Finished<T> finished{finish.bias, T(fastdl::cuda::slope_of(finish.activation)), g.groups, g.in_channels};
  const Index pixels = g.in_pixels(), of_group = g.in_channels * pixels, image = g.groups * of_group;
  const Index together = images_together(g.batch, pixels);
  for (Index first = 0; first < g.batch; first += together) {
    windows.data = grad + first * strides.batch;
    windows.images = g.batch - first < together ? g.batch - first : together;
    T* to = dx + first * image;
    if (number == 1) {
      const bool vectorised = pixels % fastdl::cuda::Vector<T>::lanes == 0 && gemm::cuda::starts_aligned(dx);
      const Maps<T> maps{to, g.in_channels, windows.images * pixels, pixels, vectorised, image, of_group};
      multiply_windows(name, batches, left, windows, maps, finished, stream);
    } else {
      const ScatteredMaps<T> maps{to,    g.in_channels, windows.images * largest, pixels, false, windows.images,
                                  image, of_group,      windows.lattice};
      gemm::cuda::multiply_batch(name, batches, left, windows, depth, maps, finished, stream);
    }
  }
  fastdl::cuda::activate_rest(name, dx, g.batch * image, finish.activation, stream);
}

#define FASTDL_CONV_INPUT(T) \
  template void product_input(const char*, const Geometry&, const T*, const T*, const Finish<T>&, T*, Stream);
FASTDL_CONV_INPUT(float)
FASTDL_CONV_INPUT(double)
#undef FASTDL_CONV_INPUT

}  // namespace fastdl::conv::cuda
