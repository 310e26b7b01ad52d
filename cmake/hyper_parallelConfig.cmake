# find_package(hyper_parallel) gives hyper_parallel::hyper_parallel_torch, and, for layouts and rules
# alone, hyper_parallel::hyper_parallel_core. LibTorch is found as when the library was built: in the
# environment of Python_EXECUTABLE, or in -DHP_TORCH_ROOT=<folder with include/ and lib/>.

if(EXISTS "${CMAKE_CURRENT_LIST_DIR}/Torch.cmake")
  if(NOT HP_TORCH_ROOT AND NOT Python_EXECUTABLE)
    find_package(Python 3.11 REQUIRED COMPONENTS Interpreter)
  endif()
  include("${CMAKE_CURRENT_LIST_DIR}/Torch.cmake")
endif()
include("${CMAKE_CURRENT_LIST_DIR}/hyper_parallelTargets.cmake")
