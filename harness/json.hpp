// SPDX-License-Identifier: Apache-2.0
// JSON that anyone may have written: what the library would take silently (a number cut to fit, text nested until the
// stack is full) is refused.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

namespace harness {

// Throws UsageError for what is no JSON, is no UTF-8, or is nested deeper than 64.
nlohmann::json parse_json(std::string_view text);

// A whole number from `low` to `high`, also where it is written as 4.0. Throws UsageError for any other value.
std::int64_t whole_number(const nlohmann::json& value, std::int64_t low, std::int64_t high);

// A finite number. Throws UsageError for any other value.
double real_number(const nlohmann::json& value);

}  // namespace harness
