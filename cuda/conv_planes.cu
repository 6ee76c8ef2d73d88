#include "conv_planes.cuh"

#include "conv_algorithms.hpp"

namespace fastdl::conv::cuda {
namespace {

int power_of_two(Index least, int most) {
  int power = 1;
  while (power < least && power < most) power *= 2;
  return power;
}

// The largest tile whose patch fits; a window larger than its tile is taken in parts first.
template <class T>
void choose_tile(Planes<T>& a) {
  const Geometry& g = a.g;
  constexpr int tile = plane_threads * results;
  a.height = power_of_two(g.out[1], 32);
  a.width = power_of_two(g.out[2], tile / a.height);
  a.planes = tile / (a.width * a.height) < most_planes ? tile / (a.width * a.height) : most_planes;
  a.part[0] = int(g.kernel[1]);
  a.part[1] = int(g.kernel[2]);
  const auto extent = [&](int axis, Index size, Index part) {
    return (size - 1) * g.stride[axis] + (part - 1) * g.dilation[axis] + 1;
  };
  const auto halve = [](int& part) { part = (part + 1) / 2; };
  for (;;) {
    const Index height = extent(1, a.height, a.part[0]), width = extent(2, a.width, a.part[1]);
    const Index most = patch_bytes / Index(sizeof(T));
    if (height <= most && width <= most && a.planes * height * width <= most) {
      a.patch_height = int(height);
      a.patch_width = int(width);
      break;
    }
    const bool high = (a.part[0] - 1) * g.dilation[1] > a.height * g.stride[1];
    const bool wide = (a.part[1] - 1) * g.dilation[2] > a.width * g.stride[2];
    if (a.planes > 1)
      a.planes /= 2;
    else if (high && a.part[0] > 1)
      halve(a.part[0]);
    else if (wide && a.part[1] > 1)
      halve(a.part[1]);
    else if (a.height > 1 && height >= width)
      a.height /= 2;
    else if (a.width > 1)
      a.width /= 2;
    else if (a.height > 1)
      a.height /= 2;
    else
      halve(a.part[0] > 1 ? a.part[0] : a.part[1]);
  }
  const auto divided = [](Index n, Index by) { return (n + by - 1) / by; };
  a.across = divided(g.out[2], a.width);
  a.down = divided(g.out[1], a.height);
  a.tiles = a.across * a.down * g.out[0] * divided(g.batch * g.groups * g.out_channels, a.planes);
}

template <class T>
void run(const char* name, Planes<T>& a, Stream stream) {
  choose_tile(a);
  const Index most = (Index(1) << 31) - 1, patch = Index(a.planes) * a.patch_height * a.patch_width;
  const fastdl::cuda::Geometry geometry{dim3(unsigned(a.tiles < most ? a.tiles : most)), dim3(plane_threads),
                                        std::size_t(patch) * sizeof(T), stream};
  fastdl::cuda::launch(name, planes_kernel<T>, geometry, a);
}

}  // namespace

template <class T>
void planes_forward(const char* name, const Geometry& g, Padding padding, const T* x, const Strides& strides,
                    const T* w, bool turned, const Finish<T>& finish, T* out, Stream stream) {
  Planes<T> a{};
  a.g = g;
  a.padding = padding;
  a.activation = finish.activation;
  a.x = x;
  a.strides = strides;
  a.w = w;
  a.in_stride = g.taps();
  a.out_stride = g.in_channels * a.in_stride;
  a.group_stride = g.out_channels * a.out_stride;
  a.turned = turned;
  a.bias = finish.bias;
  a.out = out;
  run(name, a, stream);
}

template <class T>
void planes_input(const char* name, const Geometry& g, const T* w, const T* grad, const Finish<T>& finish, T* dx,
                  Stream stream) {
  if (g.stride[0] != 1 || g.stride[1] != 1 || g.stride[2] != 1) {
    const Index count = g.batch * g.groups * g.in_channels * g.in_pixels();
    fastdl::cuda::launch(name, gathered_gradient_kernel<T>, over_elements(count, stream), g, w, grad, finish.bias, dx,
                         count);
    return;
  }
  // The correlation with turned filters, whose channels have changed places.
  Planes<T> a{};
  a.g = g;
  a.g.in_channels = g.out_channels;
  a.g.out_channels = g.in_channels;
  for (int axis = 0; axis < axes; ++axis) {
    a.g.in[axis] = g.out[axis];
    a.g.out[axis] = g.in[axis];
    a.g.lower[axis] = g.dilation[axis] * (g.kernel[axis] - 1) - g.lower[axis];
  }
  a.x = grad;
  a.strides = contiguous(g.groups * g.out_channels, g.out);
  a.w = w;
  a.out_stride = g.taps();
  a.in_stride = g.in_channels * a.out_stride;
  a.group_stride = g.out_channels * a.in_stride;
  a.turned = true;
  a.bias = finish.bias;
  a.activation = finish.activation;
  a.out = dx;
  run(name, a, stream);
}

#define FASTDL_CONV_PLANES(T)                                                                                   \
  template void planes_forward(const char*, const Geometry&, Padding, const T*, const Strides&, const T*, bool, \
                               const Finish<T>&, T*, Stream);                                                   \
  template void planes_input(const char*, const Geometry&, const T*, const T*, const Finish<T>&, T*, Stream);
FASTDL_CONV_PLANES(float)
FASTDL_CONV_PLANES(double)
#undef FASTDL_CONV_PLANES

}  // namespace fastdl::conv::cuda
