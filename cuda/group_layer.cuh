// Layers on groups of the plane and their gradients: kernels of group_orbits.cuh around batched products (gemm.cuh).
//
//   the layer          transform the filters; for few output channels one fused kernel (group_fused.cuh), else for
//                      each portion of pixels: gather and transform the orbits of windows, one product for each
//                      representation, over (channel, orbit), transform back with bias and activation
//   its gradient w     for each portion of pixels: gather and transform windows and the gradient of the output, one
//                      product for each representation, over the pixels, in parts that are added in their order;
//                      transform back
//   its gradient x     transform the filters; for each portion of images and channels: transform the gradient of the
//                      output, one product for each representation, over the output channels, transform back, and
//                      collect what the windows give to each pixel of x
//
// By expanded filters, all three are those of the group with one element, where transforms do nothing.
//
// Windows are written to scratch memory and not made by a Reader of the engine: a transformed orbit is |G| scattered
// loads, and for p4m each of them goes into eight numbers; a Reader would repeat them for every number and every 128
// output channels, an estimated 160 to 320 instructions beside the 512 multiply-adds of a slice. (The fused kernel
// gathers once for all numbers, but has smaller tiles.) A portion of 64 MB is what keeps the tiles of one launch more
// than the multiprocessors of an A100 and most of what was written in its L2 cache of 40 MB.
//
// Results depend on the layer alone, and not on the device: sums are taken in the order of depth within a portion or a
// part of one, whose sizes are constants or follow from the shape.
#pragma once

#include <atomic>

#include "gemm.cuh"
#include "group_launch.cuh"
#include "group_orbits.cuh"

namespace fastdl::group::cuda {

extern std::atomic<Index> scratch_limit;

template <class T, class Form>
class OrbitLayer {
  using Shape = gemm::cuda::Shape<T>;
  static constexpr Index matrices = Form::matrices ? 4 : 0;

 public:
  OrbitLayer(const char* name, const Layer& layer, Stream stream)
      : name_(name),
        layer_(layer),
        stream_(stream),
        orbits_{layer.group, layer.lift, int(layer.k)},
        rows_(layer.in_channels * orbits_.count()),
        pixels_(layer.batch * layer.pixels()) {}

  // `split` planes of x make one channel of the expanded layer; a bias is that of rows_of_bias output channels.
  void forward(const T* x, const Strides& strides, int split, const T* w, const T* bias, Index rows_of_bias,
               Activation activation, T* out) const {
    const Index outputs = layer_.out_channels;
    Scratch<T> filter_room;
    const Filters<T> filters = transformed(w, 0, layer_.in_channels, false, filter_room);
    const Index width = portion_width(pixels_, most_pixels(rows_ + outputs));
    Scratch<T> window_room, sum_room;
    const Numbers<T> windows = numbers(rows_, width, 1, window_room), sums = numbers(outputs, width, 1, sum_room);
    for (Index first = 0; first < pixels_; first += width) {
      const Portion portion{first, at_most(width, pixels_ - first), width, 1};
      gather(windows_of(layer_, x, strides, split), orbits_, portion, false, windows);
      multiply(filters, outputs, filters.character_stride, filters.matrix_stride, rows_, 1, windows, portion, sums);
      finish(sums, portion, bias, rows_of_bias, activation,
             {out, outputs * Form::elements * layer_.pixels(), Form::elements * layer_.pixels(), layer_.pixels(),
              layer_.pixels()});
    }
  }

