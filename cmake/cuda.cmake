# SPDX-License-Identifier: Apache-2.0
# CUDA and its libraries, each where it is found. RINGMARK_HAS_CUDA, _NCCL and _CUDNN say what there is; what is missing
# is said in one line, and is an error only where it was asked for.
foreach(feature CUDA NCCL CUDNN)
  set(RINGMARK_${feature} AUTO CACHE STRING "${feature}: AUTO, ON or OFF")
  set_property(CACHE RINGMARK_${feature} PROPERTY STRINGS AUTO ON OFF)
  set(RINGMARK_HAS_${feature} OFF)
endforeach()

# Sources that include CUDA's headers. The others compile alike with and without CUDA.
function(uses_cuda)
  set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS -isystem ${CUDAToolkit_INCLUDE_DIRS})
endfunction()

function(lacks feature why)
  if(RINGMARK_${feature} STREQUAL ON)
    message(FATAL_ERROR "RINGMARK_${feature}=ON, but ${why}")
  endif()
  message(STATUS "Built without ${feature}: ${why}")
endfunction()

if(RINGMARK_CUDA STREQUAL OFF)
  return()
endif()

# The toolkit first: it also knows nvcc where PATH does not. A list of our own before CMake's default of one old GPU.
find_package(CUDAToolkit 12.4 QUIET)
if(NOT CUDAToolkit_FOUND)
  lacks(CUDA "the CUDA toolkit (12.4 or later) was not found; put nvcc on PATH, or set CUDAToolkit_ROOT")
  return()
endif()
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND CUDAToolkit_NVCC_EXECUTABLE)
  set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80 90 CACHE STRING "Compute capabilities to compile for, as in 80;90")
endif()
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD 17)  # the most that CMake 3.25 knows of nvcc; CUDA sources hold kernels only
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)  # one runtime for us and NVIDIA's libraries
set(RINGMARK_HAS_CUDA ON)

if(NOT RINGMARK_NCCL STREQUAL OFF)
  find_package(NCCL 2.18 QUIET)
  if(NCCL_FOUND)
    set(RINGMARK_HAS_NCCL ON)
  else()
    lacks(NCCL "NCCL (2.18 or later) was not found (Debian packages of NVIDIA: libnccl-dev; pip: nvidia-nccl-cu13)")
  endif()
endif()
if(NOT RINGMARK_CUDNN STREQUAL OFF)
  find_package(CUDNN 9.0 QUIET)
  if(CUDNN_FOUND)
    set(RINGMARK_HAS_CUDNN ON)
  else()
    lacks(CUDNN "cuDNN (9 or later) was not found (Debian packages of NVIDIA: libcudnn9-dev-cuda-13; pip: nvidia-cudnn-cu13)")
  endif()
endif()
