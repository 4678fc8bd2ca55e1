# SPDX-License-Identifier: Apache-2.0
# Finds CUDNN and offers it as CUDNN::CUDNN.
include(${CMAKE_CURRENT_LIST_DIR}/nvidia_library.cmake)
include(FindPackageHandleStandardArgs)
nvidia_library(CUDNN cudnn.h cudnn cudnn_version.h CUDNN)
find_package_handle_standard_args(CUDNN REQUIRED_VARS CUDNN_LIBRARY CUDNN_INCLUDE_DIR VERSION_VAR CUDNN_VERSION)
if(CUDNN_FOUND AND NOT TARGET CUDNN::CUDNN)
  add_library(CUDNN::CUDNN UNKNOWN IMPORTED)
  set_target_properties(CUDNN::CUDNN PROPERTIES IMPORTED_LOCATION "${CUDNN_LIBRARY}"
                        INTERFACE_INCLUDE_DIRECTORIES "${CUDNN_INCLUDE_DIR}")
endif()
