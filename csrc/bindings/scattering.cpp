#include "fastdl/scattering.hpp"

#include <array>

#include "bindings/scattering_bank.hpp"
#include "bindings/scattering_tree.hpp"

namespace fastdl::bindings {
namespace {

// A plan, and how large its arrays are.
template <class T, template <class> class Plan>
struct PyPlan {
  Plan<T> plan;
  std::int64_t samples, results, channels, levels;
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

template <class T, template <class> class Plan>
std::int64_t batch_of(const PyPlan<T, Plan>& plan, const py::array& x) {
  if (plan.samples == 0 || x.size() % plan.samples != 0)
    throw py::value_error("x: expected images of " + std::to_string(plan.samples) + " samples, got " + described(x));
  return x.size() / plan.samples;
}

template <class T, template <class> class Plan>
void forward(const PyPlan<T, Plan>& plan, const py::array& x, const py::array& out) {
  const std::int64_t batch = batch_of(plan, x);
  const T* from = data_of<T>(x, batch, plan.samples, "x");
  T* to = room_of<T>(out, batch, plan.results, "out");
  const WithoutGil release;
  plan.plan.forward(from, batch, to);
}

template <class T, template <class> class Plan>
void vjp(const PyPlan<T, Plan>& plan, const py::array& x, const py::array& grad, const py::array& out) {
  const std::int64_t batch = batch_of(plan, x);
  const T* from = data_of<T>(x, batch, plan.samples, "x");
  const T* back = data_of<T>(grad, batch, plan.results, "grad");
  T* to = room_of<T>(out, batch, plan.samples, "out");
  const WithoutGil release;
  plan.plan.vjp(from, back, batch, to);
}

template <class T, template <class> class Plan>
py::class_<PyPlan<T, Plan>> plan_class(py::module_& module, const char* name) {
  py::class_<PyPlan<T, Plan>> made(module, name);
  made.def("forward", &forward<T, Plan>, py::arg("x"), py::arg("out"));
  made.def("vjp", &vjp<T, Plan>, py::arg("x"), py::arg("grad"), py::arg("out"));
  return made;
}

// Filters that Python gives, one at a time: give(group, follower, number).
struct Filters {
  const Tree& tree;
  const py::function& give;
  Doubles kept{};
  std::exception_ptr error = nullptr;

