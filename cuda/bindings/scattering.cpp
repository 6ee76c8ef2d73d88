#include "scattering.hpp"

#include "bindings/arrays.hpp"
#include "bindings/scattering_tree.hpp"

namespace fastdl::cuda::bindings {
namespace {

using fastdl::bindings::Axis;
using fastdl::bindings::Group;
using fastdl::bindings::Indices;

constexpr scattering::cuda::Limits limits;

// f(), whose sizes may have no kernel: a NotImplementedError, after which the reference computes them.
template <class Function>
auto supported(const Function& f) {
  try {
    return f();
  } catch (const scattering::cuda::Unsupported& error) {
    PyErr_SetString(PyExc_NotImplementedError, (std::string("expected ") + error.what()).c_str());
    throw py::error_already_set();
  }
}

void check_device(int device) {
  if (device != place().device)
    throw py::value_error("expected arrays on device " + std::to_string(device) + " of the plan, got device " +
                          std::to_string(place().device));
}

void check_size(std::int64_t found, std::int64_t batch, std::int64_t size, const char* name) {
  if (found != batch * size)
    throw py::value_error(std::string(name) + ": expected " + std::to_string(batch) + " times " + std::to_string(size) +
                          " numbers, got " + std::to_string(found));
}

std::int64_t batch_of(const Array& x, std::int64_t samples) {
  if (samples == 0 || x.size() % samples != 0)
    throw py::value_error("x: expected signals of " + std::to_string(samples) + " samples, got " + x.described());
  return x.size() / samples;
}

template <class T>
void forward(const scattering::cuda::Plan<T>& plan, const Array& x, const Array& out) {
  check_device(plan.device());
  const std::int64_t batch = batch_of(x, plan.samples());
  check_size(out.size(), batch, plan.results(), "out");
  const Contiguous<T> from(x, "x");
  const Result<T> to(out, "out");
  const WithoutGil release;
  plan.forward("scattering.forward", from.data(), batch, to.data(), stream());
  to.finish();
}

template <class T>
void vjp(const scattering::cuda::Plan<T>& plan, const Array& x, const Array& grad, const Array& out) {
  check_device(plan.device());
  const std::int64_t batch = batch_of(x, plan.samples());
  check_size(grad.size(), batch, plan.results(), "grad");
  check_size(out.size(), batch, plan.samples(), "out");
  const Contiguous<T> from(x, "x"), back(grad, "grad");
  const Result<T> to(out, "out");
  const WithoutGil release;
  plan.vjp("scattering.vjp", from.data(), back.data(), batch, to.data(), stream());
  to.finish();
}

template <class T>
void define_plan(py::module_& module, const char* name) {
  using Plan = scattering::cuda::Plan<T>;
  py::class_<Plan>(module, name, py::module_local())
      .def(py::init([](std::int64_t height, std::int64_t width, const Indices& place_y, const Indices& place_x,
                       std::int64_t channels, const std::vector<std::pair<Axis, Axis>>& levels,
                       const std::vector<Group>& groups, std::int64_t shared_bytes, std::int64_t scratch_bytes) {
             const fastdl::bindings::Tree tree(height, width, place_y, place_x, channels, levels, groups);
             return supported([&] {
               const WithoutGil release;
               return Plan(tree.plain, {shared_bytes, scratch_bytes});
             });
           }),
           py::arg("height"), py::arg("width"), py::arg("place_y"), py::arg("place_x"), py::arg("channels"),
           py::arg("levels"), py::arg("groups"), py::arg("shared_bytes") = limits.shared,
           py::arg("scratch_bytes") = limits.scratch)
      .def("forward", &forward<T>, py::arg("x"), py::arg("out"))
      .def("vjp", &vjp<T>, py::arg("x"), py::arg("grad"), py::arg("out"));
}

// Filters of solid harmonic scattering on the device: uploaded once, used in the place of the arrays they were made of.
template <class T>
struct Filters {
  fastdl::bindings::Volumes description;
  scattering::cuda::Volumes<T> volumes;

  Filters(const std::vector<py::array>& filters, const Sizes& size, std::int64_t scratch_bytes)
      : description(filters, size, 1, {1.0}), volumes(made(description, scratch_bytes)) {}

