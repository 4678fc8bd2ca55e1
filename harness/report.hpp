// SPDX-License-Identifier: Apache-2.0
// Results, and the file they are kept in: schema 1 of results/README.md. The file is whole and valid at every moment,
// also after a crash, since it is written beside its name and renamed into place; `run.complete` says whether the run
// came to its end. That a path cannot be written is found before anything is measured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/file.hpp"

namespace harness {

enum class Nature { measured, simulated, emulated };
enum class Status { ok, failed, skipped, refused, timed_out };
enum class Check { exact, tolerance, failed, off };
enum class Stop { interval, budget, count };

// The names that the file uses: "timed_out".
std::string name_of(Nature nature);
std::string name_of(Status status);
std::string name_of(Check check);
std::string name_of(Stop stop);

// What an exactness check found: how many elements differ, and the first of them.
struct Wrong {
  std::int64_t count = 0, first_index = 0;
  double expected = 0, got = 0;
  int rank = 0;
};

// One point and what became of it. Seconds, bytes, bytes per second.
struct Result {
  std::string bench = {};
  Nature nature = Nature::measured;
  Status status = Status::ok;
  std::string reason = {};  // why the status is not ok
  Check check = Check::off;
  std::optional<Wrong> wrong = {};
  bool oversubscribed = false;    // more threads than cores
  std::optional<Stop> stop = {};  // nothing when nothing was timed
  std::int64_t visits = 0, runs_per_sample = 1;
  std::vector<std::string> flags = {};    // as measure() tells them
  std::vector<std::string> command = {};  // repeats this point alone
  std::vector<double> samples = {};       // seconds of one run each
  nlohmann::json point = nlohmann::json::object();
  nlohmann::json metrics = nlohmann::json::object();
  nlohmann::json extra = nlohmann::json::object();  // joins the result's own fields: phases, losses, epochs, layers ...
};

nlohmann::json to_json(const Result& result);

// algbw and busbw as nccl-tests defines them (doc/PERFORMANCE.md): bytes / seconds, and that times the collective's
// factor. Null without a factor; both null when nothing was moved or timed.
nlohmann::json bandwidths(std::size_t bytes, double seconds, std::optional<double> busbw_factor);

// What is true of the whole run. describe_run fills in the time, version, revision and machine.
struct RunInfo {
  std::string started = {};    // ISO 8601, UTC
  std::string continues = {};  // when the run began whose rows this one took over, or nothing
  std::vector<std::string> command = {};
  std::string version = {};
  std::string revision = {};  // as configured; "-dirty" with changes, "unknown" outside git
  std::int64_t seed = 1;
  nlohmann::json features = nlohmann::json::object();
  nlohmann::json machine = nlohmann::json::object();
  nlohmann::json world = {{"size", 1}, {"hosts", nlohmann::json::array()}, {"rank_map", nlohmann::json::array()}};
};

nlohmann::json to_json(const RunInfo& run, bool complete);

RunInfo describe_run(std::vector<std::string> command, std::int64_t seed, bool with_hostname);

class Report {
 public:
  // An empty path keeps the results and writes nothing. Throws UsageError when the path cannot become a file: its
  // folder is missing or read only, it is there and is a folder, a device or read only, or another run is writing it.
  // Nothing is left behind.
  Report(const std::string& path, RunInfo run);

  RunInfo& run() { return run_; }
  const std::vector<Result>& results() const { return results_; }
  std::size_t add(Result result);  // gives the index for update
  void update(std::size_t index, Result result);

  void write();         // throws Error when the disk refuses
  void keep_up();       // writes, unless writing would take more than a twentieth of the time: a long report is slow
  void finish();        // the run is complete; writes
  bool failed() const;  // whether a point or a check failed or ran out of time: exit status 1

 private:
  std::string contents() const;

  Claim file_;
  RunInfo run_;
  std::vector<Result> results_;
  std::vector<std::string> lines_;  // each result as it is written, made once: the file is rewritten after each visit
  bool complete_ = false;
  double due_ = 0;  // when the next write would not come too soon, on the steady clock
};

}  // namespace harness
