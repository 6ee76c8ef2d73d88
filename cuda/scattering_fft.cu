// The tables of Fourier transforms, and the transforms of lines that need no more than reading and writing.
#include <cmath>

#include "fft_lines.cuh"

namespace fastdl::fft::cuda {

std::vector<int> radices_of(Index n) {
  std::vector<int> radices;
  int twos = 0;
  for (; n % 2 == 0; n /= 2) ++twos;
  for (; twos > 0;) {
    const int bits = twos == 3 || twos >= 5 ? 3 : twos == 1 ? 1 : 2;
    radices.push_back(1 << bits);
    twos -= bits;
  }
  for (Index p = 3; p * p <= n; p += 2)
    for (; n % p == 0; n /= p) radices.push_back(int(p));
  if (n > 1) radices.push_back(int(n));
  return radices;
}

bool transformable(Index n) {
  if (n < 1 || n > Index{1} << 30) return false;
  for (const int radix : radices_of(n))
    if (radix > largest_prime) return false;
  return true;
}

template <class T>
Scratch<Complex<T>> roots_of(const char* name, Index n, Stream stream) {
  std::vector<Complex<T>> roots;
  roots.reserve(std::size_t(n));
  for (Index k = 0; k < n; ++k) {
    const double angle = -6.283185307179586477 * double(k) / double(n);
    roots.push_back({T(std::cos(angle)), T(std::sin(angle))});
  }
  return Scratch<Complex<T>>(name, roots.data(), n, stream);
}

template <class T>
AxisTables<T>::AxisTables(const char* name, Index n, Stream stream) : roots_(roots_of<T>(name, n, stream)) {
  std::vector<int> numbers = radices_of(n);
  const int stages = int(numbers.size());
  for (Index k = 0; k < n; ++k) {
    Index rest = k, length = n, place = 0;
    for (int s = 0; s < stages; ++s) {
      const int radix = numbers[std::size_t(s)];
      length /= radix;
      place += rest % radix * length;
      rest /= radix;
    }
    numbers.push_back(int(place));
  }
  numbers_ = Scratch<int>(name, numbers.data(), Index(numbers.size()), stream);
  axis_ = {int(n), stages, numbers_.data(), numbers_.data() + stages, roots_.data()};
}

template <class T>
void transform_numbers(const char* name, bool inverse, const Axis<T>& axis, Index tasks, Index lines,
                       const Numbers<T>& from, const Numbers<T>& to, Stream stream) {
  if (inverse)
    transform_lines<true>(name, axis, tasks, lines, from, to, stream);
  else
    transform_lines<false>(name, axis, tasks, lines, from, to, stream);
}

template <class T>
void transform_real(const char* name, const Axis<T>& axis, Index tasks, Index lines, const RealNumbers<T>& from,
                    const Numbers<T>& to, Stream stream) {
  transform_lines<false>(name, axis, tasks, lines, from, to, stream);
}

#define FASTDL_INSTANCES(T)                                                                                            \
  template Scratch<Complex<T>> roots_of<T>(const char*, Index, Stream);                                                \
  template class AxisTables<T>;                                                                                        \
  template void transform_numbers<T>(const char*, bool, const Axis<T>&, Index, Index, const Numbers<T>&,               \
                                     const Numbers<T>&, Stream);                                                       \
  template void transform_real<T>(const char*, const Axis<T>&, Index, Index, const RealNumbers<T>&, const Numbers<T>&, \
                                  Stream);
FASTDL_INSTANCES(float)
FASTDL_INSTANCES(double)
#undef FASTDL_INSTANCES

}  // namespace fastdl::fft::cuda
