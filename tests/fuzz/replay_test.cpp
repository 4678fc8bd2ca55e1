// SPDX-License-Identifier: Apache-2.0
// Everything in corpus/, which has a folder for each target: what is allowed, what is nearly so, and each input that a
// reader once failed on.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/fuzz/targets.hpp"

namespace {

std::filesystem::path corpus_of(const fuzz::Target& target) {
  return std::filesystem::path(RINGMARK_SOURCE_DIR) / "tests/fuzz/corpus" / target.name;
}

std::string contents_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Replay : public testing::TestWithParam<fuzz::Target> {};

TEST_P(Replay, EveryInputIsReadOrRefused) {
  int inputs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(corpus_of(GetParam()))) {
    SCOPED_TRACE(entry.path().filename().string());
    EXPECT_NO_THROW(GetParam().read(contents_of(entry.path())));
    ++inputs;
  }
  EXPECT_GT(inputs, 2);
}

TEST_P(Replay, EveryInputCutOffAnywhereIsReadOrRefused) {
  for (const auto& entry : std::filesystem::directory_iterator(corpus_of(GetParam()))) {
    SCOPED_TRACE(entry.path().filename().string());
    const std::string whole = contents_of(entry.path());
    const std::size_t step = whole.size() / 50 + 1;
    for (std::size_t length = 0; length < whole.size(); length += step) {
      EXPECT_NO_THROW(GetParam().read(whole.substr(0, length)));
    }
  }
}

TEST_P(Replay, EveryInputWithAnyByteChangedIsReadOrRefused) {
  for (const auto& entry : std::filesystem::directory_iterator(corpus_of(GetParam()))) {
    SCOPED_TRACE(entry.path().filename().string());
    std::string bytes = contents_of(entry.path());
    const std::size_t step = bytes.size() / 50 + 1;
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      const char kept = bytes[at];
      for (const char other : {'\0', '\xff', '-', '9', '"', '<', '\n'}) {
        bytes[at] = other;
        EXPECT_NO_THROW(GetParam().read(bytes));
      }
      bytes[at] = kept;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fuzz, Replay, testing::ValuesIn(fuzz::targets().begin(), fuzz::targets().end()),
                         [](const auto& given) { return std::string(given.param.name); });

}  // namespace
