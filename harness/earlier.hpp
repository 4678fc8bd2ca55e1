// SPDX-License-Identifier: Apache-2.0
// A result file that a later run goes on with: which of its rows stand for points that were measured to their end, and
// whether they were measured here, by this build.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/report.hpp"

namespace harness {

class Earlier {
 public:
  // The text of a result file. Throws UsageError for anything else.
  explicit Earlier(std::string_view text);

  // When it began.
  const std::string& started() const { return started_; }

  // What of `run` is not as it was: "cpu.model was ..., here it is ...". Nothing for the same machine, build and seed.
  std::optional<std::string> difference(const RunInfo& run) const;

  // The rows of the file for the same points and commands as `rows`, in that order; nothing unless all of them are
  // there, ok or refused, and of a point that was measured to its end.
  std::optional<std::vector<Result>> find(std::span<const Result> rows) const;

 private:
  std::string started_;
  nlohmann::json run_;
  std::vector<Result> rows_;  // but for the last, in a file that is not complete: its point may have been cut short
};

}  // namespace harness
