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

// The columns that say how a step went, measured or forecast, between others; and what stands in them.
std::vector<harness::Column> with_step_columns(std::vector<harness::Column> before,
                                               const std::vector<harness::Column>& behind);
std::vector<std::string> with_step_cells(std::vector<std::string> before, const harness::Result& result,
                                         const std::vector<std::string>& behind);

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
void print_closing(const harness::Result& result);

}  // namespace bench
