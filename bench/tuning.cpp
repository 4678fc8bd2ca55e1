// SPDX-License-Identifier: Apache-2.0
#include "bench/tuning.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <span>
#include <tuple>

#include "allreduce/algorithms.hpp"
#include "bench/main.hpp"
#include "harness/json.hpp"
#include "harness/machine.hpp"
#include "harness/report.hpp"
#include "harness/text.hpp"

namespace bench {

namespace {

using harness::Kind;
using nlohmann::json;

constexpr const char* must_be_equal[] = {"device", "launch", "transport"};
constexpr const char* better_equal[] = {"direction", "fused", "dtype", "op", "placement", "pieces"};

std::filesystem::path default_file() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::filesystem::path(value == nullptr ? "" : value);
  };
  const auto cache = variable("XDG_CACHE_HOME");
  return (cache.empty() ? variable("HOME") / ".cache" : cache) / "ringmark" / "tuning.json";
}

// What of a machine makes times differ.
json key_of(const json& machine) {
  json key = {
      {"cpu", machine["cpu"].value("model", "unknown")}, {"cores", harness::usable_cores()}, {"gpus", json::array()}};
  for (const json& device : machine["devices"]) key["gpus"].push_back(device.value("model", "unknown"));
  return key;
}

int differences(const json& a, const json& b, std::span<const char* const> axes) {
  return static_cast<int>(
      std::count_if(axes.begin(), axes.end(), [&](const char* axis) { return a.at(axis) != b.at(axis); }));
}

bool same_size(const json& a, const json& b) {
  return a.at("machine") == b.at("machine") && a.at("bytes") == b.at("bytes") &&
         differences(a, b, must_be_equal) == 0 && differences(a, b, better_equal) == 0;
}

bool is_row(const json& row) {
  return same_size(row, row) && row.at("bytes").is_number_unsigned() &&
         allreduce::find_algorithm(row.at("algorithm").get<std::string>()) &&
         harness::real_number(row.at("seconds")) > 0 && harness::whole_number(row.at("contenders"), 1, 1 << 20) > 0 &&
         row.at("measured").is_string();
}

double distance(std::size_t a, std::size_t b) {
  return std::abs(std::log2(1.0 + static_cast<double>(a)) - std::log2(1.0 + static_cast<double>(b)));
}

}  // namespace

std::vector<harness::Option> tuning_options() {
  return {{.name = "tune",
           .kind = Kind::flag,
           .help = "time all algorithms, and keep which are fastest for --algorithm=auto"},
          {.name = "tuning",
           .kind = Kind::text,
           .help = "file of that table; by default ringmark/tuning.json in $XDG_CACHE_HOME or ~/.cache"}};
}

std::vector<json> parse_tuning(std::string_view text) {
  try {
    auto rows = harness::parse_json(text).at("tuned").get<std::vector<json>>();
    if (std::all_of(rows.begin(), rows.end(), is_row)) return rows;
  } catch (const std::exception&) {  // it is none, for whichever reason
  }
  throw harness::UsageError("it is no table of bench_allreduce --tune");
}

Tuning::Tuning(const harness::Options& options)
    : file_(options.given("tuning") ? std::filesystem::path(options.text("tuning")) : default_file()) {
  const harness::RunInfo run = harness::describe_run({}, 0, false);
  now_ = run.started;
  machine_ = key_of(run.machine);
  std::error_code error;  // the claim, or reading it, says what is wrong
  if (options.on("tune")) {
    if (!options.given("tuning")) std::filesystem::create_directories(file_.parent_path(), error);
    claim_ = harness::Claim("tuning", file_.string());
    file_ = claim_.path();
  }
  if (!std::filesystem::exists(file_, error) && (!options.given("tuning") || options.on("tune"))) return;
  try {
    rows_ = parse_tuning(harness::read_file(file_));
  } catch (const harness::UsageError& wrong) {
    throw harness::bad_value("tuning", file_.string(), wrong.what());
  }
}

