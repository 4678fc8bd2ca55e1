// SPDX-License-Identifier: Apache-2.0
#include "harness/report.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <ctime>
#include <string_view>
#include <utility>

#include "harness/clock.hpp"
#include "harness/error.hpp"
#include "harness/machine.hpp"
#include "harness/processes.hpp"

namespace harness {
namespace {

using nlohmann::json;

constexpr double pause_after_write = 19;  // of keep_up, in times of what the write took

// Non-finite numbers become null, and bytes that are no UTF-8 (a command line may hold any) a replacement character.
std::string dump(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

}  // namespace

std::string name_of(Nature nature) {
  constexpr const char* names[] = {"measured", "simulated", "emulated"};
  return names[static_cast<int>(nature)];
}

std::string name_of(Status status) {
  constexpr const char* names[] = {"ok", "failed", "skipped", "refused", "timed_out"};
  return names[static_cast<int>(status)];
}

std::string name_of(Check check) {
  constexpr const char* names[] = {"exact", "tolerance", "failed", "off"};
  return names[static_cast<int>(check)];
}

std::string name_of(Stop stop) {
  constexpr const char* names[] = {"interval", "budget", "count"};
  return names[static_cast<int>(stop)];
}

json to_json(const Result& result) {
  json fields = result.extra;
  fields["bench"] = result.bench;
  fields["nature"] = name_of(result.nature);
  fields["status"] = name_of(result.status);
  fields["reason"] = result.reason;
  fields["check"] = name_of(result.check);
  fields["wrong"] = nullptr;
  if (const auto& wrong = result.wrong) {
    fields["wrong"] = {{"count", wrong->count},
                       {"first_index", wrong->first_index},
                       {"expected", wrong->expected},
                       {"got", wrong->got},
                       {"rank", wrong->rank}};
  }
  fields["oversubscribed"] = result.oversubscribed;
  fields["stop"] = result.stop ? json(name_of(*result.stop)) : json(nullptr);
  fields["visits"] = result.visits;
  fields["runs_per_sample"] = result.runs_per_sample;
  fields["flags"] = result.flags;
  fields["point"] = result.point;
  fields["command"] = result.command;
  fields["samples"] = result.samples;
  fields["metrics"] = result.metrics;
  return fields;
}

json to_json(const RunInfo& run, bool complete) {
  json fields = {{"started", run.started},   {"command", run.command}, {"version", run.version},
                 {"revision", run.revision}, {"seed", run.seed},       {"features", run.features},
                 {"machine", run.machine},   {"world", run.world},     {"complete", complete}};
  if (!run.continues.empty()) fields["continues"] = run.continues;
  return fields;
}

json bandwidths(std::size_t bytes, double seconds, std::optional<double> busbw_factor) {
  if (bytes == 0 || !(seconds > 0) || !std::isfinite(seconds)) return {{"algbw", nullptr}, {"busbw", nullptr}};
  const double algbw = static_cast<double>(bytes) / seconds;
  return {{"algbw", algbw}, {"busbw", busbw_factor ? json(algbw * *busbw_factor) : json(nullptr)}};
}

RunInfo describe_run(std::vector<std::string> command, std::int64_t seed, bool with_hostname) {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char started[32];
  std::strftime(started, sizeof started, "%Y-%m-%dT%H:%M:%SZ", &utc);
  RunInfo run;
  run.started = started;
  run.command = std::move(command);
  run.version = RINGMARK_VERSION;
  run.revision = RINGMARK_REVISION;
  run.seed = seed;
  run.features["mpi"] = has_mpi();
  run.machine = describe_machine(with_hostname);
  return run;
}

Report::Report(const std::string& path, RunInfo run) : run_(std::move(run)) {
  if (!path.empty()) file_ = Claim("output", path);
}

std::size_t Report::add(Result result) {
  lines_.push_back(dump(to_json(result)));
  results_.push_back(std::move(result));
  return results_.size() - 1;
}

void Report::update(std::size_t index, Result result) {
  if (index >= results_.size()) {
    throw Error("update of result " + std::to_string(index) + " of " + std::to_string(results_.size()));
  }
  lines_[index] = dump(to_json(result));
  results_[index] = std::move(result);
}

std::string Report::contents() const {
  std::string text = "{\"schema\": 1,\n\"run\": " + dump(to_json(run_, complete_)) + ",\n\"results\": [";
  for (const std::string& line : lines_) text += (&line == lines_.data() ? "\n" : ",\n") + line;
  return text + "\n]}\n";
}

void Report::write() {
  if (file_.path().empty()) return;
  const double begin = steady_seconds();
  replace_file(file_.path(), contents());
  const double end = steady_seconds();
  due_ = end + pause_after_write * (end - begin);
}

void Report::keep_up() {
  if (steady_seconds() >= due_) write();
}

void Report::finish() {
  complete_ = true;
  write();
}

bool Report::failed() const {
  return std::ranges::any_of(results_, [](const Result& result) {
    return result.status == Status::failed || result.status == Status::timed_out || result.check == Check::failed;
  });
}

}  // namespace harness