  static scattering::cuda::Volumes<T> made(const fastdl::bindings::Volumes& description, std::int64_t scratch_bytes) {
    const auto spectra = description.spectra<T>();
    return supported([&] {
      const WithoutGil release;
      return scattering::cuda::Volumes<T>(description.shape, spectra.data(), {limits.shared, scratch_bytes});
    });
  }
};

template <class T>
void define_filters(py::module_& module, const char* name) {
  py::class_<Filters<T>>(module, name, py::module_local())
      .def(py::init<const std::vector<py::array>&, const Sizes&, std::int64_t>(), py::arg("filters"), py::arg("size"),
           py::arg("scratch_bytes") = limits.scratch);
}

// What a call is told, and the filters: made already, or for this call.
template <class T>
class Harmonic {
 public:
  Harmonic(const py::object& filters, const Sizes& size, std::int64_t order, const std::vector<double>& powers)
      : own_(py::isinstance<Filters<T>>(filters) ? py::object(filters)
                                                 : py::cast(std::make_unique<Filters<T>>(
                                                       filters.cast<std::vector<py::array>>(), size, limits.scratch))),
        filters_(own_.cast<const Filters<T>&>()),
        described_(filters_.description.filters, size, order, powers) {
    check_device(filters_.volumes.device());
    if (order != 1 && order != 2) throw py::value_error("expected order 1 or 2, got " + std::to_string(order));
    if (powers.size() > 64) throw py::value_error("expected at most 64 powers, got " + std::to_string(powers.size()));
    for (int axis = 0; axis < 3; ++axis)
      if (size[std::size_t(axis)] != filters_.description.shape.size[axis])
        throw py::value_error("expected the size of the filters");
  }
  const scattering::cuda::Volumes<T>& volumes() const { return filters_.volumes; }
  const fastdl_harmonic_shape& shape() const { return described_.shape; }
  std::int64_t voxels() const { return described_.voxels(); }
  std::int64_t results() const { return described_.results(); }

 private:
  py::object own_;
  const Filters<T>& filters_;
  fastdl::bindings::Volumes described_;
};

template <class T>
void harmonic(const Array& x, const Harmonic<T>& told, const Array& out) {
  const std::int64_t batch = batch_of(x, told.voxels());
  check_size(out.size(), batch, told.results(), "out");
  const Contiguous<T> from(x, "x");
  const Result<T> to(out, "out");
  const WithoutGil release;
  told.volumes().harmonic(told.shape(), from.data(), batch, to.data(), stream());
  to.finish();
}

template <class T>
void harmonic_vjp(const Array& x, const Array& grad, const Harmonic<T>& told, const Array& out) {
  const std::int64_t batch = batch_of(x, told.voxels());
  check_size(grad.size(), batch, told.results(), "grad");
  check_size(out.size(), batch, told.voxels(), "out");
  const Contiguous<T> from(x, "x"), back(grad, "grad");
  const Result<T> to(out, "out");
  const WithoutGil release;
  told.volumes().harmonic_vjp(told.shape(), from.data(), back.data(), batch, to.data(), stream());
  to.finish();
}

}  // namespace

void register_scattering(py::module_& module) {
  py::module_ scattering = module.def_submodule("scattering");
  define_plan<float>(scattering, "PlanF32");
  define_plan<double>(scattering, "PlanF64");
  define_filters<float>(scattering, "FiltersF32");
  define_filters<double>(scattering, "FiltersF64");
  using Powers = std::vector<double>;
  scattering.def(
      "harmonic",
      [](const Array& x, const py::object& filters, const Sizes& size, std::int64_t order, const Powers& powers,
         const Array& out) {
        in_type_of(x, [&](auto zero) {
          using T = decltype(zero);
          harmonic<T>(x, Harmonic<T>(filters, size, order, powers), out);
        });
      },
      py::arg("x"), py::arg("filters"), py::arg("size"), py::arg("order"), py::arg("powers"), py::arg("out"));
  scattering.def(
      "harmonic_vjp",
      [](const Array& x, const Array& grad, const py::object& filters, const Sizes& size, std::int64_t order,
         const Powers& powers, const Array& out) {
        in_type_of(x, [&](auto zero) {
          using T = decltype(zero);
          harmonic_vjp<T>(x, grad, Harmonic<T>(filters, size, order, powers), out);
        });
      },
      py::arg("x"), py::arg("grad"), py::arg("filters"), py::arg("size"), py::arg("order"), py::arg("powers"),
      py::arg("out"));
  // By the names of the public functions; `plan` is what fastdl.scattering makes of one of the above.
  for (const char* name : {"scattering1d", "scattering2d", "moments1d", "moments2d"})
    scattering.def(
        name, [](const py::object& x, const py::object& plan, const py::object& out) { plan.attr("forward")(x, out); },
        py::arg("x"), py::arg("plan"), py::arg("out"));
  for (const char* name : {"scattering1d_vjp", "scattering2d_vjp", "moments1d_vjp", "moments2d_vjp"})
    scattering.def(
        name,
        [](const py::object& x, const py::object& grad, const py::object& plan, const py::object& out) {
          plan.attr("backward")(x, grad, out);
        },
        py::arg("x"), py::arg("grad"), py::arg("plan"), py::arg("out"));
}

}  // namespace fastdl::cuda::bindings
