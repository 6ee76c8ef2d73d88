// Words for enumerations, and kernels by name: what the bindings of the host and of CUDA devices both take.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "fastdl/fastdl.h"

namespace fastdl::bindings {

namespace py = pybind11;

template <class Enum>
Enum chosen(const char* name, const std::string& value, std::initializer_list<std::pair<const char*, Enum>> list) {
  std::string names;
  for (const auto& [key, found] : list) {
    if (value == key) return found;
    names += names.empty() ? "" : ", ";
    names += key;
  }
  throw py::value_error(std::string(name) + ": expected one of " + names + ", got " + value);
}

// A kernel's name, its kind, and its parameters in the order in which the functions take them.
struct KernelEntry {
  const char* name;
  fastdl_kernel_kind kind;
  std::vector<const char*> parameters;
  std::string function = "gram." + std::string(name);  // for messages
};

inline const std::vector<KernelEntry>& kernels() {
  static const std::vector<KernelEntry> table{
      {"linear", FASTDL_LINEAR, {}},
      {"polynomial", FASTDL_POLYNOMIAL, {"degree", "gamma", "coef0"}},
      {"sigmoid", FASTDL_SIGMOID, {"gamma", "coef0"}},
      {"rbf", FASTDL_RBF, {"gamma"}},
      {"laplacian", FASTDL_LAPLACIAN, {"gamma"}},
      {"cosine", FASTDL_COSINE, {}},
      {"additive_chi2", FASTDL_ADDITIVE_CHI2, {}},
      {"chi2", FASTDL_CHI2, {"gamma"}},
      {"matern", FASTDL_MATERN, {"length_scale", "nu"}},
      {"geometric", FASTDL_GEOMETRIC, {"alpha"}},
      {"sinc", FASTDL_SINC, {"omega"}},
      {"arc_cosine", FASTDL_ARC_COSINE, {"order"}},
      {"nngp", FASTDL_NNGP, {"depth", "w_std", "b_std", "normalize"}},
      {"ntk", FASTDL_NTK, {"depth", "w_std", "b_std", "normalize"}},
  };
  return table;
}

inline const KernelEntry& kernel_entry(const std::string& name) {
  for (const KernelEntry& entry : kernels())
    if (name == entry.name) return entry;
  throw py::value_error("expected the name of a kernel, got " + name);
}

// A kernel, with all its parameters set. Kernel is fastdl_kernel or a structure with its members and an enumeration in
// the same order; its length_scales point into an array kept here.
template <class Kernel>
class ChosenKernel {
 public:
  ChosenKernel(const std::string& name, const py::dict& parameters) : ChosenKernel(kernel_entry(name)) {
    for (const char* parameter : kernel_entry(name).parameters) {
      if (!parameters.contains(parameter))
        throw py::value_error("expected the parameter " + std::string(parameter) + " of " + name);
      set(parameter, parameters[parameter]);
    }
  }

  // From the arguments of a function after X and Y: the parameters, and an array for the result.
  ChosenKernel(const KernelEntry& entry, const py::args& rest) : ChosenKernel(entry) {
    const std::size_t count = entry.parameters.size();
    if (rest.size() != count + 1)
      throw py::type_error(std::string(entry.name) + ": expected X, Y, " + std::to_string(count) +
                           " parameters and an array for the result, got " + std::to_string(rest.size() + 2) +
                           " arguments");
    for (std::size_t i = 0; i < count; ++i) set(entry.parameters[i], rest[i]);
  }

  // For rows of the features of X.
  template <class Array>
  const Kernel& on(const Array& X) const {
    return X.ndim() == 2 ? on(std::int64_t(X.shape(1))) : on(std::int64_t(-1));
  }
  const Kernel& on(std::int64_t features) const {
    if (kernel_.length_scales && (scales_.ndim() != 1 || scales_.shape(0) != features))
      throw py::value_error("length_scale: expected one for each feature of X, got " + std::to_string(scales_.size()));
    return kernel_;
  }

 private:
  explicit ChosenKernel(const KernelEntry& entry) {
    kernel_.kind = static_cast<decltype(kernel_.kind)>(entry.kind);
    if constexpr (requires { kernel_.function; }) kernel_.function = entry.function.c_str();
  }

  void set(const std::string& parameter, const py::handle& value) {
    static const std::pair<const char*, double Kernel::*> numbers[] = {
        {"gamma", &Kernel::gamma}, {"coef0", &Kernel::coef0}, {"degree", &Kernel::degree}, {"nu", &Kernel::nu},
        {"alpha", &Kernel::alpha}, {"omega", &Kernel::omega}, {"w_std", &Kernel::w_std},   {"b_std", &Kernel::b_std}};
    static const std::pair<const char*, int Kernel::*> integers[] = {{"order", &Kernel::order},
                                                                     {"depth", &Kernel::depth}};
    for (const auto& [name, member] : numbers)
      if (parameter == name) return void(kernel_.*member = value.cast<double>());
    for (const auto& [name, member] : integers)
      if (parameter == name) return void(kernel_.*member = value.cast<int>());
    if (parameter == "normalize") return void(kernel_.normalize = value.cast<bool>());
    if (!py::isinstance<py::array>(value)) return void(kernel_.length_scale = value.cast<double>());
    scales_ = py::array_t<double, py::array::c_style | py::array::forcecast>(value.cast<py::array>());
    kernel_.length_scales = static_cast<const double*>(scales_.data());
  }

  Kernel kernel_{};
  py::array scales_;
};

}  // namespace fastdl::bindings
