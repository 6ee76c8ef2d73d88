// Scattering without averages: the moduli of every path themselves, where the signal is, compiled once per
// instruction-set level. A lane is an image with a wavelet of the first order, however many images there are.
#include "scattering/bodies.hpp"
#include "scattering/lane_tasks.hpp"
#include "scattering/paths.hpp"

namespace fastdl::scattering::FASTDL_LEVEL {
namespace {

template <class T>
struct Paths {
  const Plan<T>& plan;
  const fastdl_scattering_part* part;
  T* const* out;

  // A path's step: moduli go to the results of each lane's image and channel, their transform to `spectrum` if wanted.
  template <class Filter>
  void step(Index which, const Filter& filter, const Index* image, const Index* channel, int count, T* grid,
            T* spectrum, T* inside, const Work<T>& work) const {
    core::check_interrupt();
    const Level<T>& level = plan.level[which];
    const fastdl_scattering_part& p = part[which];
    const Index columns = p.right - p.left, size = (p.bottom - p.top) * columns;
    fold_rows(level, filter, grid, work);
    for (Index x = 0; x < level.nx; ++x) {
      fft::transform_moduli(*level.down, true, grid + x * width<T>, level.pitch, work.moduli, work.column, work.fft);
      if (x >= p.left && x < p.right)
        for (Index y = p.top; y < p.bottom; ++y)
          store(inside + ((y - p.top) * columns + x - p.left) * lanes<T>, load(work.moduli + y * lanes<T>));
      if (spectrum) column_spectrum(level, x, spectrum, work);
    }
    if (spectrum) row_spectra(level, spectrum, work);
    T* to[lanes<T>];
    for (int l = 0; l < lanes<T>; ++l) to[l] = l < count ? out[channel[l]] + image[l] * size : nullptr;
    scatter(inside, size, to);
  }

  // Paths that begin with wavelets of one group. x_hat is the spectrum of the block's images.
  void lane_full(const LaneTask& task, const T* x_hat, Index block) const {
    core::Scratch scratch;
    const Group<T>& group = plan.group[task.group];
    const Level<T>& level = plan.level[group.level];
    const Work<T> work(scratch, plan);
    const LanePaths<T> paths(group, task, block);
    Index places = level.ny * level.nx;
    for (Index f = 0; f < group.followers; ++f) {
      const Level<T>& other = plan.level[group.follower[f].level];
      if (other.ny * other.nx > places) places = other.ny * other.nx;
    }
    T *grid = new_grid(scratch, plan.level[0]), *inside = scratch.array<T>(places, lanes<T>);
    T* u_hat = group.followers ? new_spectrum(scratch, level) : nullptr;
    const T* coef = paths.coefficients(group, scratch);
    step(group.level, ManyFilters<T>{group.together, x_hat, coef, paths.image}, paths.number, paths.channel, task.count,
         grid, u_hat, inside, work);
    for (Index f = 0; f < group.followers; ++f) {
      Index channel[lanes<T>];
      for (int l = 0; l < lanes<T>; ++l) channel[l] = paths.channel_2[l] + f;
      step(group.follower[f].level, OneFilter<T>{group.follower[f].fold, u_hat}, paths.number, channel, task.count,
           grid, static_cast<T*>(nullptr), inside, work);
    }
  }
};

template <class T>
void moduli_of(const Plan<T>& plan, const fastdl_scattering_part* part, const T* x, Index batch, T* const* out) {
  const Paths<T> paths{plan, part, out};
  images_themselves(plan, part[0], x, batch, out[0]);
  for (Index first = 0; first < batch; first += lanes<T>) {
    const Index count = batch - first < lanes<T> ? batch - first : lanes<T>;
    core::Scratch scratch;
    T* x_hat = new_spectrum(scratch, plan.level[0]);
    {
      core::Scratch inner;
      const T* images[lanes<T>];
      for (int l = 0; l < lanes<T>; ++l) images[l] = l < count ? x + (first + l) * plan.samples() : nullptr;
      image_spectrum(plan, images, x_hat, Work<T>(inner, plan));
    }
    core::parallel_for(lane_task_count<T>(plan, count), threads_for(plan, count),
                       [&](Index i) { paths.lane_full(lane_task<T>(plan, count, i), x_hat, first); });
  }
}

}  // namespace

void moduli(const Plan<float>& plan, const fastdl_scattering_part* part, const float* x, Index batch,
            float* const* out) {
  moduli_of(plan, part, x, batch, out);
}
void moduli(const Plan<double>& plan, const fastdl_scattering_part* part, const double* x, Index batch,
            double* const* out) {
  moduli_of(plan, part, x, batch, out);
}

}  // namespace fastdl::scattering::FASTDL_LEVEL
