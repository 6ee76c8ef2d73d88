#include <complex>

#include "bindings/bindings.hpp"
#include "fft/batch.hpp"

namespace fastdl::bindings {
namespace {

fastdl_status transform(const float* in, std::int64_t batch, int rank, const std::int64_t* size, bool real,
                        bool inverse, float* out) {
  return fastdl_private_fft_f32(in, batch, rank, size, real, inverse, out);
}
fastdl_status transform(const double* in, std::int64_t batch, int rank, const std::int64_t* size, bool real,
                        bool inverse, double* out) {
  return fastdl_private_fft_f64(in, batch, rank, size, real, inverse, out);
}

// The numbers of a contiguous array, complex ones as two, or a Python error.
template <class Element, class T>
T* numbers(const py::array& array, const char* name) {
  if (!py::isinstance<py::array_t<Element>>(array))
    throw py::type_error(std::string(name) + ": expected " + std::string(py::str(py::dtype::of<Element>())) + ", got " +
                         std::string(py::str(array.dtype())));
  if (!(array.flags() & py::array::c_style))
    throw py::value_error(std::string(name) + ": expected a contiguous array, got one with strides");
  check_aligned<T>(array, name);
  return static_cast<T*>(const_cast<void*>(array.data()));
}

template <class T, bool Real>
void run(const py::array& x, int rank, bool inverse, const py::array& out) {
  using Element = std::conditional_t<Real, T, std::complex<T>>;
  const T* in = numbers<Element, T>(x, "x");
  T* to = numbers<std::complex<T>, T>(out, "out");
  if (!out.writeable()) throw py::value_error("out: expected a writable array, got a read-only one");
  if (rank < 1 || rank > 3 || x.ndim() != rank + 1)
    throw py::value_error("x: expected a batch of arrays of 1 to 3 axes, as many as rank says, got " + described(x) +
                          " and " + std::to_string(rank));
  std::int64_t size[3] = {};
  bool alike = out.ndim() == x.ndim();
  for (int axis = 0; axis <= rank && alike; ++axis) {
    if (axis > 0) size[axis - 1] = x.shape(axis);
    alike = out.shape(axis) == (Real && axis == rank ? x.shape(axis) / 2 + 1 : x.shape(axis));
  }
  if (!alike)
    throw py::value_error("out: expected the shape of the spectrum of x " + described(x) + ", got " + described(out));
  const WithoutGil release;
  throw_on_error(transform(in, x.shape(0), rank, size, Real, inverse, to));
}

}  // namespace

void register_fft(py::module_& module) {
  py::module_ fft = module.def_submodule(
      "fft",
      "The FFT engine by itself, for tests and measurements: not a public interface, and it may change at any time.\n\n"
      "x is (batch, ...) with 1 to 3 axes, as many as rank says, and out a contiguous array of complex numbers.");
  fft.def(
      "complex",
      [](const py::array& x, int rank, bool inverse, const py::array& out) {
        x.itemsize() == 8 ? run<float, false>(x, rank, inverse, out) : run<double, false>(x, rank, inverse, out);
      },
      py::arg("x"), py::arg("rank"), py::arg("inverse"), py::arg("out"),
      "The transform of complex numbers, or the inverse with its factor; out may be x. Not a public interface.");
  fft.def(
      "real",
      [](const py::array& x, int rank, const py::array& out) {
        x.itemsize() == 4 ? run<float, true>(x, rank, false, out) : run<double, true>(x, rank, false, out);
      },
      py::arg("x"), py::arg("rank"), py::arg("out"),
      "The first n/2 + 1 numbers of the transform of real numbers. Not a public interface.");
}

}  // namespace fastdl::bindings
