// SPDX-License-Identifier: Apache-2.0
#include "harness/progress.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <sstream>
#include <string>

namespace harness {
namespace {

class ProgressTest : public testing::Test {
 protected:
  std::ostringstream out_;
  double clock_ = 100;
  std::function<double()> now_ = [this] { return clock_; };
};

TEST_F(ProgressTest, PipedLinesGiveTheShareAndTheTimeLeft) {
  Progress progress(Progress::Style::lines, 8, out_, now_);
  clock_ += 10;
  progress.show(2, "ring");
  EXPECT_EQ(out_.str(), "[ 25 %] ring, 30 s left\n");
}

TEST_F(ProgressTest, PipedLinesAreSecondsApart) {
  Progress progress(Progress::Style::lines, 100, out_, now_);
  for (int step = 0; step < 100; ++step) {
    progress.show(step, "x");
    clock_ += 0.1;
  }
  const std::string text = out_.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);  // in 10 seconds
}

TEST_F(ProgressTest, ALongTimeLeftIsInMinutes) {
  Progress progress(Progress::Style::lines, 10, out_, now_);
  clock_ += 60;
  progress.show(2, "x");
  EXPECT_EQ(out_.str(), "[ 20 %] x, 4.0 min left\n");
}

TEST_F(ProgressTest, NothingIsPromisedAtTheStartOrTheEnd) {
  Progress progress(Progress::Style::lines, 10, out_, now_);
  progress.show(0, "x");
  clock_ += 60;
  progress.show(10, "y");
  EXPECT_EQ(out_.str(), "[  0 %] x\n[100 %] y\n");
}

TEST_F(ProgressTest, ATerminalLineIsRewrittenAndRemoved) {
  {
    Progress progress(Progress::Style::live, 2, out_, now_);
    progress.show(0, "long name");
    clock_ += 1;
    progress.show(1, "b");
  }
  EXPECT_EQ(out_.str(), "\r[  0 %] long name\x1b[K\r[ 50 %] b, 1 s left\x1b[K\r\x1b[K");
}

TEST_F(ProgressTest, ALiveLineNeverWraps) {
  Progress progress(Progress::Style::live, 2, out_, now_, 24);
  clock_ += 1;
  progress.show(1, "a long name of a point");
  EXPECT_EQ(out_.str(), "\r[ 50 %] a lon, 1 s left\x1b[K");
  out_.str("");
  clock_ += 1;
  Progress narrow(Progress::Style::live, 2, out_, now_, 5);
  narrow.show(0, "a long name of a point");
  EXPECT_EQ(out_.str(), "\r[  0 %] \x1b[K");
}

TEST_F(ProgressTest, AMessageTakesTheLiveLinesPlace) {
  Progress progress(Progress::Style::live, 2, out_, now_);
  progress.show(0, "a");
  out_.str("");
  progress.message("warning");
  EXPECT_EQ(out_.str(), "\r\x1b[Kwarning\n");
}

TEST_F(ProgressTest, QuietPrintsMessagesOnly) {
  Progress progress(Progress::Style::silent, 2, out_, now_);
  progress.show(1, "a");
  progress.finish();
  EXPECT_EQ(out_.str(), "");
  progress.message("warning");
  EXPECT_EQ(out_.str(), "warning\n");
}

TEST_F(ProgressTest, QuietIsSilentOnStderrToo) {
  EXPECT_EQ(Progress::style_of_stderr(true), Progress::Style::silent);
  EXPECT_NE(Progress::style_of_stderr(false), Progress::Style::silent);
}

TEST_F(ProgressTest, WorkWithoutATotalIsDone) {
  Progress progress(Progress::Style::lines, 0, out_, now_);
  progress.show(0, "x");
  EXPECT_EQ(out_.str(), "[100 %] x\n");
}

}  // namespace
}  // namespace harness
