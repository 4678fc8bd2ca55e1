// SPDX-License-Identifier: Apache-2.0
// What goes wrong, in kinds: `Error` is a failure of the work (its text carries the numbers), `UsageError` is
// something the user typed or handed over (its one line names the option, the value and what is allowed).
// A main turns the first into exit status 1, the second into 2.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace harness {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class UsageError : public Error {
 public:
  // Control characters, which a file or an argument may have brought along, become question marks: it is one line.
  explicit UsageError(std::string text) : Error(one_line(std::move(text))) {}

 private:
  static std::string one_line(std::string text) {
    for (char& c : text) {
      if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
    }
    return text;
  }
};

// What was asked for cannot be done there; it was not begun.
class Refused : public Error {
 public:
  using Error::Error;
};

// There is not so much memory: a smaller point may well run.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

}  // namespace harness
