// SPDX-License-Identifier: Apache-2.0
#include "harness/progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <limits>
#include <sstream>
#include <utility>

#include "harness/screen.hpp"
#include "harness/text.hpp"

namespace harness {
namespace {

constexpr double seconds_between_lines = 5;
constexpr double seconds_between_rewrites = 0.1;

std::string time_left(double seconds) {
  if (seconds < 60) return std::to_string(std::lround(std::ceil(seconds))) + " s left";
  return format_real(seconds / 60, 2) + " min left";
}

}  // namespace

Progress::Style Progress::style_of_stderr(bool quiet) {
  if (quiet) return Style::silent;
  return isatty(STDERR_FILENO) == 1 ? Style::live : Style::lines;
}

Progress::Progress(Style style, double total, std::ostream& out, std::function<double()> now, std::size_t width)
    : style_(style),
      total_(total),
      out_(out),
      now_(std::move(now)),
      width_(width),
      started_(now_()),
      shown_(-std::numeric_limits<double>::infinity()) {}

Progress::Progress(bool quiet, double total)
    : Progress(style_of_stderr(quiet), total, std::cerr, steady_seconds, screen_of(STDERR_FILENO).width) {}

Progress::~Progress() { finish(); }

void Progress::show(double done, std::string_view what) {
  if (style_ == Style::silent) return;
  const double now = now_();
  if (now - shown_ < (style_ == Style::live ? seconds_between_rewrites : seconds_between_lines)) return;
  shown_ = now;
  const double fraction = total_ > 0 ? std::clamp(done / total_, 0.0, 1.0) : 1.0;
  std::ostringstream share;
  share << '[' << std::setw(3) << static_cast<int>(100 * fraction) << " %] ";
  std::string left;
  if (fraction > 0 && fraction < 1) left = ", " + time_left((now - started_) * (1 - fraction) / fraction);
  if (style_ == Style::live) {
    const std::size_t around = share.str().size() + left.size() + 1;  // a full line would wrap on some terminals
    if (width_ > 0) what = what.substr(0, width_ > around ? width_ - around : 0);
    out_ << '\r' << share.str() << what << left << "\x1b[K" << std::flush;  // to the start, and erase what was longer
    live_line_ = true;
  } else {
    out_ << share.str() << what << left << std::endl;
  }
}

void Progress::message(std::string_view text) {
  finish();
  out_ << text << std::endl;
}

void Progress::finish() {
  if (live_line_) out_ << "\r\x1b[K" << std::flush;
  live_line_ = false;
}

}  // namespace harness
