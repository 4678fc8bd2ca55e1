// SPDX-License-Identifier: Apache-2.0
#include "harness/options.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "harness/options_check.hpp"
#include "harness/sweep.hpp"
#include "harness/text.hpp"

namespace harness {
namespace {

constexpr std::string_view given_twice = "the option is given twice; allowed: once";

const std::string& key_of(const Option& option) { return option.name.empty() ? option.short_form : option.name; }

// How many letters to insert, drop or exchange (Levenshtein, 1966).
std::size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= from.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t exchanged = diagonal + (from[i - 1] == to[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({exchanged, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::string unknown_option(std::span<const Option> table, std::string_view name) {
  std::string nearest;
  std::size_t distance = name.size() / 3 + 2;  // farther is no likely slip
  for (const Option& option : table) {
    if (option.name.empty()) continue;
    const std::size_t edits = edit_distance(name, option.name);
    if (edits < distance) {
      distance = edits;
      nearest = option.name;
    }
  }
  return nearest.empty() ? "unknown option; --help lists what is allowed"
                         : "unknown option; did you mean --" + nearest + "? --help lists what is allowed";
}

}  // namespace

// One pass over the words. It is a class because range forms (-b -e -f -i) come in several words and make one value.
class OptionsParser {
 public:
  explicit OptionsParser(std::span<const Option> table) : table_(table) {
    for (const Option& option : table) {
      std::string text = option.kind == Kind::flag ? "off" : "";
      if (!option.default_text.empty()) {
        try {
          text = checked_value(option, "the default of " + key_of(option), option.default_text);
        } catch (const UsageError& error) {
          throw Error(error.what());
        }
      }
      if (!options_.values_.try_emplace(key_of(option), Options::Value{option.kind, text, false}).second) {
        throw Error("the option " + key_of(option) + " stands twice in the table");
      }
    }
  }

  Options parse(int argc, const char* const* argv) {
    const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
    options_.command_.assign(argv, argv + argc);
    if (std::ranges::any_of(words, [](const std::string& word) { return word == "--help" || word == "-h"; })) {
      parse_long("--help");
      return std::move(options_);
    }
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::string& word = words[i];
      if (word.starts_with("--benchmark_")) {
        options_.benchmark_arguments_.push_back(word);
      } else if (word.starts_with("--")) {
        parse_long(word);
      } else if (word.size() >= 2 && word[0] == '-') {
        const bool attached = word.size() > 2;
        if (!attached && i + 1 == words.size()) throw_missing_value(word);
        parse_short(word[1], attached ? word.substr(2) : words[++i]);
      } else {
        throw complaint("'" + word + "'", "not an option; allowed: --name=value, and --help lists the names");
      }
    }
    combine_ranges();
    return std::move(options_);
  }

 private:
  void parse_long(const std::string& word) {
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
    const auto option = std::ranges::find(table_, name, &Option::name);
    if (name.empty() || option == table_.end()) throw complaint(word, unknown_option(table_, name));
    if (equals != std::string::npos) {
      set(*option, word, word.substr(equals + 1));
    } else if (option->kind == Kind::flag) {
      set(*option, word, "on");
    } else {
      throw complaint(word, "the value is missing; allowed: " + word + "=... with " + allowed_values(*option));
    }
  }

  void parse_short(char letter, std::string value) {
    const std::string typed = std::string("-") + letter + " " + value;
    for (const Option& option : table_) {
      if (option.short_form == std::string_view(&letter, 1)) {
        // nccl-tests switches with numbers: -c 0, -G 1.
        const auto number = option.kind == Kind::flag ? parse_integer(value, 0) : std::nullopt;
        if (number) value = *number == 0 ? "off" : "on";
        return set(option, typed, value);
      }
      if (option.range_forms.find(letter) != std::string::npos) {
        if (!range_words_.try_emplace(letter, value).second) throw complaint(typed, given_twice);
        return;
      }
    }
    throw complaint(typed, "unknown option; --help lists what is allowed");
  }

  [[noreturn]] void throw_missing_value(const std::string& word) {
    for (const Option& option : table_) {
      const bool takes_part = option.range_forms.find(word[1]) != std::string::npos;
      if (option.short_form == word.substr(1) || takes_part) {
        throw complaint(word, "the value is missing; allowed: " + allowed_values(option));
      }
    }
    throw complaint(word, "unknown option; --help lists what is allowed");
  }

  void set(const Option& option, std::string_view typed, const std::string& text) {
    Options::Value& value = options_.values_.find(key_of(option))->second;
    if (value.given) throw complaint(typed, given_twice);
    value.text = checked_value(option, typed, text);
    value.given = true;
  }

  // -b 1K -e 64M -f 4 is --bytes=1K:64M:x4; without -f and -i the increment is 1M, as in nccl-tests.
  void combine_ranges() {
    for (const Option& option : table_) {
      std::array<std::optional<std::string>, 4> parts;  // begin, end, factor, increment
      std::string typed;
      for (std::size_t i = 0; i < option.range_forms.size(); ++i) {
        const char letter = option.range_forms[i];
        const auto word = range_words_.find(letter);
        if (word == range_words_.end()) continue;
        parts.at(i) = word->second;
        typed += (typed.empty() ? "-" : " -") + std::string(1, letter) + ' ' + word->second;
      }
      if (typed.empty()) continue;
      const auto& [begin, end, factor, increment] = parts;
      if (!begin || !end || (factor && increment)) {
        throw complaint(typed, "allowed: a begin (-" + option.range_forms.substr(0, 1) + ") and an end (-" +
                                   option.range_forms.substr(1, 1) + "), with a factor (-" +
                                   option.range_forms.substr(2, 1) + ") or an increment (-" +
                                   option.range_forms.substr(3, 1) + ")");
      }
      set(option, typed, *begin + ':' + *end + ':' + (factor ? 'x' + *factor : '+' + increment.value_or("1M")));
    }
  }

  std::span<const Option> table_;
  Options options_;
  std::map<char, std::string> range_words_;
};

const Options::Value& Options::find(std::string_view name) const {
  const auto value = values_.find(name);
  if (value == values_.end()) throw Error("no option is named " + std::string(name));
  return value->second;
}

const Options::Value& Options::filled(std::string_view name) const {
  const Value& value = find(name);
  if (value.text.empty()) throw Error("the option " + std::string(name) + " was not given and has no default");
  return value;
}

bool Options::given(std::string_view name) const { return find(name).given; }
bool Options::has(std::string_view name) const { return !find(name).text.empty(); }
bool Options::on(std::string_view name) const { return find(name).text == "on"; }
std::string Options::text(std::string_view name) const { return find(name).text; }

std::vector<std::string> Options::names(std::string_view name) const {
  return has(name) ? split(find(name).text, ',') : std::vector<std::string>{};
}

// The parsers cannot fail on an option of the kind that is asked for, since its text was checked; value() throws on any
// other kind.
std::int64_t Options::integer(std::string_view name) const { return parse_integer(filled(name).text).value(); }
double Options::real(std::string_view name) const { return parse_real(filled(name).text).value(); }
double Options::seconds(std::string_view name) const { return parse_seconds(filled(name).text).value(); }
std::size_t Options::byte_count(std::string_view name) const { return parse_bytes(filled(name).text).value(); }

std::vector<std::int64_t> Options::integers(std::string_view name) const {
  std::vector<std::int64_t> values;
  for (const std::string& item : names(name)) values.push_back(parse_integer(item).value());
  return values;
}

std::vector<std::size_t> Options::bytes(std::string_view name) const {
  return has(name) ? parse_sizes(find(name).text) : std::vector<std::size_t>{};
}

Options parse_options(std::span<const Option> table, int argc, const char* const* argv) {
  return OptionsParser(table).parse(argc, argv);
}

std::string usage(std::string_view program, std::string_view summary, std::span<const Option> table) {
  std::string text = "usage: " + std::string(program) + " [--name=value ...]\n" + std::string(summary) + "\n\n";
  for (const Option& option : table) {
    std::string forms = option.name.empty() ? "" : "--" + option.name;
    if (!option.short_form.empty()) forms += (forms.empty() ? "-" : ", -") + option.short_form;
    for (const char letter : option.range_forms) forms += std::string(", -") + letter;
    text += "  " + forms + "\n      " + option.help + "\n      " + allowed_values(option);
    if (!option.default_text.empty()) text += " (default: " + option.default_text + ")";
    text += '\n';
  }
  return text;
}

std::vector<Option> common_options() {
  return {
      {.name = "device",
       .kind = Kind::text,
       .help = "where to run: a comma separates points, '+' joins devices: cpu:1,cpu:2 or cuda:0,2 or cuda:0*8 or "
               "cuda:0+cpu:1; by default all GPUs, else cpu:2"},
      {.name = "threads",
       .kind = Kind::integer,
       .help = "threads of a CPU device; by default cores / devices",
       .minimum = 1,
       .maximum = 4096},
      {.name = "transport",
       .kind = Kind::choice,
       .default_text = "auto",
       .help =
           "how GPUs reach each other: the best way there is, only without a stop in host memory, or always with it",
       .allowed = {"auto", "peer", "staged"}},
      {.name = "output", .short_form = "J", .kind = Kind::text, .help = "the JSON file for the results"},
      {.name = "continue",
       .kind = Kind::text,
       .help = "take over what this result file has of the points, measured here by this build, and measure the rest; "
               "--output is the same file where none is given"},
      {.name = "time-budget",
       .kind = Kind::seconds,
       .default_text = "0.5s",
       .help = "how long to measure a point at most"},
      {.name = "iterations",
       .short_form = "n",
       .kind = Kind::integer,
       .help = "measure each point this many times, instead of until it is settled",
       .minimum = 1,
       .maximum = 1e9},
      {.name = "warmup",
       .short_form = "w",
       .kind = Kind::integer,
       .help = "run each point this many times before it is measured",
       .maximum = 1e9},
      {.name = "seed", .kind = Kind::integer, .default_text = "1", .help = "what all random choices start from"},
      {.name = "timeout",
       .short_form = "T",
       .kind = Kind::seconds,
       .default_text = "60s",
       .help = "give up on a point that is stuck this long; 0 waits for ever"},
      {.name = "list", .kind = Kind::flag, .help = "print the points and measure nothing"},
      {.name = "quiet", .kind = Kind::flag, .help = "no progress on stderr"},
      {.name = "with-hostname", .kind = Kind::flag, .help = "keep the name of this host in the results"},
      {.name = "cache",
       .kind = Kind::choice,
       .default_text = "warm",
       .help = "whether the data may still lie in the caches from the run before",
       .allowed = {"warm", "cold"}},
      {.name = "help", .short_form = "h", .kind = Kind::flag, .help = "print this text"},
  };
}

UsageError bad_value(std::string_view option, std::string_view value, std::string_view why) {
  return complaint("--" + std::string(option) + "=" + std::string(value), why);
}

}  // namespace harness
