// The matrix-product engine on the GPU: C[i, j] = epilogue(sum over k of A[i, k] * B[j, k]), the twin of csrc/gemm.
//
//   a block computes one square tile of C: 128 x 128 (f32, 256 threads) or 64 x 64 (f64, 64 threads)
//     for each slice of 32 bytes along k
//       bring the next slices of A and B to registers           the loads' latency hides behind the products
//       add the products of this slice, 8 x 8 sums a thread     fragments come from shared memory, 16 bytes a load
//       put the next slices into the other half of shared memory, transposed: k outermost
//       one barrier
//
// Why these sizes. An 8 x 8 register tile reads 16 numbers from shared memory for 64 multiply-adds, so the arithmetic
// is the limit and not shared memory; a warp is 4 x 8 such threads and its fragment loads are broadcasts of 64 and 128
// contiguous bytes, without bank conflicts. A thread's rows and columns come in groups of 16 bytes, one group from each
// part of the tile, for the same reason. A slice is 32 bytes deep because that is a sector, the least that memory
// gives; deeper slices of f64 spilled registers on sm_121. The loads go through registers and not cp.async: they are
// transposed on the way, and sm_75 has none.
//
// The sum of an element is one chain of fused multiply-adds in the order of k, whatever the tile, the mode or the
// batch: the result depends on its own two rows alone, to the bit. There are no atomics.
//
// Symmetric mode launches the tiles on and below the diagonal only. Each writes its elements with i >= j, and those
// with i > j once more at (j, i), turned over in shared memory so that both stores are coalesced: C is symmetric to the
// bit by construction.
#pragma once

#include "launch.cuh"

namespace fastdl::gemm::cuda {

using fastdl::cuda::Vector;
using fastdl::cuda::vector_at;
using Index = std::int64_t;

// Leaves the sum as it is. An epilogue maps the finished sum of element (row, column), and is called for elements of C
// only.
struct Identity {
  template <class T>
  __device__ __forceinline__ T operator()(T sum, Index, Index) const {
    return sum;
  }
};

template <class T>
struct Shape {
  static constexpr int side = sizeof(T) == 4 ? 128 : 64;  // of the tile
  static constexpr int depth = 32 / sizeof(T);            // of a slice: a row gives one 32-byte sector
  static constexpr int part = 8;                          // rows and columns of the tile that one thread sums
  static constexpr int lanes = Vector<T>::lanes;
  static constexpr int threads_across = side / part;
  static constexpr int threads = threads_across * threads_across;
  // Blocks that must fit a multiprocessor: 128 registers a thread for f32, 255 for f64, whose 64 sums alone take 128.
  static constexpr int resident_blocks = sizeof(T) == 4 ? 2 : 4;
  // Four more than a row of the tile: the transposing stores of a warp then fall into different banks.
  static constexpr int pitch = side + 4;
  static constexpr int vectors = side * depth / (lanes * threads);  // of one operand's slice that one thread brings
  // Rows of shared memory: two slices of two operands, or a strip of the mirror image.
  static constexpr int strip = 4 * depth;
};

template <class T>
struct Tile {  // in shared memory
  T row[Shape<T>::strip][Shape<T>::pitch];
};

template <class T>
struct Place {
  int tile_row, tile_column;
  __device__ __forceinline__ Index row() const { return Index(tile_row) * Shape<T>::side; }
  __device__ __forceinline__ Index column() const { return Index(tile_column) * Shape<T>::side; }
};

// How much of the tile that begins at `first` exists.
template <class T>
__device__ __forceinline__ int extent(Index first, Index end) {
  return int(end - first < Shape<T>::side ? end - first : Shape<T>::side);
}

// An operand: a matrix with any strides, or a batch of them. Its near axis, along which neighbouring threads take
// neighbouring elements, is the one with the smaller stride, for coalescing. The strides are chosen on the host:
// selects in the kernel would hold registers.
//
// Other operands ride on the engine as well (windows of images, orbits of a group): a struct with the number of rows
// and a class Reader, one thread's share in bringing slices to shared memory, with the three members of this one.
template <class T>
struct Operand {
  using Element = T;
  const T* data;
  Index rows, near_stride, far_stride, slice_stride;
  bool along_depth;  // near is k and far are the rows; else the other way around
  bool vectorised;   // near_stride is 1 and every group of 16 bytes along it is aligned
  Index batch_stride = 0;

