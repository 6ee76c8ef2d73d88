// The regulariser that learns orbits on the GPU.
#include "group_regularizer.cuh"

#include "group_launch.cuh"

namespace fastdl::group::cuda {
template <class T>
double regularizer(const T* w, Index d, Index n, double sigma, T* gradient, Stream stream) {
  constexpr const char* name = "group.orbit_regularizer";
  if (n == 0) return 0;
  const Scratch<double> gramian(name, n * n, stream), slope(name, n * n, stream), values(name, n * n + 1, stream);
  launch(name, column_products<T>, grid_over(n * n, regularizer_threads, stream), w, d, n, gramian.data());
  launch(name, compare_entries, {dim3(unsigned(n * n)), dim3(regularizer_threads), 0, stream}, gramian.data(), int(n),
         1 / (sigma * sigma), slope.data(), values.data());
  launch(name, add_values, {dim3(1), dim3(regularizer_threads), 0, stream}, values.data(), n * n,
         values.data() + n * n);
  if (d > 0)
    launch(name, regularizer_gradient<T>, grid_over(d * n, regularizer_threads, stream), w, slope.data(), d, n,
           gradient);
  double value = 0;
  fastdl::cuda::copy_to_host(name, &value, values.data() + n * n, sizeof(value), stream);
  return value;
}

template double regularizer<float>(const float*, Index, Index, double, float*, Stream);
template double regularizer<double>(const double*, Index, Index, double, double*, Stream);

}  // namespace fastdl::group::cuda
