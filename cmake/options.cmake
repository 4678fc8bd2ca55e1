# SPDX-License-Identifier: Apache-2.0
# What a build may be asked for, and the packages that every build needs.

option(RINGMARK_NATIVE "Compile for the processor of this machine" ON)
option(RINGMARK_WERROR "Treat warnings as errors" OFF)
set(RINGMARK_SANITIZE "" CACHE STRING "Sanitizers to build with, as -fsanitize= takes them")
option(CMAKE_UNITY_BUILD "Compile several sources at once: a whole build takes a third of the time" ON)
set(CMAKE_UNITY_BUILD_BATCH_SIZE 6 CACHE STRING "How many sources at once")
option(RINGMARK_FUZZ "Build the readers for libFuzzer (clang): see tests/fuzz/run" OFF)
set(RINGMARK_ONEDNN AUTO CACHE STRING "The oneDNN backend: AUTO, ON or OFF")
set_property(CACHE RINGMARK_ONEDNN PROPERTY STRINGS AUTO ON OFF)

find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(nlohmann_json 3.10 REQUIRED)
find_package(pugixml REQUIRED)
find_package(benchmark REQUIRED)
find_package(GTest REQUIRED)

if(NOT RINGMARK_ONEDNN STREQUAL "OFF")
  find_package(dnnl QUIET)
  if(RINGMARK_ONEDNN STREQUAL "ON" AND NOT dnnl_FOUND)
    message(FATAL_ERROR "RINGMARK_ONEDNN=ON, but oneDNN was not found (Debian: libdnnl-dev)")
  endif()
endif()

set(warnings -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor)
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${warnings}>")
# What nvcc hands to the compiler is its own code too, which is not pedantic.
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wshadow>")
if(RINGMARK_WERROR)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Werror> "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>")
endif()
if(RINGMARK_NATIVE)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-march=native>)
endif()
if(RINGMARK_SANITIZE)
  # g++ warns of uninitialised values in the standard library where a sanitizer's checks stand between: the optimised
  # build, without them, is where that warning counts.
  add_compile_options(-fsanitize=${RINGMARK_SANITIZE} -fno-omit-frame-pointer -g1 -Wno-maybe-uninitialized)
  add_link_options(-fsanitize=${RINGMARK_SANITIZE})
endif()
if(RINGMARK_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
include_directories(${CMAKE_SOURCE_DIR})
