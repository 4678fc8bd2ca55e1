// SPDX-License-Identifier: Apache-2.0
#include "allreduce/schedule_file.hpp"

#include <gtest/gtest.h>

#include "allreduce/algorithms.hpp"
#include "allreduce/cost.hpp"
#include "allreduce/verify.hpp"
#include "harness/error.hpp"

namespace allreduce {
namespace {

void refused(const std::string& text, const std::string& says) {
  try {
    parse_schedule(text);
    ADD_FAILURE() << "accepted: " << text;
  } catch (const harness::UsageError& error) {
    EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
  }
}

TEST(ScheduleFile, EveryAlgorithmComesBackProvedAndWithItsSteps) {
  for (const Algorithm& algorithm : algorithms()) {
    for (const int ranks : {1, 2, 3, 4, 7, 8}) {
      const Schedule written = algorithm.build({ranks});
      const bool exchanges = algorithm.name == "recursive_doubling" || algorithm.name == "one_shot";
      if (exchanges && ranks > 1) {
        EXPECT_THROW(schedule_text(written), harness::Error) << algorithm.name << ' ' << ranks;
        continue;
      }
      const Schedule read = parse_schedule(schedule_text(written));
      EXPECT_TRUE(verify(read).proved) << algorithm.name << ' ' << ranks << ": " << verify(read).reason;
      EXPECT_EQ(read.ops.size(), written.ops.size()) << algorithm.name << ' ' << ranks;
      EXPECT_EQ(cost(read).steps, cost(written).steps) << algorithm.name << ' ' << ranks;
    }
  }
}

TEST(ScheduleFile, WhatIsNoneIsRefused) {
  refused("", "empty");
  refused("[]", "no form");
  refused("{", "no valid JSON");
  refused(R"({"ranks": 2, "chunks": 1})", "program");
  refused(R"({"ranks": 0, "chunks": 1, "program": []})", "ranks: 0 is no whole number from 1");
  refused(R"({"ranks": 2, "chunks": 1, "program": [], "speed": 1})", "speed");
  refused(R"({"ranks": 2, "chunks": 1, "program": [["copy", 0, 2, 0, 1]]})", "step 0");
  refused(R"({"ranks": 2, "chunks": 1, "program": [["copy", 0, 1, 1, 1]]})", "step 0");
  refused(R"({"ranks": 2, "chunks": 1, "program": [["reduce", 1, 1, 0, 1]]})", "step 0");
  refused(R"({"ranks": 2, "chunks": 1, "program": [["copy", 0, 1, 0]]})", "step 0");
}

std::string step(const char* type, const char* from, int from_at, const char* to, int to_at,
                 const std::string& more = "") {
  return std::string("<step s=\"0\" type=\"") + type + "\" srcbuf=\"" + from + "\" srcoff=\"" +
         std::to_string(from_at) + "\" dstbuf=\"" + to + "\" dstoff=\"" + std::to_string(to_at) +
         "\" cnt=\"1\" depid=\"-1\" deps=\"-1\" " + more + "/>";
}

std::string program(int ranks, int chunks, const std::string& body) {
  return "<algo name=\"mine\" proto=\"Simple\" coll=\"allreduce\" inplace=\"1\" nchannels=\"1\" ngpus=\"" +
         std::to_string(ranks) + "\" nchunksperloop=\"" + std::to_string(chunks) + "\">" + body + "</algo>";
}

std::string gpu(int id, int peer, const std::string& steps) {
  return "<gpu id=\"" + std::to_string(id) + "\" i_chunks=\"2\" o_chunks=\"2\" s_chunks=\"1\"><tb id=\"0\" send=\"" +
         std::to_string(peer) + "\" recv=\"" + std::to_string(peer) + "\" chan=\"0\">" + steps + "</tb></gpu>";
}

// Each of two ranks adds one half and sends it back.
std::string halves() {
  std::string body;
  for (int rank = 0; rank < 2; ++rank) {
    const int own = rank;
    const int other = 1 - rank;
    body +=
        gpu(rank, other,
            step("s", "i", other, "i", other) + step("rrcs", "i", own, "i", own) + step("r", "i", other, "i", other));
  }
  return program(2, 2, body);
}

TEST(Msccl, AProgramInPlaceIsReadAndProved) {
  const Schedule schedule = parse_schedule(halves());
  EXPECT_TRUE(verify(schedule).proved) << verify(schedule).reason;
  EXPECT_EQ(schedule.name, "mine");
  EXPECT_DOUBLE_EQ(cost(schedule).sent, 1);
  EXPECT_EQ(cost(schedule).steps, 2);
}

TEST(Msccl, ARingWithEveryKindOfReceivingStepIsProved) {
  // Three ranks: a chunk is sent, added and passed on (rrs), added and kept (rrcs), passed on (rcs) and received (r).
  std::string body;
  for (int rank = 0; rank < 3; ++rank) {
    const int first = rank;
    const int second = (rank + 2) % 3;
    const int third = (rank + 1) % 3;
    body += "<gpu id=\"" + std::to_string(rank) + "\"><tb id=\"0\" send=\"" + std::to_string((rank + 1) % 3) +
            "\" recv=\"" + std::to_string((rank + 2) % 3) + "\" chan=\"0\">" + step("s", "i", first, "i", first) +
            step("rrs", "i", second, "i", second) + step("rrcs", "i", third, "i", third) +
            step("rcs", "i", first, "i", first) + step("r", "i", second, "i", second) + "</tb></gpu>";
  }
  const Schedule schedule = parse_schedule(program(3, 3, body));
  EXPECT_TRUE(verify(schedule).proved) << verify(schedule).reason;
  EXPECT_EQ(cost(schedule).steps, 4);
}

TEST(Msccl, ScratchLocalSumsAndDependenciesAreFollowed) {
  // Rank 0 receives into scratch in one thread block and adds it in another, which waits by nop; then sends the sum.
  const std::string wait = "<step s=\"0\" type=\"nop\" srcbuf=\"i\" dstbuf=\"o\" cnt=\"1\" depid=\"0\" deps=\"0\"/>";
  const std::string zero = "<gpu id=\"0\"><tb id=\"0\" send=\"-1\" recv=\"1\" chan=\"0\">" + step("r", "i", 0, "s", 0) +
                           "</tb><tb id=\"1\" send=\"1\" recv=\"-1\" chan=\"0\">" + wait + step("re", "s", 0, "i", 0) +
                           step("s", "i", 0, "i", 0) + "</tb></gpu>";
  const std::string one = gpu(1, 0, step("s", "i", 0, "i", 0) + step("r", "i", 0, "i", 0));
  const Schedule schedule = parse_schedule(program(2, 1, zero + one));
  EXPECT_TRUE(verify(schedule).proved) << verify(schedule).reason;
}

TEST(Msccl, WhatCannotBeReadIsRefused) {
  refused("<algo", "broken");
  refused("<system/>", "<system>");
  refused("<algo coll=\"allgather\" ngpus=\"2\" nchunksperloop=\"1\"/>", "not allreduce");
  refused(program(0, 1, ""), "range");
  refused(program(2, 1, gpu(0, 1, step("r", "i", 0, "i", 0))), "waits for ever");
  refused(program(2, 1, gpu(0, 1, step("zap", "i", 0, "i", 0))), "'zap'");
  refused(program(2, 1, gpu(0, 1, step("s", "q", 0, "i", 0))), "'q'");
  refused(program(2, 1, gpu(0, 1, step("s", "i", 3, "i", 0))), "beyond nchunksperloop");
  refused(program(2, 2, gpu(0, 1, step("s", "i", 0, "i", 0)) + gpu(1, 0, step("r", "i", 1, "i", 1))), "goes to place");
  refused(program(2, 1, gpu(0, 1, step("re", "s", 0, "i", 0))), "before it is written");
  refused(program(2, 1, gpu(5, 1, "")), "beyond ngpus");
}

}  // namespace
}  // namespace allreduce
