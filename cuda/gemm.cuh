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

// Leaves the sum as it is. An epilogue maps the finished sum of element (row, column) of C. One that wants to know
// which product of a batch it is for has a begin(batch), as a result has.
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
      const int near = thread % threads_near * S::lanes, far = thread / threads_near;
      const int row = from.along_depth ? far : near;
      rows_ = extent<T>(first_row, from.rows) - row;
      place_ = (from.along_depth ? near : far) * S::pitch + row;
      next_ = from.data + batch * from.batch_stride +
              first_row * (from.along_depth ? from.far_stride : from.near_stride) + near * from.near_stride +
              far * from.far_stride;
    }

    // Takes the next slice, of which `depth` (at most Shape<T>::depth) columns exist; what lies outside of the operand
    // counts as zero. After the last slice it is asked for one with depth <= 0, whose values nobody reads.
    __device__ __forceinline__ void read(int depth) {
      depth -= fastdl::cuda::anew(place_) / S::pitch;
      FASTDL_UNROLL
      for (int v = 0; v < S::vectors; ++v) {
        const int rows = rows_ - (from_.along_depth ? v * rounds_rows : 0);
        const int columns = depth - (from_.along_depth ? 0 : v * rounds_columns);
        const int near = from_.along_depth ? columns : rows, far = from_.along_depth ? rows : columns;
        const int count = far > 0 ? near : 0;
        const T* place = next_ + v * (from_.along_depth ? rounds_rows : rounds_columns) * from_.far_stride;
        if (from_.vectorised && count >= S::lanes) {
          held_[v] = vector_at(place);
        } else {
          const Index stride = fastdl::cuda::anew(from_.near_stride);
          FASTDL_UNROLL
          for (int e = 0; e < S::lanes; ++e, place += stride) held_[v].lane[e] = e < count ? *place : T(0);
        }
      }
      next_ += from_.slice_stride;
    }

    // Puts it down as slice[k][row].
    __device__ __forceinline__ void write(T (*slice)[S::pitch]) const {
      T* const place = &slice[0][0] + place_;
      FASTDL_UNROLL
      for (int v = 0; v < S::vectors; ++v) {
        if (from_.along_depth) {
          FASTDL_UNROLL
          for (int e = 0; e < S::lanes; ++e) place[v * rounds_rows + e * S::pitch] = held_[v].lane[e];
        } else {
          vector_at(place + v * rounds_columns * S::pitch) = held_[v];
        }
      }
    }

   private:
    // One round of all threads covers this much of the far axis.
    static constexpr int rounds_rows = S::threads * S::lanes / S::depth,
                         rounds_columns = S::threads * S::lanes / S::side;

    const Operand& from_;
    const T* next_;
    int place_;  // in a slice: k * pitch + row
    int rows_;   // from this one on
    Vector<T> held_[S::vectors];
  };
};

// How the threads share a slice where each brings four neighbouring k of one row.
template <class T>
struct FourOfRow {
  using S = Shape<T>;
  static constexpr int held = 4, near = S::depth / held;
  static_assert(S::threads == S::side * near);
  static __device__ __forceinline__ int row() { return int(threadIdx.x) / near; }
  static __device__ __forceinline__ int k() { return int(threadIdx.x) % near * held; }
  static __device__ __forceinline__ void write(const T (&values)[held], T (*slice)[S::pitch]) {
    FASTDL_UNROLL
    for (int e = 0; e < held; ++e) slice[k() + e][row()] = values[e];
  }
};

// An operand that was put in order before: rows of whole, aligned groups of four numbers, filled up with zeros. Its
// reader holds one pointer, where that of any strides holds twice as many registers and two ways of loading.
template <class T>
struct Rows {
  using Element = T;
  const T* data;
  Index rows, stride;
  Index batch_stride = 0;

  class Reader {
    using S = Shape<T>;
    using Four = FourOfRow<T>;

   public:
    __device__ __forceinline__ Reader(const Rows& from, Index first_row, Index batch) {
      Index row = first_row + Four::row();
      if (row >= from.rows) row = from.rows - 1;  // read, and its sums not stored
      next_ = from.data + batch * from.batch_stride + row * from.stride + Four::k();
    }

