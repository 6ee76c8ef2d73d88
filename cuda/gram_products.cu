// Products with Gram matrices that are never formed: how they are split, attention, and the sums of the parts.
#include "gram_kernels.hpp"
#include "gram_matvec.cuh"
#include "gram_rows.cuh"
#include "gram_sums.cuh"
#include "strided.hpp"

namespace fastdl::gram::cuda {
namespace {

using fastdl::cuda::Scratch;

constexpr Index most_parts = 16;                 // along the columns
constexpr Index partial_count = Index{1} << 25;  // numbers in the parts of one launch, about

template <class T>
__device__ __forceinline__ T minus_infinity() {
  return T(-HUGE_VAL);
}

// Attention: the tile becomes scores, scale q.k, and then e^(score - m) with the largest score m of the row so far that
// this warp has seen. Its sums begin anew when m grows: what there is shrinks by e^(m before - m). The sum of the
// weights is kept beside those of the products. Limit: arithmetic, 2 d flops a score, again for every 16 columns of V,
// beside some 20 instructions for its exponential and 2 flops for each column. The registers of a tile leave room for
// few warps: docs/cuda/resources.md.
template <class T>
__global__ void __launch_bounds__(Shape<T>::threads, Shape<T>::resident_blocks)
    attention(Rows<T> q, Rows<T> k, Index features, T scale, RightSides<T> right, Split<T> split) {
  using S = Shape<T>;
  FASTDL_SHARED(Tile<T>, shared);
  FASTDL_DYNAMIC_SHARED(T, memory);
  Sums<T> sums;
  const auto work = [&] { return Work<T>(q.rows, k.rows, split, right.count); };
  OwnSums<T>(memory).set_zero(work().together);
  T largest = minus_infinity<T>(), total = T(0);  // of the row whose sums are this thread's
  const int end_tile = work().end_tile;
  FASTDL_NO_UNROLL
  for (int tile = work().first_tile; tile < end_tile; ++tile) {
    sum_tile(sums, q, k, work().row, Index(tile) * S::side, features, Product<T>{}, shared);
    const Index column = Index(tile) * S::side;
    const int columns = gemm::cuda::extent<T>(column, k.rows);
    const Share<T> share;
    T of_rows[S::part];
    FASTDL_UNROLL
    for (int i = 0; i < S::part; ++i) {
      FASTDL_UNROLL
      for (int j = 0; j < S::part; ++j) {
        T& score = sums.sum[i][j];
        score = share.column(j) < columns ? score * scale : minus_infinity<T>();
        of_rows[i] = j == 0 ? score : std::fmax(of_rows[i], score);
      }
    }
    const T before = largest, here = across_lanes(of_rows, [](T a, T b) { return std::fmax(a, b); });
    largest = std::fmax(before, here);
    // As long as there is nothing but -inf, all weights are 0.
    const T base = largest > minus_infinity<T>() ? largest : T(0);
    const T shrink = largest > before ? std::exp(before - largest) : T(1);
    FASTDL_NO_UNROLL
    for (int i = 0; i < S::part; ++i) {
      const T of_row = __shfl_sync(~0u, base, i, 8);
      T weights[S::part], sum = T(0);
      FASTDL_UNROLL
      for (int j = 0; j < S::part; ++j) {
        weights[j] = std::exp(sums.sum[0][j] - of_row);
        sum += weights[j];
      }
      rotate(sums, weights);
      rotate<T>(of_rows, sum);
    }
    total = multiply_add(total, shrink, across_lanes(of_rows, [](T a, T b) { return a + b; }));
    add_product(sums, OwnSums<T>(memory), right, work().first_right, work().together, column, columns, shrink);
  }
  const OwnSums<T> own(memory);
  const Work<T> here = work();
  own.write(here, q.rows, right.count, split.partial);
  if (own.row < here.rows && here.first_right == 0) {
    const Index row = own.partial_row(here, q.rows);
    split.largest[row] = largest;
    split.total[row] = total;
  }
}

// The sum of the parts of attention: they count by their largest scores, and the sums are divided by those of the
// weights. Limit: memory, `strips` (at most 32) reads and a write of a number; in f64 the exponential for each of them.
template <class T>
__global__ void __launch_bounds__(256) join_parts(Split<T> split, Index strips, Index rows, Index right_sides, T* out) {
  const Index at = Index(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= rows * right_sides) return;
  const Index row = at / right_sides;
  T largest = minus_infinity<T>();
  FASTDL_NO_UNROLL
  for (Index strip = 0; strip < strips; ++strip) largest = std::fmax(largest, split.largest[strip * rows + row]);
  const T base = largest > minus_infinity<T>() ? largest : T(0);
  T sum = T(0), total = T(0);
  FASTDL_NO_UNROLL
  for (Index strip = 0; strip < strips; ++strip) {
    const T share = std::exp(split.largest[strip * rows + row] - base);
    sum = multiply_add(split.partial[strip * rows * right_sides + at], share, sum);
    total = multiply_add(split.total[strip * rows + row], share, total);
  }
  out[at] = sum / total;
}

// How the columns are split, and the rows that are done at a time.
template <class T>
struct Plan {
  Index parts, tiles_a_part, strips, rows_at_once;

