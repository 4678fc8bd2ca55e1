// SPDX-License-Identifier: Apache-2.0
#include "harness/options.hpp"

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

namespace harness {
namespace {

using Words = std::vector<std::string>;

// An option of every kind, beside those that every bench has.
std::vector<Option> table() {
  std::vector<Option> options = common_options();
  const std::vector<Option> own{
      {.name = "bytes", .kind = Kind::bytes, .default_text = "1K:4K:x2", .range_forms = "befi"},
      {.name = "bucket", .kind = Kind::byte_count, .default_text = "25M", .minimum = 1},
      {.name = "algorithm", .kind = Kind::names, .default_text = "tree,ring", .allowed = {"tree", "ring", "all"}},
      {.name = "tags", .kind = Kind::names},
      {.name = "dtype",
       .short_form = "d",
       .kind = Kind::names,
       .default_text = "f32",
       .allowed = {"f32", "f64", "f16"},
       .aliases = {{"float", "f32"}, {"double", "f64"}}},
      {.name = "mode", .kind = Kind::choice, .default_text = "time", .allowed = {"time", "check"}},
      {.name = "check", .short_form = "c", .kind = Kind::flag, .default_text = "on"},
      {.name = "eval", .kind = Kind::flag},
      {.short_form = "g", .kind = Kind::integer, .minimum = 1},
      {.name = "steps", .kind = Kind::integer, .minimum = 1, .maximum = 1000},
      {.name = "batches", .kind = Kind::integers, .default_text = "64,128", .minimum = 1},
      {.name = "lr", .kind = Kind::real, .default_text = "0.1"},
  };
  options.insert(options.end(), own.begin(), own.end());
  return options;
}

Options parse(const Words& words) {
  std::vector<const char*> argv{"bench"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  return parse_options(table(), static_cast<int>(argv.size()), argv.data());
}

TEST(Options, DefaultsStandWhereNothingIsTyped) {
  const Options options = parse({});
  EXPECT_EQ(options.bytes("bytes"), (std::vector<std::size_t>{1024, 2048, 4096}));
  EXPECT_EQ(options.byte_count("bucket"), 25u << 20);
  EXPECT_EQ(options.names("algorithm"), (Words{"tree", "ring"}));
  EXPECT_EQ(options.text("mode"), "time");
  EXPECT_TRUE(options.on("check"));
  EXPECT_FALSE(options.on("eval"));
  EXPECT_EQ(options.integer("seed"), 1);
  EXPECT_EQ(options.integers("batches"), (std::vector<std::int64_t>{64, 128}));
  EXPECT_DOUBLE_EQ(options.real("lr"), 0.1);
  EXPECT_DOUBLE_EQ(options.seconds("time-budget"), 0.5);
  EXPECT_DOUBLE_EQ(options.seconds("timeout"), 60);
  EXPECT_EQ(options.text("cache"), "warm");
  EXPECT_FALSE(options.given("bytes"));
  EXPECT_TRUE(options.has("bytes"));
  EXPECT_FALSE(options.has("steps"));
}

TEST(Options, WhatIsTypedTakesTheDefaultsPlace) {
  const Options options =
      parse({"--bytes=0,4", "--bucket=1.5K", "--algorithm=ring", "--mode=check", "--check=off", "--eval", "--steps=50",
             "--batches=7", "--lr=1e-3", "--time-budget=20ms", "--output=a=b.json", "--tags=x,y"});
  EXPECT_EQ(options.bytes("bytes"), (std::vector<std::size_t>{0, 4}));
  EXPECT_EQ(options.byte_count("bucket"), 1536u);
  EXPECT_EQ(options.names("algorithm"), (Words{"ring"}));
  EXPECT_EQ(options.text("mode"), "check");
  EXPECT_FALSE(options.on("check"));
  EXPECT_TRUE(options.on("eval"));
  EXPECT_EQ(options.integer("steps"), 50);
  EXPECT_EQ(options.integers("batches"), (std::vector<std::int64_t>{7}));
  EXPECT_DOUBLE_EQ(options.real("lr"), 1e-3);
  EXPECT_DOUBLE_EQ(options.seconds("time-budget"), 0.02);
  EXPECT_EQ(options.text("output"), "a=b.json");
  EXPECT_EQ(options.names("tags"), (Words{"x", "y"}));
  EXPECT_TRUE(options.given("steps"));
}

TEST(Options, ShortFormsTakeTheNextWordOrWhatIsAttached) {
  const Options options = parse({"-d", "double,float", "-n20", "-w", "5", "-c", "0", "-g", "4", "-J", "out.json"});
  EXPECT_EQ(options.names("dtype"), (Words{"f64", "f32"}));
  EXPECT_EQ(options.integer("iterations"), 20);
  EXPECT_EQ(options.integer("warmup"), 5);
  EXPECT_FALSE(options.on("check"));
  EXPECT_EQ(options.integer("g"), 4);
  EXPECT_TRUE(options.given("g"));
  EXPECT_EQ(options.text("output"), "out.json");
  EXPECT_TRUE(parse({"-c", "5"}).on("check"));
}

TEST(Options, RangeFormsMakeOneRange) {
  EXPECT_EQ(parse({"-b", "8", "-e", "64", "-f", "2"}).text("bytes"), "8:64:x2");
  EXPECT_EQ(parse({"-e64", "-i16", "-b8"}).text("bytes"), "8:64:+16");
  EXPECT_EQ(parse({"-b", "1M", "-e", "3M"}).bytes("bytes").size(), 3u);
  EXPECT_TRUE(parse({"-b8", "-e8"}).given("bytes"));
}

TEST(Options, HelpAnywhereSilencesEverythingElse) {
  EXPECT_TRUE(parse({"--nonsense", "--help", "ring"}).on("help"));
  EXPECT_TRUE(parse({"-h"}).on("help"));
  EXPECT_FALSE(parse({}).on("help"));
}

TEST(Options, ArgumentsOfTheBenchmarkLibraryPassUntouched) {
  const Options options = parse({"--benchmark_filter=a,b", "--eval", "--benchmark_color"});
  EXPECT_EQ(options.benchmark_arguments(), (Words{"--benchmark_filter=a,b", "--benchmark_color"}));
  EXPECT_EQ(options.command(), (Words{"bench", "--benchmark_filter=a,b", "--eval", "--benchmark_color"}));
}

TEST(Options, AskingForWhatIsNotThereIsAnError) {
  const Options options = parse({});
  EXPECT_THROW(options.text("nonsense"), Error);
  EXPECT_THROW(options.integer("steps"), Error);
  EXPECT_EQ(options.text("output"), "");
  EXPECT_TRUE(options.names("tags").empty());
}

TEST(Options, ADefaultThatItsOwnRulesRefuseIsAnErrorOfTheTable) {
  const std::vector<Option> bad{{.name = "n", .kind = Kind::integer, .default_text = "0", .minimum = 1}};
  const char* argv[] = {"bench"};
  EXPECT_THROW(parse_options(bad, 1, argv), Error);
  const std::vector<Option> twice{{.name = "n"}, {.name = "n"}};
  EXPECT_THROW(parse_options(twice, 1, argv), Error);
}

TEST(Options, TheHelpTextNamesEveryOptionOfTheTableAndItsDefault) {
  const std::string text = usage("bench", "Measures.", table());
  for (const Option& option : table()) {
    const std::string form = option.name.empty() ? "-" + option.short_form : "--" + option.name;
    EXPECT_NE(text.find("  " + form), std::string::npos) << form;
    if (!option.default_text.empty()) {
      EXPECT_NE(text.find("(default: " + option.default_text + ")"), std::string::npos) << form;
    }
  }
  EXPECT_NE(text.find("--bytes, -b, -e, -f, -i"), std::string::npos);
  EXPECT_NE(text.find("one of time, check"), std::string::npos);
  EXPECT_NE(text.find("a whole number from 1 to 1000"), std::string::npos);
}

struct Bad {
  Words words;
  std::string names;  // how the complaint begins: the option and the value
  std::string says;   // what it must say
};
void PrintTo(const Bad& bad, std::ostream* out) { *out << testing::PrintToString(bad.words); }

class BadOptions : public testing::TestWithParam<Bad> {};
TEST_P(BadOptions, AreNamedInOneLine) {
  try {
    parse(GetParam().words);
    FAIL() << "accepted";
  } catch (const UsageError& error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.starts_with(GetParam().names + ": ")) << text;
    EXPECT_NE(text.find(GetParam().says), std::string::npos) << text;
    EXPECT_NE(text.find("allowed"), std::string::npos) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  }
}
INSTANTIATE_TEST_SUITE_P(
    Options, BadOptions,
    testing::Values(
        Bad{{"--algoritm=ring"}, "--algoritm=ring", "did you mean --algorithm?"},
        Bad{{"--zzzzzzzzz"}, "--zzzzzzzzz", "unknown option; --help"}, Bad{{"--"}, "--", "unknown option"},
        Bad{{"--=1"}, "--=1", "unknown option"}, Bad{{"-q", "1"}, "-q 1", "unknown option"},
        Bad{{"-q"}, "-q", "unknown option"}, Bad{{"ring"}, "'ring'", "not an option"}, Bad{{""}, "''", "not an option"},
        Bad{{"-"}, "'-'", "not an option"}, Bad{{"--bytes", "1K"}, "--bytes", "the value is missing"},
        Bad{{"--bytes="}, "--bytes=", "the value is empty"},
        Bad{{"--algorithm="}, "--algorithm=", "the value is empty"},
        Bad{{"--output="}, "--output=", "the value is empty"}, Bad{{"-d"}, "-d", "the value is missing"},
        Bad{{"-b"}, "-b", "the value is missing"}, Bad{{"--eval", "--eval"}, "--eval", "given twice"},
        Bad{{"--seed=1", "--seed=2"}, "--seed=2", "given twice"},
        Bad{{"--iterations=1", "-n", "2"}, "-n 2", "given twice"}, Bad{{"-b8", "-b9", "-e9"}, "-b 9", "given twice"},
        Bad{{"--bytes=1K", "-b8", "-e8"}, "-b 8 -e 8", "given twice"},
        Bad{{"--bytes=4K:1K:x2"}, "--bytes=4K:1K:x2", "begins at 4K, above its end 1K"},
        Bad{{"--bytes=1K:4K:x1"}, "--bytes=1K:4K:x1", "factor '1'"},
        Bad{{"--bytes=0:4K:x2"}, "--bytes=0:4K:x2", "range from 0"},
        Bad{{"--bytes=1K,1024"}, "--bytes=1K,1024", "listed twice"},
        Bad{{"--bytes=1Q"}, "--bytes=1Q", "'1Q' is not a size"},
        Bad{{"-b", "64", "-e", "8", "-f", "2"}, "-b 64 -e 8 -f 2", "begins at 64, above its end 8"},
        Bad{{"-b", "8", "-e", "64", "-f", "1"}, "-b 8 -e 64 -f 1", "factor '1'"},
        Bad{{"-b", "8"}, "-b 8", "an end (-e)"}, Bad{{"-f", "2"}, "-f 2", "a begin (-b)"},
        Bad{{"-b8", "-e64", "-f2", "-i8"}, "-b 8 -e 64 -f 2 -i 8", "a factor (-f) or an increment (-i)"},
        Bad{{"--bucket=x"}, "--bucket=x", "'x' is not a size"},
        Bad{{"--bucket=0"}, "--bucket=0", "'0' is out of range"},
        Bad{{"--algorithm=ring,star"},
            "--algorithm=ring,star",
            "'star' is unknown; allowed: a list of tree, ring, all"},
        Bad{{"--algorithm=ring,ring"}, "--algorithm=ring,ring", "'ring' is listed twice"},
        Bad{{"--algorithm=ring,"}, "--algorithm=ring,", "empty"},
        Bad{{"--dtype=f32,float"}, "--dtype=f32,float", "'f32' is listed twice"},
        Bad{{"--mode=tim"}, "--mode=tim", "'tim' is unknown; allowed: one of time, check"},
        Bad{{"--check=yes"}, "--check=yes", "neither on nor off"}, Bad{{"-c", "-1"}, "-c -1", "neither on nor off"},
        Bad{{"--steps=0"}, "--steps=0", "'0' is out of range; allowed: a whole number from 1 to 1000"},
        Bad{{"--steps=1001"}, "--steps=1001", "out of range"}, Bad{{"--steps=1.5"}, "--steps=1.5", "not a number"},
        Bad{{"--steps=99999999999999999999"}, "--steps=99999999999999999999", "not a number"},
        Bad{{"--seed=-1"}, "--seed=-1", "a whole number of at least 0"},
        Bad{{"--batches=1,x"}, "--batches=1,x", "'x' is not a number"},
        Bad{{"--batches=8,8"}, "--batches=8,8", "listed twice"}, Bad{{"--lr=fast"}, "--lr=fast", "'fast' is not a"},
        Bad{{"--lr=nan"}, "--lr=nan", "'nan' is not a"},
        Bad{{"--time-budget=5h"}, "--time-budget=5h", "'5h' is not a time"},
        Bad{{"--timeout=-1s"}, "--timeout=-1s", "not a time"}, Bad{{"--cache=hot"}, "--cache=hot", "one of warm, cold"},
        Bad{{"--iterations=0"}, "--iterations=0", "out of range"}, Bad{{"--threads=0"}, "--threads=0", "out of range"},
        Bad{{"--mode=a\nb"}, "--mode=a?b", "is unknown"}));

}  // namespace
}  // namespace harness
