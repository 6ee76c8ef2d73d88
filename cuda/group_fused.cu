// The fused layer: which layers it is for, and its launch.
#include "group_fused.cuh"

#include "gemm.cuh"
#include "group_launch.cuh"

namespace fastdl::group::cuda {
namespace {

template <class T, class Form>
void run(const char* name, const Layer& layer, const Orbits& orbits, Activation activation, const T* x,
         const Strides& strides, const T* w, const T* bias, T* out, Stream stream) {
  using S = FusedShape<T, Form>;
  const Index outputs = layer.out_channels, rows = layer.in_channels * orbits.count();
  const Index pitch = round_up(outputs, S::outputs), pixels = layer.batch * layer.pixels();
  const Scratch<T> room(name, round_up(rows, S::depth) * Form::numbers * pitch, stream);
  fastdl::cuda::set_zero(name, room.data(), room.bytes(), stream);
  launch(name, transform_filters<T, Form>, grid_over(outputs * rows, pixel_threads, stream), w, orbits, outputs,
         layer.in_channels, Index{0}, false, Filters<T>{room.data(), nullptr, rows, 0, 0, pitch});
  const bool vectorised = layer.pixels() % S::lanes == 0 && gemm::cuda::starts_aligned(out);
  const Index blocks = divide_up(pixels, S::pixels) * (pitch / S::outputs);
  launch(name, fused_layer<T, Form>, {dim3(unsigned(blocks)), dim3(S::threads), 0, stream},
         windows_of(layer, x, strides, 1), orbits, int(layer.in_channels), room.data(), pitch, bias,
         T(fastdl::cuda::slope_of(activation)), FusedOutput<T>{out, outputs, layer.pixels(), pixels, vectorised});
  fastdl::cuda::activate_rest(name, out, outputs * Form::elements * pixels, activation, stream);
}

}  // namespace

template <class T>
bool fused_conv(const char* name, const Layer& layer, Activation activation, const T* x, const Strides& strides,
                const T* w, const T* bias, T* out, Stream stream) {
  const Orbits orbits{layer.group, layer.lift, int(layer.k)};
  if (layer.in_channels == 0 || orbits.count() > most_fused_orbits ||
      4 * layer.out_channels > 3 * round_up(layer.out_channels, gemm::cuda::Shape<T>::side))
    return false;
  if (layer.group == Planar::p4)
    run<T, Quarters>(name, layer, orbits, activation, x, strides, w, bias, out, stream);
  else if (layer.group == Planar::p4m)
    run<T, Square>(name, layer, orbits, activation, x, strides, w, bias, out, stream);
  else
    run<T, TwoElements>(name, layer, orbits, activation, x, strides, w, bias, out, stream);
  return true;
}

template bool fused_conv<float>(const char*, const Layer&, Activation, const float*, const Strides&, const float*,
                                const float*, float*, Stream);
template bool fused_conv<double>(const char*, const Layer&, Activation, const double*, const Strides&, const double*,
                                 const double*, double*, Stream);

}  // namespace fastdl::group::cuda
