// SPDX-License-Identifier: Apache-2.0
#include "bench/session.hpp"

#include <cstdlib>
#include <iostream>
#include <new>
#include <span>

#include "bench/main.hpp"

namespace bench {

namespace {

harness::DeviceSettings device_settings(const harness::Options& options, int sharers = 1) {
  harness::DeviceSettings settings;
  settings.sharers = sharers;
  if (options.has("threads")) settings.threads = static_cast<int>(options.integer("threads"));
  const double timeout = options.seconds("timeout");
  settings.timeout_seconds = timeout > 0 ? timeout : for_ever;
  const std::string& transport = options.text("transport");
  settings.transport = transport == "peer"     ? harness::Transport::peer
                       : transport == "staged" ? harness::Transport::staged
                                               : harness::Transport::automatic;
  return settings;
}

harness::Report make_report(const harness::Options& options, int rank) {
  return {rank == 0 ? options.text(options.given("output") ? "output" : "continue") : "",
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
  } catch (const harness::TimedOut& error) {
    return Failure{harness::Status::timed_out, error.what()};
  } catch (const harness::Refused& error) {
    return Failure{harness::Status::refused, error.what()};
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

std::optional<Failure> attempt_together(harness::World& world, const std::function<void()>& body) {
  const auto own = attempt(body);
  if (world.size() == 1) return own;
  const auto reasons = world.gather(own ? own->reason : std::string());
  const double skipped = world.max(own && own->status == harness::Status::skipped ? 1 : 0);
  for (int rank = 0; rank < world.size(); ++rank) {
    if (reasons[rank].empty()) continue;
    return Failure{skipped > 0 ? harness::Status::skipped : harness::Status::failed,
                   world.name(rank) + ": " + reasons[rank]};
  }
  return std::nullopt;
}

Session::Session(const harness::Options& options, std::string program, std::string what, std::size_t points,
                 std::function<void(const harness::Result&)> print)
    : Session(options, std::move(program), std::move(what), points, std::move(print), alone_) {}

Session::Session(const harness::Options& options, std::string program, std::string what, std::size_t points,
                 std::function<void(const harness::Result&)> print, harness::World& world)
    : options_(options),
      program_(std::move(program)),
      what_(std::move(what)),
      print_(std::move(print)),
      world_(world),
      report_(make_report(options, world.rank())),
      progress_(options.on("quiet") || world.rank() > 0, static_cast<double>(points)) {
  if (options.has("continue")) read_earlier(options.text("continue"));
  world_.on_end([this](const harness::JobEnd& why) { end(why); });
}

void Session::read_earlier(const std::string& file) {
  try {
    if (world_.size() > 1) throw harness::UsageError("a job of several processes measures all of its points");
    earlier_.emplace(harness::read_file(file));
    if (const auto other = earlier_->difference(report_.run())) {
      throw harness::UsageError("it is of another machine, build or seed: " + *other);
    }
  } catch (const harness::UsageError& error) {
    throw harness::bad_value("continue", file, error.what());
  }
  report_.run().continues = earlier_->started();
}

Session::~Session() { world_.on_end(nullptr); }

// By whichever thread noticed; the others never touch the report again.
void Session::end(const harness::JobEnd& why) {
  mutex_.lock();
  give_up({why.timed_out ? harness::Status::timed_out : harness::Status::failed, why.reason});
  report_.write();
  progress_.message(program_ + ": " + why.reason);
  std::cout.flush();
}

void Session::message(const std::string& text) {
  if (world_.rank() == 0) progress_.message(program_ + ": " + text);
}

std::unique_ptr<harness::Devices> Session::open(const std::string& device_point) {
  harness::DeviceSettings settings = device_settings(options_, world_.sharers());
  settings.on_timeout = [this](const harness::TimedOut& error) {
    const harness::JobEnd why{.reason = error.what(), .timed_out = true};
    if (world_.size() > 1) world_.end(why);
    end(why);
    std::_Exit(1);
  };
  std::unique_ptr<harness::Devices> devices;
  try {
    devices = harness::open_devices(device_point, settings);
  } catch (const harness::UsageError&) {
    throw;
  } catch (const harness::Error&) {
    report_.write();
    throw;
  }
  for (const auto& warning : devices->warnings()) message(warning);
  if (world_.joined()) report_.run().world = world_.describe(device_point, options_.on("with-hostname"));
  return devices;
}

void Session::point(const std::string& name, const std::function<void()>& body) {
  progress_.show(static_cast<double>(points_begun_++), name);
  first_row_ = results().size();
  try {
    if (const auto failure = attempt(body)) {
      const bool timed_out = failure->status == harness::Status::timed_out;
      if (world_.size() > 1) world_.end({failure->reason, timed_out});  // the others know nothing of it
      give_up(*failure);
    }
  } catch (const harness::DeviceLost& error) {
    give_up({harness::Status::failed, error.what()});
    report_.write();
    throw;
  }
  {
    const std::lock_guard lock(mutex_);
    report_.keep_up();
  }
  progress_.finish();  // both may be on one terminal, and a row stands on a line of its own
  std::string said;
  for (std::size_t row = first_row_; row < results().size(); ++row) {
    const harness::Result& result = results()[row];
    print_(result);
    if (result.reason == said) continue;
    said = result.reason;
    if (!said.empty()) message(said);
  }
  std::cout.flush();
}

bool Session::taken_over() {
  if (!earlier_) return false;
  const std::span<const harness::Result> rows = std::span(results()).subspan(first_row_);
  const auto found = earlier_->find(rows);
  if (!found || rows.empty()) return false;
  for (std::size_t i = 0; i < found->size(); ++i) report_.update(first_row_ + i, (*found)[i]);
  taken_over_ += found->size();
  return true;
}

void Session::show(double fraction, const std::string& what) {
  progress_.show(static_cast<double>(points_begun_ - 1) + fraction, what);
}

void Session::at(const std::string& what) { world_.at(what); }

std::size_t Session::add(harness::Result result) {
  const std::lock_guard lock(mutex_);
  return report_.add(std::move(result));
}

void Session::update(std::size_t row, harness::Result result) {
  const std::lock_guard lock(mutex_);
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
void Session::give_up(const Failure& failure) {
  const std::lock_guard lock(mutex_);
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
  const std::lock_guard lock(mutex_);
  report_.finish();
  if (earlier_) std::cout << "# " << taken_over_ << " rows were taken over from " << options_.text("continue") << '\n';
  std::cout << "# " << results().size() << ' ' << what_ << ": " << (report_.failed() ? "FAILED" : "OK") << '\n';
  return report_.failed() ? 1 : 0;
}

}  // namespace bench
