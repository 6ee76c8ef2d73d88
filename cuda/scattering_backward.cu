// Gradients of the scattering transform. Convolutions are computed again for the images at hand; what goes back to a
// spectrum is gathered by its reader, filter after filter, so that nothing is added to by two.
#include <algorithm>

#include "scattering_lines.cuh"
#include "scattering_plan.hpp"

namespace fastdl::scattering::cuda {
namespace {

// dx (images, height, width): the sum, for each sample, over the places of the padded image it was copied to. Limit:
// memory, one read of every padded number and one write of a sample.
template <class T>
__global__ void __launch_bounds__(most_threads)
    unpad_kernel(const T* padded, Index size, int nx, int height, int width, const int* begin_y, const int* copies_y,
                 const int* begin_x, const int* copies_x, Index images, T* dx) {
  const Index samples = Index(height) * width;
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < images * samples;
       i += Index(gridDim.x) * blockDim.x) {
    const Index image = i / samples, sample = i - image * samples;
    const int y = int(sample / width), x = int(sample - Index(y) * width);
    T sum = 0;
    for (int a = begin_y[y]; a < begin_y[y + 1]; ++a)
      for (int b = begin_x[x]; b < begin_x[x + 1]; ++b)
        sum += padded[image * size + Index(copies_y[a]) * nx + copies_x[b]];
    dx[i] = sum;
  }
}

// What all steps backwards are told: their filters with results on one level, and where the gradients go.
template <class T>
struct Way {
  const char* name;
  const Tables<T>& tables;
  const Set& set;
  int parents;
  Index inputs;
  T* grad;
  Complex<T>* gradients;
  Index stride;
  Stream stream;

  const Level<T>& level() const { return tables.levels[std::size_t(set.level)]; }
  Index tasks() const { return inputs * set.count; }
  Channels<T> channels() const { return tables.channels_of(set, parents, grad, nullptr); }
  fastdl::cuda::Geometry blocks() const {
    return {dim3(unsigned(tasks())), dim3(unsigned(level().threads)), level().shared_bytes, stream};
  }

  // From columns of what `between` holds to the spectra of gradients.
  void finish(const Layouts<T>& layouts, Complex<T>* between) const {
    const Grid<T>& grid = layouts.grid;
    fft::cuda::transform_numbers(name, false, grid.first, tasks(), grid.second.n, layouts.columns(between),
                                 layouts.columns(between, true), stream);
    Numbers<T> to = layouts.spectrum(gradients + set.spectrum);
    to.group = int(set.count);
    to.group_stride = stride;
    fft::cuda::transform_numbers(name, false, grid.second, tasks(), grid.first.n, layouts.rows(between), to, stream);
  }
};

// The end of paths: from the spectra of their inputs.
template <class T>
void return_ends(const Way<T>& way, const Filters<T>& filters, const Complex<T>* spectra) {
  const Level<T>& level = way.level();
  const Grid<T>& grid = level.grid;
  if (level.in_shared) {
    fastdl::cuda::launch(way.name, return_kernel<T>, way.blocks(),
                         Return<T>{grid, filters, spectra, way.channels(), way.gradients, way.stride});
    return;
  }
  const Layouts<T> layouts{grid};
  const bool twisted = layouts.twisted();
  const Scratch<T> averages =
      spread_channels(way.name, grid, way.channels(), int(way.set.count), way.tasks(), way.stream);
  const Scratch<Complex<T>> between(way.name, way.tasks() * grid.size, way.stream);
  fft::cuda::transform_lines<true>(way.name, grid.second, way.tasks(), grid.first.n,
                                   FilteredRows<T>{filters, spectra, grid.first.n, twisted, twisted},
                                   layouts.rows(between.data(), true), way.stream);
  fft::cuda::transform_lines<true>(
      way.name, grid.first, way.tasks(), grid.second.n, layouts.columns(between.data()),
      Directed<T>{between.data(), nullptr, layouts.spread(averages.data(), level.down), grid.size}, way.stream);
  way.finish(layouts, between.data());
}

// Wavelets that others follow.
template <class T>
void return_inner(const Way<T>& way, const Filters<T>& filters, const Inner<T>& inner) {
  const Level<T>& level = way.level();
  const Grid<T>& grid = level.grid;
  if (level.in_shared) {
    fastdl::cuda::launch(way.name, return_inner_kernel<T>, way.blocks(),
                         Return<T>{grid, filters, nullptr, way.channels(), way.gradients, way.stride}, inner);
    return;
  }
  const Layouts<T> layouts{grid};
  const bool twisted = layouts.twisted();
  const Scratch<T> averages =
      spread_channels(way.name, grid, way.channels(), int(way.set.count), way.tasks(), way.stream);
  const Scratch<Complex<T>> between(way.name, way.tasks() * grid.size, way.stream);
  fft::cuda::transform_lines<true>(
      way.name, grid.second, way.tasks(), grid.first.n,
      UnfilteredRows<T>{inner.followers, inner.gradients, inner.stride, grid.first.n, twisted, twisted},
      layouts.rows(between.data(), true), way.stream);
  fft::cuda::transform_lines<true>(
      way.name, grid.first, way.tasks(), grid.second.n, layouts.columns(between.data()),
      Directed<T>{between.data(), inner.waves, layouts.spread(averages.data(), level.down), grid.size}, way.stream);
  way.finish(layouts, between.data());
}

// The gradient for padded images.
template <class T>
Scratch<T> return_images(const char* name, const Tables<T>& tables, const Complex<T>* gradients, Index images, T* grad,
                         Stream stream) {
  const Level<T>& level = tables.levels[0];
  const Grid<T>& grid = level.grid;
  const Channels<T> channels = tables.channels_of({0, 0, 1, 0, tables.channel_0}, 1, grad, nullptr);
  Scratch<T> padded(name, images * grid.size, stream);
  if (level.in_shared) {
    fastdl::cuda::launch(name, return_image_kernel<T>,
                         {dim3(unsigned(images)), dim3(unsigned(level.threads)), level.shared_bytes, stream}, grid,
                         tables.all_filters(), gradients, tables.stride, channels, padded.data());
    return padded;
  }
  const Layouts<T> layouts{grid};
  const bool twisted = layouts.twisted();
  const Scratch<T> averages = spread_channels(name, grid, channels, 1, images, stream);
  const Scratch<Complex<T>> between(name, images * grid.size, stream);
  fft::cuda::transform_lines<true>(
      name, grid.second, images, grid.first.n,
      UnfilteredRows<T>{tables.all_filters(), gradients, tables.stride, grid.first.n, twisted, twisted},
      layouts.rows(between.data(), true), stream);
  fft::cuda::transform_lines<true>(name, grid.first, images, grid.second.n, layouts.columns(between.data()),
                                   RealParts<T>{padded.data(), layouts.spread(averages.data(), level.down), grid.size},
                                   stream);
  return padded;
}

}  // namespace

