// SPDX-License-Identifier: Apache-2.0
#include "harness/text.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

namespace harness {
namespace {

template <typename Number>
std::optional<Number> parse_whole(std::string_view text) {
  Number value{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

// The number at the front of `text`, and what follows it.
std::pair<std::string_view, std::string_view> split_unit(std::string_view text) {
  const std::size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
  return {text.substr(0, end), text.substr(end)};
}

std::string print(const char* format, double value, int precision) {
  std::array<char, 400> buffer;  // the largest double has 309 digits
  const int length = std::snprintf(buffer.data(), buffer.size(), format, precision, value);
  return {buffer.data(), std::min<std::size_t>(static_cast<std::size_t>(length), buffer.size() - 1)};
}

}  // namespace

std::optional<std::size_t> parse_bytes(std::string_view text) {
  const auto [number, suffix] = split_unit(text);
  const std::string unit = lower(suffix);
  unsigned shift = 0;
  if (unit == "k" || unit == "kb" || unit == "kib") {
    shift = 10;
  } else if (unit == "m" || unit == "mb" || unit == "mib") {
    shift = 20;
  } else if (unit == "g" || unit == "gb" || unit == "gib") {
    shift = 30;
  } else if (!unit.empty() && unit != "b") {
    return std::nullopt;
  }
  const std::size_t point = number.find('.');
  const auto whole = parse_whole<std::uint64_t>(number.substr(0, point));
  if (!whole || *whole > (SIZE_MAX >> shift)) return std::nullopt;
  const std::size_t bytes = *whole << shift;
  if (point == std::string_view::npos) return bytes;

  // The fraction f / 10^d of a unit, in integers: nine digits times 2^30 fit in 64 bits.
  std::string_view digits = number.substr(point + 1);
  if (digits.empty()) return std::nullopt;
  digits = digits.substr(0, digits.find_last_not_of('0') + 1);
  if (digits.empty()) return bytes;
  const auto fraction = parse_whole<std::uint64_t>(digits);
  if (!fraction || digits.size() > 9) return std::nullopt;
  std::uint64_t power = 1;
  for (std::size_t digit = 0; digit < digits.size(); ++digit) power *= 10;
  const std::uint64_t scaled = *fraction << shift;
  if (scaled % power != 0 || scaled / power > SIZE_MAX - bytes) return std::nullopt;
  return bytes + scaled / power;
}

std::optional<double> parse_seconds(std::string_view text) {
  const std::size_t end = text.find_last_of("0123456789.") + 1;  // 0 without any digit
  const std::string_view unit = text.substr(end);
  double divisor = 1;  // dividing by 1000 rounds better than multiplying by 0.001
  double factor = 1;
  if (unit == "ms") {
    divisor = 1e3;
  } else if (unit == "us") {
    divisor = 1e6;
  } else if (unit == "ns") {
    divisor = 1e9;
  } else if (unit == "min") {
    factor = 60;
  } else if (!unit.empty() && unit != "s") {
    return std::nullopt;
  }
  const auto number = parse_real(text.substr(0, end));
  if (!number || std::signbit(*number)) return std::nullopt;
  const double seconds = *number * factor / divisor;
  return std::isfinite(seconds) ? std::optional(seconds) : std::nullopt;
}

std::optional<std::int64_t> parse_integer(std::string_view text, std::int64_t low, std::int64_t high) {
  const auto value = parse_whole<std::int64_t>(text);
  return value && low <= *value && *value <= high ? value : std::nullopt;
}

std::optional<double> parse_real(std::string_view text) {
  const auto value = parse_whole<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::string format_bytes(std::size_t bytes) {
  constexpr std::array<const char*, 4> units{"B", "KiB", "MiB", "GiB"};
  std::size_t unit = 0;
  double value = static_cast<double>(bytes);
  while (value >= 1024 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  std::string number = unit == 0 ? std::to_string(bytes) : format_real(value, value < 1000 ? 3 : 4);
  if (number.find('.') != std::string::npos) number.erase(number.find_last_not_of('0') + 1);
  if (number.back() == '.') number.pop_back();
  return number + ' ' + units[unit];
}

std::string format_seconds(double seconds) {
  if (!std::isfinite(seconds)) return "n/a";
  const double size = std::abs(seconds);
  // The limits are where three digits round up to the next unit.
  if (size < 1e-12) return "0 s";  // the rounding of a difference
  if (size < 999.5e-9) return format_real(seconds * 1e9) + " ns";
  if (size < 999.5e-6) return format_real(seconds * 1e6) + " us";
  if (size < 999.5e-3) return format_real(seconds * 1e3) + " ms";
  return format_real(seconds) + " s";
}

std::string format_bandwidth(double bytes_per_second) {
  if (!std::isfinite(bytes_per_second)) return "n/a";
  const double size = std::abs(bytes_per_second);
  if (size < 999.5e3) return format_real(bytes_per_second / 1e3) + " KB/s";
  if (size < 999.5e6) return format_real(bytes_per_second / 1e6) + " MB/s";
  return format_real(bytes_per_second / 1e9) + " GB/s";
}

std::string format_real(double value, int significant) {
  if (!std::isfinite(value)) return "n/a";
  if (value == 0) return "0";
  // How many digits stand before the point once the value is rounded to the significant ones: 9.999 has two.
  const double rounded = std::stod(print("%.*e", value, significant - 1));
  const int before = static_cast<int>(std::floor(std::log10(std::abs(rounded)))) + 1;
  return print("%.*f", value, std::clamp(significant - before, 0, 20));
}

std::string format_percent(double fraction) {
  return std::isfinite(fraction) ? print("%.*f", 100 * fraction, 1) + " %" : "n/a";
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string text;
  for (const std::string& part : parts) {
    if (&part != parts.data()) text += separator;
    text += part;
  }
  return text;
}

}  // namespace harness
