// SPDX-License-Identifier: Apache-2.0
// bench_train: the all-reduce inside real training steps. All ways of training a model, on whichever devices, are timed
// in interleaved rounds from the initial parameters: the whole step, its compute alone and its communication alone.
// Then each way trains the model from there.
#include <iostream>
#include <memory>

#include "bench/engines.hpp"
#include "bench/main.hpp"
#include "bench/session.hpp"
#include "bench/training/fleet.hpp"
#include "bench/training/forecast.hpp"
#include "bench/training/options.hpp"
#include "bench/training/rows.hpp"
#include "bench/training/table.hpp"
#include "bench/training/timeline.hpp"
#include "harness/clock.hpp"
#include "harness/file.hpp"

namespace {

using nlohmann::json;

constexpr double share_of_measuring = 0.5;  // of a group's progress; the rest is training

class Bench {
 public:
  Bench(const harness::Options& options, harness::World& world)
      : options_(options), world_(world), sweep_(options, world), table_(sweep_.points()) {
    if (options.given("trace") && world.rank() == 0) trace_ = harness::writable("trace", options.text("trace"));
  }

  int run() {
    if (options_.on("list")) {
      for (const json& point : sweep_.points()) std::cout << point.dump() << '\n';
      return 0;
    }
    bench::Session session(
        options_, "bench_train", "points", sweep_.groups().size(),
        [this](const harness::Result& result) { table_.print(result); }, world_);
    const bool weak = sweep_.scaling() == "weak";
    if (options_.text("data") != "synthetic") load_data();
    std::cout << "# " << sweep_.scaling() << " scaling: a batch of " << options_.integer("batch")
              << (weak ? " on each device" : " over all devices") << ", learning rate " << options_.text("lr")
              << (weak && options_.text("lr-scaling") == "linear" ? " times the devices" : "") << '\n';
    table_.print_header();
    for (const auto& group : sweep_.groups()) {
      const std::string model = group.front()["model"];
      if (options_.text("data") == "synthetic") make_data(models::find_model(model));
      Members members;
      for (const json& block : group) {
        for (auto& points : sweep_.fleets_of(block)) {
          members.push_back({std::move(points), session.open(block["device"])});
        }
      }
      session.point(model, [&] { run_group(members, session); });
    }
    std::cout << "# exposed = step - compute: what communication costs; negative where it is below the noise\n";
    if (!trace_.empty()) {
      harness::replace_file(trace_, bench::chrome_trace(titles_, timelines_).dump() + '\n');
    }
    return session.finish();
  }

 private:
  // Points that share a fleet, with their rows.
  struct Member {
    std::vector<json> points;
    std::unique_ptr<harness::Devices> devices;
    std::vector<std::size_t> rows = {};
    std::unique_ptr<bench::Fleet> fleet = nullptr;
  };
  using Members = std::vector<Member>;

  void load_data() {
    train_ = models::load_fashion_mnist(models::Part::train, options_.text("data-dir"));
    if (options_.on("eval")) test_ = models::load_fashion_mnist(models::Part::test, options_.text("data-dir"));
  }
  void make_data(const models::ModelRow& model) {
    constexpr std::size_t train_images = 10000;
    constexpr std::size_t test_images = 1000;
    train_ = models::make_synthetic(train_images, 1, model.input, model.classes);
    test_ = models::make_synthetic(test_images, 2, model.input, model.classes);
  }

  // Where there are several processes, what fails in one ends the job: the others are in the middle of it.
  std::optional<bench::Failure> attempt(const std::function<void()>& body) const {
    if (world_.size() == 1) return bench::attempt(body);
    body();
    return std::nullopt;
  }

  // The blocks of a group are measured together as far as there is memory for their replicas at once.
  void run_group(Members& members, bench::Session& session) {
    for (Member& member : members) {
      for (const json& point : member.points) {
        const std::size_t row = session.add(sweep_.describe(point, *member.devices));
        if (const auto why = sweep_.refuses(*member.devices)) {
          session.give_up(row, {harness::Status::refused, *why});
        } else {
          member.rows.push_back(row);
        }
      }
    }
    if (trace_.empty() && !sweep_.checkpoints().saves() && session.taken_over()) return;
    std::vector<Member*> together;
    for (Member& member : members) {
      if (member.rows.empty()) continue;
      auto course = sweep_.course_settings(sweep_.ranks_on(*member.devices));
      course.train = &train_;
      if (options_.on("eval")) course.test = &test_;
      const auto make = [&] {
        member.fleet = std::make_unique<bench::Fleet>(sweep_, *member.devices, course, member.rows, session, world_);
      };
      auto failure = attempt(make);
      if (failure && failure->status == harness::Status::skipped && !together.empty()) {
        run_together(together, session);
        for (Member* done : together) done->fleet.reset();
        together.clear();
        failure = attempt(make);
      }
      if (failure) {
        for (const std::size_t row : member.rows) session.give_up(row, *failure);
      } else {
        together.push_back(&member);
      }
    }
    run_together(together, session);
  }

