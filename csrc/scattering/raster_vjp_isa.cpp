// Gradients of large images and long signals, compiled once per instruction-set level: raster_back.hpp has the steps.
//
// Every member of the first order gathers what goes back to the image's spectrum by itself, and these are added up in
// the order of the members, so that sums are the same for any number of threads.
#include "core/threads.hpp"
#include "scattering/bodies.hpp"
#include "scattering/raster_back.hpp"
#include "scattering/raster_tasks.hpp"

namespace fastdl::scattering::FASTDL_LEVEL {
namespace {

// sum += each of `count` arrays in turn, of their numbers from begin to end.
template <class T>
void add_in_order(const T* const* arrays, Index count, Index begin, Index end, T* sum) {
  for (Index i = begin; i < end; ++i) {
    T total = sum[i];
    for (Index k = 0; k < count; ++k) total += arrays[k][i];
    sum[i] = total;
  }
}

template <class T, class Results>
class LargeBackward {
 public:
  explicit LargeBackward(const Plan<T>& plan) : plan_(plan), members_(members_of(plan)) {
    const Raster<T>& finest = plan.level[0].raster;
    room_ = raster_block + raster_size(finest, plan.image);
  }

  // All of an image, on one thread.
  void whole(const T* x, const Results& results, T* dx) const {
    core::Scratch scratch;
    T *x_hat = new_spectrum(scratch), *sum = new_spectrum(scratch);
    const RasterBackWork<T> work(scratch, plan_, new_spectrum(scratch));
    const RasterBackward<T, Results> back{plan_, results, work};
    raster_start(plan_, x, x_hat, static_cast<T*>(nullptr), work);
    clear(sum);
    for (Index m = 0; m < members_; ++m) {
      const RasterMember<T> member = raster_member(plan_, m);
      back.member(member.group, member.number, x_hat);
      add_in_order(&work.spectrum, 1, -raster_block, room_ - raster_block, sum);
    }
    back.finish(sum, dx);
  }

  // The same with the members shared out: as many at a time as there are threads.
  void shared(const T* x, const Results& results, int threads, T* dx) const {
    core::Scratch scratch;
    const Index together = threads < members_ ? threads : members_;
    T *x_hat = new_spectrum(scratch), *sum = new_spectrum(scratch);
    T* rooms = scratch.array<T>(together > 1 ? together : 1, room_) + raster_block;
    const T** gathered = scratch.array<const T*>(together);
    for (Index i = 0; i < together; ++i) gathered[i] = rooms + i * room_;
    {
      core::Scratch inner;
      raster_start(plan_, x, x_hat, static_cast<T*>(nullptr), RasterWork<T>(inner, plan_));
    }
    clear(sum);
    const Index slices = 4 * threads, slice = (room_ + slices - 1) / slices;
    for (Index first = 0; first < members_; first += together) {
      const Index count = members_ - first < together ? members_ - first : together;
      core::parallel_for(count, threads, [&](Index i) {
        core::Scratch inner;
        const RasterBackWork<T> work(inner, plan_, rooms + i * room_);
        const RasterMember<T> member = raster_member(plan_, first + i);
        RasterBackward<T, Results>{plan_, results, work}.member(member.group, member.number, x_hat);
      });
      core::parallel_for(slices, threads, [&](Index i) {
        const Index begin = i * slice, end = begin + slice < room_ ? begin + slice : room_;
        add_in_order(gathered, count, begin - raster_block, end - raster_block, sum);
      });
    }
    core::Scratch inner;
    const RasterBackWork<T> work(inner, plan_, rooms);
    RasterBackward<T, Results>{plan_, results, work}.finish(sum, dx);
  }

 private:
  T* new_spectrum(core::Scratch& scratch) const { return scratch.array<T>(room_) + raster_block; }
  void clear(T* spectrum) const {
    for (Index i = 0; i < room_; ++i) spectrum[i - raster_block] = 0;
  }

  const Plan<T>& plan_;
  Index members_, room_;
};

// Images whose spectra stay in L2 have a thread each; of larger ones, and of those that are left over, the members are
// shared out.
template <class T, class ResultsOf>
void large_vjp_of(const Plan<T>& plan, const T* x, Index batch, const ResultsOf& results_of, T* dx) {
  using Results = decltype(results_of(Index{0}));
  const LargeBackward<T, Results> back(plan);
  const int threads = threads_for(plan, batch);
  const bool small = raster_size(plan.level[0].raster, plan.image) * Index(sizeof(T)) <= Index{1} << 20;
  const Index whole = small ? batch / threads * threads : 0;
  const auto at = [&](Index image) { return image * plan.samples(); };
  core::parallel_for(whole, threads, [&](Index i) { back.whole(x + at(i), results_of(i), dx + at(i)); });
  for (Index i = whole; i < batch; ++i) back.shared(x + at(i), results_of(i), threads, dx + at(i));
}

template <class T>
void averages_back(const Plan<T>& plan, const T* x, const T* grad, Index batch, T* dx) {
  const Index results = plan.channels * plan.outputs();
  large_vjp_of(plan, x, batch, [&](Index image) { return RasterAveragesBack<T>{plan, grad + image * results}; }, dx);
}

template <class T>
void moduli_back(const Plan<T>& plan, const fastdl_scattering_part* part, const T* x, const T* const* grad, Index batch,
                 T* dx) {
  large_vjp_of(plan, x, batch, [&](Index image) { return RasterModuliBack<T>{plan, part, grad, image}; }, dx);
}

}  // namespace

void large_vjp(const Plan<float>& plan, const float* x, const float* grad, Index batch, float* dx) {
  averages_back(plan, x, grad, batch, dx);
}
void large_vjp(const Plan<double>& plan, const double* x, const double* grad, Index batch, double* dx) {
  averages_back(plan, x, grad, batch, dx);
}
void large_moduli_vjp(const Plan<float>& plan, const fastdl_scattering_part* part, const float* x,
                      const float* const* grad, Index batch, float* dx) {
  moduli_back(plan, part, x, grad, batch, dx);
}
void large_moduli_vjp(const Plan<double>& plan, const fastdl_scattering_part* part, const double* x,
                      const double* const* grad, Index batch, double* dx) {
  moduli_back(plan, part, x, grad, batch, dx);
}

}  // namespace fastdl::scattering::FASTDL_LEVEL
