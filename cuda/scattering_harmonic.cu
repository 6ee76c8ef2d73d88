// Solid harmonic scattering of volumes, and its gradient.
#include <algorithm>
#include <list>
#include <vector>

#include "scattering.hpp"
#include "scattering_volumes.cuh"

namespace fastdl::scattering::cuda {

template <class T>
struct VolumeTables {
  Index size[3], scales, scratch;
  std::vector<Index> harmonics;
  std::list<fft::cuda::AxisTables<T>> axes;
  const Axis<T>*z, *y, *x;
  std::vector<Scratch<Complex<T>>> filters;

  Index voxels() const { return size[0] * size[1] * size[2]; }
  Index most_harmonics() const { return *std::max_element(harmonics.begin(), harmonics.end()); }
};

namespace {

// The first path (j1, j2), j2 > j1; those with larger j2 come after it.
Index path_of(Index scales, Index j1) { return scales + j1 * (2 * scales - j1 - 1) / 2; }

// What is done to some volumes of a call.
template <class T>
struct Work {
  const char* name;
  const VolumeTables<T>& tables;
  Stream stream;

  Index voxels() const { return tables.voxels(); }
  T factor() const { return T(1.0 / double(voxels())); }
  Scratch<Complex<T>> grids(Index count) const { return Scratch<Complex<T>>(name, count * voxels(), stream); }
  Scratch<T> reals(Index count) const { return Scratch<T>(name, count * voxels(), stream); }
  fastdl::cuda::Geometry threads(Index work) const { return {dim3(blocks_for(work)), dim3(most_threads), 0, stream}; }

  // Numbers along an axis of each of the volumes.
  Numbers<T> along_z(Complex<T>* data) const {
    const Index plane = tables.size[1] * tables.size[2];
    return {data, voxels(), 1, plane, true};
  }
  Numbers<T> along_y(Complex<T>* data) const {
    const Index nx = tables.size[2];
    Numbers<T> numbers{data, voxels(), 1, nx, true};
    numbers.inner = int(nx);
    numbers.outer_stride = tables.size[1] * nx;
    return numbers;
  }
  Numbers<T> along_x(Complex<T>* data) const { return {data, voxels(), tables.size[2], 1, false}; }
  Index lines(int axis) const { return voxels() / tables.size[axis]; }

  void both_after(bool inverse, Complex<T>* data, Index count) const {
    // Backwards z comes first, forwards last; y is in the middle.
    if (!inverse) {
      fft::cuda::transform_numbers(name, false, *tables.y, count, lines(1), along_y(data), along_y(data), stream);
      fft::cuda::transform_numbers(name, false, *tables.z, count, lines(0), along_z(data), along_z(data), stream);
    } else {
      fft::cuda::transform_numbers(name, true, *tables.y, count, lines(1), along_y(data), along_y(data), stream);
      fft::cuda::transform_numbers(name, true, *tables.x, count, lines(2), along_x(data), along_x(data), stream);
    }
  }
  // The spectra of real volumes that are `stride` numbers apart.
  void spectra(const T* u, Index stride, Index count, Complex<T>* to) const {
    fft::cuda::transform_real(name, *tables.x, count, lines(2),
                              fft::cuda::RealNumbers<T>{u, stride, tables.size[2], 1, false}, along_x(to), stream);
    both_after(false, to, count);
  }
  void forward(Complex<T>* data, Index count) const {
    fft::cuda::transform_numbers(name, false, *tables.x, count, lines(2), along_x(data), along_x(data), stream);
    both_after(false, data, count);
  }
  void inverse(Complex<T>* data, Index count) const {
    fft::cuda::transform_numbers(name, true, *tables.z, count, lines(0), along_z(data), along_z(data), stream);
    both_after(true, data, count);
  }

  const Complex<T>* filters(Index degree, Index scale) const {
    return tables.filters[std::size_t(degree)].data() + scale * tables.harmonics[std::size_t(degree)] * voxels();
  }

  // Convolutions z (inputs, scales, harmonics, voxels) with all filters of a degree from `scale` on, without their
  // factor, and their moduli u (inputs, scales, voxels).
  void convolve(const Complex<T>* spectra, Index inputs, Index degree, Index scale, Complex<T>* z, T* u) const {
    const Index harmonics = tables.harmonics[std::size_t(degree)], scales = tables.scales - scale;
    const Index tasks = inputs * scales * harmonics;
    fft::cuda::transform_lines<true>(name, *tables.z, tasks, lines(0),
                                     Products<T>{spectra, filters(degree, scale), voxels(),
                                                 tables.size[1] * tables.size[2], int(scales * harmonics)},
                                     along_z(z), stream);
    both_after(true, z, tasks);
    fastdl::cuda::launch(name, harmonic_moduli_kernel<T>, threads(inputs * scales * voxels()), z, int(harmonics),
                         voxels(), inputs * scales, factor(), u);
  }

