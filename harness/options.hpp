// SPDX-License-Identifier: Apache-2.0
// The command line as data: a bench lists its options in a table, and parsing, the help text and every complaint come
// from that table. Options are words (`--name=value`); one-letter forms take the next word or what is attached
// (`-b 1K`, `-b1K`), as nccl-tests' users write them. Every complaint is a UsageError of one line that names the
// option, the value and what is allowed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/error.hpp"

namespace harness {

enum class Kind {
  flag,        // on or off; the bare word means on; a short form takes a number, 0 for off
  text,        // anything but nothing
  choice,      // one of `allowed`
  names,       // a list without duplicates, of `allowed` where that is not empty
  integer,     // between `minimum` and `maximum`
  integers,    // a list of them, without duplicates
  real,        // between `minimum` and `maximum`
  seconds,     // 0.5s, 20ms, 3us; between `minimum` and `maximum`
  byte_count,  // one size: 25M; between `minimum` and `maximum`
  bytes        // sizes, in any mix of a list and ranges: 0,4,1K:64M:x4,1M:2M:+256K
};

struct Option {
  std::string name = {};        // without dashes; empty: the option has its short form only, and is asked for by that
  std::string short_form = {};  // one letter without the dash, or empty
  Kind kind = Kind::flag;
  std::string default_text = {};  // as if typed; empty: there is no default
  std::string help = {};
  std::vector<std::string> allowed = {};
  std::vector<std::pair<std::string, std::string>> aliases = {};  // what else may be typed, and what it stands for
  double minimum = 0;
  double maximum = std::numeric_limits<double>::infinity();
  std::string range_forms = {};  // of Kind::bytes: the letters of begin, end, factor and increment, such as "befi"
};

// What was typed, checked, with the defaults where nothing was. Asking for an option that the table lacks, or for a
// number that was neither typed nor has a default, throws Error: ask given() or has() first.
class Options {
 public:
  bool given(std::string_view name) const;        // typed by the user
  bool has(std::string_view name) const;          // typed, or has a default
  bool on(std::string_view name) const;           // flags; false without a default
  std::string text(std::string_view name) const;  // any kind, as typed or by default, aliases resolved; "" for nothing
  std::vector<std::string> names(std::string_view name) const;  // empty for nothing
  std::int64_t integer(std::string_view name) const;
  std::vector<std::int64_t> integers(std::string_view name) const;  // empty for nothing
  double real(std::string_view name) const;
  double seconds(std::string_view name) const;
  std::size_t byte_count(std::string_view name) const;
  std::vector<std::size_t> bytes(std::string_view name) const;  // in the order typed; empty for nothing

  // The words that begin with --benchmark_, untouched, and the whole command line.
  const std::vector<std::string>& benchmark_arguments() const { return benchmark_arguments_; }
  const std::vector<std::string>& command() const { return command_; }

 private:
  friend class OptionsParser;
  struct Value {
    Kind kind;
    std::string text;
    bool given;
  };
  const Value& find(std::string_view name) const;
  const Value& filled(std::string_view name) const;

  std::map<std::string, Value, std::less<>> values_;
  std::vector<std::string> benchmark_arguments_, command_;
};

// Throws UsageError. With --help anywhere nothing else is looked at, and on("help") is true. A default that the table's
// own rules refuse throws Error.
Options parse_options(std::span<const Option> table, int argc, const char* const* argv);

// The help text: a line for each option of the table with its default and what is allowed.
std::string usage(std::string_view program, std::string_view summary, std::span<const Option> table);

// What every bench has: --device --threads --output --continue --time-budget --iterations --warmup --seed --timeout
// --list --quiet
// --with-hostname --cache --help.
std::vector<Option> common_options();

// For a bench's own checks: "--device=cpu:0: a device has at least one rank (allowed: ...)".
UsageError bad_value(std::string_view option, std::string_view value, std::string_view why);

}  // namespace harness
