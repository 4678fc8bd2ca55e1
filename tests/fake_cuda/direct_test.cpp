// SPDX-License-Identifier: Apache-2.0
// The kernels that meet their peers' over flags, on the fake machine: all ranks' at the same time, thread by thread.
#include <gtest/gtest.h>

#include "allreduce/engines/direct.hpp"
#include "tests/fake_cuda/fake_machine.hpp"
#include "tests/fake_cuda/run_and_compare.hpp"

namespace allreduce {
namespace {

using harness::Dtype;
using harness::Op;

struct Asked {
  std::string shot;
  std::size_t count = 0;
  Dtype dtype = Dtype::f32;
  Op op = Op::sum;
  Launch launch = Launch::eager;
  Placement placement = Placement::in_place;
};

Problem problem_of(harness::Devices& devices, const Asked& asked) {
  return {&devices, asked.count, asked.dtype, asked.op, asked.launch, {}};
}

// Four runs in flight: each half of the scratch is used twice.
std::string run_directly(harness::Devices& devices, const Asked& asked) {
  const Pattern pattern{asked.dtype, asked.op, devices.size(), 7};
  return fake_cuda::run_and_compare(pattern, problem_of(devices, asked), 4, asked.placement,
                                    [&](const Problem& problem) { return prepare_direct(problem, asked.shot); });
}

std::string refusal(harness::Devices& devices, const Asked& asked) {
  return direct_refuses(problem_of(devices, asked), Collective::allreduce, asked.shot).value_or("");
}

class Direct : public testing::TestWithParam<std::tuple<int, Launch, std::string>> {};

TEST_P(Direct, IsExactInWhateverOrderTheThreadsRun) {
  const auto [ranks, launch, shot] = GetParam();
  const std::size_t counts[] = {0, 1, 3, 17, 130, 1001};
  fake_cuda::restart({.gpus = ranks});
  const auto devices = harness::open_devices("cuda");
  for (int seed = 0; seed < 50; ++seed) {
    fake_cuda::reseed(seed);
    const auto placement = seed % 2 == 0 ? Placement::in_place : Placement::out_of_place;
    const Asked asked{shot, counts[seed % 6], Dtype::f32, Op::sum, launch, placement};
    ASSERT_EQ(refusal(*devices, asked), "");
    ASSERT_EQ(run_directly(*devices, asked), "") << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Direct,
                         testing::Combine(testing::Range(1, 9), testing::Values(Launch::eager, Launch::graph),
                                          testing::Values("one_shot", "two_shot")));

TEST(DirectOnGpus, AddsEveryDtypeByEveryOp) {
  fake_cuda::restart({.gpus = 4});
  const auto devices = harness::open_devices("cuda");
  for (const std::string shot : {"one_shot", "two_shot"}) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16, Dtype::i32}) {
      for (const Op op : {Op::sum, Op::avg, Op::min, Op::max, Op::prod}) {
        EXPECT_EQ(run_directly(*devices, {shot, 131, dtype, op}), "") << shot << name(dtype) << name(op);
      }
    }
  }
}

TEST(DirectOnGpus, TakesMoreBlocksForLongerVectors) {
  fake_cuda::restart({.gpus = 2});
  const auto devices = harness::open_devices("cuda");
  for (const std::string shot : {"one_shot", "two_shot"}) {
    for (const Launch launch : {Launch::eager, Launch::graph}) {
      EXPECT_EQ(run_directly(*devices, {shot, 20'001, Dtype::f32, Op::sum, launch}), "") << shot;
    }
  }
}

TEST(DirectOnGpus, TakesVectorsThatStandOffTheBorderOfAnAccess) {
  fake_cuda::restart({.gpus = 2});
  const auto devices = harness::open_devices("cuda");
  constexpr std::size_t count = 77;
  const Pattern pattern{Dtype::f32, Op::sum, 2, 7};
  std::vector<harness::Buffer> memory;
  Problem problem = problem_of(*devices, {"two_shot", count});
  problem.buffers.resize(1);
  std::vector<std::byte> host(count * sizeof(float));
  for (int rank = 0; rank < 2; ++rank) {
    memory.push_back((*devices)[rank].allocate(host.size() + sizeof(float)));
    problem.buffers[0].data.push_back(memory.back().data() + sizeof(float));
    fill(pattern, rank, host.data(), count);
    const auto stream = (*devices)[rank].make_stream();
    stream->copy(host.data(), problem.buffers[0].data[rank], host.size());
    stream->sync();
  }
  const auto program = prepare_direct(problem, "two_shot");
  program->enqueue();
  program->sync();
  for (int rank = 0; rank < 2; ++rank) {
    const auto stream = (*devices)[rank].make_stream();
    stream->copy(problem.buffers[0].data[rank], host.data(), host.size());
    stream->sync();
    EXPECT_FALSE(compare(pattern, rank, host.data(), count));
  }
}

TEST(DirectOnGpus, SharesAGpuAsLongAsTheKernelsOfAllRanksFit) {
  fake_cuda::restart({.gpus = 1});
  const auto devices = harness::open_devices("cuda:0*8");
  for (const std::string shot : {"one_shot", "two_shot"}) {
    for (const Launch launch : {Launch::eager, Launch::graph}) {
      EXPECT_EQ(run_directly(*devices, {shot, 257, Dtype::f32, Op::sum, launch}), "");
    }
  }
  EXPECT_EQ(refusal(*devices, {"one_shot", 100'000}),
            "the kernels of all ranks on GPU 0 must run at once, and do not fit there");
}

TEST(DirectOnGpus, RefusesWithTheReasonWhatItCannotDo) {
  fake_cuda::restart({.gpus = 4, .peers = "0-1"});
  EXPECT_NE(refusal(*harness::open_devices("cuda:0,2"), {"one_shot", 4}).find("cannot read the memory of cuda:2"),
            std::string::npos);
  EXPECT_EQ(refusal(*harness::open_devices("cuda:0,1"), {"one_shot", 4}), "");
  EXPECT_NE(refusal(*harness::open_devices("cuda:0*9"), {"one_shot", 4}).find("up to 8 ranks"), std::string::npos);
  EXPECT_NE(refusal(*harness::open_devices("cpu:2"), {"one_shot", 4}).find("GPUs only"), std::string::npos);
  EXPECT_NE(refusal(*harness::open_devices("cuda:0,1"), {"ring", 4}).find("one_shot and two_shot only"),
            std::string::npos);
  const auto pair = harness::open_devices("cuda:0,1");
  EXPECT_TRUE(direct_refuses(problem_of(*pair, {"one_shot", 4}), Collective::broadcast, "one_shot"));
}

}  // namespace
}  // namespace allreduce
