// SPDX-License-Identifier: Apache-2.0
#include "harness/json.hpp"

#include <cmath>
#include <string>

#include "harness/error.hpp"

namespace harness {

using nlohmann::json;

json parse_json(std::string_view text) {
  constexpr int deepest = 64;
  const auto within = [](int depth, json::parse_event_t, json&) {
    if (depth > deepest) throw UsageError("that JSON is nested deeper than " + std::to_string(deepest));
    return true;
  };
  try {
    return json::parse(text, within);
  } catch (const json::exception& error) {
    const std::string why = error.what();  // "[json.exception.parse_error.101] parse error at line 1, column 1: ..."
    throw UsageError("that is no valid JSON: " + why.substr(why.find(']') + 1, 120));
  }
}

std::int64_t whole_number(const json& value, std::int64_t low, std::int64_t high) {
  const auto allowed = [&](auto number) {
    return static_cast<long double>(number) >= static_cast<long double>(low) &&
           static_cast<long double>(number) <= static_cast<long double>(high);
  };
  if (value.is_number_unsigned() && allowed(value.get<std::uint64_t>())) return value.get<std::int64_t>();
  if (value.is_number_integer() && allowed(value.get<std::int64_t>())) return value.get<std::int64_t>();
  if (value.is_number_float() && allowed(value.get<double>()) && std::trunc(value.get<double>()) == value) {
    return static_cast<std::int64_t>(value.get<double>());
  }
  throw UsageError(value.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 40) +
                   " is no whole number from " + std::to_string(low) + " to " + std::to_string(high));
}

double real_number(const json& value) {
  if (value.is_number() && std::isfinite(value.get<double>())) return value.get<double>();
  throw UsageError(value.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 40) + " is no number");
}

}  // namespace harness
