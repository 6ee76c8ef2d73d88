#include "conv_weight.cuh"

namespace fastdl::conv::cuda {

template <class T>
void product_weight(const char* name, const Geometry& g, const T* x, const Strides& strides, const T* grad, T* dw,
                    Stream stream) {
  using S = gemm::cuda::Shape<T>;
  const Index rows = g.out_channels, columns = g.in_channels * g.taps(), pixels = g.pixels();
  const Index total = g.batch * pixels, count = g.groups * rows * columns;
  const auto divided = [](Index n, Index by) { return (n + by - 1) / by; };

  // Blocks enough for every multiprocessor of a large chip, and slices enough that a part is worth its sum: 64.
  const Index tiles = g.groups * divided(rows, S::side) * divided(columns, S::side);
  const Index wanted = divided(512, tiles), most = divided(total, 64 * S::depth), longest = Index(1) << 30;
  const Index share = divided(total, wanted < most ? wanted : most);
  const Index length = divided(share < longest ? share : longest, S::depth) * S::depth;
  const Parts parts{g.groups, length, total};
  const Index number = divided(total, length);

  const fastdl::cuda::Scratch<Tap> taps(name, columns, stream);
  const Order one_by_one{g.in_channels, {g.kernel[0], g.kernel[1], g.kernel[2]}, 1, true};
  write_taps(name, g, strides, one_by_one, taps.data(), stream);
  const fastdl::cuda::Scratch<T> sums(name, number > 1 ? number * count : 0, stream);

  const Index image = g.groups * rows * pixels;
  const Slopes<T> slopes{grad, rows, pixels, image, rows * pixels, g.batch * image, parts};
  SeenByTaps<T> seen{};
  seen.data = x;
  seen.rows = columns;
  seen.strides = strides;
  seen.group_stride = g.in_channels * strides.channel;
  for (int a = 0; a < axes; ++a) {
    seen.in[a] = int(g.in[a]);
    seen.size[a] = int(g.out[a]);
    seen.step[a] = int(g.stride[a]);
  }
  seen.taps = taps.data();
  seen.parts = parts;
  const auto to = gemm::cuda::result(number > 1 ? sums.data() : dw, rows, columns, columns, rows * columns);
  gemm::cuda::multiply_batch(name, number * g.groups, slopes, seen, length, to, gemm::cuda::Identity{}, stream);
  if (number > 1)
    fastdl::cuda::launch(name, add_parts_kernel<T>, over_elements(count, stream), sums.data(), number, count, dw);
}

template <class T>
void planes_weight(const char* name, const Geometry& g, const T* x, const Strides& strides, const T* grad, T* dw,
                   Stream stream) {
  const Index planes = g.groups * g.out_channels * g.in_channels;
  const Index count = planes * ((g.taps() + block_taps - 1) / block_taps);
  fastdl::cuda::launch(name, tap_sums_kernel<T>, over_elements(count * element_threads, stream), g, x, strides, grad,
                       dw, count);
}

#define FASTDL_CONV_WEIGHT(T)                                                                                 \
  template void product_weight(const char*, const Geometry&, const T*, const Strides&, const T*, T*, Stream); \
  template void planes_weight(const char*, const Geometry&, const T*, const Strides&, const T*, T*, Stream);
FASTDL_CONV_WEIGHT(float)
FASTDL_CONV_WEIGHT(double)
#undef FASTDL_CONV_WEIGHT

}  // namespace fastdl::conv::cuda