  void weights(const T* x, const Strides& strides, int split, const T* grad, T* dw) const {
    const Index outputs = layer_.out_channels, results = outputs * rows_;
    // Parts, so that some 4 blocks come to each multiprocessor of an A100, of 256 pixels at least.
    const Index portions = divide_up(pixels_, most_pixels(rows_ + outputs)), each = divide_up(pixels_, portions);
    const Index tiles = divide_up(outputs, Shape::side) * divide_up(rows_, Shape::side) * Form::numbers;
    const Index parts = at_least(at_most(432 / tiles, each / 256), 1), width = round_up(divide_up(each, parts), 32);
    Scratch<T> window_room, slope_room;
    const Numbers<T> windows = numbers(rows_, width, parts, window_room);
    const Numbers<T> slopes = numbers(outputs, width, parts, slope_room);
    const Scratch<T> partial(name_, parts * (Form::characters + 2 * matrices) * results, stream_);
    const Scratch<T> total(name_, Form::numbers * results, stream_);
    T* const partial_matrices = partial.data() + parts * Form::characters * results;
    for (Index first = 0; first < pixels_; first += width * parts) {
      const Portion portion{first, at_most(width * parts, pixels_ - first), width, parts};
      gather(windows_of(layer_, x, strides, split), orbits_, portion, false, windows);
      gather(output_pixels(grad), orbits_of_pixels(), portion, true, slopes);
      gemm::cuda::multiply_batch(name_, parts * Form::characters,
                                 gemm::cuda::operand<T>(slopes.characters, outputs, width, width, 1, outputs * width),
                                 gemm::cuda::operand<T>(windows.characters, rows_, width, width, 1, rows_ * width),
                                 width, gemm::cuda::result(partial.data(), outputs, rows_, rows_, results),
                                 gemm::cuda::Identity{}, stream_);
      add(partial.data(), parts, Form::characters * results, first > 0, total.data());
      if constexpr (Form::matrices) {
        // Rows of g^' and x^ are the columns of the matrices, and their two rows go into the sum.
        gemm::cuda::multiply_batch(
            name_, 2 * parts,
            gemm::cuda::operand<T>(slopes.matrices, 2 * outputs, width, width, 1, 2 * outputs * width),
            gemm::cuda::operand<T>(windows.matrices, 2 * rows_, width, width, 1, 2 * rows_ * width), width,
            gemm::cuda::result(partial_matrices, 2 * outputs, 2 * rows_, 2 * rows_, 4 * results),
            gemm::cuda::Identity{}, stream_);
        add(partial_matrices, 2 * parts, 4 * results, first > 0, total.data() + Form::characters * results);
      }
    }
    launch(name_, finish_weights<T, Form>, grid_over(results, pixel_threads, stream_), total.data(),
           total.data() + Form::characters * results, orbits_, outputs, layer_.in_channels, dw);
  }

