#include "bindings/arrays.hpp"

namespace fastdl::cuda::bindings {

void register_conv(py::module_&) {}

}  // namespace fastdl::cuda::bindings