  Plan(Index rows, Index columns, Index right_sides) {
    constexpr Index side = Shape<T>::side;
    const Index tiles = (columns + side - 1) / side;
    tiles_a_part = (tiles + most_parts - 1) / most_parts;
    if (tiles_a_part == 0) tiles_a_part = 1;
    parts = (tiles + tiles_a_part - 1) / tiles_a_part;
    if (parts == 0) parts = 1;
    strips = parts * Warps<T>::across;
    rows_at_once = partial_count / (strips * (right_sides + 2)) / side * side;
    if (rows_at_once < side) rows_at_once = side;
    if (rows_at_once > rows) rows_at_once = rows;
  }
};

// run(v, out) for as many right-hand sides at a time as one launch takes: their parts need memory, and a grid has its
// limits.
template <class T, class Run>
void for_right_sides(const char* name, const MatrixView<const T>& v, Index rows, T* out, Stream stream,
                     const Run& run) {
  constexpr Index most = 4096;
  if (v.cols <= most) return run(v, out);
  const Scratch<T> part(name, rows * most, stream);
  for (Index first = 0; first < v.cols; first += most) {
    MatrixView<const T> some = v;
    some.data += first * v.col_stride;
    some.cols = v.cols - first < most ? v.cols - first : most;
    run(some, part.data());
    fastdl::cuda::scatter(name, part.data(), out + first, {2, {rows, some.cols}, {v.cols, 1}}, stream);
  }
}

template <class T>
void multiply(const char* name, const Kernel& kernel, const MatrixView<const T>& x, const MatrixView<const T>& y,
              const MatrixView<const T>& v, T* out, Stream stream) {
  const Index p = v.cols;
  const Plan<T> plan(x.rows, y.rows, p);
  const Scratch<T> partial(name, plan.strips * plan.rows_at_once * p, stream);
  for (Index first = 0; first < x.rows; first += plan.rows_at_once) {
    const Index rows = x.rows - first < plan.rows_at_once ? x.rows - first : plan.rows_at_once;
    const bool same = first == 0 && x.data == y.data && rows == y.rows && x.row_stride == y.row_stride &&
                      x.col_stride == y.col_stride;
    const Prepared<T> prepared(name, kernel, some_rows(x, first, rows), y, same, stream);
    Task<T> task = prepared.task(Job::product);
    task.right = {v.data, v.row_stride, v.col_stride, p};
    task.split = {plan.parts, plan.tiles_a_part, partial.data(), nullptr, nullptr};
    prepared.run(task);
    fastdl::cuda::launch(name, add_parts<T>, {dim3(blocks_of(rows * p, 256)), dim3(256), 0, stream}, partial.data(),
                         plan.strips, rows * p, out + first * p);
  }
}

template <class T>
void attend(const char* name, const MatrixView<const T>& q, const MatrixView<const T>& k, const MatrixView<const T>& v,
            double scale, T* out, Stream stream) {
  const Index p = v.cols;
  const Plan<T> plan(q.rows, k.rows, p);
  const Scratch<T> partial(name, plan.strips * plan.rows_at_once * p, stream);
  const Scratch<T> largest(name, plan.strips * plan.rows_at_once, stream);
  const Scratch<T> total(name, plan.strips * plan.rows_at_once, stream);
  const Split<T> split{plan.parts, plan.tiles_a_part, partial.data(), largest.data(), total.data()};
  const Samples<T> keys(name, k, stream);
  for (Index first = 0; first < q.rows; first += plan.rows_at_once) {
    const Index rows = q.rows - first < plan.rows_at_once ? q.rows - first : plan.rows_at_once;
    const Samples<T> queries(name, some_rows(q, first, rows), stream);
    fastdl::cuda::launch(
        name, attention<T>,
        {dim3(blocks_of(rows, Shape<T>::side), static_cast<unsigned>(plan.parts), blocks_of(p, right_sides_together)),
         dim3(Shape<T>::threads), sums_bytes<T>(p), stream},
        queries.rows(), keys.rows(), q.cols, T(scale), RightSides<T>{v.data, v.row_stride, v.col_stride, p}, split);
    fastdl::cuda::launch(name, join_parts<T>, {dim3(blocks_of(rows * p, 256)), dim3(256), 0, stream}, split,
                         plan.strips, rows, p, out + first * p);
  }
}

}  // namespace

template <class T>
void matvec(const Kernel& kernel, const MatrixView<const T>& x, const MatrixView<const T>& y,
            const MatrixView<const T>& v, T* out, Stream stream) {
  constexpr const char* name = "gram.matvec";
  if (x.rows == 0 || v.cols == 0) return;
  for_right_sides(name, v, x.rows, out, stream,
                  [&](const MatrixView<const T>& some, T* to) { multiply(name, kernel, x, y, some, to, stream); });
}

template <class T>
void softmax_matvec(const MatrixView<const T>& q, const MatrixView<const T>& k, const MatrixView<const T>& v,
                    double scale, T* out, Stream stream) {
  constexpr const char* name = "gram.softmax_matvec";
  if (q.rows == 0 || v.cols == 0) return;
  if (k.rows == 0) return fastdl::cuda::set_zero(name, out, std::size_t(q.rows * v.cols) * sizeof(T), stream);
  for_right_sides(name, v, q.rows, out, stream,
                  [&](const MatrixView<const T>& some, T* to) { attend(name, q, k, some, scale, to, stream); });
}

#define FASTDL_GRAM_PRODUCTS(T)                                                                                    \
  template void matvec(const Kernel&, const MatrixView<const T>&, const MatrixView<const T>&,                      \
                       const MatrixView<const T>&, T*, Stream);                                                    \
  template void softmax_matvec(const MatrixView<const T>&, const MatrixView<const T>&, const MatrixView<const T>&, \
                               double, T*, Stream);
FASTDL_GRAM_PRODUCTS(float)
FASTDL_GRAM_PRODUCTS(double)
#undef FASTDL_GRAM_PRODUCTS

}  // namespace fastdl::gram::cuda
