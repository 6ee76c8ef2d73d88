// Calls of the convolutions, their gradients, pooling, and the convolution of arrays.
#include "fuzz.hpp"

namespace fuzz {
namespace {

struct Shape {
  fastdl_conv_shape* shape;
  Wide in = 1, out = 1, taps = 1, seen = 1;  // products over the axes; seen: what the windows reach
  Wide inputs;                               // channels of a group
};

// How far windows reach along an axis, of which the upper end is chosen so that a few positions of padding follow.
Index natural_out(Case& c, Index in, Index lower, Index kernel, Index dilation, Index stride) {
  if (in > 1000 || kernel > 1000 || dilation > 1000 || stride > 1000 || stride < 1 || lower > 1000)
    return 1 + c.below(4);
  if (in < 0 || kernel < 1 || dilation < 1 || lower < -1000) return 1;
  const Index room = in + lower + c.below(3) - (kernel - 1) * dilation - 1;
  return room < 0 ? 0 : room / stride + 1;
}

void measure(Shape& s) {
  s.in = s.out = s.taps = s.seen = 1;
  for (int a = 0; a < s.shape->rank && a < 3; ++a) {
    s.in = product({s.in, s.shape->in[a]});
    s.out = product({s.out, s.shape->out[a]});
    s.taps = product({s.taps, s.shape->kernel[a]});
    s.seen = product({s.seen, (Wide(s.shape->out[a]) - 1) * s.shape->stride[a] +
                                  (Wide(s.shape->kernel[a]) - 1) * s.shape->dilation[a] + 1});
  }
}

Shape shape_of(Case& c, bool pooling) {
  fastdl_conv_shape s{};
  s.rank = 1 + c.below(3);
  const int most = s.rank == 1 ? 40 : s.rank == 2 ? 12 : 5;
  const bool winograd = s.rank == 2 && c.chance(3);
  s.batch = c.extent(3);
  s.groups = c.chance(3) ? c.extent(10) : 1;
  const Index each = c.extent(winograd ? 20 : 5), outputs = c.extent(winograd ? 20 : 5);
  if (__builtin_mul_overflow(each, s.groups, &s.in_channels)) s.in_channels = each;
  if (__builtin_mul_overflow(outputs, s.groups, &s.out_channels)) s.out_channels = outputs;
  if (c.wild(16)) s.in_channels = c.extent();
  for (int a = 0; a < 3; ++a) {
    if (a >= s.rank) {  // not read
      s.in[a] = s.kernel[a] = s.out[a] = s.stride[a] = s.lower[a] = s.dilation[a] = c.chance(2) ? INT64_MIN : INT64_MAX;
      continue;
    }
    s.in[a] = c.extent(most);
    s.kernel[a] = winograd ? 3 : c.number(1, s.rank == 1 ? 9 : 4, 32);
    s.stride[a] = winograd ? 1 : c.number(1, 3, 32);
    s.dilation[a] = winograd || pooling || c.chance(2) ? 1 : c.number(1, 3, 32);
    s.lower[a] = winograd ? c.below(3) : pooling ? c.number(0, 1) : c.number(-1, 3);
    s.out[a] = c.wild(8) ? c.extent() : natural_out(c, s.in[a], s.lower[a], s.kernel[a], s.dilation[a], s.stride[a]);
  }
  Shape result;
  result.shape = c.keep(s);
  measure(result);
  result.inputs = s.groups > 0 && s.in_channels >= 0 ? s.in_channels / s.groups : s.in_channels;
  if (c.wild(32)) {
    static constexpr int ranks[] = {0, 4, -1, INT32_MAX};
    result.shape->rank = ranks[c.below(4)];
    c.refuse();
  }
  return result;
}

// The images x, of strides or contiguous.
template <class T>
T* images(Case& c, const Shape& s, const Index*& strides) {
  const fastdl_conv_shape& shape = *s.shape;
  strides = nullptr;
  if (shape.rank < 1 || shape.rank > 3 || c.chance(2))
    return c.array<T>({shape.batch, shape.in_channels, s.in}, Role::input);
  Index extents[5] = {shape.batch, shape.in_channels}, steps[5] = {};
  for (int a = 0; a < shape.rank; ++a) extents[2 + a] = shape.in[a];
  c.choose_strides(extents, 2 + shape.rank, false, steps);
  // A copy of exactly as many as are read.
  Index* kept = c.room<Index>(2 + shape.rank, Role::input);
  std::memcpy(kept, steps, sizeof(Index) * std::size_t(2 + shape.rank));
  strides = kept;
  return c.strided<T>(extents, steps, 2 + shape.rank, Role::input, true);
}

template <class T>
void forward(Case& c, bool prepared) {
  const Shape s = shape_of(c, false);
  // Filters are made without these two, which then cannot be a reason to refuse them.
  const auto padding = prepared ? fastdl_padding(c.below(4)) : c.choice<fastdl_padding>(4);
  const auto activation = prepared ? fastdl_activation(c.below(5)) : c.choice<fastdl_activation>(5);
  const auto algorithm = c.choice<fastdl_conv_algorithm>(4);
  fastdl_conv_shape& shape = *s.shape;
  const T* w = c.array<T>({shape.out_channels, s.inputs, s.taps}, Role::input);
  c.work({shape.batch, shape.out_channels, s.inputs + 1, s.out, s.taps});
  c.work({shape.out_channels, s.inputs, s.taps});
  // Other surroundings than zeros, and transforms, make copies of all that windows reach.
  const auto copies = [&](const Shape& of) {
    if (padding != FASTDL_ZEROS || algorithm == FASTDL_CONV_FFT)
      c.work({Wide(of.shape->batch) + 1, Wide(of.shape->in_channels) + of.shape->out_channels + 1, of.seen});
  };
  copies(s);
  if (!prepared) {
    const Index* strides;
    const T* x = images<T>(c, s, strides);
    const T* bias = c.chance(2) ? nullptr : c.array<T>({shape.out_channels}, Role::input, true);
    T* out = c.array<T>({shape.batch, shape.out_channels, s.out}, Role::output);
    c.call("conv", [&] {
      return FUZZ_BY_TYPE(T, fastdl_conv)(s.shape, padding, activation, algorithm, x, strides, w, bias, out);
    });
    return;
  }
  using Filters = std::conditional_t<std::is_same_v<T, float>, fastdl_conv_filters_f32, fastdl_conv_filters_f64>;
  Filters* filters = nullptr;
  const auto prepare = FUZZ_BY_TYPE(T, fastdl_conv_prepare);
  c.call("conv_prepare", [&] { return prepare(s.shape, algorithm, w, &filters); });
  const std::unique_ptr<Filters, void (*)(Filters*)> owner(filters, [](Filters* given) {
    FUZZ_BY_TYPE(T, fastdl_conv_filters_free)(given);
  });
  // Used for images of other extents. (A refusal of the filters is one of what follows, too, without them.)
  Shape again = s;
  again.shape = c.keep(shape);
  again.shape->batch = c.extent(3);
  for (int a = 0; a < shape.rank && a < 3; ++a) {
    again.shape->in[a] = c.extent(12);
    again.shape->out[a] =
        natural_out(c, again.shape->in[a], shape.lower[a], shape.kernel[a], shape.dilation[a], shape.stride[a]);
  }
  if (c.wild(8)) again.shape->kernel[0] = c.number(1, 4);
  if (c.wild(8)) again.shape->out_channels = c.extent();
  measure(again);
  if (!filters) c.refuse();
  c.work({again.shape->batch, again.shape->out_channels, s.inputs + 1, again.out, again.taps});
  copies(again);
  const Index* strides;
  const T* x = images<T>(c, again, strides);
  const T* bias = c.chance(2) ? nullptr : c.array<T>({again.shape->out_channels}, Role::input, true);
  T* out = c.array<T>({again.shape->batch, again.shape->out_channels, again.out}, Role::output);
  c.call("conv_prepared", [&] {
    return FUZZ_BY_TYPE(T, fastdl_conv_prepared)(filters, again.shape, padding, activation, x, strides, bias, out);
  });
}

template <class T>
void gradient(Case& c, bool of_input) {
  const Shape s = shape_of(c, false);
  const fastdl_conv_shape& shape = *s.shape;
  const T* grad = c.array<T>({shape.batch, shape.out_channels, s.out}, Role::input);
  c.work({shape.batch, shape.out_channels, s.inputs, s.out, s.taps});
  if (of_input) {
    const T* w = c.array<T>({shape.out_channels, s.inputs, s.taps}, Role::input);
    const T* bias = c.chance(2) ? nullptr : c.array<T>({shape.in_channels}, Role::input, true);
    T* dx = c.array<T>({shape.batch, shape.in_channels, s.in}, Role::output);
    c.call("conv_input", [&] { return FUZZ_BY_TYPE(T, fastdl_conv_input)(s.shape, w, grad, bias, dx); });
  } else {
    const Index* strides;
    const T* x = images<T>(c, s, strides);
    T* dw = c.array<T>({shape.out_channels, s.inputs, s.taps}, Role::output);
    c.call("conv_weight", [&] { return FUZZ_BY_TYPE(T, fastdl_conv_weight)(s.shape, x, strides, grad, dw); });
  }
}

template <class T>
void pooling(Case& c, int function) {
  const Shape s = shape_of(c, true);
  const fastdl_conv_shape& shape = *s.shape;
  const int padding_counts = c.below(2);
  c.work({shape.batch, shape.in_channels, s.out, s.taps});
  if (function < 2) {
    const Index* strides;
    const T* x = images<T>(c, s, strides);
    T* out = c.array<T>({shape.batch, shape.in_channels, s.out}, Role::output);
    if (function == 0) {
      Index* indices = c.array<Index>({shape.batch, shape.in_channels, s.out}, Role::output, true);
      c.call("max_pool", [&] { return FUZZ_BY_TYPE(T, fastdl_max_pool)(s.shape, x, strides, out, indices); });
    } else {
      c.call("avg_pool", [&] { return FUZZ_BY_TYPE(T, fastdl_avg_pool)(s.shape, x, strides, padding_counts, out); });
    }
    return;
  }
  const T* grad = c.array<T>({shape.batch, shape.in_channels, s.out}, Role::input);
  T* dx = c.array<T>({shape.batch, shape.in_channels, s.in}, Role::output);
  if (function == 2) {
    const Index* indices = c.places({shape.batch, shape.in_channels, s.out}, Index(s.in > 1000 ? 1000 : s.in));
    c.call("max_pool_grad", [&] { return FUZZ_BY_TYPE(T, fastdl_max_pool_grad)(s.shape, grad, indices, dx); });
  } else {
    c.call("avg_pool_grad", [&] { return FUZZ_BY_TYPE(T, fastdl_avg_pool_grad)(s.shape, grad, padding_counts, dx); });
  }
}

template <class T>
using Array = std::conditional_t<std::is_same_v<T, float>, fastdl_array_f32, fastdl_array_f64>;

template <class T>
const Array<T>* signal_array(Case& c, const std::vector<Index>& sizes, Role role) {
  if (c.wild(32)) {
    c.refuse();
    return nullptr;
  }
  const int rank = int(sizes.size());
  Index* kept_sizes = c.room<Index>(rank, Role::input);
  Index* strides = c.room<Index>(rank, Role::input);
  for (int a = 0; a < rank; ++a) kept_sizes[a] = sizes[std::size_t(a)];
  if (rank > 0) c.choose_strides(kept_sizes, rank, role == Role::output, strides);
  Array<T> array{c.strided<T>(kept_sizes, strides, rank, role, true), rank, kept_sizes, strides};
  if (c.wild(32)) {
    (c.chance(2) ? array.sizes : array.strides) = nullptr;
    if (rank > 0) c.refuse();
  }
  if (c.wild(32)) {
    static constexpr int ranks[] = {-1, 65, INT32_MAX, INT32_MIN};
    array.rank = ranks[c.below(4)];
    c.refuse();
  }
  return c.keep(array);
}

template <class T>
void signal(Case& c, bool reversed) {
  const int rank = c.chance(16) ? 64 : c.below(5);
  const auto mode = c.choice<fastdl_convolution_mode>(4);
  const auto method = c.choice<fastdl_convolution_method>(4);
  static constexpr int most[] = {1, 60, 9, 5, 4};
  std::vector<Index> f, h, out;
  Wide products = 1;
  const bool h_larger = c.chance(4);
  for (int a = 0; a < rank; ++a) {
    // Of 64 axes most have one number.
    const int side = rank <= 4 ? most[rank] : a % 32 == 0 ? 4 : 1;
    Index larger = c.extent(side), smaller = c.extent(side);
    if (mode == FASTDL_MODE_VALID && smaller > larger && !c.wild(8)) std::swap(larger, smaller);
    f.push_back(h_larger ? smaller : larger);
    h.push_back(h_larger ? larger : smaller);
    const Index n = f.back(), m = h.back();
    const bool sound = n >= 0 && m >= 0 && n < INT64_MAX / 4 && m < INT64_MAX / 4, empty = n == 0 || m == 0;
    Index size = n;
    if (sound && mode == FASTDL_MODE_FULL) size = empty ? 0 : n + m - 1;
    if (sound && mode == FASTDL_MODE_VALID) size = empty ? 0 : std::abs(n - m) + 1;
    out.push_back(c.wild(32) ? c.extent() : size);
    products = product({products, n, m});
  }
  c.work(products);
  const auto *f_array = signal_array<T>(c, f, Role::input), *h_array = signal_array<T>(c, h, Role::input);
  const auto* out_array = signal_array<T>(c, out, Role::output);
  if (reversed)
    c.call("conv_correlate",
           [&] { return FUZZ_BY_TYPE(T, fastdl_conv_correlate)(f_array, h_array, mode, method, out_array); });
  else
    c.call("conv_convolve",
           [&] { return FUZZ_BY_TYPE(T, fastdl_conv_convolve)(f_array, h_array, mode, method, out_array); });
}

template <class T>
void any(Case& c) {
  const int function = c.below(14);
  if (function < 4) return forward<T>(c, false);
  if (function == 4) return forward<T>(c, true);
  if (function < 7) return gradient<T>(c, function == 5);
  if (function < 11) return pooling<T>(c, function - 7);
  signal<T>(c, function == 11);
}

}  // namespace

void conv_case(Case& c) { c.chance(2) ? any<double>(c) : any<float>(c); }

}  // namespace fuzz
