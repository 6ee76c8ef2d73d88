// Gradients of the scattering transform, compiled once per instruction-set level. Lanes are images.
#include "core/threads.hpp"
#include "scattering/bodies.hpp"
#include "scattering/gradients.hpp"
#include "scattering/lane_tasks.hpp"

namespace fastdl::scattering::FASTDL_LEVEL {
namespace {

// Gathers what goes back to the spectrum of a lane-full of images from paths that begin with one wavelet.
template <class T, class Results>
struct Backward {
  const Plan<T>& plan;
  const Results& results;
  const Work<T>& work;
  T *grid, *grid_2, *u_hat, *u_back;

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
        step_back(plan.level[follower.level], follower.fold, u_hat, results, group.channel_2[m] + f, grid_2, u_back,
                  work);
      }
      rows_back(level, u_back, work);
    }
    results.begin(level, group.channel[m], work);
    core::Scratch scratch;
    T* inner = scratch.array<T>(level.ny, lanes<T>);
    for (Index x = 0; x < level.nx; ++x) {
      results.column(level, x, work);
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
  void finish(T* x_back, T* samples) const {
    const Level<T>& level = plan.level[0];
    const Index columns = plan.width_of_image;
    rows_back(level, x_back, work);
    results.begin(level, 0, work);
    core::Scratch scratch;
    T* column = scratch.array<T>(level.ny, lanes<T>);
    for (Index i = 0; i < plan.samples(); ++i) store(samples + i * lanes<T>, Vec<T>{});
    for (Index x = 0; x < level.nx; ++x) {
      real_column(level, x_back, x, column, work);
      results.column(level, x, work);
      for (Index y = 0; y < level.ny; ++y) {
        const Vec<T> value = load(column + y * lanes<T>) + load(work.moduli + y * lanes<T>);
        T* at = samples + (plan.place_y[y] * columns + plan.place_x[x]) * lanes<T>;
        store(at, load(at) + value);
      }
    }
  }
};

// A lane-full of images, and what goes back to their spectrum from paths that begin in some groups.
template <class T, class Results>
class Images {
 public:
  // `make` gives the results of a lane-full of images, with room for one channel of them.
  template <class Make>
  Images(const Plan<T>& plan, const Make& make, Index room, Index first, int count)
      : plan_(plan),
        first_(first),
        count_(count),
        work_(scratch_, plan),
        results_(make(first, count, scratch_.array<T>(room, lanes<T>))),
        x_hat_(new_spectrum(scratch_, plan.level[0])),
        backward_{plan,
                  results_,
                  work_,
                  new_grid(scratch_, plan.level[0]),
                  new_grid(scratch_, plan.level[0]),
                  new_spectrum(scratch_, plan.level[0]),
                  new_spectrum(scratch_, plan.level[0])} {}

  // Of the images x, once before any group.
  void transform(const T* x) const {
    const T* images[lanes<T>];
    for (int l = 0; l < lanes<T>; ++l) images[l] = l < count_ ? x + (first_ + l) * plan_.samples() : nullptr;
    image_spectrum(plan_, images, x_hat_, work_);
  }

  void group(Index g, T* x_back) const {
    clear_spectrum(plan_.level[0], x_back);
    for (Index m = 0; m < plan_.group[g].members; ++m) backward_.member(plan_.group[g], m, x_hat_, x_back);
  }

  void finish(T* x_back, T* dx) const {
    core::Scratch scratch;
    T* samples = scratch.array<T>(plan_.samples(), lanes<T>);
    backward_.finish(x_back, samples);
    T* to[lanes<T>];
    for (int l = 0; l < lanes<T>; ++l) to[l] = l < count_ ? dx + (first_ + l) * plan_.samples() : nullptr;
    scatter(samples, plan_.samples(), to);
  }

