#include "bindings/arrays.hpp"

namespace fastdl::cuda::bindings {

void register_scattering(py::module_&) {}

}  // namespace fastdl::cuda::bindings
