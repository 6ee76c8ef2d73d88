// The scattering transform of large images and long signals, compiled once per instruction-set level: raster.hpp has
// the steps, this goes through the tree. A task is a wavelet of the first order with all that follow it, of one image.
#include "scattering/bodies.hpp"
#include "scattering/lane_tasks.hpp"
#include "scattering/raster.hpp"

namespace fastdl::scattering::FASTDL_LEVEL {
namespace {

template <class T>
void member_task(const Plan<T>& plan, Index number, const T* x_hat, T* out) {
  const bool image = plan.image;
  Index g = 0;
  for (; number >= plan.group[g].members; ++g) number -= plan.group[g].members;
  const Group<T>& group = plan.group[g];
  const Level<T>& level = plan.level[group.level];
  core::Scratch scratch;
  const RasterWork<T> work(scratch, plan);
  T* u_hat = group.followers ? new_raster(scratch, level.raster, image) : nullptr;
  const auto step = [&](const Wavelet<T>& wavelet, const Raster<T>& source, const T* from, T* to, Index channel) {
    (image ? image_step<T> : signal_step<T>)(plan.level[wavelet.level], wavelet.raster, from, source.plane, to,
                                             out + channel * plan.outputs(), work);
  };
  step(group.member[number], plan.level[0].raster, x_hat, u_hat, group.channel[number]);
  for (Index f = 0; f < group.followers; ++f)
    step(group.follower[f], level.raster, u_hat, nullptr, group.channel_2[number] + f);
}

template <class T>
void large_of(const Plan<T>& plan, const T* x, Index batch, T* out) {
  const bool image = plan.image;
  const Index results = plan.channels * plan.outputs();
  Index members = 0;
  for (Index g = 0; g < plan.groups; ++g) members += plan.group[g].members;
  const int threads = threads_for(plan, batch);
  const Raster<T>& finest = plan.level[0].raster;
  const Index size = raster_size(finest, image);
  // Spectra of as many images at a time as take 1 MB, but of one for each thread: then all their wavelets.
  const Index fit = (Index{1} << 20) / Index(sizeof(T)) / size;
  const Index together = fit < threads ? threads : fit, chunk = together < batch ? together : batch;
  if (chunk == 0) return;
  core::Scratch scratch;
  T* x_hat = scratch.array<T>(chunk, size) + raster_block;
  const Index chunks = (batch + chunk - 1) / chunk, tasks = chunk * (members > 0 ? members : 1);
  core::parallel_phases(2 * chunks, tasks, threads, [&](Index phase, Index task) {
    const Index first = phase / 2 * chunk, count = batch - first < chunk ? batch - first : chunk;
    if (phase % 2 == 0) {
      if (task >= count) return;
      core::Scratch inner;
      const RasterWork<T> work(inner, plan);
      (image ? image_start<T> : signal_start<T>)(plan, x + (first + task) * plan.samples(), x_hat + task * size,
                                                 out + (first + task) * results, work);
    } else if (members > 0 && task / members < count) {
      const Index which = task / members;
      member_task(plan, task % members, x_hat + which * size, out + (first + which) * results);
    }
  });
}

}  // namespace

void large(const Plan<float>& plan, const float* x, Index batch, float* out) { large_of(plan, x, batch, out); }
void large(const Plan<double>& plan, const double* x, Index batch, double* out) { large_of(plan, x, batch, out); }

}  // namespace fastdl::scattering::FASTDL_LEVEL