    __device__ __forceinline__ void read(int depth) {
      FASTDL_UNROLL
      for (int e = 0; e < Four::held; e += S::lanes) {
        const Vector<T> some = Four::k() < depth ? vector_at(next_ + e) : Vector<T>{};
        FASTDL_UNROLL
        for (int l = 0; l < S::lanes; ++l) held_[e + l] = some.lane[l];
      }
      next_ += S::depth;
    }

    __device__ __forceinline__ void write(T (*slice)[S::pitch]) const { Four::write(held_, slice); }

   private:
    const T* next_;
    T held_[Four::held];
  };
};

// The result: row-major with a leading dimension, or a batch of such. Other results have the same members but for the
// stride of batches: the place of a column may be anywhere, its rows are row_stride apart.
template <class T>
struct Result {
  using Element = T;
  T* data;
  Index rows, columns, row_stride;
  bool vectorised;  // every group of 16 bytes along a row is contiguous and aligned
  Index batch_stride = 0;

  __device__ __forceinline__ void begin(Index batch) { data += batch * batch_stride; }
  __device__ __forceinline__ T* column(Index number) const { return data + number; }
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

// Which tile a block computes, in 32 bits, whose divisions are short: there are fewer blocks. Below the diagonal: the
// triangle counted row by row. The square root is in single precision because doubles are slow on most cards; it is off
// by one at most here, and mended.
template <class T>
__device__ __forceinline__ Place<T> triangle_place(unsigned block) {
  const auto above = [](unsigned row) { return row % 2 ? (row + 1) / 2 * row : row / 2 * (row + 1); };
  unsigned row = unsigned((sqrtf(8.0f * float(block) + 1.0f) - 1.0f) * 0.5f);
  while (above(row) > block) --row;
  while (above(row + 1) <= block) ++row;
  return {int(row), int(block - above(row))};
}

// Over a rectangle: bands of 8 tile rows, column by column within a band, so that the blocks running at one time share
// their operands in L2 both ways.
template <class T>
__device__ __forceinline__ Place<T> rectangle_place(unsigned block, unsigned tiles_down, unsigned tiles_across) {
  constexpr unsigned band = 8;
  const unsigned first = block / tiles_across / band * band, within = block - first * tiles_across;
  const unsigned height = tiles_down - first < band ? tiles_down - first : band;
  return {int(first + within % height), int(within / height)};
}

// Which rows and columns of the tile are a thread's own. Made where it is needed, and not kept through the products.
template <class T>
struct Share {
  using S = Shape<T>;
  int thread_row, thread_column;

  __device__ __forceinline__ Share() {
    constexpr unsigned warps_across = S::threads_across / 8;
    const unsigned thread = unsigned(fastdl::cuda::anew(int(threadIdx.x))), warp = thread / 32, lane = thread % 32;
    thread_row = int(warp / warps_across * 4 + lane / 8);
    thread_column = int(warp % warps_across * 8 + lane % 8);
  }

  // The i-th of a thread, in the tile.
  static __device__ __forceinline__ int spread(int thread, int i) {
    return i / S::lanes * (S::threads_across * S::lanes) + thread * S::lanes + i % S::lanes;
  }
  __device__ __forceinline__ int row(int i) const { return spread(thread_row, i); }
  __device__ __forceinline__ int column(int j) const { return spread(thread_column, j); }
};

// What a thread reads of two slices in shared memory: eight numbers of each for every k, as two groups of 16 bytes. The
// two places are kept, and not what they are made of.
template <class T>
struct Fragments {
  using S = Shape<T>;
  const T* memory;
  int left, right;

  // `half` is the row of shared memory that the slices begin at.
  __device__ __forceinline__ Fragments(const Tile<T>& shared, int half) : memory(&shared.row[0][0]) {
    const Share<T> own;
    left = fastdl::cuda::anew(half * S::pitch + own.row(0));
    right = fastdl::cuda::anew((half + S::depth) * S::pitch + own.column(0));
  }
  __device__ __forceinline__ void read(int k, T (&one)[S::part], T (&other)[S::part]) const {
    FASTDL_UNROLL
    for (int g = 0; g < S::part; g += S::lanes) {
      const int place = k * S::pitch + Share<T>::spread(0, g);
      const Vector<T> ones = vector_at(memory + left + place), others = vector_at(memory + right + place);
      FASTDL_UNROLL
      for (int e = 0; e < S::lanes; ++e) {
        one[g + e] = ones.lane[e];
        other[g + e] = others.lane[e];
      }
    }
  }
};

// Their sums.
template <class T>
struct Sums {
  using S = Shape<T>;
  T sum[S::part][S::part];

