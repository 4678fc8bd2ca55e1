// SPDX-License-Identifier: Apache-2.0
// The rules of each kind of option, in one place: what a value must look like, and the sentence that says so in the
// help text and in complaints.
#pragma once

#include <string>
#include <string_view>

#include "harness/options.hpp"

namespace harness {

// The value as it is kept: aliases resolved, a flag as on or off. Throws UsageError; `typed` is how the user wrote the
// option and the value, such as "--bytes=1K".
std::string checked_value(const Option& option, std::string_view typed, std::string_view value);

// "one of sum, avg", "a whole number of at least 1", "a time such as 0.5s, 20ms or 3us".
std::string allowed_values(const Option& option);

// "<typed>: <why>", on one line whatever the user typed.
UsageError complaint(std::string_view typed, std::string_view why);

}  // namespace harness
