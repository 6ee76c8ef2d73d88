#include "conv_winograd.cuh"

#include "gemm.cuh"

namespace fastdl::conv::cuda {
namespace {

// What V and W of the images that are computed together may take: enough to fill any chip.
constexpr Index room = Index(256) << 20;

fastdl::cuda::Geometry over_tiles(Index count, Stream stream) {
  const Index blocks = (count + transform_threads - 1) / transform_threads, most = Index(1) << 20;
  return {dim3(unsigned(blocks < most ? blocks : most)), dim3(transform_threads), 0, stream};
}

template <class T, int M>
void by_tiles(const char* name, const Geometry& g, Padding padding, const T* x, const Strides& strides, const T* w,
              const Finish<T>& finish, T* out, Stream stream) {
  constexpr Index lanes = fastdl::cuda::Vector<T>::lanes;
  constexpr Index positions = Winograd<T, M>::size * Winograd<T, M>::size;
  const auto divided = [](Index n, Index by) { return (n + by - 1) / by; };
  const Index down = divided(g.out[1], M), across = divided(g.out[2], M);
  const Index in_channels = g.groups * g.in_channels, out_channels = g.groups * g.out_channels;
  const Index bytes = positions * (in_channels + out_channels) * down * across * Index(sizeof(T));
  const Index together = bytes * g.batch <= room ? g.batch : room / bytes > 1 ? room / bytes : 1;
  const Index pitch = divided(together * down * across, lanes) * lanes;

  const Index filters = out_channels * g.in_channels;
  const fastdl::cuda::Scratch<T> u(name, positions * filters, stream), v(name, positions * in_channels * pitch, stream),
      products(name, positions * out_channels * pitch, stream);
  fastdl::cuda::launch(name, filter_transform_kernel<T, M>, over_tiles(filters, stream), w, u.data(), filters);
  for (Index first = 0; first < g.batch; first += together) {
    const Index images = g.batch - first < together ? g.batch - first : together;
    const Tiles tiles{images, down, across, images * down * across, pitch};
    const T* from = x + first * strides.batch;
    T* to = out + first * out_channels * g.pixels();
    fastdl::cuda::launch(name, input_transform_kernel<T, M>, over_tiles(in_channels * tiles.count, stream), g, padding,
                         from, strides, tiles, v.data());
    gemm::cuda::multiply_batch(
        name, positions * g.groups,
        gemm::cuda::operand<T>(u.data(), g.out_channels, g.in_channels, g.in_channels, Index(1),
                               g.out_channels * g.in_channels),
        gemm::cuda::operand<T>(v.data(), tiles.count, g.in_channels, Index(1), pitch, g.in_channels * pitch),
        g.in_channels, gemm::cuda::result(products.data(), g.out_channels, tiles.count, pitch, g.out_channels * pitch),
        gemm::cuda::Identity{}, stream);
    fastdl::cuda::launch(name, output_transform_kernel<T, M>, over_tiles(out_channels * tiles.count, stream), g,
                         padding, products.data(), from, strides, w, finish, tiles, to);
  }
}

}  // namespace

template <class T>
void winograd_forward(const char* name, int tile, const Geometry& g, Padding padding, const T* x,
                      const Strides& strides, const T* w, const Finish<T>& finish, T* out, Stream stream) {
  if (tile == 4)
    by_tiles<T, 4>(name, g, padding, x, strides, w, finish, out, stream);
  else
    by_tiles<T, 2>(name, g, padding, x, strides, w, finish, out, stream);
}

#define FASTDL_CONV_WINOGRAD(T)                                                                                  \
  template void winograd_forward(const char*, int, const Geometry&, Padding, const T*, const Strides&, const T*, \
                                 const Finish<T>&, T*, Stream);
FASTDL_CONV_WINOGRAD(float)
FASTDL_CONV_WINOGRAD(double)
#undef FASTDL_CONV_WINOGRAD

}  // namespace fastdl::conv::cuda
