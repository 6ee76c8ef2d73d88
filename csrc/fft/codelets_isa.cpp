// Short transforms, compiled once per instruction-set level. Elements of 6 to 64 complex numbers in vectors of 32 bytes
// go at 45 to 65 GF/s on a core of Zen 3, where the passes of transform.hpp come to 20 to 40.
#include "fft/codelets.hpp"

namespace fastdl::fft::FASTDL_LEVEL {

bool codelet(Index n, const Elements<const float>& from, const Elements<float>& to) {
  return run_codelet<float>(n, from, ToElements<float>{to.re, to.im, to.step});
}
bool codelet(Index n, const Elements<const double>& from, const Elements<double>& to) {
  return run_codelet<double>(n, from, ToElements<double>{to.re, to.im, to.step});
}
bool moduli_codelet(Index n, const Elements<const float>& from, float* moduli) {
  return run_codelet<float>(n, from, ToModuli<float>{moduli});
}
bool moduli_codelet(Index n, const Elements<const double>& from, double* moduli) {
  return run_codelet<double>(n, from, ToModuli<double>{moduli});
}

}  // namespace fastdl::fft::FASTDL_LEVEL
