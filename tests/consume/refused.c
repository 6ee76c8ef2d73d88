/* Descriptors that no function may take: each must be refused with a message, and nothing written. Prints how many. */
#include <fastdl/fastdl.h>
#include <stdio.h>
#include <string.h>

static int refusals = 0;

static void refused(fastdl_status status, const char* call, const char* family) {
  char start[32];
  snprintf(start, sizeof start, "[%s", family);
  if (status != FASTDL_INVALID_ARGUMENT || strncmp(fastdl_last_error(), start, strlen(start)) != 0)
    printf("%s: status %d, %s\n", call, (int)status, fastdl_last_error());
  else
    ++refusals;
}
#define REFUSED(family, call) refused(call, #call, family)
#define WRONG(type) ((type)99)

static float in[64], out[256];
static int64_t places[64];

static void gram(void) {
  const fastdl_matrix_f32 X = {in, 3, 2, 2, 1}, v = {in, 3, 1, 1, 1}, to = {out, 3, 1, 1, 1};
  fastdl_matrix_f32 K = {out, 3, 3, 3, 1}, far = X;
  fastdl_kernel kernel = fastdl_kernel_default(FASTDL_RBF, 2);
  REFUSED("gram", fastdl_gram_f32(NULL, &X, NULL, &K));
  REFUSED("gram", fastdl_gram_f32(&kernel, NULL, NULL, &K));
  REFUSED("gram", fastdl_gram_f32(&kernel, &X, NULL, NULL));
  far.row_stride = INT64_MAX;
  REFUSED("gram", fastdl_gram_f32(&kernel, &far, NULL, &K));
  K.row_stride = 0;
  REFUSED("gram", fastdl_gram_f32(&kernel, &X, NULL, &K));
  K.row_stride = 3, K.rows = -3;
  REFUSED("gram", fastdl_gram_f32(&kernel, &X, NULL, &K));
  K.rows = 3, kernel.gamma = -1;
  REFUSED("gram", fastdl_gram_f32(&kernel, &X, NULL, &K));
  kernel = fastdl_kernel_default(FASTDL_MATERN, 2);
  kernel.nu = 1.7;
  REFUSED("gram", fastdl_gram_f32(&kernel, &X, NULL, &K));
  kernel.kind = WRONG(fastdl_kernel_kind);
  REFUSED("gram", fastdl_gram_f32(&kernel, &X, NULL, &K));
  REFUSED("gram", fastdl_gram_diag_f32(&kernel, &X, &to));
  REFUSED("gram", fastdl_gram_matvec_f32(&kernel, &X, NULL, &v, &to));
  places[0] = 0, places[1] = 7;
  kernel = fastdl_kernel_default(FASTDL_RBF, 2);
  REFUSED("gram", fastdl_gram_invariant_f32(&kernel, &X, NULL, places, 1, 1, &K));
}

static void conv(void) {
  fastdl_conv_shape shape;
  fastdl_conv_filters_f32* filters = NULL;
  const int64_t size = 4, stride = 1, full = 7;
  fastdl_array_f32 f = {in, 1, &size, &stride}, to = {out, 1, &full, &stride};
  memset(&shape, 0, sizeof shape);
  REFUSED("conv", fastdl_conv_f32(NULL, FASTDL_ZEROS, FASTDL_RELU, FASTDL_CONV_AUTO, in, NULL, in, NULL, out));
  REFUSED("conv", fastdl_conv_f32(&shape, FASTDL_ZEROS, FASTDL_RELU, FASTDL_CONV_AUTO, in, NULL, in, NULL, out));
  shape.rank = 1, shape.batch = shape.in_channels = shape.out_channels = shape.groups = 1;
  shape.in[0] = 5, shape.kernel[0] = 3, shape.out[0] = 3, shape.stride[0] = shape.dilation[0] = 1;
  REFUSED("conv",
          fastdl_conv_f32(&shape, WRONG(fastdl_padding), FASTDL_RELU, FASTDL_CONV_AUTO, in, NULL, in, NULL, out));
  REFUSED("conv",
          fastdl_conv_f32(&shape, FASTDL_ZEROS, WRONG(fastdl_activation), FASTDL_CONV_AUTO, in, NULL, in, NULL, out));
  REFUSED("conv",
          fastdl_conv_f32(&shape, FASTDL_ZEROS, FASTDL_RELU, WRONG(fastdl_conv_algorithm), in, NULL, in, NULL, out));
  REFUSED("conv", fastdl_conv_f32(&shape, FASTDL_ZEROS, FASTDL_RELU, FASTDL_CONV_WINOGRAD, in, NULL, in, NULL, out));
  REFUSED("conv", fastdl_conv_f32(&shape, FASTDL_ZEROS, FASTDL_RELU, FASTDL_CONV_AUTO, NULL, NULL, in, NULL, out));
  REFUSED("conv", fastdl_conv_input_f32(&shape, in, in, NULL, NULL));
  REFUSED("conv", fastdl_conv_prepare_f32(&shape, WRONG(fastdl_conv_algorithm), in, &filters));
  REFUSED("conv", fastdl_conv_prepare_f32(&shape, FASTDL_CONV_AUTO, in, NULL));
  places[0] = 77;
  REFUSED("conv", fastdl_max_pool_grad_f32(&shape, in, places, out));
  REFUSED("conv", fastdl_conv_convolve_f32(&f, &f, WRONG(fastdl_convolution_mode), FASTDL_METHOD_AUTO, &to));
  REFUSED("conv", fastdl_conv_convolve_f32(&f, &f, FASTDL_MODE_FULL, WRONG(fastdl_convolution_method), &to));
  f.rank = 100;
  REFUSED("conv", fastdl_conv_convolve_f32(&f, &f, FASTDL_MODE_FULL, FASTDL_METHOD_AUTO, &to));
  fastdl_conv_filters_free_f32(filters);
}

