#include <atomic>
#include <exception>

#include "bindings/bindings.hpp"

namespace py = pybind11;
using fastdl::throw_on_error;

namespace {

// Python runs the handlers of signals on its main thread only; others need not wait for the GIL to ask.
std::atomic<unsigned long> main_thread{0};

int a_signal_wants_to_stop() {
  if (PyThread_get_thread_ident() != main_thread.load(std::memory_order_relaxed)) return 0;
  const py::gil_scoped_acquire acquire;
  return PyErr_CheckSignals() != 0;  // if so, its exception is set on this thread
}

// Ctrl-C ends a long call with KeyboardInterrupt, as do other handlers with what they raise.
void watch_for_signals() {
  main_thread = py::module_::import("threading").attr("main_thread")().attr("ident").cast<unsigned long>();
  const py::module_ os = py::module_::import("os");
  if (py::hasattr(os, "register_at_fork"))  // the thread that forks is the child's main thread
    os.attr("register_at_fork")(py::arg("after_in_child") =
                                    py::cpp_function([] { main_thread = PyThread_get_thread_ident(); }));
  fastdl_set_interrupt_check(&a_signal_wants_to_stop);
  py::register_local_exception_translator([](std::exception_ptr error) {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const fastdl::Interrupted&) {
      if (!PyErr_Occurred()) PyErr_SetNone(PyExc_KeyboardInterrupt);
    }
  });
}

}  // namespace

PYBIND11_MODULE(_core, module, py::mod_gil_not_used()) {
  module.doc() = "fastdl's compiled kernels";
  module.attr("__version__") = fastdl_version();
  watch_for_signals();
  module.def("build_info", &fastdl_build_info);
  module.def("isas", [] {
    py::tuple names(fastdl_isa_count());
    for (int i = 0; i < fastdl_isa_count(); ++i) names[static_cast<std::size_t>(i)] = py::str(fastdl_isa_name(i));
    return names;
  });
  module.def("isa", &fastdl_isa);
  module.def("set_isa", [](const std::string& name) { throw_on_error(fastdl_set_isa(name.c_str())); }, py::arg("name"));
  module.def("get_num_threads", &fastdl_get_num_threads);
  module.def("set_num_threads", [](int n) { throw_on_error(fastdl_set_num_threads(n)); }, py::arg("n"));
  module.def("set_thread_limit", &fastdl_set_thread_limit, py::arg("n"));
  fastdl::bindings::register_conv(module);
  fastdl::bindings::register_fft(module);
  fastdl::bindings::register_gram(module);
  fastdl::bindings::register_group(module);
  fastdl::bindings::register_hebbian(module);
  fastdl::bindings::register_room(module);
  fastdl::bindings::register_scattering(module);
}
