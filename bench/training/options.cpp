// SPDX-License-Identifier: Apache-2.0
#include "bench/training/options.hpp"

#include <algorithm>
#include <set>

#include "allreduce/algorithms.hpp"
#include "bench/training/forecast.hpp"

namespace bench {

using harness::Kind;

std::vector<harness::Option> training_options() {
  auto options = harness::common_options();
  std::vector<std::string> algorithms = {"all"};
  for (const auto collective : {allreduce::Collective::allreduce, allreduce::Collective::reduce_scatter}) {
    for (const auto& row : allreduce::algorithms(collective)) {
      if (std::ranges::find(algorithms, row.name) == algorithms.end()) algorithms.emplace_back(row.name);
    }
  }
  std::vector<std::string> models;
  for (const auto& row : models::catalogue()) models.emplace_back(row.name);
  std::vector<std::string> names;
  std::string summaries;
  for (const auto& row : strategies()) {
    names.emplace_back(row.name);
    summaries.append(summaries.empty() ? "" : "; ").append(row.name).append(": ").append(row.summary);
  }
  const std::vector<harness::Option> own = {
      {.name = "model", .kind = Kind::names, .default_text = "lenet", .help = "what is trained", .allowed = models},
      {.name = "strategy",
       .kind = Kind::names,
       .default_text = "scratch,distributed",
       .help = summaries,
       .allowed = names},
      {.name = "algorithm",
       .kind = Kind::names,
       .default_text = "ring",
       .help = "which all-reduce, or reduce-scatter and all-gather of the strategy sharded; or all",
       .allowed = algorithms},
      {.name = "engine",
       .kind = Kind::names,
       .default_text = "streams",
       .help = "what runs those: our schedules on streams, or by processes over MPI; kernels that read their peers "
               "(direct); NCCL; MPI's own collectives; Gloo's; or, simulated, a forecast for --topology from --profile",
       .allowed = {"streams", "mpi", "direct", "nccl", "mpi_native", "gloo", "simulated"}},
      {.name = "launch",
       .kind = Kind::choice,
       .default_text = "eager",
       .help = "every op of an all-reduce issued by the host, or recorded once and replayed; on GPUs the whole step",
       .allowed = {"eager", "graph"}},
      {.name = "batch",
       .kind = Kind::integer,
       .default_text = "256",
       .help = "images of a step: of all devices with --scaling=strong, of each with weak",
       .minimum = 1,
       .maximum = 1e6},
      {.name = "scaling",
       .kind = Kind::choice,
       .help = "by default strong for one device count, weak for several",
       .allowed = {"weak", "strong"}},
      {.name = "lr", .kind = Kind::real, .default_text = "0.1", .help = "learning rate, of one device"},
      {.name = "lr-scaling",
       .kind = Kind::choice,
       .default_text = "linear",
       .help = "whether the learning rate grows with the global batch (weak scaling)",
       .allowed = {"linear", "none"}},
      {.name = "momentum", .kind = Kind::real, .default_text = "0", .help = "of the update", .maximum = 1},
      {.name = "weight-decay", .kind = Kind::real, .default_text = "0", .help = "of the update"},
      {.name = "bucket",
       .kind = Kind::byte_count,
       .default_text = "25M",
       .help = "size of a bucket of gradients; the first one is smaller",
       .minimum = 1},
      {.name = "find-bucket", .kind = Kind::flag, .help = "try sizes of buckets first, and take the fastest"},
      {.name = "overlap",
       .kind = Kind::names,
       .default_text = "on",
       .help = "whether buckets are reduced while backward goes on",
       .allowed = {"on", "off"}},
      {.name = "accumulate",
       .kind = Kind::integer,
       .default_text = "1",
       .help = "cut each device's part of a batch into so many, whose gradients it keeps until the last",
       .minimum = 1,
       .maximum = 1e6},
      {.name = "microbatches",
       .kind = Kind::integer,
       .default_text = "4",
       .help = "cut a pipeline's batch into so many, each with batch statistics of its own",
       .minimum = 1,
       .maximum = 1e6},
      {.name = "grad-dtype",
       .kind = Kind::choice,
       .default_text = "f32",
       .help = "type of the gradients that are sent",
       .allowed = {"f32", "bf16"}},
      {.name = "math",
       .kind = Kind::names,
       .default_text = "f32",
       .help = "arithmetic of the layers; winograd: convolutions of 3x3 by Winograd's algorithm, where oneDNN has it; "
               "tf32, and bf16 with parameters in f32: what GPUs multiply",
       .allowed = {"f32", "winograd", "tf32", "bf16"}},
      {.name = "slow", .kind = Kind::text, .help = "RANK:FACTOR, make a device so much slower, as in 1:2.5"},
      {.name = "data",
       .kind = Kind::choice,
       .default_text = "fashion_mnist",
       .help = "what it is trained on",
       .allowed = {"fashion_mnist", "synthetic"}},
      {.name = "data-dir", .kind = Kind::text, .help = "the folder of Fashion-MNIST's four files"},
      {.name = "init",
       .kind = Kind::choice,
       .default_text = "he",
       .help = "how parameters are drawn",
       .allowed = {"he", "std001", "default"}},
      {.name = "order",
       .kind = Kind::choice,
       .default_text = "shuffled",
       .help = "of the images in an epoch",
       .allowed = {"shuffled", "sequential"}},
      {.name = "steps",
       .kind = Kind::integer,
       .help = "train so many steps; by default 50, or as many (at least 2) as the slowest way takes in 10 s",
       .maximum = 1e9},
      {.name = "epochs", .kind = Kind::integer, .help = "train so many epochs instead", .minimum = 1, .maximum = 1e6},
      {.name = "eval", .kind = Kind::flag, .help = "test accuracy after each epoch, or after the steps"},
      {.name = "save",
       .kind = Kind::text,
       .help = "a safetensors file that training can go on from; after each epoch, each minute and the last step"},
      {.name = "resume", .kind = Kind::text, .help = "go on from such a file, up to as many steps or epochs in all"},
      {.name = "trace", .kind = Kind::text, .help = "write a step of each point for Perfetto or chrome://tracing"}};
  options.insert(options.end(), own.begin(), own.end());
  const auto forecast = forecast_options();
  options.insert(options.end(), forecast.begin(), forecast.end());
  return options;
}

std::string scaling_of(const harness::Options& options, std::size_t device_points) {
  if (options.has("scaling")) return options.text("scaling");
  return device_points > 1 ? "weak" : "strong";
}

std::size_t global_batch_of(const harness::Options& options, const std::string& scaling, int ranks) {
  return static_cast<std::size_t>(options.integer("batch")) * (scaling == "weak" ? ranks : 1);
}

void require_algorithms(const harness::Options& options) {
  std::set<std::string> taken = {"all"};
  for (const auto& name : options.names("strategy")) {
    const StrategyRow& strategy = find_strategy(name);
    if (!strategy.collective) continue;
    const auto found = algorithms_of(options, strategy);
    taken.insert(found.begin(), found.end());
    if (!found.empty()) continue;
    std::string known;
    for (const auto& row : allreduce::algorithms(*strategy.collective)) known.append(" ").append(row.name);
    throw harness::bad_value("algorithm", options.text("algorithm"), "strategy " + name + " has:" + known);
  }
  if (taken.size() == 1) return;  // no strategy takes any
  for (const auto& name : options.names("algorithm")) {
    if (taken.contains(name)) continue;
    throw harness::bad_value("algorithm", options.text("algorithm"), "no strategy of these takes " + name);
  }
}

std::vector<std::string> algorithms_of(const harness::Options& options, const StrategyRow& strategy) {
  if (!strategy.collective) return {};
  auto names = allreduce::select_algorithms(options.names("algorithm"), *strategy.collective);
  std::erase_if(names, [&](const auto& name) { return !allreduce::find_algorithm(name, *strategy.collective); });
  return names;
}

}  // namespace bench
