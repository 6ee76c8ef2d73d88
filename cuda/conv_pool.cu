#include "conv_pool.cuh"

namespace fastdl::conv::cuda {

template <class T>
void max_pool(const char* name, const Geometry& g, const T* x, T* out, Index* indices, Stream stream) {
  const Index count = g.batch * g.in_channels * g.pixels();
  if (count == 0) return;
  fastdl::cuda::launch(name, max_pool_kernel<T>, over_elements(count, stream), g, x, out, indices, count);
}

template <class T>
void avg_pool(const char* name, const Geometry& g, const T* x, bool padding_counts, T* out, Stream stream) {
  const Index count = g.batch * g.in_channels * g.pixels();
  if (count == 0) return;
  fastdl::cuda::launch(name, avg_pool_kernel<T>, over_elements(count, stream), g, x, padding_counts, out, count);
}

template <class T>
void max_pool_gradient(const char* name, const Geometry& g, const T* grad, const Index* indices, T* dx, Stream stream) {
  const Index planes = g.batch * g.in_channels;
  if (planes == 0 || g.in_pixels() == 0) return;
  fastdl::cuda::launch(name, max_pool_gradient_kernel<T>, over_elements(planes * element_threads, stream), grad,
                       indices, planes, g.pixels(), g.in_pixels(), dx);
}

template <class T>
void avg_pool_gradient(const char* name, const Geometry& g, const T* grad, bool padding_counts, T* dx, Stream stream) {
  const Index count = g.batch * g.in_channels * g.in_pixels();
  if (count == 0) return;
  fastdl::cuda::launch(name, avg_pool_gradient_kernel<T>, over_elements(count, stream), g, grad, padding_counts, dx,
                       count);
}

#define FASTDL_CONV_POOL(T)                                                                          \
  template void max_pool(const char*, const Geometry&, const T*, T*, Index*, Stream);                \
  template void avg_pool(const char*, const Geometry&, const T*, bool, T*, Stream);                  \
  template void max_pool_gradient(const char*, const Geometry&, const T*, const Index*, T*, Stream); \
  template void avg_pool_gradient(const char*, const Geometry&, const T*, bool, T*, Stream);
FASTDL_CONV_POOL(float)
FASTDL_CONV_POOL(double)
#undef FASTDL_CONV_POOL

}  // namespace fastdl::conv::cuda
