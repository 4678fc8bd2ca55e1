// SPDX-License-Identifier: Apache-2.0
#include "allreduce/schedule_file.hpp"

#include <nlohmann/json.hpp>

#include "allreduce/builder.hpp"
#include "allreduce/verify.hpp"
#include "harness/error.hpp"
#include "harness/json.hpp"

namespace allreduce {

using harness::UsageError;
using nlohmann::json;

namespace {

constexpr int most_ranks = 1 << 14;
constexpr int most_chunks = 1 << 16;

Schedule from_json(const json& text) {
  try {
    for (const auto& [field, _] : text.items()) {
      if (field != "name" && field != "ranks" && field != "chunks" && field != "program" && field != "about") {
        throw UsageError("field '" + field + "' is unknown; allowed: name, about, ranks, chunks, program");
      }
    }
    const auto whole = [](const json& value, int low, int high) {
      return static_cast<int>(harness::whole_number(value, low, high));
    };
    const auto field = [&](const char* name, int most) {
      try {
        return whole(text.at(name), 1, most);
      } catch (const UsageError& error) {
        throw UsageError(std::string(name) + ": " + error.what());
      }
    };
    const int ranks = field("ranks", most_ranks);
    const int chunks = field("chunks", most_chunks);
    Builder build(text.value("name", "custom"), {ranks, 1, Placement::in_place}, chunks);
    int number = 0;
    for (const json& step : text.at("program")) {
      const std::string kind = step.at(0);
      const std::string where = "step " + std::to_string(number++) + ": ";
      if ((kind != "copy" && kind != "reduce") || step.size() != 5 || step.at(1) == step.at(2)) {
        throw UsageError(where + step.dump() + " is none of [\"copy\" or \"reduce\", from, to, first, count]");
      }
      try {
        const int from = whole(step.at(1), 0, ranks - 1);
        const int to = whole(step.at(2), 0, ranks - 1);
        const Chunk chunk = build.at(from, whole(step.at(3), 0, chunks - 1), whole(step.at(4), 1, chunks));
        kind == "copy" ? build.copy(chunk, to) : build.reduce(chunk, to);
      } catch (const harness::Error& error) {
        throw UsageError(where + error.what());
      }
    }
    return std::move(build).finish();
  } catch (const json::exception& error) {
    throw UsageError(std::string("not a schedule in our JSON: ") + error.what());
  }
}

}  // namespace

Schedule parse_schedule(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) throw UsageError("that file is empty");
  if (text[first] == '<') return read_msccl_xml(text);
  if (text[first] != '{') throw UsageError("in no form that is known; allowed: our JSON, an MSCCL program");
  return from_json(harness::parse_json(text));
}

std::string schedule_text(const Schedule& schedule) {
  if (schedule.shape.placement != Placement::in_place) {
    throw harness::Error("only schedules in place can be written to a file");
  }
  // What goes to scratch is reduced from there into the same chunks: in the program it is one step.
  std::string text = json{{"name", schedule.name}}.dump();
  text.pop_back();
  text.append(",\n \"ranks\": ").append(std::to_string(schedule.shape.ranks));
  text.append(",\n \"chunks\": ").append(std::to_string(schedule.chunks)).append(",\n \"program\": [");
  bool any = false;
  for (const Op& op : schedule.ops) {
    if (op.kind == Kind::reduce) continue;
    const bool reduces = op.to.space == Space::scratch;
    const json step = {reduces ? "reduce" : "copy", op.from.rank, op.to.rank, op.from.first, op.from.count};
    text.append(any ? ",\n  " : "\n  ").append(step.dump());
    any = true;
  }
  text.append("\n ]\n}\n");
  if (!verify(parse_schedule(text)).proved) {
    throw harness::Error(schedule.name +
                         " lets ranks read each other before any of them adds, which no program of copies and reduces, "
                         "one after the other, can say");
  }
  return text;
}

}  // namespace allreduce
