// Transforms of batches over the last one, two or three axes, compiled once per instruction-set level.
#include "fft/batch.hpp"
#include "fft/batch_rows.hpp"

namespace fastdl::fft {
namespace {

// Up to so many numbers an array stays in L2 while all its axes are transformed.
constexpr Index kept_in_cache = 1 << 16;

// Along the first axis of `batch` arrays of n x inner, in place; lanes across the inner ones.
template <class T>
void transform_columns(T* data, Index batch, Index n, Index inner, bool inverse, T factor) {
  constexpr int lanes = simd::lanes<T>;
  const SharedPlan<T> shared(n);
  const Plan<T>& plan = shared.plan();
  const Parts<T> parts(inverse);
  const Index groups = divide_up(inner, lanes);
  const int threads = threads_for(double(batch) * double(n) * double(inner));
  const Index many = pieces_of_task(batch * groups, at_most(lanes, inner) * n, threads);
  const Index room = (n + plan.scratch) * width<T>;
  core::parallel_for(divide_up(batch * groups, many), threads, [&](Index i) {
    core::Scratch scratch;
    T* column = scratch.array<T>(room);
    const Index end = at_most(batch * groups, (i + 1) * many);
    for (Index k = i * many; k < end; ++k) {
      const Index first = k % groups * lanes;
      T* at = data + 2 * (k / groups * n * inner + first);
      const int count = int(at_most(lanes, inner - first));
      load_columns<T>(at, 2 * inner, n, count, parts, column);
      transform(plan, false, column, 1, column, 1, column + n * width<T>);
      store_columns<T>(at, 2 * inner, n, count, parts, factor, column);
    }
  });
}

// b's array with all but its first `axis` axes transformed; those are a part of the batch.
template <class T>
void transform_axes(const Batch<T>& b, const T* in, T* out, Index batch, int axis) {
  const T factor = b.inverse ? T(1) / T(b.size[axis]) : T(1);
  if (axis == b.rank - 1) {
    if (b.real) return transform_real_rows(in, out, batch, b.size[axis]);
    return transform_rows(in, out, batch, b.size[axis], b.inverse, factor);
  }
  Index inner_in = 1, inner_out = 1;
  for (int a = axis + 1; a < b.rank; ++a) {
    const bool halved = b.real && a == b.rank - 1;
    inner_in *= b.size[a];
    inner_out *= halved ? b.size[a] / 2 + 1 : b.size[a];
  }
  inner_in *= b.size[axis] * (b.real ? 1 : 2);
  const Index inner = b.size[axis] * inner_out;
  const auto some = [&](Index first, Index count, T*) {
    T* to = out + 2 * inner * first;
    transform_axes(b, in + inner_in * first, to, count * b.size[axis], axis + 1);
    transform_columns(to, count, b.size[axis], inner_out, b.inverse, factor);
  };
  if (inner > kept_in_cache || batch == 1) return some(0, batch, nullptr);
  for_rows<T>(batch, inner, 1, 0, some);
}

}  // namespace

namespace FASTDL_LEVEL {

void transform_batch(const Batch<float>& b) { transform_axes(b, b.in, b.out, b.batch, 0); }
void transform_batch(const Batch<double>& b) { transform_axes(b, b.in, b.out, b.batch, 0); }

}  // namespace FASTDL_LEVEL
}  // namespace fastdl::fft
