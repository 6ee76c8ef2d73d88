#include "bindings/hebbian_arrays.hpp"

namespace fastdl::cuda::bindings {
namespace {

using HostOrders = py::array_t<std::int64_t, py::array::c_style | py::array::forcecast>;

template <class T>
void hopfield_weights(const Array& P, bool zero_diagonal, const Array& out) {
  const auto p = samples_of<T>(P, "P");
  const Result<T> w(out, "out");
  check_shape(out, "out", {p.features, p.features});
  const WithoutGil release;
  hebbian::cuda::hopfield_weights(p, zero_diagonal, w.data(), stream());
  w.finish();
}

template <class T>
void crosstalk(const Array& P, const Array& out) {
  const auto p = samples_of<T>(P, "P");
  const Result<T> to(out, "out");
  check_shape(out, "out", P.shape());
  const WithoutGil release;
  hebbian::cuda::crosstalk(p, to.data(), stream());
  to.finish();
}

template <class T>
void hopfield_energy(const Array& W, const Array& s, const Optional& b, const Array& out) {
  const Contiguous<T> w(W, "W");
  const auto states = samples_of<T>(s, "s");
  const auto thresholds = optional<T>(b, "b");
  const Result<T> to(out, "out");
  check_shape(W, "W", {states.features, states.features});
  check_shape(out, "out", {states.count});
  if (b) check_shape(*b, "b", {states.features});
  const WithoutGil release;
  hebbian::cuda::hopfield_energy(w.data(), states, thresholds ? thresholds->data() : nullptr, to.data(), stream());
  to.finish();
}

// What every recall takes beside the network: recall(orders, states) is called without the GIL, with a copy of s that
// becomes the result. Nothing is written before the states are known to be +1 and -1.
template <class T, class Recall>
void run_recall(const char* name, const Array& s, const std::string& mode, std::int64_t max_sweeps,
                const HostOrders& orders, const Array& out, const Recall& recall) {
  const Contiguous<T> from(s, "s");
  const Result<T> to(out, "out");
  if (s.ndim() != 2 || out.shape() != s.shape()) throw py::value_error("out: expected the shape of s");
  if (orders.ndim() != 2) throw py::value_error("orders: expected 2 dimensions, got " + std::to_string(orders.ndim()));
  const hebbian::cuda::Orders asked{chosen<bool>("mode", mode, {{"async", false}, {"sync", true}}), max_sweeps,
                                    orders.data(), orders.shape(0), orders.shape(1)};
  if (max_sweeps < 0 || (!asked.together && asked.sweeps < 1))
    throw py::value_error("expected orders for one sweep or more, and max_sweeps of at least 0");
  for (std::int64_t i = 0; i < orders.size(); ++i)
    if (!asked.together && (asked.data[i] < 0 || asked.data[i] >= s.shape(1)))
      throw py::value_error("orders: expected units of the state, got " + std::to_string(asked.data[i]));
  std::int64_t wrong;
  T value = 0;
  {
    const WithoutGil release;
    wrong = hebbian::cuda::first_not_spin(name, from.data(), s.size(), stream());
    if (wrong >= 0) {
      value = hebbian::cuda::value_at(name, from.data(), wrong, stream());
    } else if (s.size() > 0) {
      copy_on_device(name, to.data(), from.data(), std::size_t(s.size()) * sizeof(T), stream());
      recall(asked, to.data());
      to.finish();
    }
  }
  if (wrong >= 0)
    throw py::value_error("[" + std::string(name) + "] expected states of +1 and -1, got " + std::to_string(value));
}

template <class T>
void hopfield_recall(const Array& W, const Array& s, const Optional& b, const std::string& mode,
                     std::int64_t max_sweeps, const HostOrders& orders, const Array& out) {
  const Contiguous<T> w(W, "W");
  const auto thresholds = optional<T>(b, "b");
  const std::int64_t units = samples_of<T>(s, "s").features;
  check_shape(W, "W", {units, units});
  if (b) check_shape(*b, "b", {units});
  run_recall<T>("hebbian.hopfield_recall", s, mode, max_sweeps, orders, out, [&](const auto& asked, T* states) {
    hebbian::cuda::hopfield_recall(w.data(), thresholds ? thresholds->data() : nullptr, asked, states, s.shape(0),
                                   s.shape(1), stream());
  });
}

template <class T>
void dense_hopfield(const Array& P, const Array& s, double degree, const std::string& mode, std::int64_t max_sweeps,
                    const HostOrders& orders, const Array& out) {
  const auto p = samples_of<T>(P, "P");
  check_shape(s, "s", {samples_of<T>(s, "s").count, p.features});
  run_recall<T>("hebbian.dense_hopfield", s, mode, max_sweeps, orders, out, [&](const auto& asked, T* states) {
    hebbian::cuda::dense_hopfield(p, degree, asked, states, s.shape(0), stream());
  });
}

template <class T>
void dense_hopfield_energy(const Array& P, const Array& s, double degree, const Array& out) {
  const auto p = samples_of<T>(P, "P");
  const Contiguous<T> states(s, "s");
  const Result<T> to(out, "out");
  check_shape(s, "s", {samples_of<T>(s, "s").count, p.features});
  check_shape(out, "out", {s.shape(0)});
  const WithoutGil release;
  hebbian::cuda::dense_hopfield_energy(p, degree, states.data(), s.shape(0), to.data(), stream());
  to.finish();
}

}  // namespace

void register_hebbian_memory(py::module_& hebbian) {
  hebbian.def("hopfield_weights", [](const Array& P, bool zero_diagonal, const Array& out) {
    in_type_of(P, [&](auto zero) { hopfield_weights<decltype(zero)>(P, zero_diagonal, out); });
  });
  hebbian.def("hopfield_energy", [](const Array& W, const Array& s, const Optional& b, const Array& out) {
    in_type_of(W, [&](auto zero) { hopfield_energy<decltype(zero)>(W, s, b, out); });
  });
  hebbian.def("hopfield_recall", [](const Array& W, const Array& s, const Optional& b, const std::string& mode,
                                    std::int64_t max_sweeps, const HostOrders& orders, const Array& out) {
    in_type_of(W, [&](auto zero) { hopfield_recall<decltype(zero)>(W, s, b, mode, max_sweeps, orders, out); });
  });
  hebbian.def("dense_hopfield", [](const Array& P, const Array& s, double degree, const std::string& mode,
                                   std::int64_t max_sweeps, const HostOrders& orders, const Array& out) {
    in_type_of(P, [&](auto zero) { dense_hopfield<decltype(zero)>(P, s, degree, mode, max_sweeps, orders, out); });
  });
  hebbian.def("dense_hopfield_energy", [](const Array& P, const Array& s, double degree, const Array& out) {
    in_type_of(P, [&](auto zero) { dense_hopfield_energy<decltype(zero)>(P, s, degree, out); });
  });
  hebbian.def("crosstalk", [](const Array& P, const Array& out) {
    in_type_of(P, [&](auto zero) { crosstalk<decltype(zero)>(P, out); });
  });
}

}  // namespace fastdl::cuda::bindings
