// SPDX-License-Identifier: Apache-2.0
#include "harness/report.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "harness/error.hpp"

namespace harness {
namespace {

using nlohmann::json;

class ReportTest : public testing::Test {
 protected:
  ReportTest() { std::filesystem::create_directories(folder_); }
  ~ReportTest() override { std::filesystem::remove_all(folder_); }

  json read() const {
    std::ifstream file(path_);
    return json::parse(file);
  }

  // But for the lock of a report that is still being written.
  std::ptrdiff_t files_in_folder() const {
    return std::count_if(std::filesystem::directory_iterator(folder_), std::filesystem::directory_iterator(),
                         [&](const auto& entry) { return entry.path() != lock_; });
  }

  static void expect_refusal(const std::string& path, const std::string& reason) {
    try {
      Report report(path, {});
      FAIL() << path << " was accepted";
    } catch (const UsageError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("--output=" + path), std::string::npos) << text;
      EXPECT_NE(text.find(reason), std::string::npos) << text;
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    }
  }

  std::filesystem::path folder_ = std::filesystem::temp_directory_path() / ("report_test_" + std::to_string(getpid()));
  std::filesystem::path lock_ = folder_ / ".result.json.lock";
  std::filesystem::path path_ = folder_ / "result.json";
};

Result example() {
  return {.bench = "allreduce",
          .check = Check::exact,
          .stop = Stop::interval,
          .visits = 12,
          .flags = {"outliers"},
          .command = {"bench_allreduce", "--bytes=1K"},
          .samples = {0.5, 0.25},
          .point = {{"bytes", 1024}, {"ranks", 2}},
          .metrics = {{"seconds", 0.375}}};
}

std::string digits_as_zeros(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return std::isdigit(c) != 0; }, '0');
  return text;
}

TEST_F(ReportTest, AResultHasEveryCommonField) {
  EXPECT_EQ(to_json(example()), json::parse(R"({
    "bench": "allreduce", "nature": "measured", "status": "ok", "reason": "", "check": "exact", "wrong": null,
    "oversubscribed": false, "stop": "interval", "visits": 12, "runs_per_sample": 1, "flags": ["outliers"],
    "point": {"bytes": 1024, "ranks": 2}, "command": ["bench_allreduce", "--bytes=1K"], "samples": [0.5, 0.25],
    "metrics": {"seconds": 0.375}})"));
}

TEST_F(ReportTest, AFailedCheckNamesTheFirstWrongElement) {
  Result result = example();
  result.check = Check::failed;
  result.wrong = Wrong{.count = 3, .first_index = 7, .expected = 2, .got = 1.5, .rank = 1};
  EXPECT_EQ(to_json(result)["wrong"],
            (json{{"count", 3}, {"first_index", 7}, {"expected", 2.0}, {"got", 1.5}, {"rank", 1}}));
}

TEST_F(ReportTest, ExtraFieldsStandBesideTheCommonOnes) {
  Result result = example();
  result.extra = {{"losses", {2.3, 2.1}}};
  result.stop.reset();
  const json fields = to_json(result);
  EXPECT_EQ(fields["losses"], (json{2.3, 2.1}));
  EXPECT_EQ(fields["bench"], "allreduce");
  EXPECT_TRUE(fields["stop"].is_null());
}

TEST_F(ReportTest, EveryNameIsTheSchemas) {
  EXPECT_EQ(name_of(Nature::emulated), "emulated");
  EXPECT_EQ(name_of(Nature::simulated), "simulated");
  EXPECT_EQ(name_of(Status::refused), "refused");
  EXPECT_EQ(name_of(Status::timed_out), "timed_out");
  EXPECT_EQ(name_of(Check::tolerance), "tolerance");
  EXPECT_EQ(name_of(Check::off), "off");
  EXPECT_EQ(name_of(Stop::budget), "budget");
  EXPECT_EQ(name_of(Stop::count), "count");
}

TEST_F(ReportTest, TheFileIsValidAndIncompleteUntilTheEnd) {
  Report report(path_, describe_run({"bench_allreduce"}, 5, false));
  report.add(example());
  report.write();
  json file = read();
  EXPECT_EQ(file["schema"], 1);
  EXPECT_EQ(file["run"]["complete"], false);
  EXPECT_EQ(file["run"]["seed"], 5);
  EXPECT_EQ(file["run"]["world"], (json{{"size", 1}, {"hosts", json::array()}, {"rank_map", json::array()}}));
  EXPECT_EQ(file["results"].size(), 1u);
  report.add(example());
  report.finish();
  file = read();
  EXPECT_EQ(file["run"]["complete"], true);
  EXPECT_EQ(file["results"].size(), 2u);
  EXPECT_EQ(files_in_folder(), 1) << "a temporary file was left";
}

