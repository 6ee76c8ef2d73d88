// Signatures on the GPU.
#include "group_signature.cuh"

#include "gemm.cuh"
#include "group_launch.cuh"

namespace fastdl::group::cuda {
template <class T>
void signature(const Signature<T>& wanted, T* out, Stream stream) {
  constexpr const char* name = "group.signature";
  const Index measures = wanted.cuts + wanted.moments, size = wanted.samples * wanted.count * measures;
  if (size == 0) return;
  if (wanted.order == 0) {
    fastdl::cuda::set_zero(name, out, std::size_t(size) * sizeof(T), stream);
    return;
  }
  // Whole orbits, or a part of one; samples are not divided.
  const Index pitch = (wanted.samples + 3) / 4 * 4, wide = (wanted.d + 3) / 4 * 4;
  const Index fit = (Index{32} << 20) / Index(sizeof(T)) / (pitch + wide), most = fit < 128 ? 128 : fit;
  const Index elements = most < wanted.order ? most : wanted.order;
  const Index templates = most / elements < wanted.count ? most / elements : wanted.count;
  const Scratch<T> permuted(name, templates * elements * wide, stream);
  const Scratch<T> products(name, templates * elements * pitch, stream);
  const Scratch<double> sums(name, elements < wanted.order ? templates * measures * wanted.samples : 0, stream);
  for (Index first = 0; first < wanted.count; first += templates) {
    const Index here = wanted.count - first < templates ? wanted.count - first : templates;
    for (Index element = 0; element < wanted.order; element += elements) {
      const Index some = wanted.order - element < elements ? wanted.order - element : elements, rows = here * some;
      if (wanted.d > 0)
        launch(name, permute_templates<T>, grid_over(rows * wanted.d, signature_threads, stream), wanted.templates,
               wanted.permutations, wanted.d, wanted.order, first * wanted.order + element, rows, wide,
               permuted.data());
      gemm::cuda::multiply(name, gemm::cuda::operand<T>(permuted.data(), rows, wanted.d, wide, 1),
                           gemm::cuda::operand(wanted.x, wanted.samples, wanted.d, wanted.d, 1), wanted.d,
                           gemm::cuda::result(products.data(), rows, wanted.samples, pitch), gemm::cuda::Identity{},
                           stream);
      launch(name, sum_orbits<T>, grid_over(here * measures * wanted.samples, signature_threads, stream), wanted,
             products.data(), pitch, first, here, element, some, sums.data(), out);
    }
  }
}

template void signature<float>(const Signature<float>&, float*, Stream);
template void signature<double>(const Signature<double>&, double*, Stream);

}  // namespace fastdl::group::cuda
