// SPDX-License-Identifier: Apache-2.0
// The check finds what is wrong, and names it: on results that were damaged on purpose, in every way that it must see.
#include "allreduce/check.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "allreduce/algorithms.hpp"
#include "harness/random.hpp"
#include "tests/allreduce/common.hpp"

namespace allreduce {
namespace {

using harness::Dtype;

constexpr int three_ranks = 3;
constexpr std::size_t elements = 10007;

// A program whose every run is right until `damage` has been at its results; runs count from 0.
class Damaged : public Program {
 public:
  Damaged(std::unique_ptr<Program> right, std::function<void(int run)> damage)
      : right_(std::move(right)), damage_(std::move(damage)) {}
  std::vector<harness::Event> enqueue(std::span<const harness::Event> ready) override {
    auto ended = right_->enqueue(ready);
    right_->sync();
    damage_(run_++);
    return ended;
  }
  double time(int runs) override { return right_->time(runs); }
  void sync() override { right_->sync(); }

 private:
  std::unique_ptr<Program> right_;
  std::function<void(int)> damage_;
  int run_ = 0;
};

class Check : public testing::Test {
 protected:
  // Checks a ring that `damage` has been at.
  std::optional<Fault> check_damaged(Vectors& vectors, std::function<void(int run)> damage) {
    Damaged program(prepare(ring({three_ranks}), {devices_.get(),
                                                  elements,
                                                  vectors.pattern().dtype,
                                                  vectors.pattern().op,
                                                  Launch::eager,
                                                  {vectors.buffers()}}),
                    std::move(damage));
    return check(program, vectors);
  }
  std::unique_ptr<harness::Devices> devices_ = harness::open_devices("cpu:" + std::to_string(three_ranks), {1, 30});
};

// The smallest damage there is: the lowest bit of one element.
void flip_lowest_bit(std::byte* vector, std::size_t index, Dtype dtype) {
  vector[index * size_of(dtype)] ^= std::byte{1};
}

TEST_F(Check, NamesOneDamagedElementOfAnyRankDtypeAndOp) {
  std::uint64_t draws = 0;
  for (const Dtype dtype : dtypes) {
    for (const harness::Op op : all_ops) {
      const Pattern pattern{dtype, op, three_ranks, 5};
      Vectors vectors(*devices_, pattern, elements, Placement::in_place);
      for (int rank = 0; rank < three_ranks; ++rank) {
        SCOPED_TRACE(std::string(name(dtype)) + ' ' + std::string(name(op)) + " rank " + std::to_string(rank));
        const std::size_t index = harness::splitmix64(draws++) % elements;
        const auto fault = check_damaged(vectors, [&](int run) {
          if (run == 0) flip_lowest_bit(vectors.buffers().data[rank], index, dtype);
        });
        ASSERT_TRUE(fault);
        EXPECT_EQ(fault->wrong.count, 1);
        EXPECT_EQ(fault->wrong.rank, rank);
        EXPECT_EQ(fault->wrong.first_index, static_cast<std::int64_t>(index));
        EXPECT_EQ(fault->wrong.expected, static_cast<double>(reduced(pattern, index)));
        EXPECT_NE(fault->wrong.got, fault->wrong.expected);
        EXPECT_NE(fault->reason.find("rank " + std::to_string(rank) + " at index " + std::to_string(index)),
                  std::string::npos)
            << fault->reason;
      }
    }
  }
}

TEST_F(Check, CountsAllDamagedElementsAndNamesTheFirst) {
  Vectors vectors(*devices_, {Dtype::f32, harness::Op::max, three_ranks, 5}, elements, Placement::in_place);
  const auto fault = check_damaged(vectors, [&](int) {
    for (const std::size_t index : {elements - 1, std::size_t{5000}, std::size_t{70}}) {
      flip_lowest_bit(vectors.buffers().data[1], index, Dtype::f32);
      flip_lowest_bit(vectors.buffers().data[2], index - 1, Dtype::f32);
    }
  });
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->wrong.count, 6);
  EXPECT_EQ(fault->wrong.rank, 1);
  EXPECT_EQ(fault->wrong.first_index, 70);
}

TEST_F(Check, SeesThatARunDidNothing) {
  for (const Placement placement : placements) {
    Vectors vectors(*devices_, {Dtype::f32, harness::Op::sum, three_ranks, 5}, elements, placement);
    struct Idle : Program {
      std::vector<harness::Event> enqueue(std::span<const harness::Event>) override { return {}; }
      double time(int) override { return 0; }
      void sync() override {}
    } idle;
    const auto fault = check(idle, vectors);
    ASSERT_TRUE(fault);
    EXPECT_GT(fault->wrong.count, static_cast<std::int64_t>(elements));
  }
}

TEST_F(Check, SeesReplicasOfRandomRealsThatDifferInOneBit) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16}) {
    for (const harness::Op op : {harness::Op::sum, harness::Op::avg}) {
      Vectors vectors(*devices_, {dtype, op, three_ranks, 5}, elements, Placement::in_place);
      const auto fault = check_damaged(vectors, [&](int run) {
        if (run == 1) flip_lowest_bit(vectors.buffers().data[2], 77, dtype);
      });
      ASSERT_TRUE(fault) << name(dtype);
      EXPECT_EQ(fault->wrong.count, 1);
      EXPECT_EQ(fault->wrong.rank, 2);
      EXPECT_EQ(fault->wrong.first_index, 77);
      EXPECT_NE(fault->reason.find("random reals"), std::string::npos) << fault->reason;
    }
  }
}