  class Reader {
    using S = Shape<T>;

   public:
    __device__ __forceinline__ Reader(const Operand& from, Index first_row, Index batch) : from_(from) {
      const int thread = threadIdx.x;
      const int threads_near = from.along_depth ? S::depth / S::lanes : S::side / S::lanes;
      near_ = thread % threads_near * S::lanes;
      far_ = thread / threads_near;
      rows_ = extent<T>(first_row, from.rows);
      next_ = from.data + batch * from.batch_stride +
              first_row * (from.along_depth ? from.far_stride : from.near_stride) + near_ * from.near_stride +
              far_ * from.far_stride;
    }

    // Takes the next slice, of which `depth` (at most Shape<T>::depth) columns exist; what lies outside of the operand
    // counts as zero.
    __device__ __forceinline__ void read(int depth) {
      const int near_end = from_.along_depth ? depth : rows_, far_end = from_.along_depth ? rows_ : depth;
      FASTDL_UNROLL
      for (int v = 0; v < S::vectors; ++v) {
        const int count = far_at(v) < far_end ? near_end - near_ : 0;
        const T* place = next_ + (far_at(v) - far_) * from_.far_stride;
        if (from_.vectorised && count >= S::lanes) {
          held_[v] = vector_at(place);
        } else {
          FASTDL_UNROLL
          for (int e = 0; e < S::lanes; ++e) held_[v].lane[e] = e < count ? place[e * from_.near_stride] : T(0);
        }
      }
      next_ += from_.slice_stride;
    }

    // Puts it down as slice[k][row].
    __device__ __forceinline__ void write(T (*slice)[S::pitch]) const {
      FASTDL_UNROLL
      for (int v = 0; v < S::vectors; ++v) {
        if (from_.along_depth) {
          FASTDL_UNROLL
          for (int e = 0; e < S::lanes; ++e) slice[near_ + e][far_at(v)] = held_[v].lane[e];
        } else {
          vector_at(&slice[far_at(v)][near_]) = held_[v];
        }
      }
    }

   private:
    // In units of the far axis: one round of all threads covers this much of it.
    __device__ __forceinline__ int far_at(int v) const {
      return far_ + v * (from_.along_depth ? S::threads * S::lanes / S::depth : S::threads * S::lanes / S::side);
    }

    const Operand& from_;
    const T* next_;
    int near_, far_, rows_;
    Vector<T> held_[S::vectors];
  };
};

// The result: row-major with a leading dimension, or a batch of such. Other results have the same members but for the
// strides.
template <class T>
struct Result {
  using Element = T;
  T* data;
  Index rows, columns, row_stride;
  bool vectorised;  // every group of 16 bytes along a row is contiguous and aligned
  Index batch_stride = 0;

  __device__ __forceinline__ void begin(Index batch) { data += batch * batch_stride; }
  __device__ __forceinline__ T* at(Index row, Index column) const { return data + row * row_stride + column; }
};

inline bool starts_aligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }

template <class T>
Operand<T> operand(const T* data, Index rows, Index depth, Index row_stride, Index depth_stride,
                   Index batch_stride = 0) {
  // The stride of an axis with one element says nothing and may be any number.
  if (rows <= 1) row_stride = 0;
  if (depth <= 1) depth_stride = 0;
  const auto distance = [](Index stride) { return stride < 0 ? -stride : stride; };
  const bool along_depth = rows <= 1 || (depth > 1 && distance(depth_stride) <= distance(row_stride));
  const Index near = along_depth ? depth_stride : row_stride, far = along_depth ? row_stride : depth_stride;
  const bool vectorised =
      near == 1 && far % Vector<T>::lanes == 0 && batch_stride % Vector<T>::lanes == 0 && starts_aligned(data);
  return {data, rows, near, far, Shape<T>::depth * depth_stride, along_depth, vectorised, batch_stride};
}

