// SPDX-License-Identifier: Apache-2.0
#include "bench/training/profile.hpp"

#include "harness/error.hpp"
#include "harness/json.hpp"

namespace bench {

using nlohmann::json;

namespace {

constexpr int largest_batch = 1 << 30;
constexpr std::int64_t most_parameters = std::int64_t{1} << 40U;

double seconds_or_0(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return 0;
  const double seconds = harness::real_number(*found);
  if (seconds < 0) throw harness::UsageError(std::string(key) + " is below 0");
  return seconds;
}

Profile profile_of(const json& row) {
  Profile profile{.batch = static_cast<int>(harness::whole_number(row.at("point").at("batch"), 1, largest_batch)),
                  .optimizer_seconds = seconds_or_0(row.at("metrics"), "optimizer_seconds")};
  for (const json& layer : row.at("layers")) {
    const json parameters = layer.value("parameters", json(0));
    profile.layers.push_back({layer.at("name"), seconds_or_0(layer, "forward_seconds"),
                              seconds_or_0(layer, "backward_seconds"),
                              static_cast<std::size_t>(harness::whole_number(parameters, 0, most_parameters))});
  }
  return profile;
}

}  // namespace

std::vector<Profile> parse_profiles(std::string_view text, const std::string& model) {
  try {
    std::vector<Profile> profiles;
    const json report = harness::parse_json(text);
    for (const json& row : report.at("results")) {
      const bool measured = row.at("bench") == "model" && row.at("status") == "ok" && row.contains("layers");
      if (measured && row.at("point").at("model") == model) profiles.push_back(profile_of(row));
    }
    return profiles;
  } catch (const json::exception& error) {
    throw harness::UsageError(std::string("no result file of bench_model: ") + error.what());
  }
}

}  // namespace bench
