// SPDX-License-Identifier: Apache-2.0
// The few calls that a World needs of a message-passing library. All but rank, size and library are collective: every
// process of the job makes them in the same order, one thread at a time. They throw TimedOut past the deadline.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/launcher.hpp"

namespace harness {

class Processes {
 public:
  virtual ~Processes() = default;  // collective too
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string library() const = 0;  // "Open MPI 4.1.4"
  virtual void barrier() = 0;
  // What every process gave, by rank, on every one.
  virtual std::vector<double> gather(double value) = 0;
  virtual std::vector<std::string> gather(const std::string& bytes) = 0;
  virtual std::string broadcast(std::string bytes) = 0;  // rank 0's
  virtual void set_timeout(double seconds) = 0;          // of each of the calls above
};

// Whether this build has MPI, and what to say where it is needed and the build has none.
bool has_mpi();
std::string missing_mpi();

// MPI's, initialised: once in a process. Throws UsageError in a build without MPI, or where the launcher, if there is
// one, started more processes than MPI knows of, since it belongs to another MPI.
std::unique_ptr<Processes> open_mpi(const std::optional<Launcher>& launcher);

}  // namespace harness
