/* The same from C: every function returns a status, and fastdl_last_error() says what was wrong. */
#include <fastdl/fastdl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inputs.h"

static void check(fastdl_status status) {
  if (status == FASTDL_OK) return;
  fprintf(stderr, "%s\n", fastdl_last_error());
  exit(1);
}

static void print_f32(const char* name, const float* values, int64_t count) {
  printf("%s:", name);
  for (int64_t i = 0; i < count; ++i) printf(" %.9g", values[i]);
  printf("\n");
}
static void print_f64(const char* name, const double* values, int64_t count) {
  printf("%s:", name);
  for (int64_t i = 0; i < count; ++i) printf(" %.9g", values[i]);
  printf("\n");
}

static void gram(void) {
  double points[5 * 3], entries[5 * 5], ones[5], sums[5];
  const fastdl_matrix_f64 X = {points, 5, 3, 3, 1}, K = {entries, 5, 5, 5, 1};
  const fastdl_matrix_f64 v = {ones, 5, 1, 1, 1}, out = {sums, 5, 1, 1, 1};
  fastdl_kernel kernel = fastdl_kernel_default(FASTDL_RBF, 3);
  kernel.gamma = 0.5;
  fill_f64(points, 5 * 3);
  for (int i = 0; i < 5; ++i) ones[i] = 1;
  check(fastdl_gram_f64(&kernel, &X, NULL, &K)); /* NULL: with itself */
  print_f64("gram", entries, 5);
  check(fastdl_gram_matvec_f64(&kernel, &X, &X, &v, &out));
  print_f64("matvec", sums, 5);
}

static void convolution(void) {
  float image[36], filters[2 * 9], out[2 * 36];
  const float bias[2] = {0.1F, -0.1F};
  fastdl_conv_shape shape;
  fill_f32(image, 36);
  fill_f32(filters, 2 * 9);
  memset(&shape, 0, sizeof shape);
  shape.rank = 2;
  shape.batch = shape.in_channels = shape.groups = 1;
  shape.out_channels = 2;
  for (int axis = 0; axis < 2; ++axis) {
    shape.in[axis] = shape.out[axis] = 6;
    shape.kernel[axis] = 3;
    shape.stride[axis] = shape.dilation[axis] = shape.lower[axis] = 1;
  }
  check(fastdl_conv_f32(&shape, FASTDL_ZEROS, FASTDL_RELU, FASTDL_CONV_AUTO, image, NULL, filters, bias, out));
  print_f32("convolution", out, 6);
}

static void strongest(const float* image, const float* filter, float* out) {
  float turned[4 * 25];
  fastdl_group_shape shape;
  memset(&shape, 0, sizeof shape);
  shape.group = FASTDL_P4;
  shape.lift = 1;
  shape.batch = shape.in_channels = shape.out_channels = 1;
  shape.kernel = 3;
  for (int axis = 0; axis < 2; ++axis) {
    shape.in[axis] = shape.out[axis] = 5;
    shape.stride[axis] = shape.lower[axis] = 1;
  }
  check(fastdl_group_conv_f32(&shape, FASTDL_NO_ACTIVATION, FASTDL_GROUP_AUTO, image, NULL, filter, NULL, turned));
  check(fastdl_group_pool_f32(turned, 1, 4, 25, FASTDL_GROUP_POOL_MAX, out));
}

static void group(void) {
  float image[25], quarter[25], filter[9], found[25], after[25], apart = 0;
  fill_f32(image, 25);
  fill_f32(filter, 9);
  for (int i = 0; i < 5; ++i)
    for (int j = 0; j < 5; ++j) quarter[5 * i + j] = image[5 * j + 4 - i];
  strongest(image, filter, found);
  strongest(quarter, filter, after);
  print_f32("group", found, 5);
  for (int i = 0; i < 5; ++i)
    for (int j = 0; j < 5; ++j) {
      const float off = fabsf(after[5 * i + j] - found[5 * j + 4 - i]);
      if (off > apart) apart = off;
    }
  print_f32("group, turned", &apart, 1);
}

