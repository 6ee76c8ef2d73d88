#include "bindings/arrays.hpp"

namespace fastdl::cuda::bindings {

void register_group(py::module_&) {}

}  // namespace fastdl::cuda::bindings
