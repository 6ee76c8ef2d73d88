// Group convolution by orbits in one kernel, without scratch memory for windows: for layers whose output channels do
// not fill the tiles of the matrix-product engine (gemm.cuh), as those of most networks on groups.
//
//   a block computes the sums of all numbers of the form for some output channels and pixels
//     for each 4 of (channel, orbit)
//       bring the next 4: transformed filters as they lie, and the values of orbits at the pixels of the block
//       add the products of these, for all numbers, from shared memory to registers
//       transform the orbits that were brought and put them into the other half of shared memory; one barrier
//   transform the sums back, add the bias, apply the activation, write all elements
//
//   form           a thread's outputs x pixels    a block's         multiply-adds for each 16 bytes of shared memory
//   p2, pm         8 x 8 (f64: 4 x 8)             64 x 128 (32 x)   16 (5.3)
//   p4             8 x 4 (f64: 4 x 4)             64 x 64 (32 x)    10.7 (4)
//   p4m            4 x 4 (f64: 4 x 2)             32 x 64 (32)      12 (4)
//
// Limits, estimated: a value of an orbit takes some 13 instructions, of which each block of channels repeats all: for
// p4 100 a slice and thread beside 640 multiply-adds, for p4m 200 beside 768. With the loads from shared memory that is
// some 60% of the peak of multiply-adds, whatever the number of channels; 2 blocks of 4 warps a multiprocessor, which
// is enough for 64 to 160 independent chains a thread. x is read from L1 and L2, each number k^2 times a block of
// channels.
//
// A sum is one chain of multiply-adds in the order of (channel, orbit): a pixel's result depends on its own window
// alone.
#pragma once

#include "group_orbits.cuh"

namespace fastdl::group::cuda {

using fastdl::cuda::Vector;

constexpr int most_fused_orbits = 1024;  // filters up to 32 x 32: first pixels of orbits are a table in shared memory

template <class T, class Form>
struct FusedShape {
  static constexpr bool single = sizeof(T) == 4;
  static constexpr int lanes = Vector<T>::lanes, depth = 4;
  static constexpr int outputs_each = single && Form::elements < 8 ? 8 : 4;
  static constexpr int pixels_each = Form::elements == 2 ? 8 : Form::elements == 8 && !single ? 2 : 4;
  static constexpr int threads_down = 8, threads_across = 16, threads = threads_down * threads_across;
  static constexpr int outputs = threads_down * outputs_each, pixels = threads_across * pixels_each;
  static constexpr int step = threads / pixels;  // threads that share a pixel when they gather
  static constexpr int held = depth / step;      // orbits that a thread gathers in a slice
  static constexpr int filter_vectors = depth * Form::numbers * outputs / lanes;
  static constexpr int vectors = (filter_vectors + threads - 1) / threads;  // of filters, that a thread brings
};

template <class T, class Form>
struct FusedMemory {
  using S = FusedShape<T, Form>;
  struct Slice {
    alignas(16) T filters[S::depth][Form::numbers][S::outputs];
    alignas(16) T windows[S::depth][Form::numbers][S::pixels];
  };
  Slice slice[2];
  Pixel first[most_fused_orbits];
};

// What one thread brings to shared memory.
template <class T, class Form>
class FusedReader {
  using S = FusedShape<T, Form>;
  using Memory = FusedMemory<T, Form>;

 public:
  __device__ __forceinline__ FusedReader(const Source<T>& x, const Orbits& orbits, int channels, Index pixel,
                                         Index pixels, const T* filters, Index pitch, const Pixel* first)
      : x_(x), orbits_(orbits), first_(first), filters_(filters), pitch_(pitch), channels_(channels) {
    exists_ = pixel < pixels;
    const Index image = pixel / x.pixels, within = pixel % x.pixels;
    row_ = int(within / x.out_columns) * x.stride[0] - x.lower[0];
    column_ = int(within % x.out_columns) * x.stride[1] - x.lower[1];
    from_ = x.data + image * x.strides.batch;
    const int count = orbits.count();
    FASTDL_UNROLL
    for (int v = 0; v < S::held; ++v) {
      const int at = int(threadIdx.x) / S::pixels + v * S::step;
      channel_[v] = at / count;
      orbit_[v] = at % count;
    }
  }

