// SPDX-License-Identifier: Apache-2.0
#include "allreduce/schedule.hpp"

namespace allreduce {

namespace {

std::string describe(const Chunk& chunk) {
  static constexpr const char* spaces[] = {"data", "scratch", "input"};
  return std::string(spaces[static_cast<int>(chunk.space)]) + " " + std::to_string(chunk.first) + "+" +
         std::to_string(chunk.count) + " of rank " + std::to_string(chunk.rank);
}

}  // namespace

std::string describe(const Schedule& schedule, OpId id) {
  const Op& op = schedule.ops.at(id);
  return "op " + std::to_string(id) + " (" + (op.kind == Kind::copy ? "copy " : "reduce ") + describe(op.from) +
         (op.kind == Kind::copy ? " to " : " into ") + describe(op.to) + ")";
}

}  // namespace allreduce
