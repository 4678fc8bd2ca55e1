// SPDX-License-Identifier: Apache-2.0
#include "bench/main.hpp"

#include <cmath>
#include <cstdlib>
#include <exception>
#include <iostream>

namespace bench {

namespace {

constexpr double for_ever = 1e9;  // seconds

}  // namespace

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
  } catch (const harness::TimedOut& error) {
    std::cerr << program << ": " << error.what() << std::endl;
    std::_Exit(1);
  } catch (const std::exception& error) {
    std::cerr << program << ": " << error.what() << '\n';
    return 1;
  }
}

std::vector<std::string> device_points(const harness::Options& options, const std::string& by_default) {
  auto points = harness::device_points(options.has("device") ? options.text("device") : by_default);
  for (const auto& point : points) open_devices(options, point);
  return points;
}

std::unique_ptr<harness::Devices> open_devices(const harness::Options& options, const std::string& point) {
  const double timeout = options.seconds("timeout");
  return harness::open_devices(point, {options.has("threads") ? static_cast<int>(options.integer("threads")) : 0,
                                       timeout > 0 ? timeout : for_ever});
}

harness::Report make_report(const harness::Options& options) {
  return {options.text("output"),
          harness::describe_run(options.command(), options.integer("seed"), options.on("with-hostname"))};
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

int finish(harness::Report& report, const std::string& what) {
  report.finish();
  std::cout << "# " << report.results().size() << ' ' << what << ": " << (report.failed() ? "FAILED" : "OK") << '\n';
  return report.failed() ? 1 : 0;
}

}  // namespace bench
