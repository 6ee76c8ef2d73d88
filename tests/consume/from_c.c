/* The same from C: a status and a message instead of an exception. */
#include <fastdl/fastdl.h>
#include <stdio.h>

int main(void) {
  float points[6] = {1, 0, 0, 2, 3, 4}, gram[9];
  fastdl_matrix_f32 x = {points, 3, 2, 2, 1}, k = {gram, 3, 3, 3, 1};
  int i;
  if (fastdl_gram_linear_f32(&x, NULL, &k) != FASTDL_OK) return 1;
  for (i = 0; i < 3; ++i) printf("%g %g %g\n", gram[3 * i], gram[3 * i + 1], gram[3 * i + 2]);

  k.rows = -1;
  if (fastdl_gram_linear_f32(&x, NULL, &k) != FASTDL_INVALID_ARGUMENT) return 1;
  printf("%s\n", fastdl_last_error());
  return 0;
}