  __device__ __forceinline__ void read() {
    const int count = orbits_.count();
    FASTDL_UNROLL
    for (int v = 0; v < S::held; ++v) {
      const bool valid = exists_ && channel_[v] < channels_;
      const Pixel first = first_[orbit_[v]];
      const T* const plane = from_ + channel_[v] * x_.strides.channel;
      FASTDL_UNROLL
      for (int h = 0; h < Form::elements; ++h) {
        const Pixel tap = moved(orbits_.group, h, orbits_.k, first);
        const int i = row_ + tap.row, j = column_ + tap.column;
        const bool inside = valid && i >= 0 && i < x_.in[0] && j >= 0 && j < x_.in[1];
        const Index offset = (orbits_.lift ? 0 : h * x_.strides.element) + i * x_.strides.row + j * x_.strides.column;
        values_[v][h] = inside ? plane[offset] : T(0);
      }
      orbit_[v] += S::depth;
      while (orbit_[v] >= count) {
        orbit_[v] -= count;
        ++channel_[v];
      }
    }
    FASTDL_UNROLL
    for (int v = 0; v < S::vectors; ++v) {
      const int at = int(threadIdx.x) + v * S::threads;
      if (at < S::filter_vectors)
        brought_[v] = *reinterpret_cast<const Vector<T>*>(filters_ + at * S::lanes / S::outputs * pitch_ +
                                                          at * S::lanes % S::outputs);
    }
    filters_ += S::depth * Form::numbers * pitch_;
  }

  __device__ __forceinline__ void write(typename Memory::Slice& to) const {
    const int pixel = int(threadIdx.x) % S::pixels, first = int(threadIdx.x) / S::pixels;
    FASTDL_UNROLL
    for (int v = 0; v < S::held; ++v) {
      T numbers[Form::numbers];
      Form::input(values_[v], numbers);
      FASTDL_UNROLL
      for (int i = 0; i < Form::numbers; ++i) to.windows[first + v * S::step][i][pixel] = numbers[i];
    }
    FASTDL_UNROLL
    for (int v = 0; v < S::vectors; ++v) {
      const int at = int(threadIdx.x) + v * S::threads;
      if (at < S::filter_vectors) *reinterpret_cast<Vector<T>*>(&to.filters[0][0][0] + at * S::lanes) = brought_[v];
    }
  }

 private:
  const Source<T>& x_;
  const Orbits& orbits_;
  const Pixel* first_;
  const T *filters_, *from_;
  Index pitch_;
  int channels_, row_, column_;
  bool exists_;
  int channel_[S::held], orbit_[S::held];
  T values_[S::held][Form::elements];
  Vector<T> brought_[S::vectors];
};

// The sums of one thread.
template <class T, class Form>
struct FusedSums {
  using S = FusedShape<T, Form>;
  T sum[Form::numbers][S::outputs_each][S::pixels_each];
  int thread_row, thread_column;

  __device__ __forceinline__ FusedSums() {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    thread_row = warp / 2 * 4 + lane / 8;
    thread_column = warp % 2 * 8 + lane % 8;
    FASTDL_UNROLL
    for (int n = 0; n < Form::numbers; ++n) {
      FASTDL_UNROLL
      for (int i = 0; i < S::outputs_each; ++i) {
        FASTDL_UNROLL
        for (int j = 0; j < S::pixels_each; ++j) sum[n][i][j] = T(0);
      }
    }
  }

  // Where its i-th output, or j-th pixel, is: groups of 16 bytes, each from another part of the block's, so that the
  // loads of a warp are contiguous.
  __device__ __forceinline__ int row(int i) const {
    return i / S::lanes * (S::threads_down * S::lanes) + thread_row * S::lanes + i % S::lanes;
  }
  __device__ __forceinline__ int column(int j) const {
    return j / S::lanes * (S::threads_across * S::lanes) + thread_column * S::lanes + j % S::lanes;
  }

  struct Outputs {
    T of[S::outputs_each];
  };
  struct Pixels {
    T of[S::pixels_each];
  };

  __device__ __forceinline__ Outputs outputs(const T* from) const {
    Outputs found;
    FASTDL_UNROLL
    for (int i = 0; i < S::outputs_each; i += S::lanes) {
      const Vector<T> vector = *reinterpret_cast<const Vector<T>*>(from + row(i));
      FASTDL_UNROLL
      for (int e = 0; e < S::lanes; ++e) found.of[i + e] = vector.lane[e];
    }
    return found;
  }
  __device__ __forceinline__ Pixels pixels(const T* from) const {
    Pixels found;
    FASTDL_UNROLL
    for (int j = 0; j < S::pixels_each; j += S::lanes) {
      const Vector<T> vector = *reinterpret_cast<const Vector<T>*>(from + column(j));
      FASTDL_UNROLL
      for (int e = 0; e < S::lanes; ++e) found.of[j + e] = vector.lane[e];
    }
    return found;
  }
  __device__ __forceinline__ void add(T (&to)[S::outputs_each][S::pixels_each], const Outputs& left,
                                      const Pixels& right) {
    FASTDL_UNROLL
    for (int i = 0; i < S::outputs_each; ++i) {
      FASTDL_UNROLL
      for (int j = 0; j < S::pixels_each; ++j) to[i][j] = fastdl::cuda::multiply_add(left.of[i], right.of[j], to[i][j]);
    }
  }

