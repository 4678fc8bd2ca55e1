// SPDX-License-Identifier: Apache-2.0
#include "bench/training/fleet.hpp"

#include <algorithm>
#include <iostream>

#include "bench/training/timing.hpp"
#include "harness/text.hpp"

namespace bench {

namespace {

using nlohmann::json;

// Tried by --find-bucket, each four times the one before.
constexpr std::size_t smallest_bucket = 64 << 10;
constexpr std::size_t largest_bucket = 64 << 20;

// What is said of the replicas is the same for all points that share them.
const json& first_point(std::span<const std::size_t> rows, const Session& session) {
  return session.results()[rows.front()].point;
}

// The layers of a pipeline's devices; of anything else, none.
std::vector<DealtStage> stages_of(const Sweep& sweep, const json& point, const harness::Devices& devices) {
  if (strategy_of(point).piece != Piece::stage) return {};
  if (devices.size() == 1) return {{}};
  return deal_measured_layers(devices, point["model"], sweep.model_settings(point, devices.size()));
}

Conditions conditions_of(const Sweep& sweep, const json& point, std::span<const DealtStage> stages, int ranks) {
  Conditions conditions = sweep.conditions(ranks);
  conditions.shares_momentum = sweep.shares_momentum(point);
  conditions.bucket_bytes = sweep.strategy_settings(point, ranks).bucket_bytes;
  conditions.piece = strategy_of(point).piece;
  for (const DealtStage& stage : stages) conditions.stages.push_back(stage.layers);
  conditions.microbatches = sweep.strategy_settings(point, ranks).microbatches;
  return conditions;
}

}  // namespace

Fleet::Fleet(const Sweep& sweep, harness::Devices& devices, const CourseSettings& course,
             std::span<const std::size_t> rows, Session& session, harness::World& world)
    : devices_(devices),
      course_(course),
      before_(allocated()),
      stages_(stages_of(sweep, first_point(rows, session), devices)),
      replicas_(devices, first_point(rows, session)["model"],
                sweep.model_settings(first_point(rows, session), sweep.ranks_on(devices)),
                conditions_of(sweep, first_point(rows, session), stages_, sweep.ranks_on(devices)), &world),
      replica_bytes_(allocated(before_)) {
  const int ranks = replicas_.ranks();
  sweep.checkpoints().restore(replicas_, Course(ranks, course).steps());
  for (const std::size_t row : rows) {
    try {
      if (sweep.finds_buckets()) find_bucket(sweep, row, session);
      const json& point = session.results()[row].point;
      const auto held = allocated();
      ways_.push_back({row, strategy_of(point).make(replicas_, sweep.strategy_settings(point, ranks))});
      record_memory(ways_.back(), allocated(held), session);
      if (stages_.size() > 1) record_stages(row, session);
    } catch (const harness::Refused& error) {
      session.give_up(row, {harness::Status::refused, error.what()});
    }
  }
}

void Fleet::record_stages(std::size_t row, Session& session) const {
  harness::Result result = session.results()[row];
  json stages = json::array();
  for (const DealtStage& stage : stages_) {
    const models::Model& model = replicas_.model(static_cast<int>(stages.size()));
    stages.push_back({{"rank", stages.size()},
                      {"first", model.layer_name(stage.layers.first)},
                      {"last", model.layer_name(stage.layers.end - 1)},
                      {"layers", stage.layers.end - stage.layers.first},
                      {"parameters", model.size()},
                      {"seconds", stage.seconds}});
  }
  result.extra["stages"] = stages;
  session.update(row, std::move(result));
}

std::vector<std::size_t> Fleet::allocated(std::span<const std::size_t> before) const {
  std::vector<std::size_t> bytes;
  for (int rank = 0; rank < devices_.size(); ++rank) {
    bytes.push_back(devices_[rank].allocated_bytes() - (before.empty() ? 0 : before[rank]));
  }
  return bytes;
}

void Fleet::record_memory(const Way& way, std::span<const std::size_t> scratch, Session& session) const {
  harness::Result result = session.results()[way.row];
  json memory = json::array();
  for (int rank = 0; rank < replicas_.here(); ++rank) {
    const std::size_t bytes = replica_bytes_[rank] + scratch[rank];
    const std::size_t arena = replicas_.model(rank).size() * sizeof(float);
    const std::size_t optimizer = replicas_.model(rank).momentum().size_bytes();
    memory.push_back({{"device", devices_[rank].name()},
                      {"rank", replicas_.rank_of(rank)},
                      {"bytes", bytes},
                      {"parameters", arena},
                      {"gradients", arena},
                      {"activations", replica_bytes_[rank] - 2 * arena - optimizer},
                      {"optimizer", optimizer},
                      {"scratch", scratch[rank]}});
  }
  if (harness::World* world = replicas_.world()) {
    const auto texts = world->gather(memory.at(0).dump());
    memory.clear();
    for (const std::string& text : texts) memory.push_back(json::parse(text));
  }
  std::size_t most = 0;
  for (const json& each : memory) most = std::max(most, each["bytes"].get<std::size_t>());
  result.extra["memory"] = memory;
  result.metrics["memory_bytes"] = most;
  session.update(way.row, std::move(result));
}

void Fleet::find_bucket(const Sweep& sweep, std::size_t row, Session& session) {
  harness::Result result = session.results()[row];
  if (!strategy_of(result.point).buckets || replicas_.ranks() == 1) return;
  std::vector<std::size_t> sizes;
  std::vector<std::unique_ptr<Strategy>> tried;
  for (std::size_t bytes = smallest_bucket; bytes <= largest_bucket; bytes *= 4) {
    result.point["bucket_bytes"] = bytes;
    auto strategy = strategy_of(result.point).make(replicas_, sweep.strategy_settings(result.point, replicas_.ranks()));
    if (!tried.empty() && strategy->reductions() == tried.back()->reductions()) continue;
    strategy->load(first_batch());
    sizes.push_back(bytes);
    tried.push_back(std::move(strategy));
  }
  const auto seconds = compare_steps(tried, replicas_, sweep.measure_settings());
  json buckets = json::array();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    buckets.push_back({{"bytes", sizes[i]}, {"step_seconds", seconds[i]}});
  }
  const std::size_t best = std::min_element(seconds.begin(), seconds.end()) - seconds.begin();
  result.point["bucket_bytes"] = sizes[best];
  result.command = sweep.command_for(result.point);
  result.extra["bucket_sizes"] = buckets;
  std::cout << "# " << name_of(result.point) << ": of " << sizes.size() << " bucket sizes the fastest is "
            << harness::format_bytes(sizes[best]) << '\n';
  session.update(row, std::move(result));
}

}  // namespace bench
