#include <pybind11/stl.h>

#include <vector>

#include "bindings/bindings.hpp"
#include "fastdl/scattering.hpp"

namespace fastdl::bindings {
namespace {

using Doubles = py::array_t<double, py::array::c_style | py::array::forcecast>;
using Indices = py::array_t<std::int64_t, py::array::c_style | py::array::forcecast>;

// Averages along an axis: kernel, first, step, count.
using Axis = std::tuple<Doubles, std::int64_t, std::int64_t, std::int64_t>;
// Level, spectra of members, their channels, spectra of followers, their levels, channels of members with followers.
using Group = std::tuple<std::int64_t, std::vector<Doubles>, std::vector<std::int64_t>, std::vector<Doubles>,
                         std::vector<std::int64_t>, std::vector<std::int64_t>>;

fastdl_scattering_axis axis_of(const Axis& axis) {
  const auto& [kernel, first, step, count] = axis;
  return {kernel.size(), first, step, count, kernel.data()};
}

std::vector<const double*> spectra_of(const std::vector<Doubles>& arrays, std::int64_t size) {
  std::vector<const double*> pointers;
  for (const Doubles& array : arrays) {
    if (array.size() != size) throw py::value_error("expected spectra of " + std::to_string(size) + " numbers");
    pointers.push_back(array.data());
  }
  return pointers;
}

// A tree in the terms of the C interface, which lives as long as the arguments it was made from.
struct Tree {
  std::vector<fastdl_scattering_level> levels;
  std::vector<std::vector<const double*>> spectra;
  std::vector<fastdl_scattering_group> groups;
  fastdl_scattering_tree plain;

  Tree(std::int64_t height, std::int64_t width, const Indices& place_y, const Indices& place_x, std::int64_t channels,
       const std::vector<std::pair<Axis, Axis>>& given_levels, const std::vector<Group>& given_groups) {
    for (const auto& [down, across] : given_levels) levels.push_back({axis_of(down), axis_of(across)});
    if (levels.empty() || place_y.size() != levels[0].down.size || place_x.size() != levels[0].across.size)
      throw py::value_error("expected a place for every row and column of level 0");
    spectra.reserve(2 * given_groups.size());
    for (const auto& [level, psi, channel, psi_2, level_2, channel_2] : given_groups) {
      if (level < 0 || level >= std::int64_t(levels.size()) || channel.size() != psi.size() ||
          channel_2.size() != psi.size() || level_2.size() != psi_2.size())
        throw py::value_error("expected a level and a channel for every wavelet");
      const auto size = [&](std::int64_t l) {
        return levels[std::size_t(l)].down.size * levels[std::size_t(l)].across.size;
      };
      spectra.push_back(spectra_of(psi, size(0)));
      spectra.push_back(spectra_of(psi_2, size(level)));
      groups.push_back({level, std::int64_t(psi.size()), std::int64_t(psi_2.size()), spectra[spectra.size() - 2].data(),
                        channel.data(), spectra.back().data(), level_2.data(), channel_2.data()});
    }
    plain = {height,
             width,
             place_y.data(),
             place_x.data(),
             std::int64_t(levels.size()),
             std::int64_t(groups.size()),
             channels,
             levels.data(),
             groups.data()};
  }
};

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
  const py::gil_scoped_release release;
  plan.plan.forward(from, batch, to);
}

template <class T>
void vjp(const PyPlan<T>& plan, const py::array& x, const py::array& grad, const py::array& out) {
  const std::int64_t batch = batch_of(plan, x);
  const T* from = data_of<T>(x, batch, plan.samples, "x");
  const T* back = data_of<T>(grad, batch, plan.results, "grad");
  T* to = room_of<T>(out, batch, plan.samples, "out");
  const py::gil_scoped_release release;
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
             const py::gil_scoped_release release;
             return PyPlan<T>{scattering::Plan<T>(tree.plain), height * width,
                              channels * finest.down.count * finest.across.count};
           }),
           py::arg("height"), py::arg("width"), py::arg("place_y"), py::arg("place_x"), py::arg("channels"),
           py::arg("levels"), py::arg("groups"))
      .def("forward", &forward<T>, py::arg("x"), py::arg("out"))
      .def("vjp", &vjp<T>, py::arg("x"), py::arg("grad"), py::arg("out"));
}

// Solid harmonic scattering. Filters come as arrays (scales, harmonics, voxels) of complex numbers.
struct Volumes {
  std::vector<py::array> filters;
  std::vector<std::int64_t> harmonics;
  std::vector<double> power;
  fastdl_harmonic_shape shape;

  Volumes(const std::vector<py::array>& filters_, const std::vector<std::int64_t>& size, std::int64_t order,
          const std::vector<double>& power_)
      : filters(filters_), power(power_) {
    if (size.size() != 3 || filters.empty() || power.empty())
      throw py::value_error("expected three sizes, filters and powers");
    for (const py::array& filter : filters) {
      if (filter.ndim() != 3 || filter.shape(0) != filters[0].shape(0) || !(filter.flags() & py::array::c_style) ||
          filter.shape(2) != size[0] * size[1] * size[2])
        throw py::value_error("expected filters of shape (scales, harmonics, voxels), got " + described(filter));
      harmonics.push_back(filter.shape(1));
    }
    shape = {{size[0], size[1], size[2]},
             filters[0].shape(0),
             std::int64_t(filters.size()),
             order,
             std::int64_t(power.size()),
             harmonics.data(),
             power.data()};
  }

  std::int64_t voxels() const { return shape.size[0] * shape.size[1] * shape.size[2]; }
  std::int64_t results() const {
    const std::int64_t pairs = shape.order == 2 ? shape.scales * (shape.scales - 1) / 2 : 0;
    return (shape.scales + pairs) * shape.degrees * shape.powers;
  }
  template <class T>
  std::vector<const T*> spectra() const {
    std::vector<const T*> pointers;
    for (const py::array& filter : filters) {
      if (filter.itemsize() != py::ssize_t(2 * sizeof(T)) || filter.dtype().kind() != 'c')
        throw py::type_error("expected complex filters of the precision of x, got " + described(filter));
      pointers.push_back(static_cast<const T*>(filter.data()));
    }
    return pointers;
  }
};

template <class T>
void harmonic(const py::array& x, const Volumes& volumes, const py::array& out) {
  const auto spectra = volumes.spectra<T>();
  const std::int64_t batch = x.size() / volumes.voxels();
  const T* from = data_of<T>(x, batch, volumes.voxels(), "x");
  T* to = room_of<T>(out, batch, volumes.results(), "out");
  const py::gil_scoped_release release;
  scattering::harmonic(volumes.shape, spectra.data(), from, batch, to);
}

template <class T>
void harmonic_vjp(const py::array& x, const py::array& grad, const Volumes& volumes, const py::array& out) {
  const auto spectra = volumes.spectra<T>();
  const std::int64_t batch = x.size() / volumes.voxels();
  const T* from = data_of<T>(x, batch, volumes.voxels(), "x");
  const T* back = data_of<T>(grad, batch, volumes.results(), "grad");
  T* to = room_of<T>(out, batch, volumes.voxels(), "out");
  const py::gil_scoped_release release;
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