  __device__ __forceinline__ void add_step(const T (&filters)[Form::numbers][S::outputs],
                                           const T (&windows)[Form::numbers][S::pixels]) {
    FASTDL_UNROLL
    for (int n = 0; n < Form::characters; ++n) add(sum[n], outputs(filters[n]), pixels(windows[n]));
    if constexpr (Form::matrices) {  // y^ = x^ w^'
      constexpr int m = Form::characters;
      FASTDL_UNROLL
      for (int c = 0; c < 2; ++c) {
        const Outputs upper = outputs(filters[m + c]), lower = outputs(filters[m + 2 + c]);
        FASTDL_UNROLL
        for (int r = 0; r < 2; ++r) {
          const Pixels right = pixels(windows[m + 2 * r + c]);
          add(sum[m + 2 * r], upper, right);
          add(sum[m + 2 * r + 1], lower, right);
        }
      }
    }
  }

  // Rolled in double, whose sums leave few registers: unrolled, some architectures spilled.
  __device__ __forceinline__ void add_slice(const typename FusedMemory<T, Form>::Slice& from) {
    if constexpr (S::single) {
      FASTDL_UNROLL
      for (int k = 0; k < S::depth; ++k) add_step(from.filters[k], from.windows[k]);
    } else {
      FASTDL_NO_UNROLL
      for (int k = 0; k < S::depth; ++k) add_step(from.filters[k], from.windows[k]);
    }
  }
};

// Where the layer goes: (images, out_channels, elements, pixels), contiguous.
template <class T>
struct FusedOutput {
  T* data;
  Index out_channels, image_pixels, pixels;  // of all images
  bool vectorised;                           // every 16 bytes of pixels are of one image, and aligned
};

// filters: [(channel, orbit), zeros up to a multiple of 4][number][output channel, zeros up to pitch]
template <class T, class Form>
__global__ void __launch_bounds__(FusedShape<T, Form>::threads, 2)
    fused_layer(Source<T> x, Orbits orbits, int channels, const T* filters, Index pitch, const T* bias, T slope,
                FusedOutput<T> out) {
  using S = FusedShape<T, Form>;
  using Memory = FusedMemory<T, Form>;
  FASTDL_SHARED(Memory, shared);
  const int count = orbits.count();
  for (int orbit = threadIdx.x; orbit < count; orbit += S::threads) shared.first[orbit] = orbits.first(orbit);
  __syncthreads();
  const unsigned tiles = unsigned(pitch / S::outputs);
  const Index first_output = Index(blockIdx.x % tiles) * S::outputs;
  const Index first_pixel = Index(blockIdx.x / tiles) * S::pixels;

  FusedSums<T, Form> sums;
  FusedReader<T, Form> reader(x, orbits, channels, first_pixel + threadIdx.x % S::pixels, out.pixels,
                              filters + first_output, pitch, shared.first);
  Index depth = Index(channels) * count;
  int half = 0;
  reader.read();
  reader.write(shared.slice[0]);
  __syncthreads();
  for (;;) {
    depth -= S::depth;
    if (depth > 0) reader.read();
    sums.add_slice(shared.slice[half]);
    if (depth <= 0) break;
    half ^= 1;
    reader.write(shared.slice[half]);
    __syncthreads();
  }

  FASTDL_UNROLL
  for (int i = 0; i < S::outputs_each; ++i) {
    const Index o = first_output + sums.row(i);
    if (o >= out.out_channels) continue;
    const T constant = bias ? bias[o] : T(0);
    FASTDL_UNROLL
    for (int j = 0; j < S::pixels_each; j += S::lanes) {
      Vector<T> values[Form::elements];
      FASTDL_UNROLL
      for (int e = 0; e < S::lanes; ++e) {
        T numbers[Form::numbers], y[Form::elements];
        FASTDL_UNROLL
        for (int n = 0; n < Form::numbers; ++n) numbers[n] = sums.sum[n][i][j + e];
        Form::output(numbers, y);
        FASTDL_UNROLL
        for (int s = 0; s < Form::elements; ++s) values[s].lane[e] = fastdl::cuda::rectified(y[s] + constant, slope);
      }
      const Index pixel = first_pixel + sums.column(j);
      const auto place = [&](Index p) {
        return out.data + (p / out.image_pixels * out.out_channels + o) * Form::elements * out.image_pixels +
               p % out.image_pixels;
      };
      if (out.vectorised && pixel + S::lanes <= out.pixels) {
        T* const to = place(pixel);
        FASTDL_UNROLL
        for (int s = 0; s < Form::elements; ++s) *reinterpret_cast<Vector<T>*>(to + s * out.image_pixels) = values[s];
      } else {
        FASTDL_UNROLL
        for (int e = 0; e < S::lanes; ++e) {
          if (pixel + e >= out.pixels) continue;
          T* const to = place(pixel + e);
          FASTDL_UNROLL
          for (int s = 0; s < Form::elements; ++s) to[s * out.image_pixels] = values[s].lane[e];
        }
      }
    }
  }
}

}  // namespace fastdl::group::cuda
