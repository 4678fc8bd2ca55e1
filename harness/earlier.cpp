// SPDX-License-Identifier: Apache-2.0
#include "harness/earlier.hpp"

#include <algorithm>
#include <limits>

#include "harness/error.hpp"
#include "harness/json.hpp"

namespace harness {
namespace {

using nlohmann::json;

// The value that the file writes with that name.
template <typename Value>
Value value_of(const json& name, int last) {
  for (int value = 0; value <= last; ++value) {
    if (name == name_of(static_cast<Value>(value))) return static_cast<Value>(value);
  }
  throw UsageError(name.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 40) +
                   " stands where no such word is known");
}

const json& object_of(const json& fields, const char* name) {
  const json& found = fields.at(name);
  if (!found.is_object()) throw UsageError(std::string(name) + " is no object");
  return found;
}

std::int64_t count_of(const json& fields, const char* name, std::int64_t low = 0) {
  return whole_number(fields.at(name), low, std::numeric_limits<std::int64_t>::max());
}

// Null where a number was not finite.
double number_of(const json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : real_number(value);
}

// Takes a field out.
json take(json& fields, const char* name) {
  json taken = std::move(fields.at(name));
  fields.erase(name);
  return taken;
}

Result result_of(json fields) {
  if (!fields.is_object()) throw UsageError("a result is no object");
  Result result;
  result.metrics = object_of(fields, "metrics");
  result.point = object_of(fields, "point");
  fields.erase("metrics");
  fields.erase("point");
  result.bench = take(fields, "bench").get<std::string>();
  result.nature = value_of<Nature>(take(fields, "nature"), static_cast<int>(Nature::emulated));
  result.status = value_of<Status>(take(fields, "status"), static_cast<int>(Status::timed_out));
  result.reason = take(fields, "reason").get<std::string>();
  result.check = value_of<Check>(take(fields, "check"), static_cast<int>(Check::off));
  if (const json wrong = take(fields, "wrong"); !wrong.is_null()) {
    result.wrong = Wrong{count_of(wrong, "count"), count_of(wrong, "first_index"), number_of(wrong.at("expected")),
                         number_of(wrong.at("got")),
                         static_cast<int>(whole_number(wrong.at("rank"), 0, std::numeric_limits<int>::max()))};
  }
  result.oversubscribed = take(fields, "oversubscribed").get<bool>();
  if (const json stop = take(fields, "stop"); !stop.is_null()) {
    result.stop = value_of<Stop>(stop, static_cast<int>(Stop::count));
  }
  result.visits = count_of(fields, "visits");
  result.runs_per_sample = count_of(fields, "runs_per_sample", 1);
  fields.erase("visits");
  fields.erase("runs_per_sample");
  result.flags = take(fields, "flags").get<std::vector<std::string>>();
  result.command = take(fields, "command").get<std::vector<std::string>>();
  for (const json& sample : take(fields, "samples")) result.samples.push_back(number_of(sample));
  result.extra = std::move(fields);
  return result;
}

std::string shown(const json& value) { return value.is_null() ? "not there" : value.dump().substr(0, 60); }

// The models alone: what else is known of a GPU (its clocks, its temperature) is never twice the same.
json models_of(const json& machine) {
  json models = json::array();
  for (const json& device : machine.value("devices", json::array())) models.push_back(device.value("model", "unknown"));
  return models;
}

std::optional<std::string> difference_of(const json& was, const json& is, const std::string& name) {
  if (was == is) return std::nullopt;
  if (was.is_object() && is.is_object()) {
    json names = was;
    names.update(is);
    for (const auto& [key, _] : names.items()) {
      const json missing;
      const auto one = was.find(key);
      const auto other = is.find(key);
      auto found = difference_of(one == was.end() ? missing : *one, other == is.end() ? missing : *other,
                                 name.empty() ? key : name + "." + key);
      if (found) return found;
    }
  }
  return name + " was " + shown(was) + ", here it is " + shown(is);
}

// What must be the same for two measurements to be of one run.
json identity_of(const json& run) {
  const json& machine = run.at("machine");
  return {{"version", run.at("version")},
          {"revision", run.at("revision")},
          {"seed", run.at("seed")},
          {"features", run.at("features")},
          {"world", run.at("world").at("size")},
          {"cpu", machine.at("cpu")},
          {"libraries", machine.at("libraries")},
          {"environment", machine.at("environment")},
          {"devices", models_of(machine)}};
}

}  // namespace

Earlier::Earlier(std::string_view text) {
  try {
    json file = parse_json(text);
    if (file.at("schema") != 1) throw UsageError("it is of no schema that is known; allowed: 1");
    started_ = file.at("run").at("started").get<std::string>();
    run_ = identity_of(file.at("run"));
    for (json& row : file.at("results").get_ref<json::array_t&>()) rows_.push_back(result_of(std::move(row)));
    if (!file.at("run").at("complete").get<bool>() && !rows_.empty()) rows_.pop_back();
  } catch (const json::exception& error) {
    throw UsageError(std::string("it is no result file: ") + error.what());
  }
}

std::optional<std::string> Earlier::difference(const RunInfo& run) const {
  return difference_of(run_, identity_of(to_json(run, false)), "");
}

std::optional<std::vector<Result>> Earlier::find(std::span<const Result> rows) const {
  std::vector<Result> found;
  for (const Result& row : rows) {
    const auto same = std::ranges::find_if(rows_, [&](const Result& one) {
      const bool whole = one.status == Status::ok || one.status == Status::refused;
      return whole && one.bench == row.bench && one.point == row.point && one.command == row.command;
    });
    if (same == rows_.end()) return std::nullopt;
    found.push_back(*same);
  }
  return found;
}

}  // namespace harness
