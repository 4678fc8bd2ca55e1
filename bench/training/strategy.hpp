// SPDX-License-Identifier: Apache-2.0
// A way of using several devices for a training step, one small class a file. A Strategy issues the phases of a step on
// the replicas of a point; several share the same replicas and are timed in turn. To add one: a file, and a row in
// strategies.cpp.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "allreduce/engine.hpp"
#include "bench/replicas.hpp"
#include "bench/training/step.hpp"

namespace bench {

class Reductions;

struct StrategySettings {
  std::size_t global_batch = 256;
  double lr = 0.1;
  double momentum = 0;
  double weight_decay = 0;
  std::string engine = "streams";  // that runs the collectives (bench/engines.hpp)...
  std::string algorithm = "ring";  // ...with this algorithm
  // Of the collectives; on GPUs of the whole step, which is then one graph across all of them.
  allreduce::Launch launch = allreduce::Launch::eager;
  bool overlap = true;                              // a bucket is reduced as soon as backward has filled it
  std::size_t bucket_bytes = 25 << 20;              // at most; the first bucket is smaller
  harness::Dtype grad_dtype = harness::Dtype::f32;  // of the gradients that are sent: f32 or bf16
  int microbatches = 1;                             // that a pipeline cuts a batch into
  double link_bytes_per_second = 0;  // above 0: what is reduced also takes as long as on a link of this speed
};

// Whether whole steps are recorded, and the collectives inside them therefore are not.
bool records_steps(const Replicas& replicas, const StrategySettings& settings);

class Strategy {
 public:
  Strategy(Replicas& replicas, StrategySettings settings)
      : replicas_(replicas),
        settings_(std::move(settings)),
        records_(records_steps(replicas, settings_) ? std::make_unique<Recordings>() : nullptr) {}
  virtual ~Strategy() = default;
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;

  // Puts a batch where a step begins with it; returns when it is there.
  virtual void load(const Batch& batch) { replicas_.load(batch); }
  // Issues one step on the loaded batch.
  virtual void issue(Step& step) = 0;
  // The same, recorded, where steps are (records()). The first on each division of a batch is issued op by op, in which
  // libraries load what they need and memory is taken; so is one in which some device has no image.
  void launch(Work work);
  bool records() const { return records_ != nullptr; }
  // Waits for all that was issued; throws what went wrong.
  virtual void sync() { replicas_.sync(); }
  // After a sync: of the last forward pass, summed over the batch.
  virtual double loss() const { return replicas_.loss(); }
  // What each all-reduce of a step sends, in their order.
  virtual std::vector<models::Slice> reductions() const { return {}; }
  // Those all-reduces and other collectives, to be watched; none where the strategy has no such thing.
  virtual std::vector<Reductions*> collectives() { return {}; }
  // Bytes that cross from one device to another in a step, where they are known: of a library's own ways they are not.
  virtual std::optional<std::size_t> bytes_moved() const = 0;
  // Phases in which rank 0 works for all the others, where it does.
  virtual std::vector<std::string> root_phases() const { return {}; }
  // Brings all replicas to the state that the next step starts from, for an evaluation or a comparison.
  virtual void settle() {}

 protected:
  // How the loaded batch updates the parameters.
  models::Sgd sgd() const { return {settings_.lr, replicas_.images(), settings_.momentum, settings_.weight_decay}; }

  Replicas& replicas_;
  const StrategySettings settings_;

 private:
  // By what is done and the images of each rank; null where that was issued once.
  using Recordings = std::map<std::pair<Work, std::vector<int>>, std::unique_ptr<harness::Recording>>;
  std::unique_ptr<harness::Recording> record(Work work);

  const std::unique_ptr<Recordings> records_;  // null where steps are not recorded
};

std::unique_ptr<Strategy> make_scratch(Replicas& replicas, const StrategySettings& settings);
std::unique_ptr<Strategy> make_data_parallel(Replicas& replicas, const StrategySettings& settings);
std::unique_ptr<Strategy> make_distributed(Replicas& replicas, const StrategySettings& settings);
std::unique_ptr<Strategy> make_sharded(Replicas& replicas, const StrategySettings& settings);
std::unique_ptr<Strategy> make_pipeline(Replicas& replicas, const StrategySettings& settings);
std::unique_ptr<Strategy> make_tensor(Replicas& replicas, const StrategySettings& settings);

struct StrategyRow {
  std::string_view name;
  std::string_view summary;
  std::unique_ptr<Strategy> (*make)(Replicas&, const StrategySettings&);
  // What it reduces by, with any of the catalogue's algorithms; only where this is of gradients can they be
  // accumulated, or sent as another type.
  std::optional<allreduce::Collective> collective;
  bool buckets = false;  // in buckets, which can overlap the backward pass
  bool shares = false;   // each device updates its share of the parameters, and needs momentum for no other
  Piece piece = Piece::replica;

  bool reduces_gradients() const { return collective && piece == Piece::replica; }
};

std::span<const StrategyRow> strategies();

// Throws harness::UsageError for a name that the table lacks.
const StrategyRow& find_strategy(std::string_view name);

// One step to its end: its seconds, those of its phases, and those that the slow rank was given to waste.
struct Timed {
  double seconds = 0;
  double planted = 0;
  std::vector<Phase> phases = {};
};
// Op by op, or as the strategy was told to: then, where steps are recorded, without phases.
Timed run_op_by_op(Strategy& strategy, const Replicas& replicas, Work work);
Timed run(Strategy& strategy, const Replicas& replicas, Work work);

}  // namespace bench
