#include "bindings/bindings.hpp"

namespace py = pybind11;
using fastdl::throw_on_error;

PYBIND11_MODULE(_core, module, py::mod_gil_not_used()) {
  module.doc() = "fastdl's compiled kernels";
  module.attr("__version__") = fastdl_version();
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
  fastdl::bindings::register_gram(module);
  fastdl::bindings::register_group(module);
  fastdl::bindings::register_hebbian(module);
  fastdl::bindings::register_room(module);
  fastdl::bindings::register_scattering(module);
}
