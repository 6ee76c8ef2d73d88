#include "fastdl/scattering.hpp"

#include "bindings/scattering_tree.hpp"

namespace fastdl::bindings {
namespace {

// A plan, and how large its arrays are.
template <class T>
struct PyPlan {
  scattering::Plan<T> plan;
  std::int64_t samples, results;
};

template <class T>
const T* data_of(const py::array& array, std::int64_t batch, std::int64_t size, const char* name) {
  if (!py::isinstance<py::array_t<T>>(array) || !(array.flags() & py::array::c_style) || array.size() != batch * size)
    throw py::value_error(std::string(name) + ": expected " + std::to_string(batch) + " times " + std::to_string(size) +
                          " contiguous numbers of the plan's dtype, got " + described(array));
  check_aligned<T>(array, name);
  return static_cast<const T*>(array.data());
}

template <class T>
T* room_of(const py::array& array, std::int64_t batch, std::int64_t size, const char* name) {
  if (!array.writeable()) throw py::value_error(std::string(name) + ": expected a writable array, got a read-only one");
  return const_cast<T*>(data_of<T>(array, batch, size, name));
}

template <class T>
std::int64_t batch_of(const PyPlan<T>& plan, const py::array& x) {
  if (plan.samples == 0 || x.size() % plan.samples != 0)
    throw py::value_error("x: expected images of " + std::to_string(plan.samples) + " samples, got " + described(x));
  return x.size() / plan.samples;
}

template <class T>
void forward(const PyPlan<T>& plan, const py::array& x, const py::array& out) {
  const std::int64_t batch = batch_of(plan, x);
  const T* from = data_of<T>(x, batch, plan.samples, "x");
  T* to = room_of<T>(out, batch, plan.results, "out");
  const WithoutGil release;
  plan.plan.forward(from, batch, to);
}

template <class T>
void vjp(const PyPlan<T>& plan, const py::array& x, const py::array& grad, const py::array& out) {
  const std::int64_t batch = batch_of(plan, x);
  const T* from = data_of<T>(x, batch, plan.samples, "x");
  const T* back = data_of<T>(grad, batch, plan.results, "grad");
  T* to = room_of<T>(out, batch, plan.samples, "out");
  const WithoutGil release;
  plan.plan.vjp(from, back, batch, to);
}

template <class T>
void define_plan(py::module_& module, const char* name) {
  py::class_<PyPlan<T>>(module, name)
      .def(py::init([](std::int64_t height, std::int64_t width, const Indices& place_y, const Indices& place_x,
                       std::int64_t channels, const std::vector<std::pair<Axis, Axis>>& levels,
                       const std::vector<Group>& groups) {
             const Tree tree(height, width, place_y, place_x, channels, levels, groups);
             const auto& finest = tree.levels[0];
             const WithoutGil release;
             return PyPlan<T>{scattering::Plan<T>(tree.plain), height * width,
                              channels * finest.down.count * finest.across.count};
           }),
           py::arg("height"), py::arg("width"), py::arg("place_y"), py::arg("place_x"), py::arg("channels"),
           py::arg("levels"), py::arg("groups"))
      .def("forward", &forward<T>, py::arg("x"), py::arg("out"))
      .def("vjp", &vjp<T>, py::arg("x"), py::arg("grad"), py::arg("out"));
}

template <class T>
void harmonic(const py::array& x, const Volumes& volumes, const py::array& out) {
  const auto spectra = volumes.spectra<T>();
  const std::int64_t batch = x.size() / volumes.voxels();
  const T* from = data_of<T>(x, batch, volumes.voxels(), "x");
  T* to = room_of<T>(out, batch, volumes.results(), "out");
  const WithoutGil release;
  scattering::harmonic(volumes.shape, spectra.data(), from, batch, to);
}

template <class T>
void harmonic_vjp(const py::array& x, const py::array& grad, const Volumes& volumes, const py::array& out) {
  const auto spectra = volumes.spectra<T>();
  const std::int64_t batch = x.size() / volumes.voxels();
  const T* from = data_of<T>(x, batch, volumes.voxels(), "x");
  const T* back = data_of<T>(grad, batch, volumes.results(), "grad");
  T* to = room_of<T>(out, batch, volumes.voxels(), "out");
  const WithoutGil release;
  scattering::harmonic_vjp(volumes.shape, spectra.data(), from, back, batch, to);
}

}  // namespace

void register_scattering(py::module_& module) {
  py::module_ scattering = module.def_submodule("scattering");
  define_plan<float>(scattering, "PlanF32");
  define_plan<double>(scattering, "PlanF64");
  using Arrays = std::vector<py::array>;
  using Sizes = std::vector<std::int64_t>;
  using Powers = std::vector<double>;
  scattering.def(
      "harmonic",
      [](const py::array& x, const Arrays& filters, const Sizes& size, std::int64_t order, const Powers& powers,
         const py::array& out) {
        const Volumes volumes(filters, size, order, powers);
        in_type_of(x, [&](auto zero) { harmonic<decltype(zero)>(x, volumes, out); });
      },
      py::arg("x"), py::arg("filters"), py::arg("size"), py::arg("order"), py::arg("powers"), py::arg("out"));
  scattering.def(
      "harmonic_vjp",
      [](const py::array& x, const py::array& grad, const Arrays& filters, const Sizes& size, std::int64_t order,
         const Powers& powers, const py::array& out) {
        const Volumes volumes(filters, size, order, powers);
        in_type_of(x, [&](auto zero) { harmonic_vjp<decltype(zero)>(x, grad, volumes, out); });
      },
      py::arg("x"), py::arg("grad"), py::arg("filters"), py::arg("size"), py::arg("order"), py::arg("powers"),
      py::arg("out"));
  // By the names of the public functions; `plan` is what fastdl.scattering makes of one of the above.
  for (const char* name : {"scattering1d", "scattering2d", "moments1d", "moments2d"})
    scattering.def(
        name, [](const py::array& x, const py::object& plan, const py::array& out) { plan.attr("forward")(x, out); },
        py::arg("x"), py::arg("plan"), py::arg("out"));
  for (const char* name : {"scattering1d_vjp", "scattering2d_vjp", "moments1d_vjp", "moments2d_vjp"})
    scattering.def(
        name,
        [](const py::array& x, const py::array& grad, const py::object& plan, const py::array& out) {
          plan.attr("backward")(x, grad, out);
        },
        py::arg("x"), py::arg("grad"), py::arg("plan"), py::arg("out"));
}

}  // namespace fastdl::bindings
