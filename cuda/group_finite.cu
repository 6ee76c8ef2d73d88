// Entry points for filters of all elements, pooling, and convolution on a finite group.
#include "group_finite.cuh"

#include "gemm.cuh"
#include "group_launch.cuh"

namespace fastdl::group::cuda {
template <class T>
void expand(const Layer& layer, const T* w, T* out, Stream stream) {
  const Index size = layer.out_channels * layer.elements() * layer.in_channels * layer.planes() * layer.taps();
  if (size == 0) return;
  launch("group.expand_filters", expand_filters<T>, grid_over(size, element_threads, stream), w,
         Orbits{layer.group, layer.lift, int(layer.k)}, layer.elements(), layer.out_channels, layer.in_channels, out);
}

template <class T>
void contract(const Layer& layer, const T* expanded, T* dw, Stream stream) {
  const Index size = layer.out_channels * layer.in_channels * layer.planes() * layer.taps();
  if (size == 0) return;
  launch("group.conv2d_weight", contract_filters<T>, grid_over(size, element_threads, stream), expanded,
         Orbits{layer.group, layer.lift, int(layer.k)}, layer.elements(), layer.out_channels, layer.in_channels, dw);
}

template <class T>
void pool(const T* x, Index count, Index elements, Index pixels, Pool mode, T* out, Stream stream) {
  if (count * pixels == 0) return;
  launch("group.pool", pool_elements<T>, grid_over(count * pixels, element_threads, stream), x, count, elements, pixels,
         mode, out);
}

// A matrix product with h(w^-1 u), which is written out for as many u at a time as take 64 MB.
template <class T>
void convolve(const T* f, Index count, const T* h, Index n, const Index* quotient, T* out, Stream stream) {
  constexpr const char* name = "group.convolve";
  if (count * n == 0) return;
  constexpr Index most = (Index{64} << 20) / Index(sizeof(T));
  const Index pitch = (n * n <= most ? n + 3 : most / n < 128 ? 128 : most / n) / 4 * 4;
  const Scratch<T> matrix(name, n * pitch, stream);
  for (Index first = 0; first < n; first += pitch) {
    const Index columns = n - first < pitch ? n - first : pitch;
    launch(name, shift_function<T>, grid_over(n * columns, element_threads, stream), h, quotient, n, first, columns,
           pitch, matrix.data());
    gemm::cuda::multiply(name, gemm::cuda::operand(f, count, n, n, 1),
                         gemm::cuda::operand<T>(matrix.data(), columns, n, 1, pitch), n,
                         gemm::cuda::result(out + first, count, columns, n), gemm::cuda::Identity{}, stream);
  }
}

#define FASTDL_ENTRIES(T)                                                 \
  template void expand<T>(const Layer&, const T*, T*, Stream);            \
  template void contract<T>(const Layer&, const T*, T*, Stream);          \
  template void pool<T>(const T*, Index, Index, Index, Pool, T*, Stream); \
  template void convolve<T>(const T*, Index, const T*, Index, const Index*, T*, Stream);
FASTDL_ENTRIES(float)
FASTDL_ENTRIES(double)
#undef FASTDL_ENTRIES

}  // namespace fastdl::group::cuda
