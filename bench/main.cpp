// SPDX-License-Identifier: Apache-2.0
#include "bench/main.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <iostream>

namespace bench {

int run_main(const std::string& program, const std::string& summary, const std::vector<harness::Option>& table,
             int argc, char** argv, const std::function<int(const harness::Options&)>& body) {
  try {
    const auto options = harness::parse_options(table, argc, argv);
    if (options.on("help")) {
      std::cout << harness::usage(program, summary, table);
      return 0;
    }
    if (!options.benchmark_arguments().empty()) {
      throw harness::bad_value("benchmark_*", options.benchmark_arguments()[0], "only bench_micro takes such options");
    }
    if (options.text("cache") != "warm") {
      throw harness::bad_value("cache", options.text("cache"), "only a warm cache is measured; allowed: warm");
    }
    return body(options);
  } catch (const harness::UsageError& error) {
    std::cerr << program << ": " << error.what() << '\n';
    return 2;
  } catch (const std::exception& error) {
    std::cerr << program << ": " << error.what() << '\n';
    return 1;
  }
}

harness::MeasureSettings measure_settings(const harness::Options& options, int trials) {
  harness::MeasureSettings settings{.budget_seconds = options.seconds("time-budget") / trials,
                                    .seed = static_cast<std::uint64_t>(options.integer("seed"))};
  if (options.has("iterations")) settings.iterations = static_cast<int>(options.integer("iterations"));
  if (options.has("warmup")) settings.warmup = static_cast<int>(options.integer("warmup"));
  return settings;
}

void record_samples(harness::Result& result, const harness::Measurement& measured) {
  result.samples = measured.samples;
  result.visits = static_cast<std::int64_t>(measured.visit_medians.size());
  result.runs_per_sample = measured.runs_per_sample;
  result.stop = measured.stop;
  result.flags.clear();
  if (harness::count_outliers(measured.samples) * 10 > measured.samples.size()) result.flags = {"outliers"};
}

nlohmann::json low_of(const harness::Measurement& measured) {
  return measured.interval ? nlohmann::json(measured.interval->low) : nlohmann::json(nullptr);
}

nlohmann::json high_of(const harness::Measurement& measured) {
  return measured.interval ? nlohmann::json(measured.interval->high) : nlohmann::json(nullptr);
}

double metric_of(const harness::Result& result, const char* name) {
  const auto found = result.metrics.find(name);
  return found == result.metrics.end() || found->is_null() ? std::nan("") : found->get<double>();
}

std::string word_of(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : value.is_null() ? "none" : value.dump();
}

void name_what_is_the_same(harness::Table& table, const std::vector<nlohmann::json>& points,
                           std::initializer_list<std::pair<const char*, const char*>> columns) {
  for (const auto& [title, axis] : columns) {
    const bool same = !points.empty() && std::all_of(points.begin(), points.end(), [&, name = axis](const auto& point) {
      return point[name] == points[0][name];
    });
    if (!same) continue;
    table.only(title, word_of(points[0][axis]));
  }
}

std::string wrong_of(const harness::Result& result) {
  if (result.wrong) return std::to_string(result.wrong->count);
  if (result.status != harness::Status::ok) return harness::name_of(result.status);
  return result.check == harness::Check::off ? "n/a" : "0";
}

}  // namespace bench
