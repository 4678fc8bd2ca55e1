// SPDX-License-Identifier: Apache-2.0
// The run of a bench: its report, its progress, and what becomes of the rows of a point that cannot be measured. A
// bench calls point() for each of its points and adds rows there; whatever is thrown ends that point alone, with its
// status and reason in the file. A wait that passes its deadline ends the process, with the report written first.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "harness/device/device.hpp"
#include "harness/earlier.hpp"
#include "harness/options.hpp"
#include "harness/progress.hpp"
#include "harness/report.hpp"
#include "harness/world.hpp"

namespace bench {

// The points of --device, each of which can be opened: what cannot is said before anything is measured.
std::vector<std::string> device_points(const harness::Options& options, const std::string& by_default);

// Ranks of a point of --device.
int ranks_of(const harness::Options& options, const std::string& device_point);

// Why a piece of work came to no end, as the rows that depend on it have it.
struct Failure {
  harness::Status status = harness::Status::failed;
  std::string reason = {};
};

// Does it. Too little memory is skipped, what is refused is so, any other harness::Error failed. A UsageError goes on
// to the caller, and so does a device that is lost.
std::optional<Failure> attempt(const std::function<void()>& body);
// In every process of the world, which do not speak with each other meanwhile; where one fails, all have its failure.
std::optional<Failure> attempt_together(harness::World& world, const std::function<void()>& body);

// A row of what is measured there: on emulated devices that is emulated.
harness::Result result_on(const harness::Devices& devices);

class Session {
 public:
  // Throws UsageError where the report cannot be written, or --continue names what was measured elsewhere.
  // `what` is counted at the end ("points"); `print` prints a row of the table once its point has ended. Each process
  // of a world has a session, all with the same rows; rank 0's alone writes and speaks, also where the job ends early.
  Session(const harness::Options& options, std::string program, std::string what, std::size_t points,
          std::function<void(const harness::Result&)> print);
  Session(const harness::Options& options, std::string program, std::string what, std::size_t points,
          std::function<void(const harness::Result&)> print, harness::World& world);
  ~Session();

  // Opens one point of --device as --threads and --timeout say. Where that fails the report is written first.
  std::unique_ptr<harness::Devices> open(const std::string& device_point);

  // Attempts one point, then prints the rows that it added, and why they are not ok: a failure is that of all those
  // that have none of their own.
  void point(const std::string& name, const std::function<void()>& body);

  const std::vector<harness::Result>& results() const { return report_.results(); }
  std::size_t add(harness::Result result);
  void update(std::size_t row, harness::Result result);  // and keeps the file up with it
  // Within a point, once all its rows are added: whether --continue's file has them, measured to their end. They then
  // stand in the report, and nothing is left to do. A point whose rows are not all there is measured anew as a whole,
  // since its contenders are compared in the same rounds.
  bool taken_over();
  // Within a point: this part of it is done, and `what` is in the works.
  void show(double fraction, const std::string& what);
  // What this process is at, should it be lost.
  void at(const std::string& what);
  // For one row of several; and for all of the point that have no failure of their own.
  void give_up(std::size_t row, const Failure& failure);
  void give_up(const Failure& failure);

  // Ends the report and the table; gives the exit status.
  int finish();

 private:
  void end(const harness::JobEnd& why);
  void message(const std::string& text);
  void read_earlier(const std::string& file);

  const harness::Options& options_;
  std::string program_, what_;
  std::function<void(const harness::Result&)> print_;
  harness::World alone_;
  harness::World& world_;
  std::recursive_mutex mutex_;  // of the report: a job is ended by another thread
  harness::Report report_;
  std::optional<harness::Earlier> earlier_ = {};  // of --continue
  std::size_t taken_over_ = 0;                    // rows
  harness::Progress progress_;
  std::size_t points_begun_ = 0;
  std::size_t first_row_ = 0;  // of the point that is running
};

}  // namespace bench