 private:
  const Plan<T>& plan_;
  Index first_;
  int count_;
  core::Scratch scratch_;
  Work<T> work_;
  Results results_;
  T* x_hat_;
  Backward<T, Results> backward_;
};

// sum += more, two spectra of images
template <class T>
void add_spectrum(const Level<T>& level, const T* more, T* sum) {
  for (Index i = 0; i < level.half * level.pitch * width<T>; i += lanes<T>)
    store(sum + i, load(sum + i) + load(more + i));
}

// Sums are by groups and then over groups in their order, so that an image's gradient does not depend on how many there
// are: many are shared out by lane-fulls, a few also by groups.
template <class T, class Make>
void backward_of(const Plan<T>& plan, const T* x, const Make& make, Index room, Index batch, T* dx) {
  using Some = Images<T, decltype(make(Index{0}, 0, static_cast<T*>(nullptr)))>;
  constexpr Index w = lanes<T>;
  const Level<T>& level = plan.level[0];
  const Index blocks = (batch + w - 1) / w, groups = plan.groups;
  const auto images_of = [&](Index block) { return int(batch - block * w < w ? batch - block * w : w); };
  if (many_images<T>(batch) || groups < 2) {
    core::parallel_for(blocks, threads_for(plan, batch), [&](Index block) {
      core::Scratch scratch;
      T *x_back = new_spectrum(scratch, level), *of_group = new_spectrum(scratch, level);
      const Some images(plan, make, room, block * w, images_of(block));
      images.transform(x);
      if (groups == 0) clear_spectrum(level, x_back);
      for (Index g = 0; g < groups; ++g) {
        images.group(g, g == 0 ? x_back : of_group);
        if (g > 0) add_spectrum(level, of_group, x_back);
      }
      images.finish(x_back, dx);
    });
    return;
  }
  core::Scratch scratch;
  const Index size = level.half * level.pitch * width<T>;
  T* all = scratch.array<T>(blocks * groups, size);
  core::parallel_for(blocks * groups, threads_for(plan, batch), [&](Index task) {
    const Index block = task / groups;
    const Some images(plan, make, room, block * w, images_of(block));
    images.transform(x);
    images.group(task % groups, all + task * size);
  });
  core::parallel_for(blocks, threads_for(plan, batch), [&](Index block) {
    T* x_back = all + block * groups * size;
    for (Index g = 1; g < groups; ++g) add_spectrum(level, x_back + g * size, x_back);
    Some(plan, make, room, block * w, images_of(block)).finish(x_back, dx);
  });
}

template <class T>
void averages_back(const Plan<T>& plan, const T* x, const T* grad, Index batch, T* dx) {
  backward_of(
      plan, x, [&](Index first, int count, T* room) { return AveragesBack<T>{plan, grad, first, count, room}; },
      plan.outputs(), batch, dx);
}

template <class T>
void moduli_back(const Plan<T>& plan, const fastdl_scattering_part* part, const T* x, const T* const* grad, Index batch,
                 T* dx) {
  backward_of(
      plan, x, [&](Index first, int count, T* room) { return ModuliBack<T>{plan, part, grad, first, count, room}; },
      plan.level[0].ny * plan.level[0].nx, batch, dx);
}

}  // namespace

void backward(const Plan<float>& plan, const float* x, const float* grad, Index batch, float* dx) {
  averages_back(plan, x, grad, batch, dx);
}
void backward(const Plan<double>& plan, const double* x, const double* grad, Index batch, double* dx) {
  averages_back(plan, x, grad, batch, dx);
}
void moduli_vjp(const Plan<float>& plan, const fastdl_scattering_part* part, const float* x, const float* const* grad,
                Index batch, float* dx) {
  moduli_back(plan, part, x, grad, batch, dx);
}
void moduli_vjp(const Plan<double>& plan, const fastdl_scattering_part* part, const double* x,
                const double* const* grad, Index batch, double* dx) {
  moduli_back(plan, part, x, grad, batch, dx);
}

}  // namespace fastdl::scattering::FASTDL_LEVEL
