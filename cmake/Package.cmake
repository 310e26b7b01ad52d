# What other CMake projects use: `cmake --install <build> --component sdk --prefix <folder>`, then
# find_package(hyper_parallel). tests/package is such a project.

include(CMakePackageConfigHelpers)

set(sdk_targets hyper_parallel_core)
set(sdk_files "${CMAKE_SOURCE_DIR}/cmake/hyper_parallelConfig.cmake")
if(TARGET hyper_parallel_torch)
  list(APPEND sdk_targets hyper_parallel_torch)
  list(APPEND sdk_files "${CMAKE_SOURCE_DIR}/cmake/Torch.cmake")
endif()
write_basic_package_version_file("${CMAKE_BINARY_DIR}/hyper_parallelConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
list(APPEND sdk_files "${CMAKE_BINARY_DIR}/hyper_parallelConfigVersion.cmake")

install(TARGETS ${sdk_targets} EXPORT hyper_parallelTargets
        LIBRARY DESTINATION lib COMPONENT sdk EXCLUDE_FROM_ALL
        INCLUDES DESTINATION include)
install(EXPORT hyper_parallelTargets NAMESPACE hyper_parallel::
        DESTINATION lib/cmake/hyper_parallel COMPONENT sdk EXCLUDE_FROM_ALL)
install(FILES ${sdk_files} DESTINATION lib/cmake/hyper_parallel COMPONENT sdk EXCLUDE_FROM_ALL)
install(DIRECTORY hyper_parallel/ DESTINATION include/hyper_parallel
        COMPONENT sdk EXCLUDE_FROM_ALL
        FILES_MATCHING PATTERN "*.h" PATTERN "*_internal.h" EXCLUDE
        PATTERN "gloo_headers" EXCLUDE)
