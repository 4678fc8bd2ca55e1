// SPDX-License-Identifier: Apache-2.0
// What bench_train prints: a row a point, and lines between them for whoever watches.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "bench/training/course.hpp"
#include "harness/device/device.hpp"
#include "harness/report.hpp"
#include "harness/table.hpp"

namespace bench {

class TrainingTable {
 public:
  explicit TrainingTable(const std::vector<nlohmann::json>& points);
  void print_header() const;
  void print(const harness::Result& result) const;

 private:
  harness::Table columns_;
};

// Of so many epochs; 0: of a number of steps.
void print_epoch(const harness::Result& result, const Epoch& epoch, std::size_t epochs);
// As the textbook ends its training: "test acc: 0.84, 13.3 sec/epoch on [...]"; after epochs that were tested.
void print_closing(const harness::Result& result, const harness::Devices& devices);

}  // namespace bench