  void run_together(const std::vector<Member*>& members, bench::Session& session) {
    measure(members, session);
    double ways = 0, trained = 0, slowest = 0;
    for (const Member* member : members) {
      ways += static_cast<double>(member->rows.size());
      for (const std::size_t row : member->rows) {
        slowest = std::max(slowest, session.results()[row].metrics.value("step_seconds", 0.0));
      }
    }
    for (const Member* member : members) {
      const std::vector<float> initial = member->fleet->replicas().state();
      for (const bench::Way& way : member->fleet->ways()) {
        member->fleet->replicas().restore(initial);
        const auto failure = attempt([&] {
          train(way, *member->fleet, sweep_.steps_within(slowest), session, [&](double share, const std::string& what) {
            session.show(share_of_measuring + (1 - share_of_measuring) * (trained + share) / ways, what);
          });
        });
        if (failure) session.give_up(way.row, *failure);
        ++trained;
      }
    }
  }

  void measure(const std::vector<Member*>& members, bench::Session& session) {
    std::vector<bench::Contender> contenders;
    std::vector<std::size_t> rows;
    for (const Member* member : members) {
      const bench::Batch first = member->fleet->first_batch();
      for (const bench::Way& way : member->fleet->ways()) {
        harness::Result result = session.results()[way.row];
        const double begin = harness::steady_seconds();
        way.strategy->load(first);
        result.metrics["load_seconds"] = harness::steady_seconds() - begin;
        rows.push_back(way.row);
        contenders.push_back({way.strategy.get(), &member->fleet->replicas(), result.point["strategy"]});
        session.update(way.row, std::move(result));
      }
    }
    const auto times = bench::time_steps(contenders, sweep_.measure_settings(), [&](double share) {
      session.show(share_of_measuring * share, "steps of " + std::to_string(rows.size()) + " ways in turns");
    });
    for (std::size_t i = 0; i < rows.size(); ++i) {
      harness::Result result = session.results()[rows[i]];
      bench::Replicas& replicas = *contenders[i].replicas;
      bench::record_times(result, times[i], *contenders[i].strategy, replicas);
      const std::vector<float> initial = replicas.state();
      titles_.push_back(bench::name_of(result.point));
      timelines_.push_back(bench::watch_step(*contenders[i].strategy, replicas));
      replicas.restore(initial);
      // The stages of a pipeline wait for each other, which is told as idle time.
      if (bench::strategy_of(result.point).piece != bench::Piece::stage) {
        result.metrics["other_seconds"] = bench::unaccounted_seconds(timelines_.back());
      }
      result.extra["timeline"] = bench::as_json(timelines_.back());
      session.update(rows[i], std::move(result));
    }
    for (const std::size_t row : rows) {
      harness::Result result = session.results()[row];
      bench::compare_with_one_device(result, session.results());
      session.update(row, std::move(result));
    }
  }

  void train(const bench::Way& way, bench::Fleet& fleet, std::size_t steps, bench::Session& session,
             const std::function<void(double, const std::string&)>& show) const {
    bench::Replicas& replicas = fleet.replicas();
    bench::CourseSettings settings = fleet.course();
    settings.steps = steps;
    bench::Course course(replicas.ranks(), settings);
    harness::Result result = session.results()[way.row];
    result.extra["epochs"] = json::array();
    bench::CourseHooks hooks;
    hooks.shown = [&](std::size_t step) {
      show(static_cast<double>(step) / static_cast<double>(course.steps()),
           "step " + std::to_string(step + 1) + " of " + std::to_string(course.steps()) + ", " +
               bench::name_of(result.point));
    };
    hooks.ended = [&](const bench::Epoch& epoch) {
      result.extra["checksums"] = epoch.checksums;
      json row = {{"epoch", epoch.number}, {"seconds", epoch.seconds}, {"train_loss", epoch.loss}};
      if (epoch.accuracy) row["test_accuracy"] = result.metrics["test_accuracy"] = *epoch.accuracy;
      if (fleet.course().epochs == 0 && !fleet.course().test) return;
      result.extra["epochs"].push_back(row);
      bench::print_epoch(result, epoch, fleet.course().epochs);
    };
    if (sweep_.checkpoints().saves()) {
      hooks.keep = [&](const std::vector<double>& losses) {
        sweep_.checkpoints().save(replicas, losses, course.batches());
      };
    }
    result.extra["losses"] = course.run(*way.strategy, replicas, hooks);
    bench::print_closing(result);
    if (!result.extra.contains("checksums")) result.extra["checksums"] = replicas.checksums();
    const bool compared = bench::strategy_of(result.point).piece != bench::Piece::stage;
    if (replicas.ranks() > 1 && compared) result.check = harness::Check::exact;  // replicas are equal, bit for bit
    session.update(way.row, std::move(result));
  }

  const harness::Options& options_;
  harness::World& world_;
  bench::Sweep sweep_;
  bench::TrainingTable table_;
  std::filesystem::path trace_;      // empty: none is wanted
  std::vector<std::string> titles_;  // of the points, and a step of each
  std::vector<std::vector<bench::Span>> timelines_;
  models::Dataset train_, test_;
};

}  // namespace

int main(int argc, char** argv) {
  return bench::run_main(
      "bench_train", "Times training steps on one device and several, and what their all-reduce costs; then trains.",
      bench::training_options(), argc, argv, bench::takes_processes,
      [](const harness::Options& options, harness::World& world) {
        if (world.size() == 1 && options.names("engine") == std::vector<std::string>{"simulated"}) {
          return bench::run_forecast(options);
        }
        return Bench(options, world).run();
      });
}
