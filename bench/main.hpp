// SPDX-License-Identifier: Apache-2.0
// What every bench does the same way: from argv to an exit status, from the common options to the settings of a
// measurement, and from a measurement to the fields of a result.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/measure.hpp"
#include "harness/options.hpp"
#include "harness/report.hpp"
#include "harness/table.hpp"
#include "harness/world.hpp"

namespace bench {

inline constexpr double for_ever = 1e9;  // seconds: what --timeout=0 means

// Parses argv by `table`, prints the help or calls `body`, which gives the exit status. Bad input is one line and
// status 2, failed work one line and 1. So is a launcher that started several processes: this bench is one alone.
int run_main(const std::string& program, const std::string& summary, const std::vector<harness::Option>& table,
             int argc, char** argv, const std::function<int(const harness::Options&)>& body);

// The same for a bench whose ranks may be processes. They are joined where a launcher started several, or `joins` says
// that the options ask for it; they must be the same program with the same options. Rank 0 alone prints. What one of
// them throws ends them all.
int run_main(const std::string& program, const std::string& summary, const std::vector<harness::Option>& table,
             int argc, char** argv, const std::function<bool(const harness::Options&)>& joins,
             const std::function<int(const harness::Options&, harness::World&)>& body);

// As --time-budget, --iterations, --warmup and --seed say; each of a point's `trials` gets its part of the budget.
harness::MeasureSettings measure_settings(const harness::Options& options, int trials = 1);

// Samples, visits, runs, stop and flags.
void record_samples(harness::Result& result, const harness::Measurement& measured);

// An end of an interval that may not be known.
nlohmann::json low_of(const harness::Measurement& measured);
nlohmann::json high_of(const harness::Measurement& measured);

// A metric for a table: not a number where it is unknown.
double metric_of(const harness::Result& result, const char* name);

// For a table's column of wrong elements: their number, or what became of a point that was not checked.
std::string wrong_of(const harness::Result& result);

// A value of an axis as a word: text without quotes, a number, "none" for null.
std::string word_of(const nlohmann::json& value);

// Columns that say the same for all of `points`: pairs of a column's title and the name of its axis.
void name_what_is_the_same(harness::Table& table, const std::vector<nlohmann::json>& points,
                           std::initializer_list<std::pair<const char*, const char*>> columns);

// The values of an axis.
std::vector<nlohmann::json> values(const auto& list) { return {list.begin(), list.end()}; }

}  // namespace bench
