// Gradients of the scattering transform, compiled once per instruction-set level. Lanes are images.
#include "core/threads.hpp"
#include "scattering/bodies.hpp"
#include "scattering/gradients.hpp"
#include "scattering/lane_tasks.hpp"

namespace fastdl::scattering::FASTDL_LEVEL {
namespace {

// Gathers what goes back to the spectrum of a lane-full of images from paths that begin with one wavelet.
template <class T>
struct Backward {
  const Plan<T>& plan;
  const T* grad;
  Index first;
  int count;
  const Work<T>& work;
  T *grid, *grid_2, *u_hat, *u_back, *result;

  // The gradient for the averages of a channel, in `result`.
  void read(Index channel) const {
    const T* from[lanes<T>];
    for (int l = 0; l < lanes<T>; ++l)
      from[l] = l < count ? grad + ((first + l) * plan.channels + channel) * plan.outputs() : nullptr;
    gather(from, plan.outputs(), result);
  }

  void member(const Group<T>& group, Index m, const T* x_hat, T* x_back) const {
    const Level<T>& level = plan.level[group.level];
    const Fold<T>& fold = group.member[m].fold;
    fold_rows(level, OneFilter<T>{fold, x_hat}, grid, work);
    for (Index x = 0; x < level.nx; ++x) {
      finish_column(level, grid, x, work);
      for (Index y = 0; y < level.ny; ++y)
        store_element(grid + (y * level.pitch + x) * width<T>, load_element(work.column + y * width<T>));
      if (!group.followers) continue;
      take_moduli(level.ny, work.column, work.moduli);
      column_spectrum(level, x, u_hat, work);
    }
    if (group.followers) {
      row_spectra(level, u_hat, work);
      clear_spectrum(level, u_back);
      for (Index f = 0; f < group.followers; ++f) {
        const Wavelet<T>& follower = group.follower[f];
        read(group.channel_2[m] + f);
        step_back(plan.level[follower.level], follower.fold, u_hat, result, grid_2, u_back, work);
      }
      rows_back(level, u_back, work);
    }
    read(group.channel[m]);
    spread_across(level, result, work);
    core::Scratch scratch;
    T* inner = scratch.array<T>(level.ny, lanes<T>);
    for (Index x = 0; x < level.nx; ++x) {
      spread_down(level, x, work);
      if (group.followers) {
        real_column(level, u_back, x, inner, work);
        for (Index y = 0; y < level.ny; ++y)
          store(work.moduli + y * lanes<T>, load(work.moduli + y * lanes<T>) + load(inner + y * lanes<T>));
      }
      for (Index y = 0; y < level.ny; ++y)
        store_element(work.column + y * width<T>, load_element(grid + (y * level.pitch + x) * width<T>));
      times_direction(level.ny, work.moduli, work.column);
      column_forward(level, grid, x, work);
    }
    unfold_rows(level, fold, grid, x_back, work);
  }

  // What a gathered spectrum and the gradient for the average of the images themselves come to, sample by sample.
  void finish(T* x_back, bool with_average, T* samples) const {
    const Level<T>& level = plan.level[0];
    const Index columns = plan.width_of_image;
    rows_back(level, x_back, work);
    if (with_average) {
      read(0);
      spread_across(level, result, work);
    }
    core::Scratch scratch;
    T* column = scratch.array<T>(level.ny, lanes<T>);
    for (Index i = 0; i < plan.samples(); ++i) store(samples + i * lanes<T>, Vec<T>{});
    for (Index x = 0; x < level.nx; ++x) {
      real_column(level, x_back, x, column, work);
      if (with_average) spread_down(level, x, work);
      for (Index y = 0; y < level.ny; ++y) {
        Vec<T> value = load(column + y * lanes<T>);
        if (with_average) value = value + load(work.moduli + y * lanes<T>);
        T* at = samples + (plan.place_y[y] * columns + plan.place_x[x]) * lanes<T>;
        store(at, load(at) + value);
      }
    }
  }
};

// The gradient of paths that begin in the groups from `group` to `group_end - 1`, for a lane-full of images.
template <class T>
void groups_backward(const Plan<T>& plan, const T* x, const T* grad, Index first, int count, Index group,
                     Index group_end, T* samples) {
  core::Scratch scratch;
  const Work<T> work(scratch, plan);
  T* x_hat = new_spectrum(scratch, plan.level[0]);
  T* x_back = new_spectrum(scratch, plan.level[0]);
  T* u_hat = new_spectrum(scratch, plan.level[0]);
  T* u_back = new_spectrum(scratch, plan.level[0]);
  T* grid = new_grid(scratch, plan.level[0]);
  T* grid_2 = new_grid(scratch, plan.level[0]);
  T* result = scratch.array<T>(plan.outputs(), lanes<T>);
  const T* images[lanes<T>];
  for (int l = 0; l < lanes<T>; ++l) images[l] = l < count ? x + (first + l) * plan.samples() : nullptr;
  image_spectrum(plan, images, x_hat, work);
  clear_spectrum(plan.level[0], x_back);
  const Backward<T> backward{plan, grad, first, count, work, grid, grid_2, u_hat, u_back, result};
  for (Index g = group; g < group_end; ++g)
    for (Index m = 0; m < plan.group[g].members; ++m) backward.member(plan.group[g], m, x_hat, x_back);
  backward.finish(x_back, group == 0, samples);
}

template <class T>
void backward_of(const Plan<T>& plan, const T* x, const T* grad, Index batch, T* dx) {
  constexpr Index w = lanes<T>;
  const Index blocks = (batch + w - 1) / w;
  // A few images are shared out by groups, whose gradients are then added up in their order.
  const Index parts = many_images<T>(batch) || plan.groups == 0 ? 1 : plan.groups;
  core::Scratch scratch;
  T* all = parts > 1 ? scratch.array<T>(blocks * parts, plan.samples(), w) : nullptr;
  const auto images_of = [&](Index block) { return int(batch - block * w < w ? batch - block * w : w); };
  const auto put = [&](Index block, const T* samples) {
    T* to[w];
    for (Index l = 0; l < w; ++l) to[l] = l < images_of(block) ? dx + (block * w + l) * plan.samples() : nullptr;
    scatter(samples, plan.samples(), to);
  };
  core::parallel_for(blocks * parts, threads_for(plan, batch), [&](Index task) {
    const Index block = task / parts, part = task % parts;
    core::Scratch local;
    T* samples = parts > 1 ? all + task * plan.samples() * w : local.array<T>(plan.samples(), w);
    groups_backward(plan, x, grad, block * w, images_of(block), parts > 1 ? part : 0,
                    parts > 1 ? part + 1 : plan.groups, samples);
    if (parts == 1) put(block, samples);
  });
  if (parts == 1) return;
  for (Index block = 0; block < blocks; ++block) {
    T* sum = all + block * parts * plan.samples() * w;
    for (Index part = 1; part < parts; ++part) {
      const T* more = sum + part * plan.samples() * w;
      for (Index i = 0; i < plan.samples() * w; i += w) store(sum + i, load(sum + i) + load(more + i));
    }
    put(block, sum);
  }
}

}  // namespace

void backward(const Plan<float>& plan, const float* x, const float* grad, Index batch, float* dx) {
  backward_of(plan, x, grad, batch, dx);
}
void backward(const Plan<double>& plan, const double* x, const double* grad, Index batch, double* dx) {
  backward_of(plan, x, grad, batch, dx);
}

}  // namespace fastdl::scattering::FASTDL_LEVEL
