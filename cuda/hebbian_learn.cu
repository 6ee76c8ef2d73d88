// Rules of learning with samples in their order: by blocks or one by one, and what is not finite.
#include "hebbian_learn.hpp"

#include "hebbian_rows.cuh"

namespace fastdl::hebbian::cuda {
template <class T>
Index learn(const Learning& how, const T* weights, Index units, const Samples<T>& samples, const T* lr, T* theta,
            T* out, Stream stream) {
  const Index size = units * samples.features;
  const std::size_t bytes = std::size_t(size) * sizeof(T);
  if (samples.count == 0 || units == 0) {
    if (out != weights && size > 0) fastdl::cuda::copy_on_device(how.name, out, weights, bytes, stream);
    return all_finite;
  }
  const bool by_blocks =
      how.blocks && size > 0 && how.rule <= Rule::subspace && !(how.rule == Rule::normalized && how.falls);
  const fastdl::cuda::Scratch<T> room(how.name, (by_blocks ? 2 : 1) * size, stream);
  if (size > 0) fastdl::cuda::copy_on_device(how.name, room.data(), weights, bytes, stream);
  Ended<T> ended{room.data(), all_finite};
  if (by_blocks)
    ended = learn_by_blocks<T>(how, {room.data(), room.data() + size}, units, samples, lr, stream);
  else
    ended.diverged = learn_one_by_one(how, room.data(), units, samples, lr, theta, stream);
  if (ended.diverged != all_finite)
    return first_not_finite(how.name, weights, size, stream) >= 0 ? bad_from_the_start : ended.diverged;
  if (size > 0) fastdl::cuda::copy_on_device(how.name, out, ended.weights, bytes, stream);
  return all_finite;
}

#define FASTDL_LEARN(T) \
  template Index learn(const Learning&, const T*, Index, const Samples<T>&, const T*, T*, T*, Stream);
FASTDL_LEARN(float)
FASTDL_LEARN(double)
#undef FASTDL_LEARN

}  // namespace fastdl::hebbian::cuda
