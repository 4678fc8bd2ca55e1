// SPDX-License-Identifier: Apache-2.0
// How far a run is and how long it still takes, on stderr: one line that rewrites itself on a terminal, a plain line
// every few seconds when piped, nothing when quiet. Never on stdout, which is for tables.
#pragma once

#include <cstddef>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>

#include "harness/clock.hpp"

namespace harness {

class Progress {
 public:
  enum class Style { silent, lines, live };

  static Style style_of_stderr(bool quiet);

  // `total` is in any unit of work. `now` gives seconds; it is a parameter for the tests.
  // A live line is cut at `width`, since one that wraps cannot be rewritten; 0: it never wraps.
  Progress(Style style, double total, std::ostream& out, std::function<double()> now = steady_seconds,
           std::size_t width = 0);
  Progress(bool quiet, double total);  // on stderr
  ~Progress();                         // finishes the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `done` of the total is done, and `what` is in the works: "[ 12 %] allreduce/ring 64 KiB, 1.2 min left".
  void show(double done, std::string_view what);

  // A line that stays, such as a warning; printed also when the progress itself is silent.
  void message(std::string_view text);

  void finish();  // removes the live line

 private:
  Style style_;
  double total_;
  std::ostream& out_;
  std::function<double()> now_;
  std::size_t width_;
  double started_, shown_;
  bool live_line_ = false;
};

}  // namespace harness
