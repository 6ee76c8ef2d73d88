// The scattering transform of images and signals, compiled once per instruction-set level.
//
// Lanes are images where there are many. Where there are few, lanes are the wavelets of a group, of one image or of
// several: the second order is then the same as for as many images.
#include "scattering/bodies.hpp"
#include "scattering/lane_tasks.hpp"
#include "scattering/paths.hpp"

namespace fastdl::scattering::FASTDL_LEVEL {
namespace {

template <class T>
void store_result(const Plan<T>& plan, const T* result, T* out, const Index* image, const Index* channel, int count) {
  T* to[lanes<T>];
  for (int l = 0; l < lanes<T>; ++l)
    to[l] = l < count ? out + (image[l] * plan.channels + channel[l]) * plan.outputs() : nullptr;
  scatter(result, plan.outputs(), to);
}

// All paths of a lane-full of images.
template <class T>
void whole_images(const Plan<T>& plan, const T* x, Index first, int count, T* out) {
  core::Scratch scratch;
  const Work<T> work(scratch, plan);
  T* x_hat = new_spectrum(scratch, plan.level[0]);
  T* u_hat = new_spectrum(scratch, plan.level[0]);
  T* grid = new_grid(scratch, plan.level[0]);
  const T* images[lanes<T>];
  Index image[lanes<T>], channel[lanes<T>];
  for (int l = 0; l < lanes<T>; ++l) {
    images[l] = l < count ? x + (first + l) * plan.samples() : nullptr;
    image[l] = first + l;
  }
  const auto put = [&](Index number) {
    for (Index& c : channel) c = number;
    store_result(plan, work.result, out, image, channel, count);
  };
  image_spectrum(plan, images, x_hat, work);
  put(0);
  for (Index g = 0; g < plan.groups; ++g) {
    const Group<T>& group = plan.group[g];
    for (Index m = 0; m < group.members; ++m) {
      step(plan.level[group.level], OneFilter<T>{group.member[m].fold, x_hat}, grid, group.followers ? u_hat : nullptr,
           work);
      put(group.channel[m]);
      for (Index f = 0; f < group.followers; ++f) {
        const Wavelet<T>& follower = group.follower[f];
        step(plan.level[follower.level], OneFilter<T>{follower.fold, u_hat}, grid, static_cast<T*>(nullptr), work);
        put(group.channel_2[m] + f);
      }
    }
  }
}

// Paths that begin with wavelets of one group, a lane each. x_hat is the spectrum of the block's images.
template <class T>
void one_lane_full(const Plan<T>& plan, const LaneTask& task, const T* x_hat, Index block, T* out) {
  core::Scratch scratch;
  const Group<T>& group = plan.group[task.group];
  const Work<T> work(scratch, plan);
  const LanePaths<T> paths(group, task, block);
  T* grid = new_grid(scratch, plan.level[group.level]);
  T* u_hat = group.followers ? new_spectrum(scratch, plan.level[group.level]) : nullptr;
  const T* coef = paths.coefficients(group, scratch);
  step(plan.level[group.level], ManyFilters<T>{group.together, x_hat, coef, paths.image}, grid, u_hat, work);
  store_result(plan, work.result, out, paths.number, paths.channel, task.count);
  for (Index f = 0; f < group.followers; ++f) {
    const Wavelet<T>& follower = group.follower[f];
    step(plan.level[follower.level], OneFilter<T>{follower.fold, u_hat}, grid, static_cast<T*>(nullptr), work);
    Index channel[lanes<T>];
    for (int l = 0; l < task.count; ++l) channel[l] = paths.channel_2[l] + f;
    store_result(plan, work.result, out, paths.number, channel, task.count);
  }
}

template <class T>
void few_images(const Plan<T>& plan, const T* x, Index first, int count, T* out) {
  core::Scratch scratch;
  T* x_hat = new_spectrum(scratch, plan.level[0]);
  {
    core::Scratch inner;
    const Work<T> work(inner, plan);
    const T* images[lanes<T>];
    Index image[lanes<T>], channel[lanes<T>] = {};
    for (int l = 0; l < lanes<T>; ++l) {
      images[l] = l < count ? x + (first + l) * plan.samples() : nullptr;
      image[l] = first + l;
    }
    image_spectrum(plan, images, x_hat, work);
    store_result(plan, work.result, out, image, channel, count);
  }
  const Index tasks = lane_task_count<T>(plan, count);
  core::parallel_for(tasks, threads_for(plan, count),
                     [&](Index i) { one_lane_full(plan, lane_task<T>(plan, count, i), x_hat, first, out); });
}

template <class T>
void forward_of(const Plan<T>& plan, const T* x, Index batch, T* out) {
  constexpr Index w = lanes<T>;
  if (many_images<T>(batch)) {
    core::parallel_for((batch + w - 1) / w, threads_for(plan, batch), [&](Index block) {
      const Index left = batch - block * w;
      whole_images(plan, x, block * w, int(left < w ? left : w), out);
    });
    return;
  }
  for (Index first = 0; first < batch; first += w)
    few_images(plan, x, first, int(batch - first < w ? batch - first : w), out);
}

}  // namespace

void forward(const Plan<float>& plan, const float* x, Index batch, float* out) { forward_of(plan, x, batch, out); }
void forward(const Plan<double>& plan, const double* x, Index batch, double* out) { forward_of(plan, x, batch, out); }

}  // namespace fastdl::scattering::FASTDL_LEVEL
