// SPDX-License-Identifier: Apache-2.0
#include "harness/device/device.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "harness/device/cpu.hpp"
#include "harness/device/reduce.hpp"

namespace harness {
namespace {

const DeviceSettings patient{1, 60};

class TwoDevices : public testing::Test {
 protected:
  std::unique_ptr<Devices> devices = open_devices("cpu:2", patient);
  std::unique_ptr<Stream> first = (*devices)[0].make_stream();
  std::unique_ptr<Stream> second = (*devices)[1].make_stream();
};

// {7, 2} (op) {3, 5}, then the same again, and the copy of it.
template <typename Element>
std::array<double, 4> reduced_and_copied(Stream& stream, Dtype dtype, Op op, int divisor) {
  const std::array<Element, 2> from = {static_cast<Element>(3.0F), static_cast<Element>(5.0F)};
  const std::array<Element, 2> start = {static_cast<Element>(7.0F), static_cast<Element>(2.0F)};
  std::array<Element, 2> into{}, copied{};
  stream.copy(start.data(), into.data(), sizeof into);
  stream.reduce(from.data(), into.data(), 2, {dtype, op, 1});
  stream.copy(into.data(), copied.data(), sizeof copied);
  stream.reduce(from.data(), into.data(), 2, {dtype, op, divisor});
  stream.sync();
  const auto number = [](Element element) { return static_cast<double>(static_cast<float>(element)); };
  return {number(copied[0]), number(copied[1]), number(into[0]), number(into[1])};
}

std::array<double, 4> reduced_and_copied(Stream& stream, Dtype dtype, Op op, int divisor) {
  switch (dtype) {
    case Dtype::f32: return reduced_and_copied<float>(stream, dtype, op, divisor);
    case Dtype::f64: return reduced_and_copied<double>(stream, dtype, op, divisor);
    case Dtype::f16: return reduced_and_copied<Half>(stream, dtype, op, divisor);
    case Dtype::bf16: return reduced_and_copied<Bfloat16>(stream, dtype, op, divisor);
    case Dtype::i32: return reduced_and_copied<std::int32_t>(stream, dtype, op, divisor);
  }
  return {};
}

TEST_F(TwoDevices, CopiesAndReducesOfEveryDtypeAndOpHappenInStreamOrder) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16, Dtype::i32}) {
    const bool whole = dtype == Dtype::i32;
    using Values = std::array<double, 4>;
    EXPECT_EQ(reduced_and_copied(*first, dtype, Op::sum, 1), (Values{10, 7, 13, 12})) << name(dtype);
    EXPECT_EQ(reduced_and_copied(*first, dtype, Op::avg, 2), (Values{10, 7, whole ? 6 : 6.5, 6})) << name(dtype);
    EXPECT_EQ(reduced_and_copied(*first, dtype, Op::min, 1), (Values{3, 2, 3, 2})) << name(dtype);
    EXPECT_EQ(reduced_and_copied(*first, dtype, Op::max, 1), (Values{7, 5, 7, 5})) << name(dtype);
    EXPECT_EQ(reduced_and_copied(*first, dtype, Op::prod, 1), (Values{21, 10, 63, 50})) << name(dtype);
  }
}

TEST_F(TwoDevices, ADeviceCountsTheMemoryThatIsHeld) {
  harness::Device& device = first->device();
  const std::size_t before = device.allocated_bytes();
  {
    const Buffer held = device.allocate(1000), other = second->device().allocate(50);
    EXPECT_EQ(device.allocated_bytes(), before + 1000);
  }
  EXPECT_EQ(device.allocated_bytes(), before);
}

