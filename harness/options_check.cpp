// SPDX-License-Identifier: Apache-2.0
#include "harness/options_check.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>
#include <set>
#include <vector>

#include "harness/sweep.hpp"
#include "harness/text.hpp"

namespace harness {
namespace {

std::string between_limits(const Option& option) {
  const bool bounded_below = std::isfinite(option.minimum) && !(option.kind == Kind::seconds && option.minimum == 0);
  const bool bounded_above = std::isfinite(option.maximum);
  const auto limit = [&](double value) {
    if (option.kind == Kind::seconds) return format_seconds(value);
    return format_real(value, value == std::round(value) ? 1 : 3);
  };
  if (bounded_below && bounded_above) return " from " + limit(option.minimum) + " to " + limit(option.maximum);
  if (bounded_below) return " of at least " + limit(option.minimum);
  return bounded_above ? " of at most " + limit(option.maximum) : "";
}

std::string resolve(const Option& option, std::string_view name) {
  const auto alias = std::ranges::find(option.aliases, name, [](const auto& pair) { return pair.first; });
  return alias == option.aliases.end() ? std::string(name) : alias->second;
}

// Each function below gives what is wrong with a value, or nothing.

std::string problem_of_name(const Option& option, const std::string& name) {
  if (name.empty()) return "a name in the list is empty";
  if (option.allowed.empty() || std::ranges::find(option.allowed, name) != option.allowed.end()) return "";
  return "'" + name + "' is unknown";
}

std::string problem_of_number(const Option& option, const std::string& text) {
  std::optional<double> number;
  if (option.kind == Kind::real) {
    number = parse_real(text);
  } else if (option.kind == Kind::seconds) {
    number = parse_seconds(text);
  } else if (const auto integer = parse_integer(text)) {
    number = static_cast<double>(*integer);
  }
  if (!number) return "'" + text + "' is not a " + (option.kind == Kind::seconds ? "time" : "number of that kind");
  if (*number < option.minimum || *number > option.maximum) return "'" + text + "' is out of range";
  return "";
}

std::string problem_of_list(const Option& option, const std::vector<std::string>& items) {
  std::set<std::string> seen;
  for (const std::string& item : items) {
    const std::string problem =
        option.kind == Kind::names ? problem_of_name(option, item) : problem_of_number(option, item);
    if (!problem.empty()) return problem;
    if (!seen.insert(item).second) return "'" + item + "' is listed twice";
  }
  return "";
}

std::string problem_of_sizes(std::string_view text) {
  try {
    parse_sizes(text);
    return "";
  } catch (const UsageError& error) {
    return error.what();
  }
}

std::string problem_of_size(const Option& option, const std::string& text) {
  const auto bytes = parse_bytes(text);
  if (!bytes) return "'" + text + "' is not a size in bytes";
  const auto number = static_cast<double>(*bytes);
  return number < option.minimum || number > option.maximum ? "'" + text + "' is out of range" : "";
}

std::string problem_of(const Option& option, const std::string& value) {
  switch (option.kind) {
    case Kind::flag: return value == "on" || value == "off" ? "" : "'" + value + "' is neither on nor off";
    case Kind::text: return "";
    case Kind::choice: return problem_of_name(option, value);
    case Kind::names:
    case Kind::integers: return problem_of_list(option, split(value, ','));
    case Kind::integer:
    case Kind::real:
    case Kind::seconds: return problem_of_number(option, value);
    case Kind::byte_count: return problem_of_size(option, value);
    case Kind::bytes: return problem_of_sizes(value);
  }
  return "";
}

}  // namespace

std::string checked_value(const Option& option, std::string_view typed, std::string_view value) {
  std::string kept = resolve(option, value);
  if (option.kind == Kind::names) {
    std::vector<std::string> names = split(value, ',');
    for (std::string& name : names) name = resolve(option, name);
    kept = join(names, ",");
  }
  const std::string problem = value.empty() ? "the value is empty" : problem_of(option, kept);
  if (!problem.empty()) throw complaint(typed, problem + "; allowed: " + allowed_values(option));
  return kept;
}

std::string allowed_values(const Option& option) {
  switch (option.kind) {
    case Kind::flag: return "on or off";
    case Kind::text: return "any text";
    case Kind::choice: return "one of " + join(option.allowed, ", ");
    case Kind::names:
      return option.allowed.empty() ? "names with commas between" : "a list of " + join(option.allowed, ", ");
    case Kind::integer: return "a whole number" + between_limits(option);
    case Kind::integers: return "a list of whole numbers" + between_limits(option);
    case Kind::real: return "a number" + between_limits(option);
    case Kind::seconds: return "a time such as 0.5s, 20ms or 3us" + between_limits(option);
    case Kind::byte_count: return "a size such as 64K, 1.5M or 1G" + (option.minimum > 0 ? between_limits(option) : "");
    case Kind::bytes: return "sizes and ranges such as 0,4,1K or 1K:64M:x4 or 1K:64M:+1M";
  }
  return "";
}

UsageError complaint(std::string_view typed, std::string_view why) {
  std::string line = std::string(typed) + ": " + std::string(why);
  std::ranges::replace_if(
      line, [](unsigned char c) { return std::iscntrl(c) != 0; }, '?');
  return UsageError(line);
}

}  // namespace harness
