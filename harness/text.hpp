// SPDX-License-Identifier: Apache-2.0
// Numbers as people write and read them: "64K", "20ms", "12.3 GB/s". Sizes are binary where they are parsed (K = 1024)
// and where they are printed (KiB); bandwidths are decimal (1 GB = 1e9 bytes), as nccl-tests prints them. Parsers read
// the whole string or answer nullopt; who asked knows the option's name and says what was wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace harness {

// "4096", "64K", "64KB", "64KiB", "1.5M", in either case. A fraction must come to whole bytes.
std::optional<std::size_t> parse_bytes(std::string_view text);

// "2" and "2s" are seconds; "20ms", "3us", "7ns", "5min". Never negative, always finite.
std::optional<double> parse_seconds(std::string_view text);

// A decimal number between the limits, both included.
std::optional<std::int64_t> parse_integer(std::string_view text, std::int64_t low = INT64_MIN,
                                          std::int64_t high = INT64_MAX);

// A finite number such as "0.1", "1e-3", "-2".
std::optional<double> parse_real(std::string_view text);

std::string format_bytes(std::size_t bytes);                 // "0 B", "1000 B", "64 KiB", "1.5 MiB", "1.18 MiB"
std::string format_seconds(double seconds);                  // "250 ns", "3.21 us", "1.50 ms", "12.0 s", "n/a" for NaN
std::string format_bandwidth(double bytes_per_second);       // "12.3 GB/s", "850 MB/s", "n/a" for NaN
std::string format_real(double value, int significant = 3);  // "0.123", "12.3", "1230", without an exponent
std::string format_percent(double fraction);                 // "83.0 %"

// "a,b" gives {"a", "b"}; "" gives {""}; "a," gives {"a", ""}.
std::vector<std::string> split(std::string_view text, char separator);
std::string join(std::span<const std::string> parts, std::string_view separator);

}  // namespace harness