  // back (inputs, voxels): what comes to the spectra of inputs from gradients g for the moduli u of these convolutions.
  void gather(Complex<T>* z, const T* u, const T* g, Index inputs, Index degree, Index scale, bool more,
              Complex<T>* back) const {
    const Index harmonics = tables.harmonics[std::size_t(degree)], scales = tables.scales - scale;
    const Index tasks = inputs * scales * harmonics;
    fastdl::cuda::launch(name, harmonic_directions_kernel<T>, threads(tasks * voxels()), z, int(harmonics), voxels(),
                         inputs * scales, factor(), u, g);
    forward(z, tasks);
    fastdl::cuda::launch(name, harmonic_gather_kernel<T>, threads(inputs * voxels()), z, filters(degree, scale),
                         int(scales * harmonics), voxels(), inputs, more, back);
  }

  // g += or = the real parts of the inverse transforms.
  void add_real(Complex<T>* spectra, Index inputs, bool more, T* g, Index stride) const {
    inverse(spectra, inputs);
    fastdl::cuda::launch(name, real_parts_kernel<T>, threads(inputs * voxels()), spectra, voxels(), inputs, factor(),
                         more, g, stride);
  }
};

Powers powers_of(const fastdl_harmonic_shape& shape) {
  Powers powers{int(shape.powers), {}};
  for (Index p = 0; p < shape.powers; ++p) powers.power[p] = shape.power[p];
  return powers;
}

Index paths_of(const fastdl_harmonic_shape& shape) {
  return shape.scales + (shape.order == 2 ? shape.scales * (shape.scales - 1) / 2 : 0);
}

// By the limit of what is kept between kernels.
template <class T>
Index volumes_at_a_time(const VolumeTables<T>& tables, Index batch, bool backward) {
  const Index grids = tables.scales * (2 * tables.most_harmonics() + 1) + 4;
  const Index numbers = grids * tables.voxels() * (backward ? 3 : 2);
  return std::clamp<Index>(tables.scratch / Index(sizeof(T)) / numbers, 1, std::max<Index>(batch, 1));
}

}  // namespace

template <class T>
Volumes<T>::Volumes(const fastdl_harmonic_shape& shape, const T* const* filters, const Limits& limits)
    : tables_(std::make_unique<VolumeTables<T>>()), device_(fastdl::cuda::place().device) {
  constexpr const char* name = "scattering.harmonic";
  VolumeTables<T>& tables = *tables_;
  std::copy(shape.size, shape.size + 3, tables.size);
  tables.scales = shape.scales;
  tables.scratch = limits.scratch;
  tables.harmonics.assign(shape.harmonics, shape.harmonics + shape.degrees);
  const auto axis = [&](Index n) -> const Axis<T>* {
    for (const fft::cuda::AxisTables<T>& known : tables.axes)
      if (known.axis().n == n) return &known.axis();
    if (!fft::cuda::transformable(n) || !fft::cuda::line_fits<T>(n)) throw Unsupported();
    return &tables.axes.emplace_back(name, n, nullptr).axis();
  };
  tables.z = axis(shape.size[0]);
  tables.y = axis(shape.size[1]);
  tables.x = axis(shape.size[2]);
  for (Index degree = 0; degree < shape.degrees; ++degree)
    tables.filters.emplace_back(name, reinterpret_cast<const Complex<T>*>(filters[degree]),
                                shape.scales * shape.harmonics[degree] * tables.voxels(), nullptr);
  int number;
  fastdl::cuda::copy_to_host(name, &number, tables.x->place, sizeof(number), nullptr);  // waits for the copies
}

template <class T>
Volumes<T>::Volumes(Volumes&& other) noexcept = default;

template <class T>
Volumes<T>::~Volumes() {
  give_back(device_, tables_);
}

template <class T>
void Volumes<T>::harmonic(const fastdl_harmonic_shape& shape, const T* x, Index batch, T* out, Stream stream) const {
  const VolumeTables<T>& tables = *tables_;
  const Work<T> work{"scattering.harmonic", tables, stream};
  const Index scales = shape.scales, degrees = shape.degrees, voxels = tables.voxels(), paths = paths_of(shape);
  const Powers powers = powers_of(shape);
  const Index most = volumes_at_a_time(tables, batch, false);
  for (Index first = 0; first < batch; first += most) {
    const Index volumes = std::min(most, batch - first);
    const auto x_hat = work.grids(volumes), u_hat = work.grids(volumes);
    const auto z = work.grids(volumes * scales * tables.most_harmonics());
    const auto u = work.reals(volumes * scales), v = work.reals(volumes * scales);
    work.spectra(x + first * voxels, voxels, volumes, x_hat.data());
    for (Index degree = 0; degree < degrees; ++degree) {
      const auto sum = [&](const T* moduli, Index path, Index count) {
        const Sums<T> sums{
            out + first * paths * degrees * shape.powers, paths, path, int(degrees), int(degree), int(count)};
        fastdl::cuda::launch(work.name, power_sums_kernel<T>,
                             {dim3(unsigned(volumes * count)), dim3(most_threads), 0, stream}, moduli, voxels, powers,
                             sums);
      };
      work.convolve(x_hat.data(), volumes, degree, 0, z.data(), u.data());
      sum(u.data(), 0, scales);
      if (shape.order < 2) continue;
      for (Index j1 = 0; j1 + 1 < scales; ++j1) {
        work.spectra(u.data() + j1 * voxels, scales * voxels, volumes, u_hat.data());
        work.convolve(u_hat.data(), volumes, degree, j1 + 1, z.data(), v.data());
        sum(v.data(), path_of(scales, j1), scales - j1 - 1);
      }
    }
  }
  hold_tables(work.name, stream);
}

template <class T>
void Volumes<T>::harmonic_vjp(const fastdl_harmonic_shape& shape, const T* x, const T* grad, Index batch, T* dx,
                              Stream stream) const {
  const VolumeTables<T>& tables = *tables_;
  const Work<T> work{"scattering.harmonic_vjp", tables, stream};
  const Index scales = shape.scales, degrees = shape.degrees, voxels = tables.voxels(), paths = paths_of(shape);
  const Powers powers = powers_of(shape);
  const Index most = volumes_at_a_time(tables, batch, true);
  for (Index first = 0; first < batch; first += most) {
    const Index volumes = std::min(most, batch - first), harmonics = tables.most_harmonics();
    const bool second = shape.order == 2 && scales > 1;
    const auto x_hat = work.grids(volumes), x_back = work.grids(volumes), u_hat = work.grids(second ? volumes : 0);
    const auto z = work.grids(volumes * scales * harmonics), w = work.grids(second ? volumes * scales * harmonics : 0);
    const auto u = work.reals(volumes * scales), g = work.reals(volumes * scales);
    const auto v = work.reals(second ? volumes * scales : 0), gv = work.reals(second ? volumes * scales : 0);
    work.spectra(x + first * voxels, voxels, volumes, x_hat.data());
    for (Index degree = 0; degree < degrees; ++degree) {
      const auto slopes = [&](const T* moduli, Index path, Index count, T* to) {
        const Sums<T> sums{const_cast<T*>(grad) + first * paths * degrees * shape.powers,
                           paths,
                           path,
                           int(degrees),
                           int(degree),
                           int(count)};
        fastdl::cuda::launch(work.name, power_slopes_kernel<T>, work.threads(volumes * count * voxels), moduli, voxels,
                             volumes * count, powers, sums, to);
      };
      work.convolve(x_hat.data(), volumes, degree, 0, z.data(), u.data());
      slopes(u.data(), 0, scales, g.data());
      for (Index j1 = 0; second && j1 + 1 < scales; ++j1) {
        work.spectra(u.data() + j1 * voxels, scales * voxels, volumes, u_hat.data());
        work.convolve(u_hat.data(), volumes, degree, j1 + 1, w.data(), v.data());
        slopes(v.data(), path_of(scales, j1), scales - j1 - 1, gv.data());
        work.gather(w.data(), v.data(), gv.data(), volumes, degree, j1 + 1, false, u_hat.data());
        work.add_real(u_hat.data(), volumes, true, g.data() + j1 * voxels, scales * voxels);
      }
      work.gather(z.data(), u.data(), g.data(), volumes, degree, 0, degree > 0, x_back.data());
    }
    work.add_real(x_back.data(), volumes, false, dx + first * voxels, voxels);
  }
  hold_tables(work.name, stream);
}

template class Volumes<float>;
template class Volumes<double>;

}  // namespace fastdl::scattering::cuda
