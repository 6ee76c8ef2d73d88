#include "conv/checks.hpp"

#include <algorithm>

#include "core/check.hpp"
#include "core/stride.hpp"

namespace fastdl::conv {

std::string numbers(const Index* values, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(values[i]);
  }
  return text;
}

void check_size(const char* name, const char* label, std::initializer_list<Index> extents) {
  Index bytes = 8;
  for (Index extent : extents)
    if (extent != 0 && __builtin_mul_overflow(bytes, extent, &bytes))
      core::fail(name, std::string(label) + " within the address space",
                 "extents of " + numbers(extents.begin(), int(extents.size())));
}

Geometry geometry_of(const char* name, const fastdl_conv_shape* shape, bool pooling) {
  if (!shape) core::fail(name, "a shape", "NULL");
  const int rank = shape->rank;
  if (rank < 1 || rank > axes) core::fail(name, "a rank of 1, 2 or 3", std::to_string(rank));
  const auto at_least = [&](const char* label, const Index* values, Index least) {
    for (int a = 0; a < rank; ++a)
      if (values[a] < least || values[a] > (Index{1} << 40))
        core::fail(name, std::string(label) + " from " + std::to_string(least) + " to 2^40", numbers(values, rank));
  };
  at_least("in", shape->in, 0);
  at_least("kernel", shape->kernel, 1);
  at_least("out", shape->out, 0);
  at_least("stride", shape->stride, 1);
  if (!pooling) at_least("dilation", shape->dilation, 1);
  at_least("lower", shape->lower, -(Index{1} << 40));
  const Index groups = pooling ? 1 : shape->groups, outputs = pooling ? shape->in_channels : shape->out_channels;
  const Index counts[] = {shape->batch, shape->in_channels, outputs};
  if (groups < 1) core::fail(name, "groups of at least 1", std::to_string(groups));
  for (Index count : counts)
    if (count < 0) core::fail(name, "a batch and channels of at least 0", numbers(counts, 3));
  if (shape->in_channels % groups != 0 || outputs % groups != 0)
    core::fail(name, "groups that divide the channels", std::to_string(groups) + " of " + numbers(counts + 1, 2));
  Geometry g;
  g.batch = shape->batch;
  g.groups = groups;
  g.in_channels = shape->in_channels / groups;
  g.out_channels = outputs / groups;
  for (int a = 0; a < axes; ++a) {
    const int from = a - (axes - rank);
    const auto set = [&](Index* to, const Index* values, Index missing) { to[a] = from < 0 ? missing : values[from]; };
    set(g.in, shape->in, 1);
    set(g.kernel, shape->kernel, 1);
    set(g.out, shape->out, 1);
    set(g.stride, shape->stride, 1);
    set(g.lower, shape->lower, 0);
    if (pooling)
      g.dilation[a] = 1;
    else
      set(g.dilation, shape->dilation, 1);
  }
  // (Where there are no channels there may still be groups, by which positions are counted.)
  check_size(name, "x", {g.batch, std::max(shape->in_channels, groups), g.in[0], g.in[1], g.in[2]});
  check_size(name, "out", {g.batch, std::max(outputs, groups), g.out[0], g.out[1], g.out[2]});
  check_size(name, "w", {outputs, g.in_channels, g.kernel[0], g.kernel[1], g.kernel[2]});
  // Windows stay in range: positions are computed in 64 bits.
  for (int a = 0; a < axes; ++a) {
    check_size(name, "the reach of the windows", {g.out[a] + 1, g.stride[a]});
    check_size(name, "the reach of the windows", {g.kernel[a], g.dilation[a]});
  }
  return g;
}

template <class T>
Images<const T> images_of(const char* name, const Geometry& g, int rank, const T* x, const std::int64_t* strides) {
  const Index channels = g.groups * g.in_channels;
  Images<const T> images = contiguous<const T>(core::usable_data(x), channels, g.in);
  if (!strides || g.batch * channels * g.in_pixels() == 0) return images;
  Index reach = 0;  // bytes from the first to the furthest element, if all strides pointed one way
  const auto take = [&](Index stride, Index count) {
    Index bytes;
    if (count > 1 &&
        (stride == INT64_MIN || __builtin_mul_overflow(stride < 0 ? -stride : stride, count - 1, &bytes) ||
         __builtin_mul_overflow(bytes, Index{sizeof(T)}, &bytes) || __builtin_add_overflow(reach, bytes, &reach)))
      core::fail(name, "x within the address space",
                 std::to_string(count) + " elements with a stride of " + std::to_string(stride));
    return core::usable_stride(count, stride);
  };
  images.batch = take(strides[0], g.batch);
  images.channel = take(strides[1], channels);
  for (int a = 0; a < axes; ++a) {
    const int from = a - (axes - rank);
    images.axis[a] = from < 0 ? 0 : take(strides[2 + from], g.in[a]);
  }
  // An axis of one position may have any stride; 1 along rows lets the fast paths take it.
  if (g.in[2] == 1) images.axis[2] = 1;
  return images;
}

template Images<const float> images_of(const char*, const Geometry&, int, const float*, const std::int64_t*);
template Images<const double> images_of(const char*, const Geometry&, int, const double*, const std::int64_t*);

void check_data(const char* name, const char* label, const void* data, std::initializer_list<Index> extents) {
  for (Index extent : extents)
    if (extent == 0) return;
  if (!data) core::fail(name, std::string(label) + " with data", "a null pointer");
}

}  // namespace fastdl::conv