template <class T>
Result<T> result(T* data, Index rows, Index columns, Index row_stride, Index batch_stride = 0) {
  constexpr int lanes = Vector<T>::lanes;
  const bool vectorised = row_stride % lanes == 0 && batch_stride % lanes == 0 && starts_aligned(data);
  return {data, rows, columns, row_stride, vectorised, batch_stride};
}

// Which tile a block computes. Below the diagonal: the triangle counted row by row. The square root is in single
// precision because doubles are slow on most cards; it is off by one at most here, and mended.
template <class T>
__device__ __forceinline__ Place<T> triangle_place(Index block) {
  Index row = Index((sqrtf(8.0f * float(block) + 1.0f) - 1.0f) * 0.5f);
  while (row * (row + 1) / 2 > block) --row;
  while ((row + 1) * (row + 2) / 2 <= block) ++row;
  return {int(row), int(block - row * (row + 1) / 2)};
}

// Over a rectangle: bands of 8 tile rows, column by column within a band, so that the blocks running at one time share
// their operands in L2 both ways.
template <class T>
__device__ __forceinline__ Place<T> rectangle_place(Index block, Index tiles_down, Index tiles_across) {
  constexpr Index band = 8;
  const Index first = block / (band * tiles_across) * band, within = block % (band * tiles_across);
  const Index height = tiles_down - first < band ? tiles_down - first : band;
  return {int(first + within % height), int(within / height)};
}

// The sums of one thread, and where in the tile they belong.
template <class T>
struct Sums {
  using S = Shape<T>;
  T sum[S::part][S::part];
  int thread_row, thread_column;

  __device__ __forceinline__ Sums() {
    constexpr int warps_across = S::threads_across / 8;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    thread_row = warp / warps_across * 4 + lane / 8;
    thread_column = warp % warps_across * 8 + lane % 8;
    FASTDL_UNROLL
    for (int i = 0; i < S::part; ++i) {
      FASTDL_UNROLL
      for (int j = 0; j < S::part; ++j) sum[i][j] = T(0);
    }
  }

  // Of the thread's i-th row or j-th column, in the tile.
  static __device__ __forceinline__ int spread(int thread, int i) {
    return i / S::lanes * (S::threads_across * S::lanes) + thread * S::lanes + i % S::lanes;
  }
  __device__ __forceinline__ int row(int i) const { return spread(thread_row, i); }
  __device__ __forceinline__ int column(int j) const { return spread(thread_column, j); }

  __device__ __forceinline__ void add_slice(const T (*a)[S::pitch], const T (*b)[S::pitch]) {
    FASTDL_UNROLL
    for (int k = 0; k < S::depth; ++k) {
      Vector<T> left[S::part / S::lanes], right[S::part / S::lanes];
      FASTDL_UNROLL
      for (int g = 0; g < S::part / S::lanes; ++g) {
        left[g] = vector_at(&a[k][row(g * S::lanes)]);
        right[g] = vector_at(&b[k][column(g * S::lanes)]);
      }
      FASTDL_UNROLL
      for (int i = 0; i < S::part; ++i) {
        FASTDL_UNROLL
        for (int j = 0; j < S::part; ++j)
          sum[i][j] = fastdl::cuda::multiply_add(left[i / S::lanes].lane[i % S::lanes],
                                                 right[j / S::lanes].lane[j % S::lanes], sum[i][j]);
      }
    }
  }

  template <class To, class Epilogue>
  __device__ __forceinline__ void finish(const To& c, Place<T> tile, const Epilogue& epilogue) {
    const int rows = extent<T>(tile.row(), c.rows), columns = extent<T>(tile.column(), c.columns);
    FASTDL_UNROLL
    for (int i = 0; i < S::part; ++i) {
      FASTDL_UNROLL
      for (int j = 0; j < S::part; ++j)
        if (row(i) < rows && column(j) < columns)
          sum[i][j] = epilogue(sum[i][j], tile.row() + row(i), tile.column() + column(j));
    }
  }
};

