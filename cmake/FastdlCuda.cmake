# The CUDA backend: fastdl._cuda, where nvcc is. tests/cpp makes the same module of the same sources by emulation.

set(FASTDL_CUDA_KERNELS cuda/device.cu cuda/gram.cu cuda/strided.cu)
set(FASTDL_CUDA_BINDINGS
  cuda/bindings/arrays.cpp cuda/bindings/conv.cpp cuda/bindings/gram.cpp cuda/bindings/group.cpp cuda/bindings/hebbian.cpp
  cuda/bindings/module.cpp cuda/bindings/scattering.cpp)

if(NOT FASTDL_BUILD_PYTHON OR FASTDL_CUDA STREQUAL "OFF")
  return()
endif()
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  if(FASTDL_CUDA STREQUAL "ON")
    message(FATAL_ERROR "FASTDL_CUDA=ON expects nvcc: install the CUDA toolkit, or set CUDACXX to where it is")
  endif()
  return()
endif()

# The generation of 2018 and what came after it, as far as this nvcc knows them; still newer ones compile the PTX of the last.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-arch OUTPUT_VARIABLE known ERROR_QUIET)
  foreach(architecture 75 80 86 89 90 100 120)
    if(known MATCHES "compute_${architecture}\n")
      list(APPEND CMAKE_CUDA_ARCHITECTURES ${architecture}-real)
      set(newest ${architecture})
    endif()
  endforeach()
  list(APPEND CMAKE_CUDA_ARCHITECTURES ${newest}-virtual)
endif()
enable_language(CUDA)
pybind11_add_module(_cuda ${FASTDL_CUDA_KERNELS} ${FASTDL_CUDA_BINDINGS})
target_include_directories(_cuda PRIVATE cuda)
target_link_libraries(_cuda PRIVATE fastdl_options)
target_compile_features(_cuda PRIVATE cuda_std_20)
set_target_properties(_cuda PROPERTIES CUDA_RUNTIME_LIBRARY Static)
install(TARGETS _cuda LIBRARY DESTINATION . RUNTIME DESTINATION .)