void Tuning::keep(const std::vector<harness::Result>& timed) const {
  std::vector<json> rows;
  const auto of_same_size = [&](const json& row) {
    return std::find_if(rows.begin(), rows.end(), [&](const json& other) { return same_size(row, other); });
  };
  for (const harness::Result& result : timed) {
    const json& point = result.point;
    const bool counts =
        result.status == harness::Status::ok && point["engine"] == "streams" && point["algorithm"] != "auto";
    if (!counts) continue;
    json row = {{"machine", machine_}, {"bytes", point["bytes"]}, {"algorithm", point["algorithm"]},
                {"contenders", 1U},    {"measured", now_},        {"seconds", result.metrics["seconds"]}};
    for (const char* axis : must_be_equal) row[axis] = point[axis];
    for (const char* axis : better_equal) row[axis] = point[axis];
    const auto known = of_same_size(row);
    if (known == rows.end()) {
      rows.push_back(row);
      continue;
    }
    const unsigned contenders = known->at("contenders").get<unsigned>() + 1;
    if (row["seconds"] < known->at("seconds")) *known = row;
    (*known)["contenders"] = contenders;
  }
  const std::size_t fresh = rows.size();
  for (const json& old : rows_) {
    if (of_same_size(old) == rows.end()) rows.push_back(old);
  }
  std::string text = "{\"tuned\": [";
  for (const json& row : rows) text.append(&row == rows.data() ? "\n" : ",\n").append(row.dump());
  harness::replace_file(file_, text + "\n]}\n");
  std::cout << "# " << file_.string() << ": the fastest for " << fresh << " points, which --algorithm=auto takes\n";
}

std::optional<json> Tuning::choose(const json& point) const {
  const auto cost = [&](const json& row) {
    return std::tuple(differences(row, point, better_equal), distance(row["bytes"], point.at("bytes")));
  };
  const json* best = nullptr;
  for (const json& row : rows_) {
    if (row["machine"] != machine_ || differences(row, point, must_be_equal) > 0) continue;
    if (best == nullptr || cost(row) < cost(*best)) best = &row;
  }
  if (best == nullptr) return std::nullopt;
  const json& row = *best;
  std::string why = "fastest of " + row["contenders"].dump() + " at " + harness::format_bytes(row["bytes"]);
  for (const char* axis : better_equal) {
    if (row[axis] != point.at(axis)) why.append(", with ").append(axis).append(" ").append(word_of(row[axis]));
  }
  return json{{"algorithm", row["algorithm"]}, {"why", why.append(", measured ").append(row["measured"])}};
}

std::optional<Tuning> make_tuning(const harness::Options& options, const Schedules& schedules) {
  const auto engines = options.names("engine");
  const bool streams = std::find(engines.begin(), engines.end(), "streams") != engines.end();
  const bool simulated = std::find(engines.begin(), engines.end(), "simulated") != engines.end();
  const bool processes = std::find(engines.begin(), engines.end(), "mpi") != engines.end();
  if (schedules.chooses() && (!streams || simulated || processes)) {
    throw harness::bad_value("algorithm", "auto", "it is of --engine=streams, not simulated and not of processes");
  }
  if (options.on("tune")) {
    const bool timed = streams && schedules.collective() == allreduce::Collective::allreduce &&
                       schedules.file().empty() && options.text("mode") == "time";
    if (!timed) throw harness::bad_value("tune", "on", "it times the all-reduces of --engine=streams");
    if (options.has("group")) throw harness::bad_value("group", options.text("group"), "--tune takes the default");
  } else if (!schedules.chooses()) {
    if (!options.given("tuning")) return std::nullopt;
    throw harness::bad_value("tuning", options.text("tuning"), "only --tune and --algorithm=auto take it");
  }
  return Tuning(options);
}

}  // namespace bench