TEST_F(TwoDevices, IntegersWrapAroundAndAverageTowardsZero) {
  std::array<std::int32_t, 2> from = {1, -4}, into = {std::numeric_limits<std::int32_t>::max(), -3};
  first->reduce(from.data(), into.data(), 1, {Dtype::i32, Op::sum, 1});
  first->reduce(from.data() + 1, into.data() + 1, 1, {Dtype::i32, Op::avg, 2});
  first->sync();
  EXPECT_EQ(into[0], std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(into[1], -3);
}

TEST_F(TwoDevices, MinAndMaxOfANaNAndANumberAreTheNaNOnEitherSide) {
  for (const Op op : {Op::min, Op::max}) {
    std::array<float, 2> from = {std::nanf(""), 1}, into = {1, std::nanf("")};
    first->reduce(from.data(), into.data(), 2, {Dtype::f32, op, 1});
    first->sync();
    EXPECT_TRUE(std::isnan(into[0]) && std::isnan(into[1])) << name(op);
  }
}

TEST_F(TwoDevices, AStreamThatWaitsForAnEventSeesWhatCameBeforeIt) {
  int seen = 0;
  std::atomic<bool> released = false;
  int written = 0;
  run(*first, [&] {
    released.wait(false);
    written = 42;
  });
  second->wait(first->record());
  run(*second, [&] { seen = written; });
  released = true;
  released.notify_one();
  second->sync();
  EXPECT_EQ(seen, 42);
}

TEST_F(TwoDevices, AnEventMadeByDefaultHasPassed) {
  int done = 0;
  first->wait(Event());
  run(*first, [&] { done = 1; });
  first->sync();
  EXPECT_EQ(done, 1);
}

TEST_F(TwoDevices, ARecordingWithForksAndJoinsDoesItsWorkAgainOnEachLaunch) {
  std::vector<int> order;  // unguarded: the events alone keep the two workers apart
  const auto recording = devices->record(*first, [&] {
    run(*first, [&] { order.push_back(1); });
    second->wait(first->record());
    run(*second, [&] { order.push_back(2); });
    first->wait(second->record());
    run(*first, [&] { order.push_back(3); });
    second->wait(first->record());
    run(*second, [&] { order.push_back(4); });
    first->wait(second->record());
  });
  first->sync();
  EXPECT_EQ(order, std::vector<int>());
  std::vector<int> expected;
  for (int launch = 0; launch < 3; ++launch) {
    recording->launch();
    expected.insert(expected.end(), {1, 2, 3, 4});
  }
  first->sync();
  second->sync();
  EXPECT_EQ(order, expected);
}

TEST_F(TwoDevices, WorkGivenToTheAnchorAfterALaunchComesAfterIt) {
  std::vector<int> order;
  const auto recording = devices->record(*first, [&] {
    second->wait(first->record());
    run(*second, [&] { order.push_back(2); });
    first->wait(second->record());
  });
  run(*first, [&] { order.push_back(1); });
  recording->launch();
  run(*first, [&] { order.push_back(3); });
  first->sync();
  second->sync();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST_F(TwoDevices, ARecordedStreamThatIsNotJoinedIsRefused) {
  const auto forks_only = [&] {
    second->wait(first->record());
    run(*second, [] {});
  };
  EXPECT_THROW(devices->record(*first, forks_only), Error);
  const auto works_after_the_join = [&] {
    second->wait(first->record());
    first->wait(second->record());
    run(*second, [] {});
  };
  EXPECT_THROW(devices->record(*first, works_after_the_join), Error);
}

TEST_F(TwoDevices, ARecordedStreamThatDoesNotWaitForTheAnchorIsRefused) {
  const auto joins_only = [&] {
    run(*second, [] {});
    first->wait(second->record());
  };
  EXPECT_THROW(devices->record(*first, joins_only), Error);
}

TEST_F(TwoDevices, ARecordingCannotWaitForAnEventFromOutside) {
  const Event outside = second->record();
  EXPECT_THROW(devices->record(*first, [&] { first->wait(outside); }), Error);
}

TEST_F(TwoDevices, ARefusedRecordingLeavesTheStreamsInUse) {
  EXPECT_THROW(devices->record(*first, [] { throw Error("no"); }), Error);
  int done = 0;
  run(*first, [&] { done = 1; });
  first->sync();
  EXPECT_EQ(done, 1);
}

TEST_F(TwoDevices, ATasksExceptionIsThrownBySyncWhileItsEventsPassAndItsLaterWorkIsLeftOut) {
  bool later = false, other = false;
  run(*first, [] { throw Error("the task broke"); });
  run(*first, [&] { later = true; });
  second->wait(first->record());
  run(*second, [&] { other = true; });
  EXPECT_NO_THROW(second->sync());
  EXPECT_TRUE(other);
  try {
    first->sync();
    ADD_FAILURE() << "sync threw nothing";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "the task broke");
  }
  EXPECT_FALSE(later);
}

TEST(Deadline, SyncOfAStreamThatWaitsForABlockedOneTimesOut) {
  std::atomic<bool> released = false;
  const auto devices = open_devices("cpu:2", {1, 0.2});
  auto blocked = (*devices)[0].make_stream();
  auto waiting = (*devices)[1].make_stream();
  run(*blocked, [&] { released.wait(false); });
  const Event after = blocked->record();
  waiting->wait(after);
  EXPECT_THROW(waiting->sync(), TimedOut);
  EXPECT_THROW(blocked->sync(), TimedOut);
  released = true;
  released.notify_one();
  EXPECT_NO_THROW(blocked->sync());
}

TEST(Deadline, IsToldBeforeAnythingIsUnwound) {
  std::atomic<bool> released = false;
  std::string told;
  bool unwound = false;
  DeviceSettings settings{1, 0.1};
  settings.on_timeout = [&](const TimedOut& error) {
    EXPECT_FALSE(unwound);
    told = error.what();
  };
  const auto devices = open_devices("cpu:1", settings);
  auto stream = (*devices)[0].make_stream();
  run(*stream, [&] { released.wait(false); });
  try {
    const std::shared_ptr<void> scope(nullptr, [&](void*) { unwound = true; });
    stream->sync();
    ADD_FAILURE() << "sync threw nothing";
  } catch (const TimedOut& error) {
    EXPECT_EQ(told, error.what());
  }
  EXPECT_TRUE(unwound);
  released = true;
  released.notify_one();
  EXPECT_NO_THROW(stream->sync());
}

TEST_F(TwoDevices, FreshMemoryHoldsOnesInEveryBit) {
  const Buffer buffer = (*devices)[0].allocate(5000);
  ASSERT_EQ(buffer.bytes(), 5000U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 4096, 0U);
  for (std::size_t i = 0; i < buffer.bytes(); ++i) ASSERT_EQ(buffer.data()[i], std::byte{0xFF}) << i;
}

TEST_F(TwoDevices, MoreMemoryThanThereIsIsAnErrorWithItsBytes) {
  for (const std::size_t too_many : {std::numeric_limits<std::size_t>::max() - 10, std::size_t{1} << 50U}) {
    try {
      (*devices)[0].allocate(too_many);
      ADD_FAILURE() << "allocate threw nothing";
    } catch (const OutOfMemory& error) {
      EXPECT_NE(std::string(error.what()).find(std::to_string(too_many)), std::string::npos) << error.what();
    }
  }
}

TEST_F(TwoDevices, TimedEventsOfOneStreamHaveATimeBetweenThem) {
  const Event begin = first->record(Timing::on);
  run(*first, [] { std::atomic<int>(0).store(1); });
  const Event end = first->record(Timing::on);
  first->sync();
  EXPECT_GE(devices->seconds_between(begin, end), 0.0);
  EXPECT_LE(devices->seconds_between(end, begin), 0.0);
  EXPECT_LT(devices->seconds_between(begin, end), 60.0);
}

TEST_F(TwoDevices, EventsOfTwoStreamsOrWithoutATimeHaveNoSecondsBetweenThem) {
  const Event here = first->record(Timing::on), there = second->record(Timing::on), untimed = first->record();
  first->sync();
  second->sync();
  EXPECT_THROW(devices->seconds_between(here, there), Error);
  EXPECT_THROW(devices->seconds_between(here, untimed), Error);
  EXPECT_THROW(devices->seconds_between(Event(), here), Error);
}

TEST(DeviceList, ACommaSeparatesPoints) {
  EXPECT_EQ(device_points("cpu:1,cpu:2"), (std::vector<std::string>{"cpu:1", "cpu:2"}));
  EXPECT_EQ(device_points("cuda:0,2,cpu:2"), (std::vector<std::string>{"cuda:0,2", "cpu:2"}));
}

TEST(DeviceList, WhatCannotBeUnderstoodIsRefusedInOneLineThatNamesTheOption) {
  for (const char* list : {"", ",", "cpu:1,", ",cpu:1", "2", "cpu:1,2", "cpu:2,cpu:2"}) {
    try {
      device_points(list);
      ADD_FAILURE() << list << " was taken";
    } catch (const UsageError& error) {
      const std::string text = error.what();
      EXPECT_EQ(text.find(std::string("--device=") + list), 0U) << text;
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    }
  }
}

TEST(OpenDevices, PointsThatAreNotThereAreRefused) {
  for (const char* point :
       {"", "cpu", "cpu:", "cpu:0", "cpu:-1", "cpu:x", "cpu:2x", "cpu:1025", "cpu:99999999999", "cpu:1+cpu:1",
        "abacus:1", "cuda:", "cuda:x", "cuda:0,", "cuda:999", "cuda:0*0", "cuda:0*x"}) {
    EXPECT_THROW(open_devices(point), UsageError) << point;
  }
}

TEST(OpenDevices, DevicesWithMoreThreadsThanCoresAreOversubscribed) {
  EXPECT_TRUE(open_devices("cpu:2", {2048, 60})->oversubscribed());
  EXPECT_FALSE(open_devices("cpu:1", {1, 60})->oversubscribed());
  EXPECT_EQ(open_devices("cpu:3", {2, 60})->size(), 3);
  EXPECT_EQ(open_devices("cpu:3", {2, 60})->threads(), 2);
  EXPECT_EQ(open_devices("cpu:3", {2, 60})->text(), "cpu:3");
}

TEST(Bfloat16, RoundsToNearestEven) {
  const auto rounded = [](float value) { return static_cast<float>(Bfloat16(value)); };
  EXPECT_EQ(rounded(1.0F), 1.0F);
  EXPECT_EQ(rounded(0x1.01p0F), 1.0F);         // half way, the even one is below
  EXPECT_EQ(rounded(0x1.03p0F), 0x1.04p0F);    // half way, the even one is above
  EXPECT_EQ(rounded(0x1.0102p0F), 0x1.02p0F);  // just over half
  EXPECT_EQ(rounded(-0x1.03p0F), -0x1.04p0F);
  EXPECT_EQ(rounded(std::numeric_limits<float>::max()), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(rounded(std::nanf(""))));
  EXPECT_TRUE(std::isnan(rounded(std::bit_cast<float>(0x7F800001U))));  // a NaN that its upper half cannot show
}

TEST_F(TwoDevices, HalfSumsRoundOnceToNearestEven) {
  std::array<Half, 3> from = {Half(1.0F), Half(1.0F), Half(60000.0F)};
  std::array<Half, 3> into = {Half(2048.0F), Half(2050.0F), Half(60000.0F)};
  first->reduce(from.data(), into.data(), 3, {Dtype::f16, Op::sum, 1});
  first->sync();
  EXPECT_EQ(static_cast<float>(into[0]), 2048.0F);
  EXPECT_EQ(static_cast<float>(into[1]), 2052.0F);
  EXPECT_TRUE(std::isinf(static_cast<float>(into[2])));
}

TEST_F(TwoDevices, HalfAveragesDivideBeforeTheyAreRounded) {
  std::array<Half, 1> from = {Half(1.0F)}, into = {Half(2048.0F)};
  first->reduce(from.data(), into.data(), 1, {Dtype::f16, Op::avg, 2});  // 2049 has no half, 1024.5 has none either
  first->sync();
  EXPECT_EQ(static_cast<float>(into[0]), 1024.0F);
  from = {Half(60000.0F)}, into = {Half(60000.0F)};
  first->reduce(from.data(), into.data(), 1, {Dtype::f16, Op::avg, 2});
  first->sync();
  EXPECT_EQ(static_cast<float>(into[0]), 60000.0F);
}

}  // namespace
}  // namespace harness