TEST_F(ReportTest, KeepingUpWritesAtOnceAndThenOnlyNowAndThen) {
  Report report(path_, {});
  report.add(example());
  report.keep_up();
  EXPECT_EQ(read()["results"].size(), 1u);
  int writes = 0;
  int updates = 0;
  while (writes < 3) {
    Result changed = example();
    changed.visits = ++updates;
    report.update(0, changed);
    report.keep_up();
    writes += read()["results"][0]["visits"] == updates ? 1 : 0;
  }
  EXPECT_GT(updates, writes);
  report.update(0, example());
  report.finish();
  EXPECT_EQ(read()["results"][0]["visits"], 12);
}

TEST_F(ReportTest, ARunWithoutResultsIsValidToo) {
  Report(path_, {}).finish();
  EXPECT_EQ(read()["results"], json::array());
}

TEST_F(ReportTest, AnUpdateReplacesOneResult) {
  Report report(path_, {});
  report.add(example());
  const std::size_t second = report.add(example());
  Result better = example();
  better.visits = 99;
  report.update(second, better);
  report.write();
  EXPECT_EQ(read()["results"][0]["visits"], 12);
  EXPECT_EQ(read()["results"][1]["visits"], 99);
  EXPECT_THROW(report.update(2, better), Error);
}

TEST_F(ReportTest, NumbersThatAreNotFiniteBecomeNull) {
  Result result = example();
  result.samples = {1, std::nan(""), std::numeric_limits<double>::infinity()};
  result.metrics["algbw"] = -std::numeric_limits<double>::infinity();
  Report report(path_, {});
  report.add(result);
  report.write();
  const json written = read()["results"][0];
  EXPECT_EQ(written["samples"], (json{1.0, nullptr, nullptr}));
  EXPECT_TRUE(written["metrics"]["algbw"].is_null());
}

TEST_F(ReportTest, SamplesKeepEveryBit) {
  Result result = example();
  result.samples = {1.0 / 3, 1e-9 + 1e-25, 5e-324};
  Report report(path_, {});
  report.add(result);
  report.write();
  EXPECT_EQ(read()["results"][0]["samples"].get<std::vector<double>>(), result.samples);
}

TEST_F(ReportTest, ACommandThatIsNoUtf8DoesNotStopTheReport) {
  Result result = example();
  result.command = {"bench", "--output=\xff.json"};
  Report report(path_, {});
  report.add(result);
  report.write();
  EXPECT_EQ(read()["results"][0]["command"][1], "--output=\xef\xbf\xbd.json");
}

TEST_F(ReportTest, NothingIsWrittenBeforeTheFirstWrite) {
  Report report(path_, {});
  EXPECT_EQ(files_in_folder(), 0);
}

TEST_F(ReportTest, AnOlderFileStaysWholeUntilItIsReplaced) {
  std::ofstream(path_) << "old";
  Report report(path_, {});
  EXPECT_EQ(std::filesystem::file_size(path_), 3u);
  report.write();
  EXPECT_EQ(read()["schema"], 1);
}

TEST_F(ReportTest, ALinkIsFollowedNotReplaced) {
  const auto link = folder_ / "latest.json";
  std::filesystem::create_symlink(path_, link);
  Report(link, {}).finish();
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(read()["schema"], 1);
}

TEST_F(ReportTest, ABareNameIsWrittenInTheCurrentFolder) {
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  Report("result.json", {}).finish();
  std::filesystem::current_path(before);
  EXPECT_EQ(read()["schema"], 1);
}

TEST_F(ReportTest, WithoutAPathResultsAreKeptAndNothingIsWritten) {
  Report report("", {});
  report.add(example());
  report.finish();
  EXPECT_EQ(report.results().size(), 1u);
  EXPECT_EQ(files_in_folder(), 0);
}

TEST_F(ReportTest, AMissingFolderIsRefusedAtOnce) { expect_refusal(folder_ / "no" / "x.json", "is missing"); }

TEST_F(ReportTest, AFolderIsRefusedAtOnce) {
  expect_refusal(folder_, "it is a folder");
  expect_refusal(folder_ / "", "it is a folder");
}

TEST_F(ReportTest, AFileInPlaceOfTheFolderIsRefused) {
  std::ofstream(path_) << "file";
  expect_refusal(path_ / "x.json", "is missing");
}

TEST_F(ReportTest, ADeviceIsRefusedInsteadOfReplaced) { expect_refusal("/dev/null", "no regular file"); }

TEST_F(ReportTest, APathThatTheSystemCannotOpenIsRefused) {
  expect_refusal(folder_ / std::string(300, 'x'), "File name too long");
}

