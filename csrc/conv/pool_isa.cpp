// Pooling and its gradients, compiled once per instruction-set level. A task is a plane: one channel of one image.
#include "conv/bodies.hpp"
#include "conv/plane.hpp"
#include "core/threads.hpp"

namespace fastdl::conv::FASTDL_LEVEL {
namespace {

// f(plane number), for channels of images
template <class Function>
void each_plane(const Geometry& g, const Function& f) {
  const Index planes = g.batch * g.in_channels;
  const double work = double(planes) * double(g.pixels()) * double(g.taps());
  core::parallel_for(planes, work < 2e5 ? 1 : core::thread_count(), [&](Index plane) { f(plane); });
}

template <class T>
const T* plane_of(const Geometry& g, const Images<const T>& x, Index plane) {
  return x.data + plane / g.in_channels * x.batch + plane % g.in_channels * x.channel;
}

// f(output row's first pixel, od, oh) for every row of the output
template <class Function>
FASTDL_INLINE void each_row(const Geometry& g, const Function& f) {
  for (Index od = 0; od < g.out[0]; ++od)
    for (Index oh = 0; oh < g.out[1]; ++oh) f((od * g.out[1] + oh) * g.out[2], od, oh);
}

// Along a row, vector by vector: start, combined with every tap by `combine`, then `finish`, which gets the columns.
template <class T, class Combine, class Finish>
void pool_plane(const Geometry& g, const Plane<T>& plane, T start, T* to, const Combine& combine,
                const Finish& finish) {
  constexpr int lanes = simd::lanes<T>;
  each_row(g, [&](Index pixel, Index od, Index oh) {
    Index rows = 0;
    each_row_of_taps(g, od, oh, [&](Index, Index, Index) { ++rows; });
    for (Index ow = 0; ow < g.out[2]; ow += lanes) {
      simd::Vec<T> value = simd::broadcast(start);
      const T* from = plane.at(od, oh) + ow;
      for (Index t = 0; t < g.taps(); ++t) value = combine(value, simd::load(from + plane.tap(t)));
      const int count = int(at_most(lanes, g.out[2] - ow));
      simd::store_first(to + pixel + ow, finish(value, rows, ow), count);
    }
  });
}

template <class T>
void max_of(const Geometry& g, const Images<const T>& x, T* out) {
  constexpr T least = -T(__builtin_inf());
  each_plane(g, [&](Index number) {
    core::Scratch scratch;
    Plane<T> plane(g, least, scratch);
    plane.fill(plane_of(g, x, number), x.axis);
    pool_plane(
        g, plane, least, out + number * g.pixels(),
        // NaN wins: it is not at most anything, and nothing is more than it.
        [](simd::Vec<T> most, simd::Vec<T> value) {
          return simd::select((value > most) | (value != value), value, most);
        },
        [](simd::Vec<T> most, Index, Index) { return most; });
  });
}

// With the place of each maximum in its plane: the first of equals, or the first NaN.
template <class T>
void max_with_indices(const Geometry& g, const Images<const T>& x, T* out, Index* indices) {
  each_plane(g, [&](Index number) {
    const T* plane = plane_of(g, x, number);
    each_row(g, [&](Index pixel, Index od, Index oh) {
      for (Index ow = 0; ow < g.out[2]; ++ow) {
        T most = -T(__builtin_inf());
        Index at = -1;
        each_row_of_taps(g, od, oh, [&](Index d, Index h, Index) {
          const T* row = plane + d * x.axis[0] + h * x.axis[1];
          for (Index q = 0; q < g.kernel[2]; ++q) {
            const Index w = ow * g.stride[2] + q - g.lower[2];
            if (w < 0 || w >= g.in[2]) continue;
            const T value = row[w * x.axis[2]];
            if (at < 0 || value > most || (value != value && most == most))
              most = value, at = (d * g.in[1] + h) * g.in[2] + w;
          }
        });
        out[number * g.pixels() + pixel + ow] = most;
        indices[number * g.pixels() + pixel + ow] = at;
      }
    });
  });
}

// How many of the taps of column ow lie in the image.
inline Index columns_inside(const Geometry& g, Index ow) {
  const Index first = ow * g.stride[2] - g.lower[2];
  const Index begin = first < 0 ? 0 : first, end = at_most(first + g.kernel[2], g.in[2]);
  return end > begin ? end - begin : 0;
}

// 1/(how many values a window has): all, or those in the image; for one row of taps, by column.
template <class T>
T* shares(const Geometry& g, bool padding_counts, core::Scratch& scratch) {
  constexpr int lanes = simd::lanes<T>;
  T* share = scratch.array<T>(g.out[2] + lanes);
  for (Index ow = 0; ow < g.out[2] + lanes; ++ow)
    share[ow] = T(1) / T(padding_counts || ow >= g.out[2] ? g.kernel[2] : columns_inside(g, ow));
  return share;
}

template <class T>
void average_of(const Geometry& g, const Images<const T>& x, bool padding_counts, T* out) {
  each_plane(g, [&](Index number) {
    core::Scratch scratch;
    const T* share = shares<T>(g, padding_counts, scratch);
    Plane<T> plane(g, T(0), scratch);
    plane.fill(plane_of(g, x, number), x.axis);
    const T all = T(1) / T(g.kernel[0] * g.kernel[1]);
    pool_plane(
        g, plane, T(0), out + number * g.pixels(), [](simd::Vec<T> sum, simd::Vec<T> value) { return sum + value; },
        [&](simd::Vec<T> sum, Index rows, Index ow) {
          return sum * (simd::load(share + ow) * (padding_counts ? all : T(1) / T(rows)));
        });
  });
}

// The gradients add up what each value of a plane gave to the windows it lies in.
template <class T>
void max_gradient_of(const Geometry& g, const T* grad, const Index* indices, T* dx) {
  each_plane(g, [&](Index number) {
    T* plane = dx + number * g.in_pixels();
    for (Index i = 0; i < g.in_pixels(); ++i) plane[i] = 0;
    for (Index pixel = number * g.pixels(); pixel < (number + 1) * g.pixels(); ++pixel)
      plane[indices[pixel]] += grad[pixel];
  });
}

template <class T>
void average_gradient_of(const Geometry& g, const T* grad, bool padding_counts, T* dx) {
  each_plane(g, [&](Index number) {
    core::Scratch scratch;
    const T* share = shares<T>(g, padding_counts, scratch);
    T* plane = dx + number * g.in_pixels();
    for (Index i = 0; i < g.in_pixels(); ++i) plane[i] = 0;
    each_row(g, [&](Index pixel, Index od, Index oh) {
      Index rows = 0;
      each_row_of_taps(g, od, oh, [&](Index, Index, Index) { ++rows; });
      const T of_rows = T(1) / T(padding_counts ? g.kernel[0] * g.kernel[1] : rows);
      each_row_of_taps(g, od, oh, [&](Index d, Index h, Index) {
        T* row = plane + (d * g.in[1] + h) * g.in[2];
        for (Index ow = 0; ow < g.out[2]; ++ow) {
          const T value = grad[number * g.pixels() + pixel + ow] * (share[ow] * of_rows);
          const Index first = ow * g.stride[2] - g.lower[2];
          for (Index w = first < 0 ? 0 : first; w < first + g.kernel[2] && w < g.in[2]; ++w) row[w] += value;
        }
      });
    });
  });
}

}  // namespace

#define FASTDL_BODIES_OF(T)                                                                     \
  void max_pool(const Geometry& g, const Images<const T>& x, T* out, Index* indices) {          \
    if (indices)                                                                                \
      max_with_indices<T>(g, x, out, indices);                                                  \
    else                                                                                        \
      max_of<T>(g, x, out);                                                                     \
  }                                                                                             \
  void average_pool(const Geometry& g, const Images<const T>& x, bool padding_counts, T* out) { \
    average_of<T>(g, x, padding_counts, out);                                                   \
  }                                                                                             \
  void max_pool_gradient(const Geometry& g, const T* grad, const Index* indices, T* dx) {       \
    max_gradient_of<T>(g, grad, indices, dx);                                                   \
  }                                                                                             \
  void average_pool_gradient(const Geometry& g, const T* grad, bool padding_counts, T* dx) {    \
    average_gradient_of<T>(g, grad, padding_counts, dx);                                        \
  }
FASTDL_BODIES_OF(float)
FASTDL_BODIES_OF(double)

}  // namespace fastdl::conv::FASTDL_LEVEL
