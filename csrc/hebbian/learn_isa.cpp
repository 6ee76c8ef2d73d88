// Rules of learning, compiled once per instruction-set level: samples in their order, by blocks or by the plain loop.
#include "hebbian/blocks.hpp"
#include "hebbian/competition.hpp"
#include "hebbian/loop.hpp"

namespace fastdl::hebbian::FASTDL_LEVEL {
namespace {

// Whether blocks are quicker than the plain loop. Time of the loop by that of blocks on a Zen 5, one thread, of oja,
// subspace and sanger with 784 features:
//   AVX-512   2 units 0.5 0.6 1.0    4 units 0.9 0.9 1.6    8 units 1.3 1.2 2.1    12 units 1.8 1.6 2.5
//   AVX2      2 units 0.3 0.4 0.5    4 units 0.5 0.7 0.7    8 units 0.9 1.0 1.1    12 units 1.2 1.2 1.2
// With 128 features it is less (8 units 1.0 0.9 1.9 and 0.7 0.7 0.9), with 3072 features and 8 units more, and on two
// threads twice that. Krotov's loop leaves the units alone that learn nothing, and is as quick up to 16.
bool blocks_pay(const Rule& rule, Index units, Index features, Index samples) {
  if (rule.algorithm != FASTDL_HEBBIAN_AUTO) return rule.algorithm == FASTDL_HEBBIAN_BLOCKS;
  constexpr bool wide = simd::vector_bytes == 64;
  Index least = wide || features >= 2048 ? 8 : 16;
  if (wide && rule.kind == FASTDL_HEBBIAN_SANGER) least = 4;
  if (rule.kind == FASTDL_HEBBIAN_KROTOV) least = 16;
  return samples >= 16 && units >= least;
}

template <class T>
void learn_of(const Rule& rule, const Matrix<const T>& w, const Matrix<const T>& x, Steps<T> lr, T* theta,
              const Matrix<T>& out, Index& diverged) {
  core::Scratch scratch;
  const Index units = w.rows;
  if (rule.kind == FASTDL_HEBBIAN_KROTOV && rule.norm != 2) {
    diverged = bad_from_the_start;
    if (x.rows > 0 && !all_numbers(w)) return;
    Competition<T> competition(rule, w, x, lr);
    diverged = competition.run();
    if (diverged == all_finite) competition.write(out);
    return;
  }
  T* thresholds = theta ? scratch.array<T>(units) : nullptr;
  const auto begin = [&] {
    for (Index i = 0; i < units && theta; ++i) thresholds[i] = theta[i];
  };
  const auto end = [&] {
    for (Index i = 0; i < units && theta; ++i) theta[i] = thresholds[i];
    diverged = all_finite;
  };
  // A step against the gradient makes the length of a unit a difference.
  bool rising = true;
  if (rule.kind == FASTDL_HEBBIAN_NORMALIZED)
    for (Index t = 0; t < x.rows; ++t) rising &= lr[t] >= T(0);
  begin();
  if (rising && units > 0 && w.cols > 0 && x.rows > 0 && blocks_pay(rule, units, w.cols, x.rows)) {
    Blocks<T> blocks(rule, w, x, lr, thresholds);
    blocks.run();
    T other = 0;
    for (Index i = 0; i < units && theta; ++i) other += thresholds[i] * T(0);
    if (blocks.finite() && other == T(0)) {
      blocks.write(out);
      return end();
    }
  } else {
    Loop<T> loop(rule, w, x, lr, thresholds);
    if (loop.run(false) == all_finite) {
      loop.write(out);
      return end();
    }
  }
  // Something is not finite: the plain loop says after which sample, or that a block was not finite on the way only.
  diverged = bad_from_the_start;
  if (!all_numbers(w)) return;
  begin();
  Loop<T> loop(rule, w, x, lr, thresholds);
  diverged = loop.run(true);
  if (diverged != all_finite) return;
  loop.write(out);
  end();
}

}  // namespace

#define FASTDL_BODIES_OF(T)                                                                               \
  void learn(const Rule& rule, const Matrix<const T>& w, const Matrix<const T>& x, Steps<T> lr, T* theta, \
             const Matrix<T>& out, std::int64_t& diverged) {                                              \
    learn_of<T>(rule, w, x, lr, theta, out, diverged);                                                    \
  }
FASTDL_BODIES_OF(float)
FASTDL_BODIES_OF(double)

}  // namespace fastdl::hebbian::FASTDL_LEVEL