// Writes values to columns `column ...` of a tile that begins at `first` in c, as far as these are in [from, to).
template <class T, class To>
__device__ __forceinline__ void store(const To& c, Index row, Index first, int column, int from, int to,
                                      const Vector<T>& values) {
  if (c.vectorised && column >= from && column + Vector<T>::lanes <= to) {
    vector_at(c.at(row, first + column)) = values;
  } else {
    FASTDL_UNROLL
    for (int e = 0; e < Vector<T>::lanes; ++e)
      if (column + e >= from && column + e < to) *c.at(row, first + column + e) = values.lane[e];
  }
}

// The tile as it is: every thread stores its rows in groups of 16 bytes; the 8 threads of a warp's row make 128
// contiguous bytes. Of a tile on the diagonal of a symmetric C, only what is on and below it.
template <bool symmetric, class T, class To>
__device__ __forceinline__ void store_tile(const To& c, Place<T> tile, const Sums<T>& sums) {
  using S = Shape<T>;
  const int rows = extent<T>(tile.row(), c.rows), columns = extent<T>(tile.column(), c.columns);
  const bool diagonal = symmetric && tile.row() == tile.column();
  FASTDL_UNROLL
  for (int i = 0; i < S::part; ++i) {
    const int row = sums.row(i);
    if (row >= rows) continue;
    FASTDL_UNROLL
    for (int j = 0; j < S::part; j += S::lanes) {
      const int column = sums.column(j);
      Vector<T> values;
      FASTDL_UNROLL
      for (int e = 0; e < S::lanes; ++e) values.lane[e] = sums.sum[i][j + e];
      store(c, tile.row() + row, tile.column(), column, 0, diagonal ? row + 1 : columns, values);
    }
  }
}

// Its mirror image, in strips of 32 (f64: 16) columns of the tile, which become rows of C: all threads put some of
// their columns into shared memory, then each warp writes whole rows, 512 contiguous bytes at a time.
template <class T, class To>
__device__ __forceinline__ void store_mirrored(const To& c, Place<T> tile, const Sums<T>& sums, Tile<T>& shared) {
  using S = Shape<T>;
  constexpr int columns = S::strip / S::threads_across;  // of each thread, in one strip
  static_assert(S::side / S::lanes == 32, "one warp writes one row of a strip");
  const int rows_there = extent<T>(tile.column(), c.columns), columns_there = extent<T>(tile.row(), c.rows);
  const int warp = threadIdx.x / 32, column_there = threadIdx.x % 32 * S::lanes;
  FASTDL_UNROLL
  for (int first = 0; first < S::part; first += columns) {
    __syncthreads();  // all have read what the strip overwrites: the last slices, or the strip before
    FASTDL_UNROLL
    for (int j = 0; j < columns; ++j) {
      FASTDL_UNROLL
      for (int i = 0; i < S::part; i += S::lanes) {
        Vector<T> values;
        FASTDL_UNROLL
        for (int e = 0; e < S::lanes; ++e) values.lane[e] = sums.sum[i + e][first + j];
        vector_at(&shared.row[j * S::threads_across + sums.thread_column][sums.row(i)]) = values;
      }
    }
    __syncthreads();
    FASTDL_NO_UNROLL
    for (int q = warp; q < S::strip; q += S::threads / 32) {
      const int row_there = Sums<T>::spread(q % S::threads_across, first + q / S::threads_across);
      if (row_there >= rows_there) continue;
      store(c, tile.column() + row_there, tile.row(), column_there, tile.row() == tile.column() ? row_there + 1 : 0,
            columns_there, vector_at(&shared.row[q][column_there]));
    }
  }
}

// Which tiles of which products a launch computes.
enum class Mode { rectangle, triangle, batch };