  __device__ __forceinline__ void set(T value) {
    FASTDL_UNROLL
    for (int i = 0; i < S::part; ++i) {
      FASTDL_UNROLL
      for (int j = 0; j < S::part; ++j) sum[i][j] = value;
    }
  }

  // Two steps at a time: of more ptxas takes the loads together, and spills registers on one architecture or another.
  __device__ __forceinline__ void add_slice(const Tile<T>& shared, int half) {
    const Fragments<T> from(shared, half);
    FASTDL_UNROLL_BY(2)
    for (int k = 0; k < S::depth; ++k) {
      T left[S::part], right[S::part];
      from.read(k, left, right);
      FASTDL_UNROLL
      for (int i = 0; i < S::part; ++i) {
        FASTDL_UNROLL
        for (int j = 0; j < S::part; ++j) sum[i][j] = fastdl::cuda::multiply_add(left[i], right[j], sum[i][j]);
      }
    }
  }

  template <class To, class Epilogue>
  __device__ __forceinline__ void finish(const To& c, Place<T> tile, const Epilogue& epilogue) {
    const Share<T> own;
    const int rows = extent<T>(tile.row(), c.rows), columns = extent<T>(tile.column(), c.columns);
    // Row by row, so that what an epilogue reads for them is not all waited for at a time, in more registers than there
    // are. Columns outside of C stand for its last, without a branch: what is read for a row is read once.
    FASTDL_UNROLL
    for (int i = 0; i < S::part; ++i) {
      if (own.row(i) >= rows) continue;
      FASTDL_UNROLL
      for (int j = 0; j < S::part; ++j) {
        const int column = own.column(j) < columns ? own.column(j) : columns - 1;
        sum[i][j] = epilogue(sum[i][j], tile.row() + own.row(i), tile.column() + column);
      }
    }
  }
};

// Writes those of neighbouring values whose numbers are in [from, to).
template <class T>
__device__ __forceinline__ void store(T* place, bool vectorised, int from, int to, const Vector<T>& values) {
  if (vectorised && from <= 0 && to >= Vector<T>::lanes) {
    fastdl::cuda::store_vector(place, values);
  } else {
    FASTDL_UNROLL
    for (int e = 0; e < Vector<T>::lanes; ++e)
      if (e >= from && e < to) place[e] = values.lane[e];
  }
}

// The tile as it is: every thread stores its rows in groups of 16 bytes; the 8 threads of a warp's row make 128
// contiguous bytes. Of a tile on the diagonal of a symmetric C, only what is on and below it. To find a column can take
// divisions: it is done once for all rows, and, without vectors, for one column at a time; from row to row the place
// moves on, because eight offsets would be kept beside the sums.
template <bool symmetric, class T, class To>
__device__ __forceinline__ void store_tile(const To& c, Place<T> tile, const Sums<T>& sums) {
  using S = Shape<T>;
  const Share<T> own;
  const int rows = extent<T>(tile.row(), c.rows), columns = extent<T>(tile.column(), c.columns);
  const bool diagonal = symmetric && tile.row() == tile.column();
  const auto down_column = [&](int column, const auto& store_row) {
    const Index stride = fastdl::cuda::anew(c.row_stride);
    T* place = c.column(tile.column() + column) + (tile.row() + own.row(0)) * stride;
    FASTDL_UNROLL
    for (int i = 0; i < S::part; ++i) {
      if (own.row(i) < rows) store_row(place, i);
      place += (Share<T>::spread(0, i + 1) - Share<T>::spread(0, i)) * stride;
    }
  };
  FASTDL_UNROLL
  for (int j = 0; j < S::part; j += S::lanes) {
    const int first = own.column(j);
    if (first >= columns) continue;
    if (c.vectorised) {
      down_column(first, [&](T* place, int i) {
        Vector<T> values;
        FASTDL_UNROLL
        for (int e = 0; e < S::lanes; ++e) values.lane[e] = sums.sum[i][j + e];
        store(place, true, 0, (diagonal ? own.row(i) + 1 : columns) - first, values);
      });
    } else {
      FASTDL_UNROLL
      for (int e = 0; e < S::lanes; ++e) {
        if (first + e >= columns) break;
        down_column(first + e, [&](T* place, int i) {
          if (!diagonal || first + e <= own.row(i)) *place = sums.sum[i][j + e];
        });
      }
    }
  }
}

// Its mirror image (C is a Result; nobody reads shared memory any more), in strips of 32 (f64: 16) columns of the tile,
// which become rows of C: all threads put some of their columns into shared memory, then each warp writes whole rows,
// 512 contiguous bytes at a time.
template <class T, class To>
__device__ __forceinline__ void store_mirrored(const To& c, Place<T> tile, const Sums<T>& sums, Tile<T>& shared) {
  using S = Shape<T>;
  const Share<T> own;
  constexpr int columns = S::strip / S::threads_across;  // of each thread, in one strip
  static_assert(S::side / S::lanes == 32, "one warp writes one row of a strip");
  const int rows_there = extent<T>(tile.column(), c.columns), columns_there = extent<T>(tile.row(), c.rows);
  const int warp = threadIdx.x / 32, column_there = threadIdx.x % 32 * S::lanes;
  FASTDL_UNROLL
  for (int first = 0; first < S::part; first += columns) {
    if (first > 0) __syncthreads();  // all have read the strip before, which this one overwrites
    FASTDL_UNROLL
    for (int j = 0; j < columns; ++j) {
      FASTDL_UNROLL
      for (int i = 0; i < S::part; i += S::lanes) {
        Vector<T> values;
        FASTDL_UNROLL
        for (int e = 0; e < S::lanes; ++e) values.lane[e] = sums.sum[i + e][first + j];
        vector_at(&shared.row[j * S::threads_across + own.thread_column][own.row(i)]) = values;
      }
    }
    __syncthreads();
    FASTDL_NO_UNROLL
    for (int q = warp; q < S::strip; q += S::threads / 32) {
      const int row_there = Share<T>::spread(q % S::threads_across, first + q / S::threads_across);
      if (row_there >= rows_there) continue;
      store(c.column(tile.row() + column_there) + (tile.column() + row_there) * c.row_stride, c.vectorised,
            (tile.row() == tile.column() ? row_there + 1 : 0) - column_there, columns_there - column_there,
            vector_at(&shared.row[q][column_there]));
    }
  }
}

// Calls add(where in shared memory, number of the slice) for all slices of a depth > 0, in their order. When it returns
// nobody reads shared memory any more.
template <class T, class Left, class Right, class Add>
__device__ __forceinline__ void through_slices(Left& left, Right& right, Index depth, Tile<T>& shared, const Add& add) {
  using S = Shape<T>;
  // Slices are counted in 32 bits, and what is left is found anew: it would hold registers through the products.
  int slice = 0;
  const auto bring = [&] {
    const Index left_over = depth - Index(slice) * S::depth;
    const int here = int(left_over < S::depth ? left_over : S::depth);
    left.read(here);
    right.read(here);
  };
  const auto half = [&] { return slice % 2 * (2 * S::depth); };
  const auto put_down = [&] {
    left.write(shared.row + half());
    right.write(shared.row + half() + S::depth);
    __syncthreads();
  };
  bring();
  put_down();
  // No branch between the loads and where their values are put down: they would move there, behind the products. After
  // the last slice there is nothing; it is brought and put down all the same, and not read.
  FASTDL_NO_UNROLL
  do {
    const int here = half();
    ++slice;
    bring();
    add(here, slice - 1);
    put_down();
  } while (Index(slice) * S::depth < depth);
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
  Place<T> tile = symmetric ? triangle_place<T>(blockIdx.x)
                            : rectangle_place<T>(blockIdx.x, unsigned((c.rows + S::side - 1) / S::side),
                                                 unsigned((c.columns + S::side - 1) / S::side));

  Sums<T> sums;
  sums.set(T(0));
  if (depth > 0) {
    typename Left::Reader left(a, tile.row(), batch());
    typename Right::Reader right(b, tile.column(), batch());
    through_slices(left, right, depth, shared, [&](int half, int) { sums.add_slice(shared, half); });
  }
  c.begin(batch());
  if constexpr (requires { epilogue.begin(batch()); }) epilogue.begin(batch());
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