TEST_F(Check, SeesAnErrorThatAllReplicasShare) {
  Vectors vectors(*devices_, {Dtype::f32, harness::Op::sum, three_ranks, 5}, elements, Placement::in_place);
  const auto fault = check_damaged(vectors, [&](int run) {
    if (run == 0) return;
    for (std::byte* data : vectors.buffers().data) {
      float sum;
      std::memcpy(&sum, data + 42 * sizeof sum, sizeof sum);
      sum += 1e-6F;  // the sum of three numbers below 1 errs by less than 4e-7
      std::memcpy(data + 42 * sizeof sum, &sum, sizeof sum);
    }
  });
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->wrong.count, 1);
  EXPECT_EQ(fault->wrong.first_index, 42);
  EXPECT_NEAR(fault->wrong.got - fault->wrong.expected, 1e-6, 4e-7);
}

TEST(Reals, RoundAndAreWithinTheirBoundInAnyOrder) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16}) {
    for (const int all : {1, 2, 7, 64}) {
      const Pattern pattern{dtype, harness::Op::sum, all, 3};
      constexpr std::size_t length = 501;
      const auto sum_of = [&](bool backwards) {
        std::vector<std::byte> sum(length * size_of(dtype));
        std::vector<std::byte> next = sum;
        fill_reals(pattern, backwards ? all - 1 : 0, sum.data(), length);
        const auto devices = harness::open_devices("cpu:1", {1, 30});
        const auto stream = (*devices)[0].make_stream();
        for (int rank = 1; rank < all; ++rank) {
          fill_reals(pattern, backwards ? all - 1 - rank : rank, next.data(), length);
          stream->reduce(next.data(), sum.data(), length, {dtype, harness::Op::sum});
          stream->sync();
        }
        EXPECT_FALSE(compare_reals(pattern, 0, sum.data(), length)) << name(dtype) << ' ' << all;
        return sum;
      };
      const auto forwards = sum_of(false);
      const bool differs = compare_bits(dtype, 0, forwards.data(), sum_of(true).data(), {0, length}).has_value();
      EXPECT_EQ(differs, all > 2) << name(dtype) << ' ' << all;  // they do round, so that the order shows
    }
  }
}

class CheckOfEveryAlgorithm : public testing::TestWithParam<std::tuple<int, Placement>> {};

TEST_P(CheckOfEveryAlgorithm, FindsItExactAndItsRealsTheSameEverywhere) {
  const auto& [size, placement] = GetParam();
  const auto devices = harness::open_devices("cpu:" + std::to_string(size), {1, 30});
  for (const Dtype dtype : dtypes) {
    for (const harness::Op op : all_ops) {
      Vectors vectors(*devices, {dtype, op, size, 5}, 1009, placement);
      for (const Algorithm& algorithm : algorithms()) {
        const auto program = prepare(algorithm.build({size, 1, placement}),
                                     {devices.get(), 1009, dtype, op, Launch::eager, {vectors.buffers()}});
        const auto fault = check(*program, vectors);
        EXPECT_FALSE(fault) << algorithm.name << ' ' << name(dtype) << ' ' << name(op) << ": " << fault->reason;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, CheckOfEveryAlgorithm,
                         testing::Combine(testing::Range(1, 9), testing::ValuesIn(placements)));

}  // namespace
}  // namespace allreduce