template <Mode mode, class Left, class Right, class To, class Epilogue>
__global__ void __launch_bounds__(Shape<typename To::Element>::threads, Shape<typename To::Element>::resident_blocks)
    product(Left a, Right b, Index depth, Index batches, To c, Epilogue epilogue) {
  constexpr bool symmetric = mode == Mode::triangle;
  using T = typename To::Element;
  using S = Shape<T>;
  FASTDL_SHARED(Tile<T>, shared);
  // Not a variable: it would hold registers through the products.
  const auto batch = [] { return mode == Mode::batch ? Index(blockIdx.z) * gridDim.y + blockIdx.y : 0; };
  if (batch() >= batches) return;
  Place<T> tile =
      symmetric ? triangle_place<T>(blockIdx.x)
                : rectangle_place<T>(blockIdx.x, (c.rows + S::side - 1) / S::side, (c.columns + S::side - 1) / S::side);

  Sums<T> sums;
  if (depth > 0) {
    typename Left::Reader left(a, tile.row(), batch());
    typename Right::Reader right(b, tile.column(), batch());
    int half = 0;  // of shared memory, that the next slices go to
    const auto bring = [&] {
      const int here = int(depth < S::depth ? depth : S::depth);
      left.read(here);
      right.read(here);
    };
    const auto put_down = [&] {
      left.write(shared.row + half);
      right.write(shared.row + half + S::depth);
      half ^= 2 * S::depth;
      __syncthreads();
    };
    const auto add = [&] {
      const T(*slice)[S::pitch] = shared.row + (half ^ 2 * S::depth);
      sums.add_slice(slice, slice + S::depth);
    };
    bring();
    put_down();
    for (;;) {
      depth -= S::depth;
      if (depth > 0) bring();
      add();
      if (depth <= 0) break;
      put_down();
    }
  }
  c.begin(batch());
  sums.finish(c, tile, epilogue);
  store_tile<symmetric>(c, tile, sums);
  if constexpr (symmetric) store_mirrored(c, tile, sums, shared);
}

template <Mode mode, class Left, class Right, class To, class Epilogue>
void run(const char* name, const Left& a, const Right& b, Index depth, const To& c, const Epilogue& epilogue,
         cudaStream_t stream, Index batches) {
  using S = Shape<typename To::Element>;
  if (c.rows == 0 || c.columns == 0 || batches == 0) return;
  const Index down = (c.rows + S::side - 1) / S::side, across = (c.columns + S::side - 1) / S::side;
  // The tiles along one axis of blocks, of which there can be 2^31 - 1: enough for a C of 140 TB. The batches along the
  // two others, of which each has at most 65535.
  const auto tiles = static_cast<unsigned>(mode == Mode::triangle ? down * (down + 1) / 2 : down * across);
  constexpr Index most = 1 << 15;
  const auto some = static_cast<unsigned>(batches < most ? batches : most);
  const auto times = static_cast<unsigned>((batches + most - 1) / most);
  const fastdl::cuda::Geometry geometry{dim3(tiles, some, times), dim3(S::threads), 0, stream};
  fastdl::cuda::launch(name, product<mode, Left, Right, To, Epilogue>, geometry, a, b, depth, batches, c, epilogue);
}

// C = epilogue(A B')
template <class Left, class Right, class To, class Epilogue>
void multiply(const char* name, const Left& a, const Right& b, Index depth, const To& c, const Epilogue& epilogue,
              cudaStream_t stream) {
  run<Mode::rectangle>(name, a, b, depth, c, epilogue, stream, 1);
}

// C = epilogue(A A'): half of it is computed and mirrored. The epilogue must not tell (i, j) from (j, i).
template <class Left, class To, class Epilogue>
void multiply_symmetric(const char* name, const Left& a, Index depth, const To& c, const Epilogue& epilogue,
                        cudaStream_t stream) {
  run<Mode::triangle>(name, a, a, depth, c, epilogue, stream, 1);
}

// The same product of many matrices: those that batch strides give, or whatever a Reader makes of its batch.
template <class Left, class Right, class To, class Epilogue>
void multiply_batch(const char* name, Index batches, const Left& a, const Right& b, Index depth, const To& c,
                    const Epilogue& epilogue, cudaStream_t stream) {
  run<Mode::batch>(name, a, b, depth, c, epilogue, stream, batches);
}

}  // namespace fastdl::gemm::cuda
