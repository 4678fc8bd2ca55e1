// SPDX-License-Identifier: Apache-2.0
// Processes over MPI. Nothing here blocks inside of the library: every collective is a non-blocking one that is asked
// again and again until it has ended, so that a process that is lost is noticed.
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>

#include "harness/clock.hpp"
#include "harness/device/device.hpp"
#include "harness/error.hpp"
#include "harness/processes.hpp"

namespace harness {

namespace {

constexpr std::size_t longest_message = std::size_t{1} << 30;  // MPI counts are int
constexpr int looks_before_yield = 1000;

void check_mpi(int status, const char* doing) {
  if (status == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(status, text.data(), &length);
  throw Error(std::string(doing).append(": ").append(text.data(), static_cast<std::size_t>(length)));
}

// "Open MPI 4.1.4" of "Open MPI v4.1.4, package: ...", "MPICH 4.0.2" of "MPICH Version:\t4.0.2\n...".
std::string library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string line(text.data(),
                         std::find_if(text.data(), text.data() + length, [](char c) { return c == '\n' || c == ','; }));
  const std::size_t digit = line.find_first_of("0123456789");
  const std::string name = line.substr(0, line.find_first_of(" \tv", line.starts_with("Open MPI") ? 5 : 0));
  return digit == std::string::npos ? name : name + ' ' + line.substr(digit, line.find_first_of(" \t", digit) - digit);
}

class MpiProcesses : public Processes {
 public:
  MpiProcesses() {
    int thread_level = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &thread_level);
    if (thread_level < MPI_THREAD_SERIALIZED) throw Error("this MPI can be called by one thread only");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);  // of what belongs to no communicator too
    MPI_Comm_dup(MPI_COMM_WORLD, &world_);
    MPI_Comm_rank(world_, &rank_);
    MPI_Comm_size(world_, &size_);
  }
  MpiProcesses(const MpiProcesses&) = delete;
  MpiProcesses& operator=(const MpiProcesses&) = delete;
  ~MpiProcesses() override {
    MPI_Comm_free(&world_);
    MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string library() const override { return library_version(); }
  void set_timeout(double seconds) override { timeout_seconds_ = seconds; }

  void barrier() override {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Ibarrier(world_, &request), "meeting the other processes");
    wait(request, "meeting the other processes");
  }

  std::vector<double> gather(double value) override {
    std::vector<double> all(size_);
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Iallgather(&value, 1, MPI_DOUBLE, all.data(), 1, MPI_DOUBLE, world_, &request), "gathering numbers");
    wait(request, "gathering numbers");
    return all;
  }

  std::vector<std::string> gather(const std::string& bytes) override {
    const std::vector<double> lengths = gather(static_cast<double>(bytes.size()));
    std::vector<int> counts(lengths.begin(), lengths.end()), offsets(size_);
    std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), 0);
    std::string all(offsets.back() + counts.back(), '\0');
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Iallgatherv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, all.data(), counts.data(),
                              offsets.data(), MPI_BYTE, world_, &request),
              "gathering texts");
    wait(request, "gathering texts");
    std::vector<std::string> texts;
    for (int rank = 0; rank < size_; ++rank) texts.push_back(all.substr(offsets[rank], counts[rank]));
    return texts;
  }

  std::string broadcast(std::string bytes) override {
    std::uint64_t length = bytes.size();
    broadcast(&length, sizeof length);
    bytes.resize(length);
    for (std::size_t sent = 0; sent < length; sent += longest_message) {
      broadcast(bytes.data() + sent, std::min(length - sent, longest_message));
    }
    return bytes;
  }

 private:
  void broadcast(void* data, std::size_t bytes) {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Ibcast(data, static_cast<int>(bytes), MPI_BYTE, 0, world_, &request), "handing out rank 0's bytes");
    wait(request, "handing out rank 0's bytes");
  }

  void wait(MPI_Request& request, const char* doing) const {
    const double deadline = steady_seconds() + timeout_seconds_;
    for (int look = 0, done = 0;; ++look) {
      check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), doing);
      if (done != 0) return;
      if (look < looks_before_yield) continue;
      sched_yield();
      if (steady_seconds() > deadline) {
        throw TimedOut(std::string(doing) + " did not end within " + std::to_string(timeout_seconds_) + " s");
      }
    }
  }

  MPI_Comm world_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  double timeout_seconds_ = 60;
};

}  // namespace

bool has_mpi() { return true; }

std::unique_ptr<Processes> open_mpi(const std::optional<Launcher>& launcher) {
  auto processes = std::make_unique<MpiProcesses>();
  if (launcher && launcher->size != processes->size()) {
    throw UsageError("started " + std::to_string(launcher->size) + " times by " + launcher->name + ", but " +
                     processes->library() + ", which this build has, knows of " + std::to_string(processes->size()) +
                     ": start it by that library's own mpirun");
  }
  return processes;
}

}  // namespace harness
