// SPDX-License-Identifier: Apache-2.0
// Schedules as files: our own form, which is the sequential program that a Builder records, and MSCCL's XML programs.
// Whatever comes from a file has to be proved before it is used.
#pragma once

#include <string>

#include "allreduce/schedule.hpp"

namespace allreduce {

// {"name": "mine", "ranks": 2, "chunks": 2, "program": [["reduce", 0, 1, 0, 1], ["copy", 1, 0, 0, 1], ...]}
// A step is its kind, from which rank, to which, and the first and the number of the chunks, which keep their place. An
// MSCCL program ("<algo ...>") is known by its content. Throws harness::UsageError, of one line.
Schedule parse_schedule(const std::string& text);

// The same form; reading it back gives a schedule that does the same. Throws Error for those that are out of
// place, or in which ranks read each other before any of them adds.
std::string schedule_text(const Schedule& schedule);

// parsers/msccl_xml.cpp
Schedule read_msccl_xml(const std::string& text);

}  // namespace allreduce
