// fastdl._cuda: the functions of fastdl._core by the same names and with the same arguments, for arrays on a device.
#include "bindings/arrays.hpp"
#include "fastdl/version.h"
#if defined(FASTDL_CUDA_EMULATION)
#include <dlfcn.h>

#include "emulation/machine.hpp"
#endif

namespace py = pybind11;
using namespace fastdl::cuda;

namespace {

// Device memory with an address, which the host reads and writes too: what the tests make their arrays of.
class Memory {
 public:
  explicit Memory(std::size_t bytes) : memory_(bytes ? allocate_managed("Memory", bytes) : nullptr) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    if (memory_) release_managed(memory_);
  }
  std::uintptr_t address() const { return reinterpret_cast<std::uintptr_t>(memory_); }

 private:
  void* memory_;
};

}  // namespace

PYBIND11_MODULE(_cuda, module, py::mod_gil_not_used()) {
  module.doc() = "fastdl's CUDA kernels";
  module.attr("__version__") = FASTDL_VERSION;
  module.def("device_count", &device_count);
  module.def(
      "enter", [](int device, std::uintptr_t stream) { return enter({device, reinterpret_cast<Stream>(stream)}); },
      py::arg("device"), py::arg("stream"));
  module.def("leave", &leave, py::arg("before"));
  module.def("synchronize", [] { synchronize("cuda"); });
  py::class_<Memory>(module, "Memory", py::module_local())
      .def(py::init<std::size_t>(), py::arg("bytes"))
      .def_property_readonly("address", &Memory::address);
#if defined(FASTDL_CUDA_EMULATION)
  module.attr("emulated") = true;
  module.def(
      "set_order",
      [](const std::string& order, unsigned seed) {
        emulation::settings.order = bindings::chosen<emulation::Order>("order", order,
                                                                       {{"fwd", emulation::Order::forward},
                                                                        {"rev", emulation::Order::reverse},
                                                                        {"random", emulation::Order::random}});
        emulation::settings.seed = seed;
      },
      py::arg("order"), py::arg("seed") = 1);
  module.def("launched", [] {
    // From the beginning of the file on, as tools that list its symbols count.
    Dl_info file;
    dladdr(reinterpret_cast<const void*>(&device_count), &file);
    std::vector<std::uintptr_t> places;
    for (const void* entry : emulation::launched.all())
      places.push_back(reinterpret_cast<std::uintptr_t>(entry) - reinterpret_cast<std::uintptr_t>(file.dli_fbase));
    return places;
  });
  module.def("skip_barrier", [](int number) { emulation::settings.skipped_barrier = number; }, py::arg("number"));
#else
  module.attr("emulated") = false;
#endif
  bindings::register_conv(module);
  bindings::register_gram(module);
  bindings::register_group(module);
  bindings::register_hebbian(module);
  bindings::register_scattering(module);
}
