// The scattering transform of images and signals.
#include <algorithm>

#include "scattering_lines.cuh"
#include "scattering_plan.hpp"

namespace fastdl::scattering::cuda {
namespace {

// A block an image: its largest magnitude, and from that the power of two. Limit: memory, one read.
template <class T>
__global__ void __launch_bounds__(most_threads) exponent_kernel(const T* x, Index samples, int* exponent) {
  struct Partial {
    T largest[most_threads];
  };
  FASTDL_SHARED(Partial, partial);
  const T* const from = x + Index(blockIdx.x) * samples;
  T largest = 0;
  for (Index i = threadIdx.x; i < samples; i += blockDim.x) {
    const T magnitude = std::fabs(from[i]);
    if (magnitude > largest || magnitude != magnitude) largest = magnitude;  // once NaN, it stays
  }
  partial.largest[threadIdx.x] = largest;
  __syncthreads();
  for (int half = most_threads / 2; half > 0; half /= 2) {
    if (int(threadIdx.x) < half) {
      const T other = partial.largest[threadIdx.x + half];
      if (other > partial.largest[threadIdx.x] || other != other) partial.largest[threadIdx.x] = other;
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    const T most = partial.largest[0], least_usual = T(sizeof(T) == 4 ? 1e-9 : 1e-100),
            largest_usual = T(sizeof(T) == 4 ? 1e15 : 1e100);
    int power = 0;
    if (most > 0 && most - most == 0 && (most < least_usual || most > largest_usual)) std::frexp(most, &power);
    exponent[blockIdx.x] = power;
  }
}

}  // namespace

template <class T>
Scratch<int> exponents_of(const char* name, const T* x, Index images, Index samples, Stream stream) {
  Scratch<int> exponents(name, images, stream);
  fastdl::cuda::launch(name, exponent_kernel<T>, {dim3(unsigned(images)), dim3(most_threads), 0, stream}, x, samples,
                       exponents.data());
  return exponents;
}

template <class T>
Scratch<Complex<T>> image_spectra(const char* name, const Tables<T>& tables, const T* x, Index images,
                                  const int* exponent, T* values, Stream stream) {
  const Level<T>& level = tables.levels[0];
  const Grid<T>& grid = level.grid;
  Scratch<Complex<T>> spectra(name, images * grid.size, stream);
  const Padding<T> padding{x, tables.place_y, tables.place_x, exponent, int(tables.height), int(tables.width)};
  const Channels<T> channels = tables.channels_of({0, 0, 1, 0, tables.channel_0}, 1, values, exponent);
  if (level.in_shared) {
    fastdl::cuda::launch(name, image_kernel<T>,
                         {dim3(unsigned(images)), dim3(unsigned(level.threads)), level.shared_bytes, stream}, grid,
                         padding, channels, spectra.data());
    return spectra;
  }
  Scratch<T> padded(name, images * grid.size, stream);
  fastdl::cuda::launch(name, pad_kernel<T>, {dim3(blocks_for(images * grid.size)), dim3(most_threads), 0, stream},
                       padding, grid.nx(), grid.size, images, padded.data());
  if (values) average_grids<T>(name, grid, channels, 1, images, padded.data(), stream);
  Scratch<Complex<T>> between(name, images * grid.size, stream);
  const Layouts<T> layouts{grid};
  fft::cuda::transform_real(name, grid.first, images, grid.second.n, layouts.real_columns(padded.data()),
                            layouts.columns(between.data(), true), stream);
  fft::cuda::transform_numbers(name, false, grid.second, images, grid.first.n, layouts.rows(between.data()),
                               layouts.spectrum(spectra.data()), stream);
  return spectra;
}

template <class T>
void run_step(const char* name, const Tables<T>& tables, const Set& set, const Filters<T>& filters, int parents,
              const Complex<T>* spectra, Index inputs, T* values, const int* exponent, Complex<T>* waves,
              Complex<T>* next, Stream stream) {
  const Level<T>& level = tables.levels[std::size_t(set.level)];
  const Grid<T>& grid = level.grid;
  const Index tasks = inputs * set.count;
  const Channels<T> channels = tables.channels_of(set, parents, values, exponent);
  if (level.in_shared) {
    fastdl::cuda::launch(name, step_kernel<T>,
                         {dim3(unsigned(tasks)), dim3(unsigned(level.threads)), level.shared_bytes, stream},
                         Step<T>{grid, filters, spectra, channels, waves, next});
    return;
  }
  const Layouts<T> layouts{grid};
  Scratch<Complex<T>> between(name, tasks * grid.size, stream);
  Scratch<T> moduli(name, tasks * grid.size, stream);
  const bool twisted = layouts.twisted();
  fft::cuda::transform_lines<true>(name, grid.second, tasks, grid.first.n,
                                   FilteredRows<T>{filters, spectra, grid.first.n, twisted, twisted},
                                   layouts.rows(between.data(), true), stream);
  fft::cuda::transform_lines<true>(name, grid.first, tasks, grid.second.n, layouts.columns(between.data()),
                                   Moduli<T>{moduli.data(), waves, grid.size, grid.second.n}, stream);
  if (values) average_grids<T>(name, grid, channels, int(set.count), tasks, moduli.data(), stream);
  if (!next) return;
  fft::cuda::transform_real(name, grid.first, tasks, grid.second.n, layouts.real_columns(moduli.data()),
                            layouts.columns(between.data(), true), stream);
  fft::cuda::transform_numbers(name, false, grid.second, tasks, grid.first.n, layouts.rows(between.data()),
                               layouts.spectrum(next), stream);
}

template <class T>
void Plan<T>::forward(const char* name, const T* x, Index batch, T* out, Stream stream) const {
  const Tables<T>& tables = *tables_;
  const Index most = tables.images_at_a_time(batch, false);
  for (Index first = 0; first < batch; first += most) {
    const Index images = std::min(most, batch - first);
    const T* const from = x + first * tables.samples();
    T* const to = out + first * results();
    const Scratch<int> exponents = exponents_of(name, from, images, tables.samples(), stream);
    const auto spectra = image_spectra(name, tables, from, images, exponents.data(), to, stream);
    for (const Group& group : tables.groups) {
      const Set& members = group.members;
      const Index size = tables.levels[std::size_t(members.level)].grid.size;
      const Scratch<Complex<T>> next(name, group.followers.empty() ? 0 : images * members.count * size, stream);
      run_step<T>(name, tables, members, tables.filters_of(members), 1, spectra.data(), images, to, exponents.data(),
                  nullptr, next.data(), stream);
      for (const Set& set : group.followers)
        run_step<T>(name, tables, set, tables.filters_of(group, set), int(members.count), next.data(),
                    images * members.count, to, exponents.data(), nullptr, nullptr, stream);
    }
  }
  hold_tables(name, stream);
}

#define FASTDL_INSTANCES(T)                                                                                       \
  template Scratch<int> exponents_of<T>(const char*, const T*, Index, Index, Stream);                             \
  template Scratch<Complex<T>> image_spectra<T>(const char*, const Tables<T>&, const T*, Index, const int*, T*,   \
                                                Stream);                                                          \
  template void run_step<T>(const char*, const Tables<T>&, const Set&, const Filters<T>&, int, const Complex<T>*, \
                            Index, T*, const int*, Complex<T>*, Complex<T>*, Stream);                             \
  template void Plan<T>::forward(const char*, const T*, Index, T*, Stream) const;
FASTDL_INSTANCES(float)
FASTDL_INSTANCES(double)
#undef FASTDL_INSTANCES

}  // namespace fastdl::scattering::cuda
