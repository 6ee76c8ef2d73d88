#include "bindings/arrays.hpp"

namespace fastdl::cuda::bindings {

void register_hebbian(py::module_&) {}

}  // namespace fastdl::cuda::bindings
