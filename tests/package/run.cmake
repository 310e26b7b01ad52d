# cmake -DBUILD=<build> -DTORCH=<torch> -P run.cmake: install, build the project here, run it.
set(root "${BUILD}/package")
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY OUTPUT_VARIABLE out)
  message("${out}")
endfunction()
run("${CMAKE_COMMAND}" --install "${BUILD}" --component sdk --prefix "${root}/prefix")
run("${CMAKE_COMMAND}" -G Ninja -S "${CMAKE_CURRENT_LIST_DIR}" -B "${root}/build"
    "-DCMAKE_MAKE_PROGRAM=${NINJA}" "-DCMAKE_PREFIX_PATH=${root}/prefix" "-DHP_TORCH_ROOT=${TORCH}")
run("${CMAKE_COMMAND}" --build "${root}/build")
run("${root}/build/step")