  void input(const T* w, const T* grad, T* dx) const {
    const Index outputs = layer_.out_channels, pixels = layer_.pixels(), planes = layer_.planes();
    const Index in_pixels = layer_.in[0] * layer_.in[1];
    // Whole images, or one image with some of its channels, or some rows of it with one channel.
    const Index images = at_least(at_most(most_pixels(rows_ + outputs) / pixels, layer_.batch), 1);
    const Index most_rows = scratch_limit / Index(sizeof(T)) / (Form::numbers * pixels * images) - outputs;
    const Index channels = at_most(at_least(most_rows / orbits_.count(), 1), layer_.in_channels);
    const Index lines = at_least(most_pixels(channels * orbits_.count() + outputs) / layer_.out[1], 1);
    const Index height = images > 1 ? layer_.out[0] : at_most(lines, layer_.out[0]);
    const Index width = round_up(images * height * layer_.out[1], 4);
    const Scratch<Owner> owners(name_, planes * layer_.taps(), stream_);
    launch(name_, find_owners<Form>, grid_over(owners.count(), pixel_threads, stream_), orbits_, owners.data());
    Scratch<T> slope_room, value_room, filter_room;
    const Numbers<T> slopes = numbers(outputs, width, 1, slope_room);
    numbers(channels * orbits_.count(), width, 1, value_room);
    for (Index image = 0; image < layer_.batch; image += images) {
      const Index images_here = at_most(images, layer_.batch - image);
      for (Index line = 0; line < layer_.out[0]; line += height) {
        const Index end = at_most(line + height, layer_.out[0]);
        const Portion portion{image * pixels + line * layer_.out[1], images_here * (end - line) * layer_.out[1], width,
                              1};
        gather(output_pixels(grad), orbits_of_pixels(), portion, false, slopes);
        for (Index channel = 0; channel < layer_.in_channels; channel += channels) {
          const Index here = at_most(channels, layer_.in_channels - channel), rows = here * orbits_.count();
          const Filters<T> filters = transformed(w, channel, here, true, filter_room);
          const Numbers<T> values{value_room.data(), value_room.data() + Form::characters * rows * width, rows, width};
          multiply(filters, rows, 1, 1, outputs, filters.character_stride, slopes, portion, values);
          // In place: the value of element h where number h was.
          if constexpr (Form::elements > 1)
            finish(values, {0, portion.count, width, 1}, nullptr, 1, Activation::none,
                   {value_room.data(), 0, width, rows * width, portion.count});
          Collection<T> collection{};
          collection.values = value_room.data();
          collection.owners = owners.data();
          collection.rows = rows;
          collection.width = width;
          collection.k = int(layer_.k);
          collection.orbits = orbits_.count();
          collection.planes = int(planes);
          for (int a = 0; a < 2; ++a) {
            collection.in[a] = int(layer_.in[a]);
            collection.stride[a] = int(layer_.stride[a]);
            collection.lower[a] = int(layer_.lower[a]);
          }
          collection.first_row = int(line);
          collection.end_row = int(end);
          collection.out_columns = layer_.out[1];
          collection.image_pixels = (end - line) * layer_.out[1];
          collection.dx_image = layer_.in_channels * planes * in_pixels;
          collection.goes_on = line > 0;
          collection.dx = dx + image * collection.dx_image + channel * planes * in_pixels;
          const Index blocks =
              divide_up(in_pixels, pixel_threads) * divide_up(here * planes, planes_together) * images_here;
          launch(name_, collect_windows<T>, {dim3(unsigned(at_most(blocks, 1 << 30))), dim3(pixel_threads), 0, stream_},
                 collection, images_here, int(here));
        }
      }
    }
  }

 private:
  Index most_pixels(Index rows) const {
    return at_least(scratch_limit / Index(sizeof(T)) / (Form::numbers * rows), Shape::side);
  }

  // Portions of equal size, whole tiles where there are more than one.
  static Index portion_width(Index pixels, Index most) {
    const Index portions = divide_up(pixels, most);
    return portions == 1 ? round_up(pixels, 4) : round_up(divide_up(pixels, portions), Shape::side);
  }

  Numbers<T> numbers(Index rows, Index width, Index parts, Scratch<T>& room) const {
    room = Scratch<T>(name_, Form::numbers * rows * width * parts, stream_);
    return {room.data(), room.data() + Form::characters * rows * width * parts, rows, width};
  }

  Filters<T> transformed(const T* w, Index channel, Index channels, bool convolved, Scratch<T>& room) const {
    const Index rows = channels * orbits_.count(), outputs = layer_.out_channels;
    const Index character_stride = round_up(rows, 4), matrix_stride = round_up(2 * rows, 4);
    room = Scratch<T>(name_, outputs * (Form::characters * character_stride + matrices / 2 * matrix_stride), stream_);
    const Filters<T> filters{room.data(), room.data() + outputs * Form::characters * character_stride, rows,
                             character_stride, matrix_stride};
    if (outputs * rows > 0)
      launch(name_, transform_filters<T, Form>, grid_over(outputs * rows, pixel_threads, stream_), w, orbits_, outputs,
             layer_.in_channels, channel, convolved, filters);
    return filters;
  }

