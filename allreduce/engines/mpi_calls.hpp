// SPDX-License-Identifier: Apache-2.0
// For the sources that call MPI: its errors as ours, a communicator of one's own, and what one library lacks.
#pragma once

#include <mpi.h>

#include <array>
#include <string>

#include "harness/error.hpp"

namespace allreduce {

// MPICH 4.0 crashes in a reduce of long vectors in place at another root than rank 0.
#ifdef MPICH_VERSION
inline constexpr bool reduces_in_place_at_any_root = false;
#else
inline constexpr bool reduces_in_place_at_any_root = true;
#endif

inline void check_mpi(int status, const std::string& doing) {
  if (status == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(status, text.data(), &length);
  throw harness::Error(doing + ": " + std::string(text.data(), static_cast<std::size_t>(length)));
}

// Messages of one program never meet those of another. Made and freed by all processes together. Its errors are
// returned, as those of MPI_COMM_WORLD are once a World is joined.
class Communicator {
 public:
  Communicator() { check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &communicator_), "making a communicator"); }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator() { MPI_Comm_free(&communicator_); }
  operator MPI_Comm() const { return communicator_; }

 private:
  MPI_Comm communicator_ = MPI_COMM_NULL;
};

}  // namespace allreduce
