// SPDX-License-Identifier: Apache-2.0
// Vectors that GPUs fill and compare by themselves, held against those of the host.
#include <gtest/gtest.h>

#include <cstring>

#include "allreduce/check.hpp"
#include "allreduce/device_values.hpp"
#include "tests/fake_cuda/fake_machine.hpp"

namespace allreduce {
namespace {

using harness::Dtype;
using harness::Op;

constexpr std::size_t count = 1009;
constexpr int ranks = 3;

class ValuesOnGpus : public testing::TestWithParam<std::tuple<Dtype, Op, Collective>> {
 protected:
  ValuesOnGpus() {
    fake_cuda::restart({.gpus = ranks});
    devices_ = harness::open_devices("cuda");
  }
  std::vector<std::byte> read(int rank, const std::byte* from) {
    std::vector<std::byte> host(count * size_of(pattern().dtype));
    const auto stream = (*devices_)[rank].make_stream();
    stream->copy(from, host.data(), host.size());
    stream->sync();
    return host;
  }
  void write(int rank, const std::vector<std::byte>& host, std::byte* into) {
    const auto stream = (*devices_)[rank].make_stream();
    stream->copy(host.data(), into, host.size());
    stream->sync();
  }
  static Pattern pattern() {
    const auto [dtype, op, collective] = GetParam();
    return {dtype, op, ranks, 11, collective, 1};
  }

  std::unique_ptr<harness::Devices> devices_;
};

TEST_P(ValuesOnGpus, AreThoseOfTheHostToTheBit) {
  Vectors vectors(*devices_, pattern(), count, Placement::out_of_place);
  for (const Numbers numbers : {Numbers::whole, Numbers::real}) {
    if (numbers == Numbers::real && !has_reals(pattern())) continue;
    vectors.refill(numbers);
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<std::byte> expected(count * size_of(pattern().dtype));
      numbers == Numbers::whole ? fill(pattern(), rank, expected.data(), count)
                                : fill_reals(pattern(), rank, expected.data(), count);
      EXPECT_EQ(read(rank, vectors.inputs()[rank]), expected);
    }
  }
}

TEST_P(ValuesOnGpus, AreComparedThereAndWhatIsWrongIsNamed) {
  Vectors vectors(*devices_, pattern(), count, Placement::in_place);
  constexpr int damaged = 1;  // the root, where there is one
  std::vector<std::byte> answer(count * size_of(pattern().dtype));
  for (const int rank : {0, 2, damaged}) {
    fill_answer(pattern(), rank, answer.data(), count);
    write(rank, answer, vectors.buffers().data[rank]);
  }
  EXPECT_FALSE(vectors.compare());
  const Part part = owed(pattern(), damaged, count);
  const std::size_t size = size_of(pattern().dtype), first = part.first + 3, second = part.first + part.count - 1;
  std::vector<std::byte> wrong = answer;
  for (const std::size_t index : {first, second}) std::memset(&wrong[index * size], 0x41, size);
  write(damaged, wrong, vectors.buffers().data[damaged]);
  const auto stream = (*devices_)[damaged].make_stream();
  EXPECT_EQ(count_wrong_on_device(*stream, pattern(), damaged, vectors.buffers().data[damaged], count, part), 2U);
  const auto found = vectors.compare();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->count, 2);
  EXPECT_EQ(found->first_index, static_cast<std::int64_t>(first));
  EXPECT_EQ(found->rank, damaged);
  const auto expected = compare_numbers(pattern().dtype, damaged, answer.data(), wrong.data(), part);
  EXPECT_EQ(found->expected, expected->expected);
  EXPECT_EQ(found->got, expected->got);
}

INSTANTIATE_TEST_SUITE_P(All, ValuesOnGpus,
                         testing::Combine(testing::Values(Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16, Dtype::i32),
                                          testing::Values(Op::sum, Op::avg, Op::min, Op::max, Op::prod),
                                          testing::ValuesIn(all_collectives)));

}  // namespace
}  // namespace allreduce