  // The gradient of the output, whose windows are its pixels.
  Source<T> output_pixels(const T* grad) const {
    const Index pixels = layer_.pixels(), channel = Form::elements * pixels;
    return {grad,
            {layer_.out_channels * channel, channel, pixels, layer_.out[1], 1},
            1,
            {int(layer_.out[0]), int(layer_.out[1])},
            {1, 1},
            {0, 0},
            layer_.out[1],
            pixels};
  }
  Orbits orbits_of_pixels() const { return {layer_.group, Form::elements == 1, 1}; }

  void gather(const Source<T>& from, const Orbits& orbits, const Portion& portion, bool as_filter,
              const Numbers<T>& to) const {
    if (to.rows == 0) return;
    const Index channels = to.rows / orbits.count();
    const Index blocks = divide_up(portion.width * portion.parts, pixel_threads) * orbits.count() *
                         divide_up(channels, channels_together);
    launch(name_, gather_orbits<T, Form>, {dim3(unsigned(blocks)), dim3(pixel_threads), 0, stream_}, from, orbits,
           portion, as_filter, int(channels), to);
  }

  // to[number][row][pixel] = the sum over depth of filters and from[number][depth][pixel], whose matrices have twice
  // the depth and twice the rows.
  void multiply(const Filters<T>& filters, Index rows, Index row_stride, Index matrix_row_stride, Index depth,
                Index depth_stride, const Numbers<T>& from, const Portion& portion, const Numbers<T>& to) const {
    const Index width = from.width, outputs = layer_.out_channels;
    gemm::cuda::multiply_batch(name_, Form::characters,
                               gemm::cuda::operand<T>(filters.characters, rows, depth, row_stride, depth_stride,
                                                      outputs * filters.character_stride),
                               gemm::cuda::operand<T>(from.characters, portion.count, depth, 1, width, depth * width),
                               depth, gemm::cuda::result(to.characters, rows, portion.count, width, rows * width),
                               gemm::cuda::Identity{}, stream_);
    if constexpr (Form::matrices)
      gemm::cuda::multiply_batch(
          name_, 2,
          gemm::cuda::operand<T>(filters.matrices, 2 * rows, 2 * depth, matrix_row_stride,
                                 depth_stride == 1 ? 1 : filters.matrix_stride),
          gemm::cuda::operand<T>(from.matrices, portion.count, 2 * depth, 1, width, 2 * depth * width), 2 * depth,
          gemm::cuda::result(to.matrices, 2 * rows, portion.count, width, 2 * rows * width), gemm::cuda::Identity{},
          stream_);
  }

  void finish(const Numbers<T>& from, const Portion& portion, const T* bias, Index rows_of_bias, Activation activation,
              const Destination<T>& to) const {
    const Index blocks = divide_up(portion.count, pixel_threads) * from.rows;
    launch(name_, finish_orbits<T, Form>, {dim3(unsigned(blocks)), dim3(pixel_threads), 0, stream_}, from, portion,
           bias, rows_of_bias, activation, to);
  }

  void add(const T* partial, Index parts, Index size, bool goes_on, T* total) const {
    launch(name_, add_parts<T>, grid_over(size, pixel_threads, stream_), partial, parts, size, goes_on, total);
  }