static void scattering(void) {
  double low[LENGTH], low_2[HALF], high[LENGTH], middle[LENGTH], second[HALF];
  double signal[LENGTH], out[CHANNELS * PLACES], gradient[LENGTH];
  const double unit = 1;
  const int64_t channel[2] = {1, 2}, channel_2[2] = {3, 4}, level_2[1] = {1}, place_x[1] = {0};
  int64_t place_y[LENGTH];
  const fastdl_scattering_axis across = {1, 0, 1, 1, &unit};
  const double *psi[2], *psi_2[1];
  fastdl_scattering_level levels[2];
  fastdl_scattering_group groups[1];
  fastdl_scattering_tree tree;
  fastdl_scattering_plan_f64* plan;

  bump(low, LENGTH, 0, 8, 1);
  bump(low_2, HALF, 0, 4, 1);
  bump(high, LENGTH, 16, 3, 0);
  bump(middle, LENGTH, 8, 2, 0);
  bump(second, HALF, 4, 1.5, 0);
  psi[0] = high, psi[1] = middle, psi_2[0] = second;
  for (int i = 0; i < LENGTH; ++i) place_y[i] = i;
  levels[0].down = (fastdl_scattering_axis){LENGTH, 0, LENGTH / PLACES, PLACES, low};
  levels[1].down = (fastdl_scattering_axis){HALF, 0, HALF / PLACES, PLACES, low_2};
  levels[0].across = levels[1].across = across;
  groups[0] = (fastdl_scattering_group){1, 2, 1, psi, channel, psi_2, level_2, channel_2};
  tree = (fastdl_scattering_tree){LENGTH, 1, place_y, place_x, 2, 1, CHANNELS, levels, groups};

  check(fastdl_scattering_plan_make_f64(&tree, &plan));
  fill_f64(signal, LENGTH);
  check(fastdl_scattering_forward_f64(plan, signal, 1, out));
  print_f64("scattering", out, CHANNELS * PLACES);
  check(fastdl_scattering_vjp_f64(plan, signal, out, 1, gradient));
  print_f64("scattering, gradient", gradient, 4);
  fastdl_scattering_plan_free_f64(plan); /* what a function made, the one of the same name with _free ends */
}

static void hebbian(void) {
  double weights[2 * 3], samples[40 * 3];
  const double step = 0.05;
  const fastdl_matrix_f64 W = {weights, 2, 3, 3, 1}, X = {samples, 40, 3, 3, 1};
  fastdl_hebbian_rule rule;
  memset(&rule, 0, sizeof rule);
  rule.kind = FASTDL_HEBBIAN_SANGER;
  fill_f64(weights, 2 * 3);
  fill_f64(samples, 40 * 3);
  check(fastdl_hebbian_learn_f64(&rule, &W, &X, &step, 0, NULL, &W)); /* a stride of 0: one step for all samples */
  print_f64("hebbian", weights, 2 * 3);
}

static void error(void) {
  double points[6] = {0}, entries[4];
  const fastdl_matrix_f64 X = {points, 3, 2, 2, 1}, K = {entries, 2, 2, 2, 1};
  if (fastdl_gram_linear_f64(&X, NULL, &K) == FASTDL_INVALID_ARGUMENT) printf("error: %s\n", fastdl_last_error());
}

int main(void) {
  if (strcmp(FASTDL_VERSION, fastdl_version()) != 0) {
    fprintf(stderr, "compiled with fastdl %s, running with %s\n", FASTDL_VERSION, fastdl_version());
    return 1;
  }
  printf("fastdl: %s %s %d\n", fastdl_version(), fastdl_isa(), fastdl_get_num_threads());
  gram();
  convolution();
  group();
  scattering();
  hebbian();
  error();
  return 0;
}
