# SPDX-License-Identifier: Apache-2.0
# MPI, and Gloo, which is started over it, each where it is found: RINGMARK_HAS_MPI and _GLOO say what there is. The
# library is that of mpicxx on PATH; another is chosen by MPI_CXX_COMPILER, as the preset mpich does.
foreach(feature MPI GLOO)
  set(RINGMARK_${feature} AUTO CACHE STRING "${feature}: AUTO, ON or OFF")
  set_property(CACHE RINGMARK_${feature} PROPERTY STRINGS AUTO ON OFF)
  set(RINGMARK_HAS_${feature} OFF)
endforeach()

if(RINGMARK_MPI STREQUAL OFF)
  return()
endif()
# The libraries are not built with the sanitizers, and what MPI leaks or races inside is not ours.
if(RINGMARK_SANITIZE)
  lacks(MPI "the libraries are not built with the sanitizers")
  return()
endif()

set(MPI_CXX_SKIP_MPICXX ON)  # the old C++ bindings
find_package(MPI QUIET COMPONENTS CXX)
if(NOT MPI_CXX_FOUND)
  lacks(MPI "no mpicxx was found (Debian: openmpi-bin libopenmpi-dev, or mpich libmpich-dev)")
  return()
endif()
set(RINGMARK_HAS_MPI ON)

if(NOT RINGMARK_GLOO STREQUAL OFF)
  find_package(Gloo QUIET)
  if(Gloo_FOUND)
    set(RINGMARK_HAS_GLOO ON)
  else()
    lacks(GLOO "Gloo was not found (Debian: libgloo-dev)")
  endif()
endif()
