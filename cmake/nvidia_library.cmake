# SPDX-License-Identifier: Apache-2.0
# nvidia_library(<NAME> <header> <library> <version header> <prefix>): finds a library that NVIDIA ships apart from the
# toolkit: beside the toolkit, in the system's folders, or where pip puts it (site-packages/nvidia/*/{include,lib}, with
# a version in the library's name and no link beside it). Sets <NAME>_INCLUDE_DIR, <NAME>_LIBRARY and <NAME>_VERSION; the
# version is that of the macros <prefix>_MAJOR, _MINOR and _PATCH(LEVEL).
function(nvidia_library NAME header library version_header prefix)
  find_package(Python3 QUIET COMPONENTS Interpreter)
  set(pip_folders "")
  if(Python3_Interpreter_FOUND)
    foreach(folder IN ITEMS ${Python3_SITELIB} ${Python3_SITEARCH})
      file(GLOB found ${folder}/nvidia/*)
      list(APPEND pip_folders ${found})
    endforeach()
  endif()
  find_path(${NAME}_INCLUDE_DIR ${header} HINTS ${CUDAToolkit_INCLUDE_DIRS} ${pip_folders} PATH_SUFFIXES include)
  find_library(${NAME}_LIBRARY NAMES ${library} lib${library}.so.2 lib${library}.so.9
               HINTS ${CUDAToolkit_LIBRARY_DIR} ${pip_folders} PATH_SUFFIXES lib lib64)
  if(${NAME}_INCLUDE_DIR)
    file(STRINGS ${${NAME}_INCLUDE_DIR}/${version_header} lines REGEX "^#define ${prefix}_(MAJOR|MINOR|PATCH|PATCHLEVEL) +[0-9]+")
    string(REGEX REPLACE "[^;]*_(MAJOR|MINOR|PATCH|PATCHLEVEL) +([0-9]+)[^;]*" "\\2" numbers "${lines}")
    string(REPLACE ";" "." version "${numbers}")
    set(${NAME}_VERSION ${version} PARENT_SCOPE)
  endif()
endfunction()