static void group(void) {
  fastdl_group_shape shape;
  const double threshold = 0;
  const fastdl_group_measures measures = {&threshold, 1, NULL, 0, WRONG(fastdl_group_nonlinearity)};
  memset(&shape, 0, sizeof shape);
  shape.lift = 1, shape.batch = shape.in_channels = shape.out_channels = 1, shape.kernel = 3;
  shape.in[0] = shape.in[1] = 5, shape.out[0] = shape.out[1] = 3, shape.stride[0] = shape.stride[1] = 1;
  shape.group = WRONG(fastdl_planar_group);
  REFUSED("group", fastdl_group_conv_f32(&shape, FASTDL_RELU, FASTDL_GROUP_AUTO, in, NULL, in, NULL, out));
  shape.group = FASTDL_P4;
  REFUSED("group", fastdl_group_conv_f32(&shape, WRONG(fastdl_activation), FASTDL_GROUP_AUTO, in, NULL, in, NULL, out));
  REFUSED("group", fastdl_group_conv_f32(&shape, FASTDL_RELU, WRONG(fastdl_group_algorithm), in, NULL, in, NULL, out));
  REFUSED("group", fastdl_group_conv_input_f32(&shape, WRONG(fastdl_group_algorithm), in, in, out));
  REFUSED("group", fastdl_group_expand_f32(WRONG(fastdl_planar_group), 1, 1, 1, 3, in, out));
  REFUSED("group", fastdl_group_pool_f32(in, 1, 4, 2, WRONG(fastdl_group_pool), out));
  REFUSED("group", fastdl_group_pool_f32(in, 1, 0, 2, FASTDL_GROUP_POOL_MAX, out));
  places[0] = 99;
  REFUSED("group", fastdl_group_convolve_f32(in, 1, in, 2, places, out));
  places[0] = 0, places[1] = 1;
  REFUSED("group", fastdl_group_signature_f32(in, 1, in, 1, 2, places, 1, &measures, out));
}

static void hebbian(void) {
  const fastdl_matrix_f32 W = {in, 2, 2, 2, 1}, X = {in, 3, 2, 2, 1}, to = {out, 2, 2, 2, 1};
  const float step = 0.1F;
  fastdl_hebbian_rule rule;
  memset(&rule, 0, sizeof rule);
  rule.kind = WRONG(fastdl_hebbian_kind);
  REFUSED("hebbian", fastdl_hebbian_learn_f32(&rule, &W, &X, &step, 0, NULL, &to));
  rule.kind = FASTDL_HEBBIAN_OJA;
  REFUSED("hebbian", fastdl_hebbian_learn_f32(&rule, &W, &X, NULL, 0, NULL, &to));
  rule.algorithm = WRONG(fastdl_hebbian_algorithm);
  REFUSED("hebbian", fastdl_hebbian_learn_f32(&rule, &W, &X, &step, 0, NULL, &to));
  rule.algorithm = FASTDL_HEBBIAN_AUTO, rule.kind = FASTDL_HEBBIAN_SOFT; /* with a temperature of 0 */
  REFUSED("hebbian", fastdl_hebbian_learn_f32(&rule, &W, &X, &step, 0, NULL, &to));
}

static void scattering(void) {
  fastdl_scattering_plan_f32* plan = NULL;
  fastdl_scattering_tree tree;
  memset(&tree, 0, sizeof tree);
  REFUSED("scattering", fastdl_scattering_plan_make_f32(NULL, &plan));
  REFUSED("scattering", fastdl_scattering_plan_make_f32(&tree, &plan));
  REFUSED("scattering", fastdl_scattering_plan_make_f32(&tree, NULL));
  REFUSED("scattering", fastdl_scattering_forward_f32(plan, in, 1, out)); /* NULL: none was made */
  REFUSED("scattering", fastdl_scattering_harmonic_f32(NULL, NULL, in, 1, out));
  fastdl_scattering_plan_free_f32(plan);
}

int main(void) {
  int written = 0;
  gram();
  conv();
  group();
  hebbian();
  scattering();
  REFUSED("set_isa", fastdl_set_isa("sse9"));
  REFUSED("set_isa", fastdl_set_isa(NULL));
  REFUSED("set_num_threads", fastdl_set_num_threads(0));
  if (fastdl_set_thread_limit(-1) == -1) ++refusals;
  for (int i = 0; i < 256; ++i) written += out[i] != 0;
  printf("%d refused, %d written\n", refusals, written);
  return 0;
}
