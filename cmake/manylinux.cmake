# Wheels for manylinux_2_28 (`make wheel`): compiled as in a source tree, so that the code is the same, and
# linked by the linker of the package ziglang against the symbols of glibc 2.28. GCC's runtime becomes part of
# the extension.
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES Python_EXECUTABLE)
set(runtimes)
foreach(library libstdc++.a libgcc_eh.a libgcc.a)
  execute_process(
    COMMAND c++ -print-file-name=${library} OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE
            COMMAND_ERROR_IS_FATAL ANY
  )
  string(APPEND runtimes " ${found}")
endforeach()
set(
  CMAKE_CXX_CREATE_SHARED_MODULE
  "${Python_EXECUTABLE} -m ziglang cc -target ${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-gnu.2.28 -shared -s -Wl,--gc-sections <OBJECTS> <LINK_LIBRARIES>${runtimes} -lpthread -ldl -lm -o <TARGET>"
)