  static const double* next(void* self, std::int64_t group, int follower, std::int64_t number) {
    const py::gil_scoped_acquire acquire;
    auto& filters = *static_cast<Filters*>(self);
    try {
      filters.kept = py::cast<Doubles>(filters.give(group, follower != 0, number));
      const std::int64_t wanted = filters.tree.places(follower ? filters.tree.groups[std::size_t(group)].level : 0);
      if (filters.kept.size() != wanted)
        throw py::value_error("expected spectra of " + std::to_string(wanted) + " numbers, got " +
                              described(filters.kept));
      return filters.kept.data();
    } catch (...) {
      filters.error = std::current_exception();
      return nullptr;
    }
  }
};

template <class T>
scattering::Plan<T> plan_from(const Tree& tree, const py::function& give) {
  Filters filters{tree, give};
  try {
    const WithoutGil release;
    return scattering::Plan<T>(tree.plain, &Filters::next, &filters);
  } catch (...) {
    if (filters.error) std::rethrow_exception(filters.error);
    throw;
  }
}

// A part of each level: top, bottom, left, right. `level` says on which each channel is.
using Parts = std::vector<std::array<std::int64_t, 4>>;

// The arrays of all channels, (batch, part of its level) each, as they are handed to `call`.
template <class T, class Call>
void with_channels(const PyPlan<T, scattering::Plan>& plan, const py::array& x, const Parts& given,
                   const std::vector<std::int64_t>& level, const std::vector<py::array>& arrays, bool written,
                   const Call& call) {
  const std::int64_t batch = batch_of(plan, x);
  std::vector<fastdl_scattering_part> parts;
  for (const auto& [top, bottom, left, right] : given) parts.push_back({top, bottom, left, right});
  if (std::int64_t(parts.size()) != plan.levels || std::int64_t(arrays.size()) != plan.channels ||
      level.size() != arrays.size())
    throw py::value_error("expected a part for every level, and an array and its level for every channel");
  std::vector<T*> pointers;
  for (std::size_t c = 0; c < arrays.size(); ++c) {
    const fastdl_scattering_part& p = parts.at(std::size_t(level[c]));
    const std::int64_t size = (p.bottom - p.top) * (p.right - p.left);
    pointers.push_back(written ? room_of<T>(arrays[c], batch, size, "out")
                               : const_cast<T*>(data_of<T>(arrays[c], batch, size, "grad")));
  }
  const T* from = data_of<T>(x, batch, plan.samples, "x");
  call(batch, from, parts.data(), pointers.data());
}

template <class T>
void moduli(const PyPlan<T, scattering::Plan>& plan, const py::array& x, const Parts& parts,
            const std::vector<std::int64_t>& level, const std::vector<py::array>& out) {
  with_channels(plan, x, parts, level, out, true, [&](std::int64_t batch, const T* from, const auto* part, T** to) {
    const WithoutGil release;
    plan.plan.moduli(part, from, batch, to);
  });
}

template <class T>
void moduli_vjp(const PyPlan<T, scattering::Plan>& plan, const py::array& x, const std::vector<py::array>& grad,
                const Parts& parts, const std::vector<std::int64_t>& level, const py::array& out) {
  with_channels(plan, x, parts, level, grad, false, [&](std::int64_t batch, const T* from, const auto* part, T** back) {
    T* to = room_of<T>(out, batch, plan.samples, "out");
    const WithoutGil release;
    plan.plan.moduli_vjp(part, from, back, batch, to);
  });
}

template <class T>
void define_plan(py::module_& module, const char* name) {
  plan_class<T, scattering::Plan>(module, name)
      .def(py::init([](std::int64_t height, std::int64_t width, const Indices& place_y, const Indices& place_x,
                       std::int64_t channels, const std::vector<std::pair<Axis, Axis>>& levels,
                       const std::vector<Group>& groups, const py::function& give) {
             const Tree tree(height, width, place_y, place_x, channels, levels, groups);
             const auto& finest = tree.levels[0];
             return PyPlan<T, scattering::Plan>{plan_from<T>(tree, give), height * width,
                                                channels * finest.down.count * finest.across.count, channels,
                                                std::int64_t(levels.size())};
           }),
           py::arg("height"), py::arg("width"), py::arg("place_y"), py::arg("place_x"), py::arg("channels"),
           py::arg("levels"), py::arg("groups"), py::arg("give"))
      .def("moduli", &moduli<T>, py::arg("x"), py::arg("parts"), py::arg("level"), py::arg("out"))
      .def("moduli_vjp", &moduli_vjp<T>, py::arg("x"), py::arg("grad"), py::arg("parts"), py::arg("level"),
           py::arg("out"));
}

template <class T>
void define_roto_plan(py::module_& module, const char* name) {
  plan_class<T, scattering::RotoPlan>(module, name)
      .def(py::init([](std::int64_t height, std::int64_t width, const Indices& place_y, const Indices& place_x,
                       std::int64_t order, const std::vector<std::pair<Axis, Axis>>& levels, const Complexes& phase_y,
                       const Complexes& phase_x, const Doubles& first, const std::vector<Doubles>& second,
                       const Complexes& angular) {
             const Bank bank(height, width, place_y, place_x, order, levels, phase_y, phase_x, first, second, angular);
             const WithoutGil release;
             return PyPlan<T, scattering::RotoPlan>{scattering::RotoPlan<T>(bank.plain), height * width, bank.results(),
                                                    0, 0};
           }),
           py::arg("height"), py::arg("width"), py::arg("place_y"), py::arg("place_x"), py::arg("order"),
           py::arg("levels"), py::arg("phase_y"), py::arg("phase_x"), py::arg("first"), py::arg("second"),
           py::arg("angular"));
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

// Averages and details of images (..., height, width), or these from them.
template <class T>
void wavelet(const py::array& image, const Doubles& low, const Doubles& high, const py::array& average,
             const std::vector<py::array>& details, bool inverse) {
  if (image.ndim() < 2 || low.size() != high.size())
    throw py::value_error("expected images of two axes and filters of one length, got " + described(image));
  fastdl_wavelet_shape shape{1,
                             image.shape(image.ndim() - 2),
                             image.shape(image.ndim() - 1),
                             std::int64_t(details.size()),
                             low.size(),
                             low.data(),
                             high.data()};
  for (int axis = 0; axis < image.ndim() - 2; ++axis) shape.batch *= image.shape(axis);
  if (shape.scales > 60) throw py::value_error("expected at most 60 scales");
  const auto size = [&](std::size_t scale) { return (shape.height >> scale) * (shape.width >> scale); };
  std::vector<T*> parts;
  for (std::size_t scale = 0; scale < details.size(); ++scale) {
    const std::int64_t numbers = 3 * size(scale + 1);
    parts.push_back(inverse ? const_cast<T*>(data_of<T>(details[scale], shape.batch, numbers, "details"))
                            : room_of<T>(details[scale], shape.batch, numbers, "details"));
  }
  if (inverse) {
    const T* from = data_of<T>(average, shape.batch, size(details.size()), "approximation");
    T* to = room_of<T>(image, shape.batch, size(0), "out");
    const WithoutGil release;
    scattering::wavelet_inverse(shape, from, parts.data(), to);
  } else {
    const T* from = data_of<T>(image, shape.batch, size(0), "x");
    T* to = room_of<T>(average, shape.batch, size(details.size()), "approximation");
    const WithoutGil release;
    scattering::wavelet(shape, from, to, parts.data());
  }
}

}  // namespace

void register_scattering(py::module_& module) {
  py::module_ scattering = module.def_submodule("scattering");
  define_plan<float>(scattering, "PlanF32");
  define_plan<double>(scattering, "PlanF64");
  define_roto_plan<float>(scattering, "RotoPlanF32");
  define_roto_plan<double>(scattering, "RotoPlanF64");
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
  scattering.def(
      "wavelet_transform2d",
      [](const py::array& x, const Doubles& low, const Doubles& high, const py::array& approximation,
         const Arrays& details) {
        in_type_of(x, [&](auto zero) { wavelet<decltype(zero)>(x, low, high, approximation, details, false); });
      },
      py::arg("x"), py::arg("low"), py::arg("high"), py::arg("approximation"), py::arg("details"));
  scattering.def(
      "inverse_wavelet_transform2d",
      [](const py::array& approximation, const Arrays& details, const Doubles& low, const Doubles& high,
         const py::array& out) {
        in_type_of(out, [&](auto zero) { wavelet<decltype(zero)>(out, low, high, approximation, details, true); });
      },
      py::arg("approximation"), py::arg("details"), py::arg("low"), py::arg("high"), py::arg("out"));
  // By the names of the public functions; `plan` is what fastdl.scattering makes of one of the above.
  for (const char* name : {"scattering1d", "scattering2d", "moments1d", "moments2d", "roto"})
    scattering.def(
        name, [](const py::array& x, const py::object& plan, const py::array& out) { plan.attr("forward")(x, out); },
        py::arg("x"), py::arg("plan"), py::arg("out"));
  for (const char* name : {"scattering1d_vjp", "scattering2d_vjp", "moments1d_vjp", "moments2d_vjp", "roto_vjp"})
    scattering.def(
        name,
        [](const py::array& x, const py::array& grad, const py::object& plan, const py::array& out) {
          plan.attr("backward")(x, grad, out);
        },
        py::arg("x"), py::arg("grad"), py::arg("plan"), py::arg("out"));
}

}  // namespace fastdl::bindings
