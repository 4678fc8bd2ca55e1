// SPDX-License-Identifier: Apache-2.0
#include "bench/training/stages.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "harness/statistics.hpp"

namespace bench {

namespace {

constexpr int passes = 5;  // the first warms up

std::vector<double> measure_layers(const harness::Devices& devices, harness::Stream& stream, models::Model& model,
                                   int images) {
  const std::vector<float> blank(model.input().size() * images);
  const std::vector<std::uint8_t> labels(images);
  stream.copy(blank.data(), model.images(), blank.size() * sizeof(float));
  stream.copy(labels.data(), model.labels(), labels.size());
  std::vector<std::vector<double>> seconds(model.layers());
  for (int pass = 0; pass < passes; ++pass) {
    std::vector<harness::Event> marks = {stream.record(harness::Timing::on)};
    for (int layer = 0; layer < model.layers(); ++layer) {
      model.forward(layer, images);
      marks.push_back(stream.record(harness::Timing::on));
    }
    for (int layer = model.layers() - 1; layer >= 0; --layer) {
      model.backward(layer, images);
      marks.push_back(stream.record(harness::Timing::on));
    }
    stream.sync();
    if (pass == 0) continue;
    const int last = 2 * model.layers();  // mark: behind the first layer's backward
    const auto between = [&](int begin) { return devices.seconds_between(marks[begin], marks[begin + 1]); };
    for (int layer = 0; layer < model.layers(); ++layer) {
      seconds[layer].push_back(between(layer) + between(last - 1 - layer));
    }
  }
  std::vector<double> medians;
  for (const auto& layer : seconds) medians.push_back(harness::median(layer));
  return medians;
}

}  // namespace

std::vector<DealtStage> deal_layers(std::span<const double> seconds, std::span<const int> beginnings, int stages) {
  const int blocks = static_cast<int>(beginnings.size()), layers = static_cast<int>(seconds.size());
  if (stages > blocks) {
    throw harness::Error("the network can be cut into " + std::to_string(blocks) + " stages, and these are " +
                         std::to_string(stages) + " devices");
  }
  const auto begin_of = [&](int block) { return block == blocks ? layers : beginnings[block]; };
  const auto stage_of = [&](int block, int end) {
    const auto first = seconds.begin() + begin_of(block), last = seconds.begin() + begin_of(end);
    return DealtStage{{begin_of(block), begin_of(end)}, std::accumulate(first, last, 0.0)};
  };
  // best[k][b]: the longest of k stages of the blocks before b, at best; last[k][b]: where the last of them begins.
  const double never = std::numeric_limits<double>::infinity();
  std::vector best(stages + 1, std::vector<double>(blocks + 1, never));
  std::vector last(stages + 1, std::vector<int>(blocks + 1, 0));
  best[0][0] = 0;
  for (int count = 1; count <= stages; ++count) {
    for (int end = count; end <= blocks; ++end) {
      for (int block = count - 1; block < end; ++block) {
        const double longest = std::max(best[count - 1][block], stage_of(block, end).seconds);
        if (longest >= best[count][end]) continue;
        best[count][end] = longest;
        last[count][end] = block;
      }
    }
  }
  std::vector<DealtStage> dealt;
  for (int count = stages, end = blocks; count > 0; end = last[count--][end]) {
    dealt.push_back(stage_of(last[count][end], end));
  }
  std::reverse(dealt.begin(), dealt.end());
  return dealt;
}

std::vector<DealtStage> deal_measured_layers(const harness::Devices& devices, const std::string& model,
                                             models::ModelSettings settings) {
  settings.threads = devices.threads();
  const auto stream = devices[0].make_stream();
  const auto whole = models::make_model(model, *stream, settings);
  return deal_layers(measure_layers(devices, *stream, *whole, settings.capacity), whole->beginnings(), devices.size());
}

}  // namespace bench
