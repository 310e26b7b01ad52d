# Find the LibTorch of the torch wheel that Python_EXECUTABLE sees, or of -DHP_TORCH_ROOT=<folder>
# with include/ and lib/, and make two targets:
#
#   torch::torch    tensors, autograd, c10d (libtorch, libtorch_cpu, libc10)
#   torch::python   libtorch_python, when HP_PYTHON
#
# The wheel's own TorchConfig.cmake is not used: a CUDA wheel then asks for a CUDA toolkit, which
# nothing here needs. Python does not import torch for this, which would cost seconds.

set(HP_TORCH_VERSION 2.13)

if(NOT HP_TORCH_ROOT)
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c
            "from importlib.util import find_spec; t = find_spec('torch'); print(t.submodule_search_locations[0] if t else '')"
    OUTPUT_VARIABLE HP_TORCH_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE
    COMMAND_ERROR_IS_FATAL ANY)
endif()
if(NOT EXISTS "${HP_TORCH_ROOT}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "No torch wheel in ${Python_EXECUTABLE}. Run `make build`, name an interpreter "
          "with -DPython_EXECUTABLE=, or build without torch: cmake --preset core")
endif()

file(STRINGS "${HP_TORCH_ROOT}/include/torch/headeronly/version.h" torch_version_lines
     REGEX "define TORCH_VERSION_(MAJOR|MINOR) ")
string(REGEX REPLACE "[^0-9]+([0-9]+)[^0-9]+([0-9]+).*" "\\1.\\2" torch_version
       "${torch_version_lines}")
if(NOT torch_version VERSION_EQUAL HP_TORCH_VERSION)
  message(FATAL_ERROR "torch ${torch_version} in ${HP_TORCH_ROOT}, but ${HP_TORCH_VERSION} is needed: "
          "the dispatch and autograd internals used here change between releases")
endif()
message(STATUS "LibTorch ${torch_version}: ${HP_TORCH_ROOT}")

foreach(name torch torch_cpu c10)
  add_library(hp_lib${name} SHARED IMPORTED)
  set_target_properties(hp_lib${name} PROPERTIES
                        IMPORTED_LOCATION "${HP_TORCH_ROOT}/lib/lib${name}.so")
endforeach()

add_library(torch::torch INTERFACE IMPORTED)
target_include_directories(torch::torch SYSTEM INTERFACE
                           "${HP_TORCH_ROOT}/include"
                           "${HP_TORCH_ROOT}/include/torch/csrc/api/include")
# As in the wheel's own targets. The wheel has no gloo/ headers: ProcessGroupGloo.hpp compiles only
# with the stand-ins in hyper_parallel/torch/gloo_headers, which processes.cpp uses.
target_compile_definitions(torch::torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
# libtorch has no symbols but pulls in the operators of all devices, so it must not be dropped.
target_link_libraries(torch::torch INTERFACE
                      hp_libtorch_cpu hp_libc10
                      "-Wl,--no-as-needed,${HP_TORCH_ROOT}/lib/libtorch.so,--as-needed")
target_link_options(torch::torch INTERFACE -Wl,--allow-shlib-undefined)

if(HP_PYTHON)
  add_library(torch::python SHARED IMPORTED)
  set_target_properties(torch::python PROPERTIES
                        IMPORTED_LOCATION "${HP_TORCH_ROOT}/lib/libtorch_python.so")
endif()
