// SPDX-License-Identifier: Apache-2.0
// What --algorithm=auto chooses by: for each size the algorithm that was fastest when --tune measured all of them on
// this machine, in the same rounds. The table is kept in a file of its own, which every later --tune completes.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/schedules.hpp"
#include "harness/file.hpp"
#include "harness/options.hpp"
#include "harness/report.hpp"

namespace bench {

std::vector<harness::Option> tuning_options();

// The rows of a table in a file. Throws UsageError for anything else.
std::vector<nlohmann::json> parse_tuning(std::string_view text);

class Tuning {
 public:
  // Reads the table of --tuning; by default, where it need not be there, ringmark/tuning.json in $XDG_CACHE_HOME or
  // ~/.cache. Throws UsageError when the file is no table, is not there, or with --tune cannot be written.
  explicit Tuning(const harness::Options& options);

  // Keeps the fastest algorithm of each size that was timed, in place of what was known of that size, and says so.
  void keep(const std::vector<harness::Result>& timed) const;

  // {"algorithm", "why"} by the row for the machine, device, launch and transport of a point that is most like it, and
  // then nearest in bytes; nothing where no row is for them.
  std::optional<nlohmann::json> choose(const nlohmann::json& point) const;

 private:
  std::filesystem::path file_;
  harness::Claim claim_;  // with --tune: the table is read, completed and written by one run at a time
  std::string now_;
  nlohmann::json machine_;            // this one: {"cpu", "cores", "gpus"}
  std::vector<nlohmann::json> rows_;  // {"machine", axes, "bytes", "algorithm", "seconds", "contenders", "measured"}
};

// Nothing where neither --tune nor auto is asked for. Throws UsageError, also where a run cannot tune or choose.
std::optional<Tuning> make_tuning(const harness::Options& options, const Schedules& schedules);

}  // namespace bench
