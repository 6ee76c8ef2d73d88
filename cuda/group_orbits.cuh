// The kernels around the matrix products of layers on groups of the plane: to the numbers of a form and back.
//
// Numbers lie in two arrays, [characters][rows][width] and [4 entries of the matrix][rows][width], so that the products
// of all characters are one strided batch, and those of matrices, two rows of the matrix on one side, another. Rows are
// (channel, orbit) or output channels, with the pixels along them: threads that are neighbours read neighbouring pixels
// of x (for stride 1), and write neighbouring numbers, whole sectors. All kernels are bound by memory, mostly by L2,
// for a portion of pixels is chosen to about fit there (group_layer.cu).
#pragma once

#include "activation.cuh"
#include "group_forms.cuh"

namespace fastdl::group::cuda {

constexpr int pixel_threads = 128;
// Channels that a thread goes through with one pixel, planes of dx in the other direction: where the pixel lies is
// found once.
constexpr int channels_together = 16, planes_together = 8;

// The numbers of a form. With parts, each is [part][number][rows][width], pixels going on from part to part.
template <class T>
struct Numbers {
  T *characters, *matrices;
  Index rows, width;
};

// Pixels [first, first + count) of all images, width along a row and the rest in further parts.
struct Portion {
  Index first, count, width, parts;
};

// Maps and where windows lie in them. A channel is number c of `split` planes that follow each other by `element`.
template <class T>
struct Source {
  const T* data;
  Strides strides;
  int split;
  int in[2], stride[2], lower[2];
  Index out_columns, pixels;
};

template <class T>
Source<T> windows_of(const Layer& layer, const T* x, const Strides& strides, int split) {
  return {x,
          strides,
          split,
          {int(layer.in[0]), int(layer.in[1])},
          {int(layer.stride[0]), int(layer.stride[1])},
          {int(layer.lower[0]), int(layer.lower[1])},
          layer.out[1],
          layer.pixels()};
}

// to[i][(c, orbit)][p] = input or filter of x(h q), h in the group: the windows of x at all pixels of a portion, zero
// where there are none. A thread takes one pixel, one orbit and 16 channels: where the |G| values of the orbit lie is
// found once, and then a channel is |G| loads, the additions of the form and `numbers` stores, some 40 instructions for
// p4 and 70 for p4m.
//
// Loads have no reuse but for L1 and L2, where windows overlap; k^2 times the bytes of x are written, and read again by
// the product. An estimate: 4 (A100) and 8 (H100) TB/s where the portion stays in L2, 1.4 and 3 TB/s otherwise.
template <class T, class Form>
__global__ void __launch_bounds__(pixel_threads)
    gather_orbits(Source<T> x, Orbits orbits, Portion portion, bool as_filter, int channels, Numbers<T> to) {
  const Index all = portion.width * portion.parts;
  const unsigned blocks = unsigned((all + pixel_threads - 1) / pixel_threads), count = unsigned(orbits.count());
  const Index at = Index(blockIdx.x % blocks) * pixel_threads + threadIdx.x;
  const int orbit = int(blockIdx.x / blocks % count);
  const int first_channel = int(blockIdx.x / blocks / count) * channels_together;
  if (at >= all) return;
  const Index pixel = portion.first + at, image = pixel / x.pixels, within = pixel % x.pixels;
  const int row = int(within / x.out_columns) * x.stride[0] - x.lower[0];
  const int column = int(within % x.out_columns) * x.stride[1] - x.lower[1];
  const Pixel first = orbits.first(orbit);
  Index offset[Form::elements];
  bool inside[Form::elements];
  FASTDL_UNROLL
  for (int h = 0; h < Form::elements; ++h) {
    const Pixel tap = moved(orbits.group, h, orbits.k, first);
    const int i = row + tap.row, j = column + tap.column;
    inside[h] = at < portion.count && i >= 0 && i < x.in[0] && j >= 0 && j < x.in[1];
    offset[h] = (orbits.lift ? 0 : h * x.strides.element) + i * x.strides.row + j * x.strides.column;
  }
  const T* const from = x.data + image * x.strides.batch;
  const Index part = at / portion.width, step = to.rows * to.width;
  T* place = to.characters + part * Form::characters * step + (Index(first_channel) * count + orbit) * to.width +
             at % portion.width;
  // Of the matrices, beyond the characters of all parts.
  const Index beyond = to.matrices - to.characters + part * (4 - Form::characters) * step;
  const int end = first_channel + channels_together < channels ? first_channel + channels_together : channels;
  for (int c = first_channel; c < end; ++c, place += count * to.width) {
    const T* const plane = from + (x.split == 1 ? c * x.strides.channel
                                                : c / x.split * x.strides.channel + c % x.split * x.strides.element);
    T values[Form::elements], numbers[Form::numbers];
    FASTDL_UNROLL
    for (int h = 0; h < Form::elements; ++h) values[h] = inside[h] ? plane[offset[h]] : T(0);
    if (as_filter)
      Form::filter(values, numbers);
    else
      Form::input(values, numbers);
    FASTDL_UNROLL
    for (int i = 0; i < Form::characters; ++i) place[i * step] = numbers[i];
    if constexpr (Form::matrices) {
      FASTDL_UNROLL
      for (int i = 0; i < 4; ++i) place[beyond + i * step] = numbers[Form::characters + i];
    }
  }
}

// The transformed filters, [number][o][(c, orbit)] and [row of the matrix][o][column of the matrix][(c, orbit)]: by
// strides the operand of the layer, whose sum is over (c, orbit), and of the gradient of x, whose sum is over o. With a
// pitch they are for the fused layer, [(c, orbit)][number][o], o up to the pitch.
template <class T>
struct Filters {
  T *characters, *matrices;
  Index rows;                             // (c, orbit)
  Index character_stride, matrix_stride;  // from o to o + 1
  Index pitch = 0;
};

// Transforms filters of channels from `first_channel` on; `convolved` for the gradient of x, which also takes the
// pixels of an orbit once and not as often as elements leave them. A thread has one orbit: some Cout Cin k^2 |G|
// numbers are read and written once a call, which is little against the products.
template <class T, class Form>
__global__ void __launch_bounds__(pixel_threads)
    transform_filters(const T* w, Orbits orbits, Index out_channels, Index in_channels, Index first_channel,
                      bool convolved, Filters<T> to) {
  const int count = orbits.count(), taps = orbits.k * orbits.k;
  const int planes = orbits.lift ? 1 : Form::elements;
  for (Index at = Index(blockIdx.x) * pixel_threads + threadIdx.x; at < out_channels * to.rows;
       at += Index(gridDim.x) * pixel_threads) {
    const Index o = at / to.rows, row = at % to.rows;
    const Index channel = first_channel + row / count;
    const Pixel first = orbits.first(int(row % count));
    const T* from = w + (o * in_channels + channel) * planes * taps;
    T values[Form::elements], numbers[Form::numbers];
    const T scale = convolved ? T(1) : T(1) / T(orbits.fixing(first));
    FASTDL_UNROLL
    for (int h = 0; h < Form::elements; ++h) {
      const Pixel tap = moved(orbits.group, h, orbits.k, first);
      values[h] = from[(orbits.lift ? 0 : h * taps) + tap.row * orbits.k + tap.column] * scale;
    }
    Form::filter(values, numbers);
    if (convolved) Form::convolved(numbers);
    if (to.pitch > 0) {
      FASTDL_UNROLL
      for (int i = 0; i < Form::numbers; ++i) to.characters[(row * Form::numbers + i) * to.pitch + o] = numbers[i];
      continue;
    }
    FASTDL_UNROLL
    for (int i = 0; i < Form::characters; ++i)
      to.characters[(i * out_channels + o) * to.character_stride + row] = numbers[i];
    if constexpr (Form::matrices) {
      FASTDL_UNROLL
      for (int i = 0; i < 4; ++i)
        to.matrices[(i / 2 * out_channels + o) * to.matrix_stride + i % 2 * to.rows + row] =
            numbers[Form::characters + i];
    }
  }
}

// Where the values of a form go: [image][row][element][pixel of the image], in any strides.
template <class T>
struct Destination {
  T* data;
  Index image, row, element, pixels;
};

// to[row][s][p] = activation(output of the numbers + bias[row / rows_of_bias]), of the pixels of a portion in one part.
// A thread has one pixel of one row; it may write where it has read. Bound by memory: `numbers` + |G| numbers a pixel.
template <class T, class Form>
__global__ void __launch_bounds__(pixel_threads)
    finish_orbits(Numbers<T> from, Portion portion, const T* bias, Index rows_of_bias, Activation activation,
                  Destination<T> to) {
  const Index blocks = (portion.count + pixel_threads - 1) / pixel_threads;
  const Index row = blockIdx.x / blocks, at = blockIdx.x % blocks * pixel_threads + threadIdx.x;
  if (at >= portion.count) return;
  T sums[Form::numbers], values[Form::elements];
  const Index step = from.rows * from.width, place = row * from.width + at;
  FASTDL_UNROLL
  for (int i = 0; i < Form::characters; ++i) sums[i] = from.characters[i * step + place];
  if constexpr (Form::matrices) {
    FASTDL_UNROLL
    for (int i = 0; i < 4; ++i) sums[Form::characters + i] = from.matrices[i * step + place];
  }
  Form::output(sums, values);
  const Index pixel = portion.first + at;
  const T constant = bias ? bias[row / rows_of_bias] : T(0);
  T* place_there = to.data + pixel / to.pixels * to.image + row * to.row + pixel % to.pixels;
  FASTDL_UNROLL
  for (int s = 0; s < Form::elements; ++s)
    place_there[s * to.element] = fastdl::cuda::activated(values[s] + constant, activation);
}

// dw from the sums [number][o][(c, orbit)], [row of the matrix][o][column of the matrix][(c, orbit)]: a thread has one
// orbit of one output channel.
template <class T, class Form>
__global__ void __launch_bounds__(pixel_threads) finish_weights(const T* characters, const T* matrices, Orbits orbits,
                                                                Index out_channels, Index in_channels, T* dw) {
  const int count = orbits.count(), taps = orbits.k * orbits.k;
  const int planes = orbits.lift ? 1 : Form::elements;
  const Index rows = in_channels * count;
  for (Index at = Index(blockIdx.x) * pixel_threads + threadIdx.x; at < out_channels * rows;
       at += Index(gridDim.x) * pixel_threads) {
    const Index o = at / rows, row = at % rows;
    T sums[Form::numbers], values[Form::elements];
    FASTDL_UNROLL
    for (int i = 0; i < Form::characters; ++i) sums[i] = characters[(i * out_channels + o) * rows + row];
    if constexpr (Form::matrices) {
      FASTDL_UNROLL
      for (int i = 0; i < 4; ++i)
        sums[Form::characters + i] = matrices[((i / 2 * out_channels + o) * 2 + i % 2) * rows + row];
    }
    Form::output(sums, values);
    const Pixel first = orbits.first(int(row % count));
    T* to = dw + (o * in_channels + row / count) * planes * taps;
    FASTDL_UNROLL
    for (int u = 0; u < Form::elements; ++u) {
      const Pixel tap = moved(orbits.group, u, orbits.k, first);
      to[(orbits.lift ? 0 : u * taps) + tap.row * orbits.k + tap.column] = values[u];
    }
  }
}

// total[i] = the sum over parts of partial[part][i], after total[i] itself if it goes on: in the order of parts.
template <class T>
__global__ void __launch_bounds__(pixel_threads)
    add_parts(const T* partial, Index parts, Index size, bool goes_on, T* total) {
  for (Index i = Index(blockIdx.x) * pixel_threads + threadIdx.x; i < size; i += Index(gridDim.x) * pixel_threads) {
    T sum = goes_on ? total[i] : T(0);
    for (Index part = 0; part < parts; ++part) sum += partial[part * size + i];
    total[i] = sum;
  }
}

// The element and the orbit whose value belongs to a pixel of the window in plane t.
struct Owner {
  int element, orbit;
};

// owners[t][q], once a call.
template <class Form>
__global__ void __launch_bounds__(pixel_threads) find_owners(Orbits orbits, Owner* owners) {
  const int taps = orbits.k * orbits.k, planes = orbits.lift ? 1 : Form::elements;
  for (Index at = Index(blockIdx.x) * pixel_threads + threadIdx.x; at < Index(planes) * taps;
       at += Index(gridDim.x) * pixel_threads) {
    const Pixel tap{int(at % taps) / orbits.k, int(at % taps) % orbits.k};
    int element = orbits.lift ? 0 : int(at / taps), orbit = -1;
    for (int h = element; h < Form::elements && orbit < 0; ++h) {
      element = h;
      orbit = orbits.number(moved(orbits.group, inverse_of(orbits.group, h), orbits.k, tap));
    }
    owners[at] = {element, orbit};
  }
}

// The sums that make dx of the values of all orbits at all windows.
template <class T>
struct Collection {
  const T* values;  // [element][(c, orbit)][pixel of the portion]
  const Owner* owners;
  Index rows, width;
  int k, orbits, planes;
  int in[2], stride[2], lower[2];
  int first_row, end_row;  // of the output, that the portion has of every image
  Index out_columns, image_pixels;
  Index dx_image;  // from image to image in dx
  bool goes_on;    // rows before have been added
  T* dx;
};

// dx[c][t][P] = the sum over taps q and pixels p with stride p + q - lower = P of the value of (t, q) at p: a gather,
// in the order of taps. A thread has one pixel of dx in 8 planes (c, t). Neighbours read neighbours (for stride 1) of
// k^2 rows: k^2 / stride^2 loads a number, from L2; an estimate: as gather_orbits.
template <class T>
__global__ void __launch_bounds__(pixel_threads) collect_windows(Collection<T> from, Index images, int channels) {
  const int pixels = from.in[0] * from.in[1], blocks = (pixels + pixel_threads - 1) / pixel_threads;
  const int planes = channels * from.planes, groups = (planes + planes_together - 1) / planes_together;
  const Index of_image = Index(blocks) * groups;
  for (Index block = blockIdx.x; block < of_image * images; block += gridDim.x) {
    const Index image = block / of_image;
    const unsigned number = unsigned(block - image * of_image), group = number / unsigned(blocks);
    const int at = int(number - group * blocks) * pixel_threads + int(threadIdx.x);
    if (at >= pixels) continue;
    const int i = at / from.in[1] + from.lower[0], j = at % from.in[1] + from.lower[1];
    // The remainders of a division follow the sign: what a negative padding has cut off meets no window.
    const int first_a = i < 0 ? from.k : i % from.stride[0], first_b = j < 0 ? from.k : j % from.stride[1];
    const T* const values = from.values + image * from.image_pixels;
    const int first = int(group) * planes_together;
    const int end = first + planes_together < planes ? first + planes_together : planes;
    for (int plane = first; plane < end; ++plane) {
      const Owner* owners = from.owners + Index(plane % from.planes) * from.k * from.k;
      const Index channel = Index(plane / from.planes) * from.orbits;
      T* to = from.dx + image * from.dx_image + Index(plane) * pixels + at;
      T sum = from.goes_on ? *to : T(0);
      for (int a = first_a; a < from.k && a <= i; a += from.stride[0]) {
        const int row = (i - a) / from.stride[0];
        if (row < from.first_row || row >= from.end_row) continue;
        const T* const line = values + (row - from.first_row) * from.out_columns;
        int column = (j - first_b) / from.stride[1];
        for (int b = first_b; b < from.k && b <= j; b += from.stride[1], --column) {
          if (column >= from.out_columns) continue;
          const Owner owner = owners[a * from.k + b];
          sum += line[(owner.element * from.rows + channel + owner.orbit) * from.width + column];
        }
      }
      *to = sum;
    }
  }
}

}  // namespace fastdl::group::cuda
