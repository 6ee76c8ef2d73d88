// Scattering of large images and long signals, one at a time, compiled once per instruction-set level: raster.hpp has
// the steps, this goes through the tree. A task is a wavelet of the first order with all that follow it, of one image.
#include "core/threads.hpp"
#include "scattering/bodies.hpp"
#include "scattering/raster.hpp"
#include "scattering/raster_tasks.hpp"

namespace fastdl::scattering::FASTDL_LEVEL {
namespace {

// Out(channel, level) takes what is given out of a path of the image.
template <class T, class Out>
void member_task(const Plan<T>& plan, const RasterMember<T>& member, const T* x_hat, const Out& out) {
  const Group<T>& group = member.group;
  const Level<T>& level = plan.level[group.level];
  core::Scratch scratch;
  const RasterWork<T> work(scratch, plan);
  T* u_hat = group.followers ? new_raster(scratch, level.raster, plan.image) : nullptr;
  const auto step = [&](const Wavelet<T>& wavelet, const Raster<T>& source, const T* from, T* to, Index channel) {
    const auto given = out(channel, wavelet.level);
    const Level<T>& target = plan.level[wavelet.level];
    if (plan.image)
      image_step(target, wavelet.raster, from, source.plane, to, given, work);
    else
      signal_step(target, wavelet.raster, from, source.plane, to, given, work);
  };
  step(group.member[member.number], plan.level[0].raster, x_hat, u_hat, group.channel[member.number]);
  for (Index f = 0; f < group.followers; ++f)
    step(group.follower[f], level.raster, u_hat, nullptr, group.channel_2[member.number] + f);
}

// out_of(image) gives what member_task wants; averages_of(image), where those of the image itself go, or null.
template <class T, class OutOf, class AveragesOf>
void each_path(const Plan<T>& plan, const T* x, Index batch, const OutOf& out_of, const AveragesOf& averages_of) {
  const Index members = members_of(plan), size = raster_size(plan.level[0].raster, plan.image);
  const int threads = threads_for(plan, batch);
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
      raster_start(plan, x + (first + task) * plan.samples(), x_hat + task * size, averages_of(first + task),
                   RasterWork<T>(inner, plan));
    } else if (members > 0 && task / members < count) {
      const Index which = task / members;
      member_task(plan, raster_member(plan, task % members), x_hat + which * size, out_of(first + which));
    }
  });
}

template <class T>
void large_of(const Plan<T>& plan, const T* x, Index batch, T* out) {
  const auto result = [&](Index image) { return out + image * plan.channels * plan.outputs(); };
  const auto out_of = [&](Index image) {
    return
        [&plan, to = result(image)](Index channel, Index) { return RasterAverages<T>{to + channel * plan.outputs()}; };
  };
  each_path(plan, x, batch, out_of, result);
}

template <class T>
void large_moduli_of(const Plan<T>& plan, const fastdl_scattering_part* part, const T* x, Index batch, T* const* out) {
  images_themselves(plan, part[0], x, batch, out[0]);
  const auto out_of = [&](Index image) {
    return [&plan, part, out, image](Index channel, Index level) {
      const fastdl_scattering_part& p = part[level];
      return RasterModuli<T>{p, plan.image, out[channel] + image * (p.bottom - p.top) * (p.right - p.left)};
    };
  };
  each_path(plan, x, batch, out_of, [](Index) { return static_cast<T*>(nullptr); });
}

}  // namespace

void large(const Plan<float>& plan, const float* x, Index batch, float* out) { large_of(plan, x, batch, out); }
void large(const Plan<double>& plan, const double* x, Index batch, double* out) { large_of(plan, x, batch, out); }
void large_moduli(const Plan<float>& plan, const fastdl_scattering_part* part, const float* x, Index batch,
                  float* const* out) {
  large_moduli_of(plan, part, x, batch, out);
}
void large_moduli(const Plan<double>& plan, const fastdl_scattering_part* part, const double* x, Index batch,
                  double* const* out) {
  large_moduli_of(plan, part, x, batch, out);
}

}  // namespace fastdl::scattering::FASTDL_LEVEL