  const char* name_;
  const Layer& layer_;
  Stream stream_;
  Orbits orbits_;
  Index rows_, pixels_;
};

// The plain convolution with expanded filters.
inline Layer plain(const Layer& layer) {
  Layer one = layer;
  one.group = Planar::one;
  one.lift = true;
  one.in_channels = layer.in_channels * layer.planes();
  one.out_channels = layer.out_channels * layer.elements();
  return one;
}

// Whether the gradient for w by orbits takes no more tiles of the engine than by expanded filters. With few output
// channels a tile has empty rows, of which the expanded filters fill more: |G| times as many. (The layer itself has the
// fused kernel for few output channels, and the gradient for x has rows of input channels and orbits, which are many.)
template <class T>
bool orbits_pay(const Layer& layer) {
  constexpr Index side = gemm::cuda::Shape<T>::side;
  const Orbits orbits{layer.group, layer.lift, int(layer.k)};
  const Index outputs = layer.out_channels, rows = layer.in_channels * orbits.count();
  const Index all_rows = layer.in_channels * layer.planes() * layer.taps();
  Index by_orbits = 0;
  with_form(layer.group, [&](auto form) {
    using Form = decltype(form);
    by_orbits = Form::characters * divide_up(outputs, side) * divide_up(rows, side);
    if constexpr (Form::matrices) by_orbits += 2 * divide_up(2 * outputs, side) * divide_up(2 * rows, side);
  });
  return by_orbits <= divide_up(outputs * layer.elements(), side) * divide_up(all_rows, side);
}

template <class T>
Scratch<T> room_for_expanded(const char* name, const Layer& layer, Stream stream) {
  return Scratch<T>(name, layer.out_channels * layer.elements() * layer.in_channels * layer.planes() * layer.taps(),
                    stream);
}

template <class T>
void conv(const Layer& layer, Algorithm algorithm, Activation activation, const T* x, const Strides& strides,
          const T* w, const T* bias, T* out, Stream stream) {
  constexpr const char* name = "group.conv2d";
  if (layer.batch * layer.out_channels * layer.pixels() == 0) return;
  if (algorithm != Algorithm::expand) {
    if (fused_conv(name, layer, activation, x, strides, w, bias, out, stream)) return;
    with_form(layer.group, [&](auto form) {
      OrbitLayer<T, decltype(form)>(name, layer, stream).forward(x, strides, 1, w, bias, 1, activation, out);
    });
    return;
  }
  const Scratch<T> filters = room_for_expanded<T>(name, layer, stream);
  expand(layer, w, filters.data(), stream);
  const Layer one = plain(layer);
  OrbitLayer<T, Single>(name, one, stream)
      .forward(x, strides, layer.planes(), filters.data(), bias, layer.elements(), activation, out);
}

template <class T>
void conv_input(const Layer& layer, Algorithm algorithm, const T* w, const T* grad, T* dx, Stream stream) {
  constexpr const char* name = "group.conv2d_input";
  const Index size = layer.batch * layer.in_channels * layer.planes() * layer.in[0] * layer.in[1];
  if (size == 0) return;
  if (layer.out_channels * layer.pixels() == 0) {
    fastdl::cuda::set_zero(name, dx, std::size_t(size) * sizeof(T), stream);
    return;
  }
  if (algorithm != Algorithm::expand) {
    with_form(layer.group, [&](auto form) { OrbitLayer<T, decltype(form)>(name, layer, stream).input(w, grad, dx); });
    return;
  }
  const Scratch<T> filters = room_for_expanded<T>(name, layer, stream);
  expand(layer, w, filters.data(), stream);
  const Layer one = plain(layer);
  OrbitLayer<T, Single>(name, one, stream).input(filters.data(), grad, dx);
}

template <class T>
void conv_weight(const Layer& layer, Algorithm algorithm, const T* x, const Strides& strides, const T* grad, T* dw,
                 Stream stream) {
  constexpr const char* name = "group.conv2d_weight";
  const Index size = layer.out_channels * layer.in_channels * layer.planes() * layer.taps();
  if (size == 0) return;
  if (layer.batch * layer.pixels() == 0) {
    fastdl::cuda::set_zero(name, dw, std::size_t(size) * sizeof(T), stream);
    return;
  }
  if (algorithm == Algorithm::orbit || (algorithm == Algorithm::automatic && orbits_pay<T>(layer))) {
    with_form(layer.group,
              [&](auto form) { OrbitLayer<T, decltype(form)>(name, layer, stream).weights(x, strides, 1, grad, dw); });
    return;
  }
  const Scratch<T> expanded = room_for_expanded<T>(name, layer, stream);
  const Layer one = plain(layer);
  OrbitLayer<T, Single>(name, one, stream).weights(x, strides, layer.planes(), grad, expanded.data());
  contract(layer, expanded.data(), dw, stream);
}

}  // namespace fastdl::group::cuda