template <class T>
void Plan<T>::vjp(const char* name, const T* x, const T* grad, Index batch, T* dx, Stream stream) const {
  const Tables<T>& tables = *tables_;
  const Index most = tables.images_at_a_time(batch, true);
  for (Index begin = 0; begin < batch; begin += most) {
    const Index images = std::min(most, batch - begin);
    const T* const from = x + begin * tables.samples();
    T* const given = const_cast<T*>(grad) + begin * results();  // only read; Channels serve both ways
    const Scratch<int> exponents = exponents_of(name, from, images, tables.samples(), stream);
    const auto spectra = image_spectra<T>(name, tables, from, images, exponents.data(), nullptr, stream);
    const Scratch<Complex<T>> gradients(name, images * tables.stride, stream);
    for (const Group& group : tables.groups) {
      const Set& members = group.members;
      const Filters<T> filters = tables.filters_of(members);
      const Way<T> first{name, tables, members, 1, images, given, gradients.data(), tables.stride, stream};
      if (group.followers.empty()) {
        return_ends(first, filters, spectra.data());
        continue;
      }
      const Index inputs = images * members.count, size = first.level().grid.size;
      const Scratch<Complex<T>> waves(name, inputs * size, stream), next(name, inputs * size, stream);
      const Scratch<Complex<T>> inner(name, inputs * group.stride, stream);
      run_step<T>(name, tables, members, filters, 1, spectra.data(), images, nullptr, exponents.data(), waves.data(),
                  next.data(), stream);
      for (const Set& set : group.followers)
        return_ends(Way<T>{name, tables, set, int(members.count), inputs, given, inner.data(), group.stride, stream},
                    tables.filters_of(group, set), next.data());
      return_inner(first, filters, Inner<T>{tables.filters_of(group), inner.data(), group.stride, waves.data()});
    }
    const Scratch<T> padded = return_images(name, tables, gradients.data(), images, given, stream);
    const Grid<T>& grid = tables.levels[0].grid;
    fastdl::cuda::launch(name, unpad_kernel<T>,
                         {dim3(blocks_for(images * tables.samples())), dim3(most_threads), 0, stream}, padded.data(),
                         grid.size, grid.nx(), int(tables.height), int(tables.width), tables.begin_y, tables.copies_y,
                         tables.begin_x, tables.copies_x, images, dx + begin * tables.samples());
  }
  hold_tables(name, stream);
}

template void Plan<float>::vjp(const char*, const float*, const float*, Index, float*, Stream) const;
template void Plan<double>::vjp(const char*, const double*, const double*, Index, double*, Stream) const;

}  // namespace fastdl::scattering::cuda
