# SPDX-License-Identifier: Apache-2.0
# Finds NCCL and offers it as NCCL::NCCL.
include(${CMAKE_CURRENT_LIST_DIR}/nvidia_library.cmake)
include(FindPackageHandleStandardArgs)
nvidia_library(NCCL nccl.h nccl nccl.h NCCL)
find_package_handle_standard_args(NCCL REQUIRED_VARS NCCL_LIBRARY NCCL_INCLUDE_DIR VERSION_VAR NCCL_VERSION)
if(NCCL_FOUND AND NOT TARGET NCCL::NCCL)
  add_library(NCCL::NCCL UNKNOWN IMPORTED)
  set_target_properties(NCCL::NCCL PROPERTIES IMPORTED_LOCATION "${NCCL_LIBRARY}"
                        INTERFACE_INCLUDE_DIRECTORIES "${NCCL_INCLUDE_DIR}")
endif()
