// SPDX-License-Identifier: Apache-2.0
#include "bench/session.hpp"

#include <cstdlib>
#include <iostream>
#include <new>

namespace bench {

namespace {

constexpr double for_ever = 1e9;  // seconds

harness::DeviceSettings device_settings(const harness::Options& options) {
  harness::DeviceSettings settings;
  if (options.has("threads")) settings.threads = static_cast<int>(options.integer("threads"));
  const double timeout = options.seconds("timeout");
  settings.timeout_seconds = timeout > 0 ? timeout : for_ever;
  const std::string& transport = options.text("transport");
  settings.transport = transport == "peer"     ? harness::Transport::peer
                       : transport == "staged" ? harness::Transport::staged
                                               : harness::Transport::automatic;
  return settings;
}

harness::Report make_report(const harness::Options& options) {
  return {options.text("output"),
          harness::describe_run(options.command(), options.integer("seed"), options.on("with-hostname"))};
}

}  // namespace

std::vector<std::string> device_points(const harness::Options& options, const std::string& by_default) {
  auto points = harness::device_points(options.has("device") ? options.text("device") : by_default);
  for (const auto& point : points) harness::open_devices(point, device_settings(options));
  return points;
}

int ranks_of(const harness::Options& options, const std::string& device_point) {
  return harness::open_devices(device_point, device_settings(options))->size();
}

std::optional<Failure> attempt(const std::function<void()>& body) {
  try {
    body();
    return std::nullopt;
  } catch (const harness::UsageError&) {
    throw;
  } catch (const harness::DeviceLost&) {
    throw;
  } catch (const harness::OutOfMemory& error) {
    return Failure{harness::Status::skipped, error.what()};
  } catch (const std::bad_alloc&) {
    return Failure{harness::Status::skipped, "the host has no memory for this point"};
  } catch (const harness::Error& error) {
    return Failure{harness::Status::failed, error.what()};
  }
}

harness::Result result_on(const harness::Devices& devices) {
  harness::Result result;
  result.nature = devices.emulated() ? harness::Nature::emulated : harness::Nature::measured;
  result.oversubscribed = devices.oversubscribed();
  return result;
}

Session::Session(const harness::Options& options, std::string program, std::string what, std::size_t points,
                 std::function<void(const harness::Result&)> print)
    : options_(options),
      program_(std::move(program)),
      what_(std::move(what)),
      print_(std::move(print)),
      report_(make_report(options)),
      progress_(options.on("quiet"), static_cast<double>(points)) {}

std::unique_ptr<harness::Devices> Session::open(const std::string& device_point) {
  harness::DeviceSettings settings = device_settings(options_);
  settings.on_timeout = [this](const harness::TimedOut& error) {
    give_up_point({harness::Status::timed_out, error.what()});
    report_.write();
    progress_.message(program_ + ": " + error.what());
    std::cout.flush();
    std::_Exit(1);
  };
  auto devices = harness::open_devices(device_point, settings);
  for (const auto& warning : devices->warnings()) progress_.message(program_ + ": " + warning);
  return devices;
}

void Session::point(const std::string& name, const std::function<void()>& body) {
  progress_.show(static_cast<double>(points_begun_++), name);
  first_row_ = results().size();
  try {
    if (const auto failure = attempt(body)) give_up_point(*failure);
  } catch (const harness::DeviceLost& error) {
    give_up_point({harness::Status::failed, error.what()});
    report_.write();
    throw;
  }
  report_.keep_up();
  progress_.finish();  // both may be on one terminal, and a row stands on a line of its own
  std::string said;
  for (std::size_t row = first_row_; row < results().size(); ++row) {
    const harness::Result& result = results()[row];
    print_(result);
    if (result.reason == said) continue;
    said = result.reason;
    if (!said.empty()) progress_.message(program_ + ": " + said);
  }
  std::cout.flush();
}

void Session::show(double fraction, const std::string& what) {
  progress_.show(static_cast<double>(points_begun_ - 1) + fraction, what);
}

std::size_t Session::add(harness::Result result) { return report_.add(std::move(result)); }

void Session::update(std::size_t row, harness::Result result) {
  report_.update(row, std::move(result));
  report_.keep_up();
}

void Session::give_up(std::size_t row, const Failure& failure) {
  harness::Result result = results()[row];
  result.status = failure.status;
  result.reason = failure.reason;
  update(row, std::move(result));
}

// A row that has a reason of its own keeps it.
void Session::give_up_point(const Failure& failure) {
  for (std::size_t row = first_row_; row < results().size(); ++row) {
    harness::Result result = results()[row];
    if (result.status != harness::Status::ok) continue;
    result.status = failure.status;
    result.reason = failure.reason;
    report_.update(row, std::move(result));
  }
}

int Session::finish() {
  progress_.finish();
  report_.finish();
  std::cout << "# " << results().size() << ' ' << what_ << ": " << (report_.failed() ? "FAILED" : "OK") << '\n';
  return report_.failed() ? 1 : 0;
}

}  // namespace bench
