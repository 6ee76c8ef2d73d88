// Entry points of convolve and correlate: checks, the choice of a method, and one dispatch.
//
// Every mode becomes a window of a full convolution. A correlation is one with h reversed; a circular one has f
// repeated as far as h reaches. Axes along which f or h has one number are no convolution but a batch.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "conv/signal_cost.hpp"
#include "core/check.hpp"
#include "core/scratch.hpp"
#include "core/stride.hpp"
#include "fastdl/fastdl.h"

namespace fastdl::conv {
namespace {

using Index = std::int64_t;
using Sizes = std::vector<Index>;

std::string text_of(const Sizes& sizes) {
  std::string text = "(";
  for (std::size_t a = 0; a < sizes.size(); ++a) text += (a ? ", " : "") + std::to_string(sizes[a]);
  return text + ")";
}

template <class T>
struct View {
  T* data;
  Sizes sizes, strides;

  Index count() const {
    if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return 0;  // the others may be as large as they like
    Index product = 1;
    for (Index size : sizes) product *= size;
    return product;
  }
  bool contiguous() const {
    Index step = 1;
    for (std::size_t a = sizes.size(); a-- > 0;) {
      if (sizes[a] != 1 && strides[a] != step) return false;
      step *= sizes[a];
    }
    return true;
  }
  View chosen(const std::vector<std::size_t>& axes) const {
    View result{data, {}, {}};
    for (std::size_t a : axes) {
      result.sizes.push_back(sizes[a]);
      result.strides.push_back(strides[a]);
    }
    return result;
  }
  void reverse() {
    for (std::size_t a = 0; a < sizes.size(); ++a) {
      data += (sizes[a] - 1) * strides[a];
      strides[a] = -strides[a];
    }
  }
};

template <class T>
View<T> packed(T* data, const Sizes& sizes) {
  View<T> view{data, sizes, sizes};
  Index step = 1;
  for (std::size_t a = sizes.size(); a-- > 0; step *= sizes[a]) view.strides[a] = step;
  return view;
}

// function(i, where) for every i-th element of an array in row-major order, where = sum of place(axis, index).
template <class Place, class Function>
void each_element(const Sizes& sizes, const Place& place, const Function& function) {
  if (sizes.empty()) return function(0, 0);
  Sizes index(sizes.size(), 0);
  const std::size_t last = sizes.size() - 1;
  Index count = 1;
  for (Index size : sizes) count *= size;
  for (Index i = 0; i < count;) {
    Index where = 0;
    for (std::size_t a = 0; a < last; ++a) where += place(a, index[a]);
    for (Index j = 0; j < sizes[last]; ++j, ++i) function(i, where + place(last, j));
    for (std::size_t a = last; a-- > 0 && ++index[a] == sizes[a];) index[a] = 0;
  }
}

template <class T>
const T* contiguous(const View<const T>& from, core::Scratch& scratch) {
  if (from.contiguous()) return from.data;
  T* to = scratch.array<T>(from.count());
  each_element(
      from.sizes, [&](std::size_t a, Index i) { return i * from.strides[a]; },
      [&](Index i, Index at) { to[i] = from.data[at]; });
  return to;
}

// Onto one period: number j holds the sum of all h[j + k*period].
template <class T>
View<const T> folded(const View<const T>& h, const Sizes& period, core::Scratch& scratch) {
  Sizes sizes = h.sizes;
  for (std::size_t a = 0; a < sizes.size(); ++a) sizes[a] = std::min(sizes[a], period[a]);
  if (sizes == h.sizes) return h;
  const View<T> to = packed(scratch.array<T>(packed<T>(nullptr, sizes).count()), sizes);
  std::fill(to.data, to.data + to.count(), T(0));
  std::vector<T> values(static_cast<std::size_t>(h.count()));
  each_element(
      h.sizes, [&](std::size_t a, Index i) { return i * h.strides[a]; },
      [&](Index i, Index at) { values[static_cast<std::size_t>(i)] = h.data[at]; });
  each_element(
      h.sizes, [&](std::size_t a, Index i) { return i % sizes[a] * to.strides[a]; },
      [&](Index i, Index at) { to.data[at] += values[static_cast<std::size_t>(i)]; });
  return {to.data, to.sizes, to.strides};
}

// Number i is f's number i + first, repeated.
template <class T>
View<const T> periodic(const View<const T>& f, const Sizes& first, const Sizes& sizes, core::Scratch& scratch) {
  std::vector<Sizes> places(sizes.size());
  for (std::size_t a = 0; a < sizes.size(); ++a)
    for (Index i = 0; i < sizes[a]; ++i)
      places[a].push_back(((i + first[a]) % f.sizes[a] + f.sizes[a]) % f.sizes[a] * f.strides[a]);
  const View<T> to = packed(scratch.array<T>(packed<T>(nullptr, sizes).count()), sizes);
  each_element(
      sizes, [&](std::size_t a, Index i) { return places[a][static_cast<std::size_t>(i)]; },
      [&](Index i, Index at) { to.data[i] = f.data[at]; });
  return {to.data, to.sizes, to.strides};
}

template <class T>
bool all_finite(const T* x, Index count) {
  T sums[8] = {};  // of zeros, or NaN; eight of them become vectors
  Index i = 0;
  for (; i + 8 <= count; i += 8)
    for (Index k = 0; k < 8; ++k) sums[k] += 0 * x[i + k];
  for (; i < count; ++i) sums[0] += 0 * x[i];
  return std::all_of(sums, sums + 8, [](T sum) { return sum == 0; });
}

template <class T, class Array>
View<T> view_of(const char* name, const char* label, const Array* array) {
  if (!array) core::fail(name, std::string(label) + " to be given", "NULL");
  if (array->rank < 0 || array->rank > most_axes)
    core::fail(name, std::string(label) + " of rank 0 to 64", std::to_string(array->rank));
  if (array->rank > 0 && (!array->sizes || !array->strides))
    core::fail(name, std::string(label) + " with sizes and strides", "NULL");
  View<T> view{array->data, Sizes(array->sizes, array->sizes + array->rank),
               Sizes(array->strides, array->strides + array->rank)};
  bool empty = false;
  for (Index size : view.sizes) {
    if (size < 0) core::fail(name, std::string(label) + " with sizes >= 0", text_of(view.sizes));
    empty |= size == 0;
  }
  if (empty) return view;
  if (!array->data) core::fail(name, std::string(label) + " with data", "a null pointer");
  Index total = 1, reach = 0;
  for (std::size_t a = 0; a < view.sizes.size(); ++a) {
    Index way;
    view.strides[a] = core::usable_stride(view.sizes[a], view.strides[a]);
    if (__builtin_mul_overflow(total, view.sizes[a], &total) || view.strides[a] == INT64_MIN ||
        __builtin_mul_overflow(view.sizes[a] - 1, std::abs(view.strides[a]), &way) ||
        __builtin_add_overflow(reach, way, &reach) || std::max(total, reach) > INT64_MAX / 64)
      core::fail(name, std::string(label) + " within the address space", "sizes " + text_of(view.sizes));
  }
  return view;
}

// The result's sizes, and where it begins in the full convolution.
void window(const char* name, fastdl_convolution_mode mode, const Sizes& f, const Sizes& h, Sizes& size,
            Sizes& offset) {
  bool f_larger = true, h_larger = true;
  for (std::size_t a = 0; a < f.size(); ++a) {
    const bool empty = f[a] == 0 || h[a] == 0;
    f_larger &= f[a] >= h[a];
    h_larger &= h[a] >= f[a];
    if (f[a] > INT64_MAX / 64 - h[a])
      core::fail(name, "a result within the address space", "sizes " + text_of(f) + " and " + text_of(h));
    switch (mode) {
      case FASTDL_MODE_FULL:
        size.push_back(empty ? 0 : f[a] + h[a] - 1);
        offset.push_back(0);
        break;
      case FASTDL_MODE_SAME:
        size.push_back(f[a]);
        offset.push_back((h[a] - 1) / 2);
        break;
      case FASTDL_MODE_VALID:
        size.push_back(empty ? 0 : std::abs(f[a] - h[a]) + 1);
        offset.push_back(std::min(f[a], h[a]) - 1);
        break;
      case FASTDL_MODE_CIRCULAR:
        size.push_back(f[a]);
        offset.push_back(std::min(f[a], h[a]) - 1);
        break;
    }
  }
  if (mode == FASTDL_MODE_VALID && !f_larger && !h_larger)
    core::fail(name, "one of f and h at least as large as the other along every axis for valid",
               text_of(f) + " and " + text_of(h));
}

template <class T>
void run(const Signal<T>& signal, fastdl_convolution_method method) {
  if (method == FASTDL_METHOD_AUTO) {
    const auto count = [&](const Index* sizes, Index times) {
      for (int a = 0; a < signal.rank; ++a) times *= sizes[a];
      return times;
    };
    method = quickest(signal);
    if (method != FASTDL_METHOD_DIRECT && products(signal) < 0x1p36 &&
        !(all_finite(signal.f, count(signal.f_size, signal.f_count)) &&
          all_finite(signal.h, count(signal.h_size, signal.h_count))))
      method = FASTDL_METHOD_DIRECT;
  }
  if (method == FASTDL_METHOD_DIRECT) {
    FASTDL_DISPATCH(direct(signal));
  } else {
    const Blocks blocks = method == FASTDL_METHOD_FFT ? whole(signal) : tiled(signal);
    FASTDL_DISPATCH(by_transforms(signal, blocks));
  }
}

template <class T, class Array>
void compute(const char* name, const Array* f_array, const Array* h_array, bool reversed, fastdl_convolution_mode mode,
             fastdl_convolution_method method, const Array* out_array) {
  auto f = view_of<const T>(name, "f", f_array), h = view_of<const T>(name, "h", h_array);
  auto out = view_of<T>(name, "out", out_array);
  if (h.sizes.size() != f.sizes.size())
    core::fail(name, "h of rank " + std::to_string(f.sizes.size()) + " as f", std::to_string(h.sizes.size()));
  if (mode < FASTDL_MODE_FULL || mode > FASTDL_MODE_CIRCULAR)
    core::fail(name, "a mode", std::to_string(static_cast<int>(mode)));
  Sizes size, offset;
  window(name, mode, f.sizes, h.sizes, size, offset);
  if (out.sizes != size) core::fail(name, "out of shape " + text_of(size), text_of(out.sizes));
  for (std::size_t a = 0; a < size.size(); ++a)
    if (size[a] > 1 && out.strides[a] == 0) core::fail(name, "out with distinct elements", "a zero stride");
  if (method < FASTDL_METHOD_AUTO || method > FASTDL_METHOD_OVERLAP_ADD)
    core::fail(name, "a method", std::to_string(static_cast<int>(method)));
  if (out.count() == 0) return;

  core::Scratch scratch;
  const auto write = [&](const View<T>& to, auto&& value) {
    each_element(
        to.sizes, [&](std::size_t a, Index i) { return i * to.strides[a]; },
        [&](Index i, Index at) { to.data[at] = value(i); });
  };
  if (f.count() == 0 || h.count() == 0) return write(out, [](Index) { return T(0); });

  if (mode == FASTDL_MODE_CIRCULAR) {
    h = folded(h, f.sizes, scratch);
    Sizes first, extended;
    for (std::size_t a = 0; a < size.size(); ++a) {
      first.push_back(reversed ? 0 : 1 - h.sizes[a]);
      extended.push_back(f.sizes[a] + h.sizes[a] - 1);
    }
    if (extended != f.sizes) f = periodic(f, first, extended, scratch);
  }
  if (reversed) h.reverse();
  if (h.count() > f.count()) std::swap(f, h);

  // Axes of several h, of several f, and of the convolution proper.
  std::vector<std::size_t> of_h, of_f, proper, all;
  for (std::size_t a = 0; a < size.size(); ++a) {
    if (f.sizes[a] > 1 && h.sizes[a] > 1) {
      proper.push_back(a);
      continue;
    }
    View<const T>& longer = f.sizes[a] == 1 ? h : f;  // of which only the window is wanted
    longer.data += offset[a] * longer.strides[a];
    longer.sizes[a] = size[a];
    if (size[a] > 1) (f.sizes[a] == 1 ? of_h : of_f).push_back(a);
  }
  const auto joined = [](std::vector<std::size_t> axes, const std::vector<std::size_t>& more) {
    axes.insert(axes.end(), more.begin(), more.end());
    return axes;
  };
  const View<const T> all_f = f.chosen(joined(of_f, proper)), all_h = h.chosen(joined(of_h, proper));
  const View<T> all_out = out.chosen(joined(joined(of_h, of_f), proper));
  Signal<T> signal{};
  signal.f = contiguous(all_f, scratch);
  signal.h = contiguous(all_h, scratch);
  signal.out = all_out.contiguous() ? all_out.data : scratch.array<T>(all_out.count());
  signal.f_count = f.chosen(of_f).count();
  signal.h_count = h.chosen(of_h).count();
  signal.rank = std::max(1, static_cast<int>(proper.size()));
  signal.f_size[0] = signal.h_size[0] = signal.out_size[0] = 1;
  for (std::size_t a = 0; a < proper.size(); ++a) {
    signal.f_size[a] = f.sizes[proper[a]];
    signal.h_size[a] = h.sizes[proper[a]];
    signal.out_size[a] = size[proper[a]];
    signal.offset[a] = offset[proper[a]];
  }
  run(signal, method);
  if (signal.out != all_out.data) write(all_out, [&](Index i) { return signal.out[i]; });
}

}  // namespace
}  // namespace fastdl::conv

using namespace fastdl;

#define FASTDL_ENTRY(function, reversed, suffix, T)                                                               \
  fastdl_status fastdl_conv_##function##_##suffix(const fastdl_array_##suffix* f, const fastdl_array_##suffix* h, \
                                                  fastdl_convolution_mode mode, fastdl_convolution_method method, \
                                                  const fastdl_array_##suffix* out) {                             \
    return core::guarded([&] { conv::compute<T>("conv." #function, f, h, reversed, mode, method, out); });        \
  }
FASTDL_ENTRY(convolve, false, f32, float)
FASTDL_ENTRY(convolve, false, f64, double)
FASTDL_ENTRY(correlate, true, f32, float)
FASTDL_ENTRY(correlate, true, f64, double)