TEST_F(ReportTest, AReadOnlyFolderOrFileIsRefusedAtOnce) {
  std::ofstream(path_) << "old";
  chmod(path_.c_str(), 0444);
  chmod(folder_.c_str(), 0555);
  const bool root = geteuid() == 0;  // who may write anywhere
  if (root) {
    ASSERT_EQ(seteuid(65534), 0);  // nobody
  }
  expect_refusal(path_, "Permission denied");
  expect_refusal(folder_ / "new.json", "Permission denied");
  if (root) {
    ASSERT_EQ(seteuid(0), 0);
  }
  chmod(folder_.c_str(), 0755);
}

TEST_F(ReportTest, TwoReportsOfOneFileAreRefusedUntilTheFirstHasEnded) {
  {
    const Report report(path_, {});
    expect_refusal(path_, "another run is writing it");
    const auto link = folder_ / "latest.json";
    std::filesystem::create_symlink(path_, link);
    expect_refusal(link, "another run is writing it");
    const Report other(folder_ / "other.json", {});
  }
  EXPECT_FALSE(std::filesystem::exists(lock_));
  Report(path_, {}).finish();
  EXPECT_EQ(read()["schema"], 1);
}

TEST_F(ReportTest, TheLockOfARunThatWasKilledHoldsNobodyUp) {
  std::ofstream{lock_};
  Report(path_, {}).finish();
  EXPECT_EQ(read()["schema"], 1);
  EXPECT_FALSE(std::filesystem::exists(lock_));
}

TEST_F(ReportTest, OfManyReportsOfOneFileOneAtATimeIsWritten) {
  std::atomic<int> writing = 0;
  std::atomic<int> written = 0;
  const auto write = [&] {
    while (written < 50) {
      try {
        const Report report(path_, {});
        EXPECT_EQ(++writing, 1);
        std::this_thread::yield();
        --writing;
        ++written;
      } catch (const UsageError&) {  // another one has it
      }
    }
  };
  std::thread other(write);
  write();
  other.join();
}

TEST_F(ReportTest, ALinkInACircleIsRefused) {
  std::filesystem::create_symlink("b.json", folder_ / "a.json");
  std::filesystem::create_symlink("a.json", folder_ / "b.json");
  expect_refusal(folder_ / "a.json", "circle");
}

TEST_F(ReportTest, AFolderThatGoesAwayIsAnErrorWithItsName) {
  Report report(path_, {});
  std::filesystem::remove_all(folder_);
  try {
    report.write();
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(path_.string()), std::string::npos) << error.what();
  }
}

TEST_F(ReportTest, FailuresAndTimeoutsFailTheRunAndRefusalsDoNot) {
  for (const Status status : {Status::ok, Status::skipped, Status::refused}) {
    Report report("", {});
    report.add({.status = status});
    EXPECT_FALSE(report.failed()) << name_of(status);
  }
  for (const Status status : {Status::failed, Status::timed_out}) {
    Report report("", {});
    report.add({.status = status});
    EXPECT_TRUE(report.failed()) << name_of(status);
  }
  Report report("", {});
  report.add({.check = Check::failed});
  EXPECT_TRUE(report.failed());
}

TEST_F(ReportTest, BandwidthsAreThoseOfNcclTests) {
  const json four = bandwidths(1'000'000, 1e-3, 1.5);
  EXPECT_DOUBLE_EQ(four["algbw"], 1e9);
  EXPECT_DOUBLE_EQ(four["busbw"], 1.5e9);
}

TEST_F(ReportTest, WithoutAFactorThereIsNoBusBandwidth) {
  const json one = bandwidths(1'000'000, 1e-3, std::nullopt);
  EXPECT_DOUBLE_EQ(one["algbw"], 1e9);
  EXPECT_TRUE(one["busbw"].is_null());
}

TEST_F(ReportTest, NoBytesOrNoTimeHaveNoBandwidth) {
  EXPECT_TRUE(bandwidths(0, 1e-3, 1.5)["algbw"].is_null());
  EXPECT_TRUE(bandwidths(4, 0, 1.5)["busbw"].is_null());
  EXPECT_TRUE(bandwidths(4, std::nan(""), 1.5)["algbw"].is_null());
}

TEST_F(ReportTest, ARunSaysWhenAndWhatItWas) {
  const RunInfo run = describe_run({"bench", "--quiet"}, 7, false);
  EXPECT_EQ(digits_as_zeros(run.started), "0000-00-00T00:00:00Z") << run.started;
  EXPECT_EQ(digits_as_zeros(run.version), "0.0.0") << run.version;
  const std::string revision = run.revision.substr(0, run.revision.find("-dirty"));
  EXPECT_TRUE(revision == "unknown" ||
              (revision.size() >= 7 && revision.find_first_not_of("0123456789abcdef") == std::string::npos))
      << run.revision;
  EXPECT_EQ(run.command, (std::vector<std::string>{"bench", "--quiet"}));
  EXPECT_FALSE(run.machine.contains("hostname"));
}

}  // namespace
}  // namespace harness
