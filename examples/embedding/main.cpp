// fastdl from C++: a Gram matrix, a convolution, a layer on a group, a scattering transform, a Hebbian update, an
// error.
//
// The library reads and writes memory of the caller: views say where it lies, and nothing is copied or kept. What goes
// wrong is an exception.
#include <fastdl/gram.hpp>
#include <fastdl/group.hpp>
#include <fastdl/hebbian.hpp>
#include <fastdl/scattering.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "inputs.h"

namespace {

template <class T>
void print(const char* name, const std::vector<T>& values) {
  std::printf("%s:", name);
  for (T value : values) std::printf(" %.9g", static_cast<double>(value));
  std::printf("\n");
}

void gram() {
  const std::int64_t n = 5, d = 3;
  std::vector<double> points(n * d), K(n * n), ones(n, 1.0), sums(n);
  fill_f64(points.data(), n * d);
  const fastdl::MatrixView<const double> X{points.data(), n, d};

  auto kernel = fastdl::gram::kernel(FASTDL_RBF, d);  // its usual parameters, to be changed as one likes
  kernel.gamma = 0.5;
  fastdl::gram::gram(kernel, X, fastdl::MatrixView<double>{K.data(), n, n});
  print("gram", std::vector<double>(K.begin(), K.begin() + n));

  // The same matrix times a vector, without ever being formed. A vector is a matrix of one column.
  fastdl::gram::matvec(kernel, X, X, {ones.data(), n, 1}, {sums.data(), n, 1});
  print("matvec", sums);
}

void convolution() {
  const std::int64_t in = 6, channels = 2, k = 3;
  std::vector<float> image(in * in), filters(channels * k * k), bias{0.1F, -0.1F}, out(channels * in * in);
  fill_f32(image.data(), in * in);
  fill_f32(filters.data(), channels * k * k);

  fastdl_conv_shape shape{};
  shape.rank = 2;
  shape.batch = 1, shape.in_channels = 1, shape.out_channels = channels, shape.groups = 1;
  for (int axis = 0; axis < 2; ++axis) {
    shape.in[axis] = shape.out[axis] = in;
    shape.kernel[axis] = k;
    shape.stride[axis] = shape.dilation[axis] = shape.lower[axis] = 1;
  }
  // Functions without a wrapper of their own are those of the C interface; throw_on_error makes exceptions of statuses.
  fastdl::throw_on_error(fastdl_conv_f32(&shape, FASTDL_ZEROS, FASTDL_RELU, FASTDL_CONV_AUTO, image.data(), nullptr,
                                         filters.data(), bias.data(), out.data()));
  print("convolution", std::vector<float>(out.begin(), out.begin() + in));
}

// The largest answer of a filter in all four orientations, which turns as the image does.
std::vector<float> strongest(const std::vector<float>& image, const std::vector<float>& filter, std::int64_t side) {
  fastdl::group::Shape shape{};
  shape.group = FASTDL_P4;
  shape.lift = 1;
  shape.batch = shape.in_channels = shape.out_channels = 1;
  shape.kernel = 3;
  for (int axis = 0; axis < 2; ++axis) {
    shape.in[axis] = shape.out[axis] = side;
    shape.stride[axis] = shape.lower[axis] = 1;
  }
  std::vector<float> turned(4 * side * side), out(side * side);
  fastdl::group::conv(shape, image.data(), filter.data(), turned.data());
  fastdl::throw_on_error(fastdl_group_pool_f32(turned.data(), 1, 4, side * side, FASTDL_GROUP_POOL_MAX, out.data()));
  return out;
}

void group() {
  const std::int64_t side = 5;
  std::vector<float> image(side * side), quarter(side * side), filter(9);
  fill_f32(image.data(), side * side);
  fill_f32(filter.data(), 9);
  for (std::int64_t i = 0; i < side; ++i)
    for (std::int64_t j = 0; j < side; ++j) quarter[i * side + j] = image[j * side + side - 1 - i];

  const auto found = strongest(image, filter, side), after = strongest(quarter, filter, side);
  print("group", std::vector<float>(found.begin(), found.begin() + side));
  float apart = 0;
  for (std::int64_t i = 0; i < side; ++i)
    for (std::int64_t j = 0; j < side; ++j)
      apart = std::max(apart, std::abs(after[i * side + j] - found[j * side + side - 1 - i]));
  print("group, turned", std::vector<float>{apart});
}

void scattering() {
  // Two wavelets of the first order, one of the second, and averages on both grids. Spectra are those of the grid that
  // a wavelet is applied on.
  std::vector<double> low(LENGTH), low_2(HALF), high(LENGTH), middle(LENGTH), second(HALF), unit{1.0};
  bump(low.data(), LENGTH, 0, 8, 1);
  bump(low_2.data(), HALF, 0, 4, 1);
  bump(high.data(), LENGTH, 16, 3, 0);
  bump(middle.data(), LENGTH, 8, 2, 0);
  bump(second.data(), HALF, 4, 1.5, 0);

  const fastdl_scattering_axis across{1, 0, 1, 1, unit.data()};  // a signal is an image of one column
  const fastdl_scattering_level levels[]{{{LENGTH, 0, LENGTH / PLACES, PLACES, low.data()}, across},
                                         {{HALF, 0, HALF / PLACES, PLACES, low_2.data()}, across}};
  const double* const psi[]{high.data(), middle.data()};
  const double* const psi_2[]{second.data()};
  const std::int64_t channel[]{1, 2}, channel_2[]{3, 4}, level_2[]{1};
  const fastdl_scattering_group groups[]{{1, 2, 1, psi, channel, psi_2, level_2, channel_2}};
  std::vector<std::int64_t> place_y(LENGTH), place_x{0};
  std::iota(place_y.begin(), place_y.end(), 0);
  const fastdl_scattering_tree tree{LENGTH, 1, place_y.data(), place_x.data(), 2, 1, CHANNELS, levels, groups};

  const fastdl::scattering::Plan<double> plan(tree);  // keeps nothing of the tree
  std::vector<double> signal(LENGTH), out(CHANNELS * PLACES), gradient(LENGTH);
  fill_f64(signal.data(), LENGTH);
  plan.forward(signal.data(), 1, out.data());
  print("scattering", out);
  plan.vjp(signal.data(), out.data(), 1, gradient.data());  // of half the sum of squares
  print("scattering, gradient", std::vector<double>(gradient.begin(), gradient.begin() + 4));
}

void hebbian() {
  const std::int64_t k = 2, d = 3, n = 40;
  std::vector<double> weights(k * d), samples(n * d);
  fill_f64(weights.data(), k * d);
  fill_f64(samples.data(), n * d);
  const double step = 0.05;
  const fastdl::MatrixView<double> W{weights.data(), k, d};
  // A stride of 0: the same step for every sample. The result may lie where W was.
  fastdl::hebbian::learn(fastdl::hebbian::rule(FASTDL_HEBBIAN_SANGER), W, {samples.data(), n, d}, &step, 0, W);
  print("hebbian", weights);
}

void error() {
  const std::vector<double> points(6);
  std::vector<double> K(4);
  try {
    fastdl::gram::linear({points.data(), 3, 2}, fastdl::MatrixView<double>{K.data(), 2, 2});
  } catch (const std::invalid_argument& caught) {
    std::printf("error: %s\n", caught.what());
  }
}

}  // namespace

int main() {
  if (FASTDL_VERSION != std::string(fastdl_version())) {
    std::fprintf(stderr, "compiled with fastdl %s, running with %s\n", FASTDL_VERSION, fastdl_version());
    return 1;
  }
  std::printf("fastdl: %s %s %d\n", fastdl_version(), fastdl_isa(), fastdl_get_num_threads());
  try {
    gram();
    convolution();
    group();
    scattering();
    hebbian();
    error();
  } catch (const std::exception& caught) {
    std::fprintf(stderr, "%s\n", caught.what());
    return 1;
  }
  return 0;
}
