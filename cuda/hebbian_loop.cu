#include "hebbian_loop.cuh"

#include <cfloat>
#include <vector>

#include "hebbian_learn.hpp"

namespace fastdl::hebbian::cuda {

template <class T>
Index learn_one_by_one(const Learning& how, T* weights, Index units, const Samples<T>& samples, const T* lr, T* theta,
                       Stream stream) {
  if (units == 0 || samples.count == 0) return all_finite;
  const bool by_units =
      how.rule == Rule::hebb || how.rule == Rule::normalized || how.rule == Rule::oja || how.rule == Rule::bcm;
  constexpr double most = sizeof(T) == 4 ? double(FLT_MAX) : DBL_MAX;
  const double inverse = 1 / how.temperature;
  const fastdl::cuda::Scratch<T> scratch(how.name, by_units ? 0 : 2 * units, stream);
  const fastdl::cuda::Scratch<Index> diverged(how.name, by_units ? units : 1, stream);
  const Loop<T> loop{how.rule,
                     weights,
                     units,
                     samples.features,
                     samples.data,
                     samples.count,
                     samples.row_stride,
                     samples.col_stride,
                     lr,
                     how.rule == Rule::bcm ? theta : nullptr,
                     T(1 / how.tau),
                     T(how.delta),
                     T(inverse < most ? inverse : most),
                     how.norm,
                     how.rank,
                     scratch.data(),
                     scratch.data() ? scratch.data() + units : nullptr,
                     diverged.data()};
  if (by_units) {
    constexpr std::size_t most_bytes = 40 << 10;
    const std::size_t bytes = std::size_t(samples.features) * sizeof(T);
    const bool in_shared = bytes <= most_bytes;
    fastdl::cuda::launch(
        how.name, loop_units<T>,
        blocks_for(units, 1, threads_for(samples.features, loop_threads), stream, in_shared ? bytes : 0), loop,
        in_shared);
  } else {
    fastdl::cuda::launch(how.name, loop_together<T>,
                         blocks_for(1, 1, threads_for(samples.features, together_threads), stream), loop);
  }
  std::vector<Index> all(static_cast<std::size_t>(diverged.count()));
  fastdl::cuda::copy_to_host(how.name, all.data(), diverged.data(), diverged.bytes(), stream);
  Index first = samples.count;
  for (const Index place : all) first = place < first ? place : first;
  return first < samples.count ? first : all_finite;
}

#define FASTDL_LOOP(T) \
  template Index learn_one_by_one(const Learning&, T*, Index, const Samples<T>&, const T*, T*, Stream);
FASTDL_LOOP(float)
FASTDL_LOOP(double)
#undef FASTDL_LOOP

}  // namespace fastdl::hebbian::cuda
