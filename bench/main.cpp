// SPDX-License-Identifier: Apache-2.0
#include "bench/main.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <exception>
#include <iostream>
#include <memory>
#include <span>

#include "harness/device/device.hpp"
#include "harness/text.hpp"

namespace bench {

namespace {

harness::Options checked_options(const std::vector<harness::Option>& table, int argc, char** argv) {
  auto options = harness::parse_options(table, argc, argv);
  if (!options.benchmark_arguments().empty()) {
    throw harness::bad_value("benchmark_*", options.benchmark_arguments()[0], "only bench_micro takes such options");
  }
  if (!options.on("help") && options.text("cache") != "warm") {
    throw harness::bad_value("cache", options.text("cache"), "only a warm cache is measured; allowed: warm");
  }
  return options;
}

// Calls `work`; gives its exit status, or what is to be said and that of what it threw. A file at its limit is a write
// that fails, not the end of the process.
harness::JobEnd guarded(const std::function<int()>& work) {
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return {.reason = "", .status = work()};
  } catch (const harness::UsageError& error) {
    return {.reason = error.what(), .status = 2};
  } catch (const harness::TimedOut& error) {
    return {.reason = error.what(), .timed_out = true, .status = 1};
  } catch (const std::exception& error) {
    return {.reason = error.what(), .status = 1};
  }
}

// Where all processes were started wrongly alike, one says so, and only its status counts: a launcher stops the others,
// unheard, as soon as one of them ends badly.
int told(const std::string& program, const harness::JobEnd& end, bool speaks = true) {
  if (!speaks && end.status == 2) return 0;
  if (!end.reason.empty() && speaks) std::cerr << program << ": " << end.reason << '\n';
  return end.status;
}

bool several(const std::optional<harness::Launcher>& launcher) { return launcher && launcher->size > 1; }

std::string started_by(const harness::Launcher& launcher) {
  return "started " + std::to_string(launcher.size) + " times by " + launcher.name;
}

}  // namespace

int run_main(const std::string& program, const std::string& summary, const std::vector<harness::Option>& table,
             int argc, char** argv, const std::function<int(const harness::Options&)>& body) {
  const auto launcher = harness::find_launcher(environ);
  return told(program, guarded([&] {
                if (several(launcher)) {
                  throw harness::UsageError(started_by(*launcher) + ", but it is one process: start it once");
                }
                const auto options = checked_options(table, argc, argv);
                if (!options.on("help")) return body(options);
                std::cout << harness::usage(program, summary, table);
                return 0;
              }),
              !several(launcher) || launcher->rank == 0);
}

int run_main(const std::string& program, const std::string& summary, const std::vector<harness::Option>& table,
             int argc, char** argv, const std::function<bool(const harness::Options&)>& joins,
             const std::function<int(const harness::Options&, harness::World&)>& body) {
  const auto launcher = harness::find_launcher(environ);
  std::unique_ptr<harness::World> world;
  const auto join = [&] {
    if (several(launcher) && !harness::has_mpi()) {
      throw harness::UsageError(started_by(*launcher) + ", but " + harness::missing_mpi());
    }
    world = std::make_unique<harness::World>(harness::open_mpi(launcher));
    return 0;
  };
  if (several(launcher)) {
    const auto joined = guarded(join);
    if (!world) return told(program, joined, launcher->rank == 0);
  }
  const auto end = guarded([&] {
    if (world) {
      world->agree("the program", harness::fingerprint_of_program());
      if (world->rank() > 0) std::cout.rdbuf(nullptr);
    }
    const auto options = checked_options(table, argc, argv);
    if (options.on("help")) {
      std::cout << harness::usage(program, summary, table);
      return 0;
    }
    if (!world && joins(options)) {
      join();
    } else if (!world) {
      world = std::make_unique<harness::World>();
    }
    const auto& command = options.command();
    world->agree("the command line", harness::join(std::span(command).subspan(1), " "));
    const double timeout = options.seconds("timeout");
    world->set_timeout(timeout > 0 ? timeout : for_ever);
    return body(options, *world);
  });
  if (world && world->size() > 1 && !end.reason.empty()) world->end(end);
  return told(program, end);
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
  result.flags = measured.flags;
}

nlohmann::json low_of(const harness::Measurement& measured) {
  return measured.interval ? nlohmann::json(measured.interval->low) : nlohmann::json(nullptr);
}

nlohmann::json high_of(const harness::Measurement& measured) {
  return measured.interval ? nlohmann::json(measured.interval->high) : nlohmann::json(nullptr);
}

double metric_of(const harness::Result& result, const char* name) {
  const auto found = result.metrics.find(name);
  return found == result.metrics.end() || !found->is_number() ? std::nan("") : found->get<double>();
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
