/* What both programs compute with: a wave for every array, and the filters of a small scattering transform. */
#ifndef EMBEDDING_INPUTS_H
#define EMBEDDING_INPUTS_H

#include <math.h>
#include <stdint.h>

static double wave(int64_t i) { return sin(0.7 * (double)i + 0.3); }

static inline void fill_f32(float* values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) values[i] = (float)wave(i);
}
static inline void fill_f64(double* values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) values[i] = wave(i);
}

/* A Gaussian of this mean and width over the numbers 0 to count - 1, which go round in a circle. With mean 0 and
 * divided by its sum it is an average, with another mean the spectrum of a wavelet. */
static inline void bump(double* values, int64_t count, double mean, double width, int normalize) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    double apart = fmod((double)i - mean + 2 * (double)count, (double)count);
    if (apart > (double)count / 2) apart -= (double)count;
    values[i] = exp(-0.5 * (apart / width) * (apart / width));
    sum += values[i];
  }
  for (int64_t i = 0; normalize && i < count; ++i) values[i] /= sum;
}

/* Signals of 64 samples, and their moduli at every second one; averages at 4 places. */
enum { LENGTH = 64, HALF = 32, PLACES = 4, CHANNELS = 5 };

#endif
