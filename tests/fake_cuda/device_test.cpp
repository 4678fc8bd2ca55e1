// SPDX-License-Identifier: Apache-2.0
// The words of device.hpp over the CUDA runtime, on the fake machine.
#include "harness/device/device.hpp"

#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "harness/device/brake.hpp"
#include "harness/device/cuda.hpp"
#include "harness/device/narrow.hpp"
#include "harness/device/reduce.hpp"
#include "tests/fake_cuda/fake_machine.hpp"

namespace harness {
namespace {

using fake_cuda::restart;

constexpr int seeds = 50;

std::vector<std::byte> numbers(std::size_t bytes, int start) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>((i * 7 + i / 251 + start) & 0xFFU);
  return data;
}

// What arrives when `data` goes from rank 0 to rank 1 by a stream of rank `lane`.
std::vector<std::byte> sent(Devices& devices, const std::vector<std::byte>& data, int lane) {
  const Buffer source = devices[0].allocate(data.size()), target = devices[1].allocate(data.size());
  const auto first = devices[0].make_stream(), second = devices[1].make_stream();
  std::vector<std::byte> got(data.size());
  first->copy(data.data(), source.data(), data.size());
  Stream& carrier = lane == 0 ? *first : *second;
  carrier.wait(first->record());
  carrier.copy(source.data(), target.data(), data.size());
  second->wait(carrier.record());
  second->copy(target.data(), got.data(), data.size());
  second->sync();
  first->sync();
  return got;
}

TEST(Gpus, CopiesArriveByEveryRouteWhetherPushedOrPulled) {
  const auto data = numbers((3 << 20) + 13, 5);  // several pieces of a staged copy
  for (const char* peers : {"all", "none"}) {
    for (int seed = 0; seed < 10; ++seed) {
      restart({.gpus = 2, .peers = peers, .seed = seed});
      const auto devices = open_devices("cuda");
      EXPECT_EQ(devices->route(0, 1), std::string(peers) == "all" ? Route::nvlink : Route::staged);
      EXPECT_EQ(sent(*devices, data, 0), data) << peers << " pushed, seed " << seed;
      EXPECT_EQ(sent(*devices, data, 1), data) << peers << " pulled, seed " << seed;
    }
  }
}

TEST(Gpus, AnAskedForTransportIsTakenOrRefused) {
  restart({.gpus = 2});
  EXPECT_EQ(open_devices("cuda", {.transport = Transport::staged})->route(0, 1), Route::staged);
  EXPECT_EQ(open_devices("cuda", {.transport = Transport::peer})->route(0, 1), Route::nvlink);
  restart({.gpus = 2, .peers = "none"});
  EXPECT_THROW(open_devices("cuda", {.transport = Transport::peer}), UsageError);
}

TEST(Gpus, APairThatCorruptsIsStagedWithAWarningAndAnAskedForPeerCopyFails) {
  restart({.gpus = 3, .corrupt = "0>1"});
  const auto devices = open_devices("cuda");
  EXPECT_EQ(devices->route(1, 0), Route::staged);
  EXPECT_EQ(devices->route(0, 1), Route::nvlink);
  EXPECT_EQ(devices->route(2, 0), Route::nvlink);
  ASSERT_EQ(devices->warnings().size(), 1U);
  EXPECT_NE(devices->warnings()[0].find("from GPU 0"), std::string::npos);
  const auto data = numbers(5000, 1);
  EXPECT_EQ(sent(*devices, data, 1), data);
  EXPECT_THROW(open_devices("cuda", {.transport = Transport::peer}), Error);
}

TEST(Gpus, ListsMeanWhatTheySay) {
  restart({.gpus = 4});
  EXPECT_EQ(open_devices("cuda")->size(), 4);
  const auto two = open_devices("cuda:0,2");
  EXPECT_EQ(two->size(), 2);
  EXPECT_EQ((*two)[1].name(), "cuda:2");
  EXPECT_FALSE(two->oversubscribed());
  const auto shared = open_devices("cuda:0*8");
  EXPECT_EQ(shared->size(), 8);
  EXPECT_TRUE(shared->oversubscribed());
  EXPECT_EQ((*shared)[3].name(), "cuda:0 rank 3");
  EXPECT_EQ(shared->route(0, 7), Route::shared);
  EXPECT_EQ(open_devices("cuda:1*2,3")->size(), 3);
  for (const char* point : {"cuda:", "cuda:4", "cuda:0,0", "cuda:0*2,0", "cuda:0*0", "cuda:0*65", "cuda:-1", "cuda:x",
                            "cuda:0,", "cuda:0*"}) {
    EXPECT_THROW(open_devices(point), UsageError) << point;
  }
  EXPECT_EQ(default_point(), "cuda");
}

TEST(Gpus, AMachineWithoutGpusSaysSo) {
  restart({.gpus = 0});
  EXPECT_EQ(default_point(), "cpu:2");
  EXPECT_THROW(open_devices("cuda"), UsageError);
  nlohmann::json machine{{"devices", nlohmann::json::array()}, {"links", nlohmann::json::array()}};
  describe_gpus(machine);
  EXPECT_TRUE(machine["devices"].empty());
}

TEST(Gpus, TheMachineIsDescribedWithItsLinks) {
  restart({.gpus = 3, .peers = "0-1"});
  nlohmann::json machine{{"devices", nlohmann::json::array()}, {"links", nlohmann::json::array()}};
  describe_gpus(machine);
  ASSERT_EQ(machine["devices"].size(), 3U);
  EXPECT_EQ(machine["devices"][2]["pci_bus_id"], "0000:03:00.0");
  int peers = 0;
  for (const auto& link : machine["links"]) peers += link["peer_access"] == true ? 1 : 0;
  EXPECT_EQ(machine["links"].size(), 6U);
  EXPECT_EQ(peers, 2);
}

TEST(Gpus, FreshMemoryHoldsOnesInEveryBitAndTooMuchIsAnErrorWithTheNumbers) {
  restart({.gpus = 1, .memory_bytes = 1 << 20});
  const auto devices = open_devices("cuda:0");
  const auto stream = (*devices)[0].make_stream();
  std::vector<std::byte> got(3000);
  const Buffer buffer = (*devices)[0].allocate(got.size());
  stream->copy(buffer.data(), got.data(), got.size());
  stream->sync();
  EXPECT_EQ(got, std::vector<std::byte>(got.size(), std::byte{0xFF}));
  try {
    (*devices)[0].allocate(2 << 20);
    ADD_FAILURE() << "was allocated";
  } catch (const OutOfMemory& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("2097152"), std::string::npos) << text;
    EXPECT_NE(text.find(std::to_string((1 << 20) - 3000)), std::string::npos) << text;
  }
}

// Random bits of every dtype, with ends that are and are not aligned alike, against the loops of the CPU.
TEST(Gpus, ReduceAsTheCpuDoesBitForBit) {
  restart({.gpus = 1});
  const auto devices = open_devices("cuda:0");
  const auto stream = (*devices)[0].make_stream();
  std::mt19937 random(3);
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16, Dtype::i32}) {
    for (const Op op : {Op::sum, Op::avg, Op::min, Op::max, Op::prod}) {
      for (const auto& [from_skip, into_skip, count] :
           std::vector<std::array<std::size_t, 3>>{{0, 0, 1000}, {3, 3, 1001}, {1, 2, 77}, {1, 1, 2}, {0, 0, 0}}) {
        const std::size_t element = size_of(dtype), bytes = (count + 4) * element;
        std::vector<std::byte> from(bytes), into(bytes);
        for (std::size_t i = 0; i < count + 4; ++i) {  // small numbers, of which none is a NaN
          const auto fill = [&](std::vector<std::byte>& data) {
            const int value = static_cast<int>(random() % 200) - 100;
            switch (dtype) {
              case Dtype::f32: reinterpret_cast<float*>(data.data())[i] = static_cast<float>(value) / 7; break;
              case Dtype::f64: reinterpret_cast<double*>(data.data())[i] = value / 7.0; break;
              case Dtype::f16: reinterpret_cast<Half*>(data.data())[i] = Half(static_cast<float>(value) / 7); break;
              case Dtype::bf16:
                reinterpret_cast<Bfloat16*>(data.data())[i] = Bfloat16(static_cast<float>(value) / 7);
                break;
              case Dtype::i32: reinterpret_cast<std::int32_t*>(data.data())[i] = value * 12345678; break;
            }
          };
          fill(from);
          fill(into);
        }
        const Buffer source = (*devices)[0].allocate(bytes), target = (*devices)[0].allocate(bytes);
        std::vector<std::byte> got(bytes);
        const Reduction reduction{dtype, op, op == Op::avg ? 3 : 1};
        stream->copy(from.data(), source.data(), bytes);
        stream->copy(into.data(), target.data(), bytes);
        stream->reduce(source.data() + from_skip * element, target.data() + into_skip * element, count, reduction);
        stream->copy(target.data(), got.data(), bytes);
        stream->sync();
        reduce_on_host(from.data() + from_skip * element, into.data() + into_skip * element, count, reduction);
        EXPECT_EQ(got, into) << name(dtype) << ' ' << name(op) << ' ' << count << ' ' << from_skip << ' ' << into_skip;
      }
    }
  }
}

// Also what is halfway between two, too large, and none.
TEST(Gpus, FloatsBecomeBfloat16AsOnTheCpuAndComeBack) {
  restart({.gpus = 1});
  const auto gpus = open_devices("cuda:0"), cpus = open_devices("cpu:1");
  std::vector<float> numbers = {0,       -0.0F,    1,      1.00390625F, 1.01171875F, -1.00390625F,
                                3.4e38F, -3.4e38F, 1e-40F, -1e-40F,     INFINITY,    -INFINITY};
  std::mt19937 random(5);
  for (int i = 0; i < 1000; ++i) numbers.push_back((static_cast<float>(random()) - 2e9F) * 1e-6F);
  const std::size_t count = numbers.size();
  const auto there_and_back = [&](Device& device) {
    const auto stream = device.make_stream();
    const Buffer from = device.allocate(count * sizeof(float)), half = device.allocate(count * sizeof(Bfloat16));
    std::vector<std::uint16_t> bits(count);
    std::vector<float> back(count);
    stream->copy(numbers.data(), from.data(), count * sizeof(float));
    narrow(*stream, reinterpret_cast<float*>(from.data()), reinterpret_cast<Bfloat16*>(half.data()), count);
    stream->copy(half.data(), bits.data(), count * sizeof(Bfloat16));
    widen(*stream, reinterpret_cast<Bfloat16*>(half.data()), reinterpret_cast<float*>(from.data()), count);
    narrow(*stream, nullptr, nullptr, 0);
    stream->copy(from.data(), back.data(), count * sizeof(float));
    stream->sync();
    return std::pair(bits, back);
  };
  const auto [bits, back] = there_and_back((*gpus)[0]);
  EXPECT_EQ(std::pair(bits, back), there_and_back((*cpus)[0]));
  EXPECT_EQ(back[3], 1);  // to the even one of two that are as near
  EXPECT_EQ(back[4], 1.015625F);
  EXPECT_EQ(back[6], INFINITY);
}

TEST(Gpus, ABrakeWastesAMultipleOfWhatTheWorkTookAndOfNoneNothing) {
  restart({.gpus = 2});
  for (const char* point : {"cuda:1", "cpu:1"}) {
    const auto devices = open_devices(point);
    const auto stream = (*devices)[0].make_stream();
    const Buffer memory = (*devices)[0].allocate(1 << 20);
    const auto brake = make_brake(*stream, 5), none = make_brake(*stream, 1);
    EXPECT_EQ(brake->wasted_seconds(), 0);
    double before = 0;
    for (int time = 0; time < 3; ++time) {
      none->begin();
      brake->begin();
      stream->reduce(memory.data(), memory.data() + (1 << 19), 1 << 17, {});
      brake->end();
      none->end();
      stream->sync();
      EXPECT_GT(brake->wasted_seconds(), before);
      before = brake->wasted_seconds();
    }
    EXPECT_EQ(none->wasted_seconds(), 0);
  }
}

// One byte goes round all GPUs and back, each stream waiting for the one before.
std::byte round_trip(Devices& devices, bool recorded, bool forgets_a_wait) {
  std::vector<Buffer> memory;
  std::vector<std::unique_ptr<Stream>> streams;
  for (int rank = 0; rank < devices.size(); ++rank) {
    memory.push_back(devices[rank].allocate(1));
    streams.push_back(devices[rank].make_stream());
  }
  const std::byte start{42};
  std::byte end{0};
  streams[0]->copy(&start, memory[0].data(), 1);
  const auto go = [&] {
    for (int rank = 1; rank < devices.size(); ++rank) {
      // In a recording every stream must be forked, if only from the anchor's beginning.
      if (!forgets_a_wait || rank != 2) streams[rank]->wait(streams[rank - 1]->record());
      streams[rank]->copy(memory[rank - 1].data(), memory[rank].data(), 1);
    }
    streams[0]->wait(streams.back()->record());
    streams[0]->copy(memory.back().data(), memory[0].data(), 1);
  };
  std::unique_ptr<Recording> recording;
  if (recorded) {
    recording = devices.record(*streams[0], go);
    recording->launch();
    recording->launch();
  } else {
    go();
  }
  streams[0]->copy(memory[0].data(), &end, 1);
  for (const auto& stream : streams) stream->sync();
  return end;
}

TEST(Gpus, WaitsKeepTheOrderUnderEverySeedEagerlyAndRecorded) {
  for (int seed = 0; seed < seeds; ++seed) {
    restart({.gpus = 4, .peers = seed % 2 == 0 ? "all" : "0-1", .seed = seed});
    const auto devices = open_devices("cuda");
    EXPECT_EQ(round_trip(*devices, false, false), std::byte{42}) << seed;
    EXPECT_EQ(round_trip(*devices, true, false), std::byte{42}) << seed;
  }
}

TEST(Gpus, AMissingWaitGivesAWrongAnswerUnderSomeSeed) {
  int wrong = 0;
  for (int seed = 0; seed < seeds; ++seed) {
    restart({.gpus = 4, .seed = seed});
    const auto devices = open_devices("cuda");
    wrong += round_trip(*devices, false, true) != std::byte{42} ? 1 : 0;
  }
  EXPECT_GT(wrong, 0);
}

class TwoGpus : public testing::Test {
 protected:
  TwoGpus() {
    restart({.gpus = 2});
    devices = open_devices("cuda", {.timeout_seconds = 0.2});
    first = (*devices)[0].make_stream();
    second = (*devices)[1].make_stream();
    memory = (*devices)[0].allocate(64);
    other = (*devices)[1].allocate(64);
  }
  std::unique_ptr<Devices> devices;
  std::unique_ptr<Stream> first, second;
  Buffer memory, other;
};

TEST_F(TwoGpus, ARecordedStreamThatIsNotJoinedIsRefused) {
  EXPECT_THROW(devices->record(*first,
                               [&] {
                                 second->wait(first->record());
                                 second->copy(memory.data(), other.data(), 64);
                               }),
               Error);
}

TEST_F(TwoGpus, ARecordedStreamThatDoesNotWaitForTheAnchorIsRefused) {
  EXPECT_THROW(devices->record(*first, [&] { second->copy(memory.data(), other.data(), 64); }), Error);
  EXPECT_THROW(devices->record(*first, [&] { second->record(); }), Error);
  EXPECT_THROW(devices->record(*first, [&] { second->reduce(other.data(), other.data(), 1, {}); }), Error);
}

TEST_F(TwoGpus, ARecordingCannotWaitForAnEventFromOutside) {
  const Event outside = second->record();
  EXPECT_THROW(devices->record(*first, [&] { first->wait(outside); }), Error);
  EXPECT_THROW(devices->record(*first, [&] { second->wait(outside); }), Error);
}

TEST_F(TwoGpus, ARefusedRecordingLeavesTheStreamsInUse) {
  EXPECT_THROW(devices->record(*first, [] { throw Error("no"); }), Error);
  EXPECT_THROW(devices->record(*first, [&] { devices->record(*first, [] {}); }), Error);
  EXPECT_THROW(devices->record(*first, [&] { first->record(Timing::on); }), Error);
  first->copy(memory.data(), other.data(), 64);
  EXPECT_NO_THROW(first->sync());
}

TEST_F(TwoGpus, TheAnchorMustBeOneOfTheSet) {
  const auto others = open_devices("cuda:0");
  const auto stranger = (*others)[0].make_stream();
  EXPECT_THROW(devices->record(*stranger, [] {}), Error);
}

TEST_F(TwoGpus, OnlyTimedEventsOfOneStreamHaveATimeBetweenThem) {
  const Event begin = first->record(Timing::on);
  first->copy(memory.data(), other.data(), 64);
  const Event end = first->record(Timing::on), there = second->record(Timing::on), untimed = first->record();
  first->sync();
  second->sync();
  EXPECT_GE(devices->seconds_between(begin, end), 0);
  EXPECT_THROW(devices->seconds_between(begin, there), Error);
  EXPECT_THROW(devices->seconds_between(begin, untimed), Error);
  EXPECT_THROW(devices->seconds_between(Event(), end), Error);
}

TEST_F(TwoGpus, EventsOfAnotherKindOfDeviceAreRefused) {
  const auto cpu = open_devices("cpu:1");
  const auto stream = (*cpu)[0].make_stream();
  EXPECT_THROW(first->wait(stream->record()), Error);
  EXPECT_NO_THROW(first->wait(Event()));
}

TEST(Gpus, ACopyThatNeverEndsTimesOutAndIsToldBeforeAnythingIsUnwound) {
  restart({.gpus = 1});
  std::string told;
  {
    DeviceSettings settings{.timeout_seconds = 0.1};
    settings.on_timeout = [&](const TimedOut& error) { told = error.what(); };
    const auto devices = open_devices("cuda:0", settings);
    restart({.gpus = 1, .hang = 1});
    const auto stream = (*devices)[0].make_stream();
    const Buffer memory = (*devices)[0].allocate(8);
    std::uint64_t value = 0;
    stream->copy(&value, memory.data(), 8);
    EXPECT_THROW(stream->sync(), TimedOut);
  }
  EXPECT_NE(told.find("0.1"), std::string::npos) << told;
}

// Every call that can fail, at its first, second and third time: an exception with CUDA's words, never a crash.
TEST(Gpus, EveryFailedCallIsAnErrorThatSaysWhatItWasDoing) {
  int failed = 0;
  for (const char* call : {"cudaSetDevice",
                           "cudaMalloc",
                           "cudaMemset",
                           "cudaMemsetAsync",
                           "cudaHostAlloc",
                           "cudaMemcpyAsync",
                           "cudaMemcpyPeerAsync",
                           "cudaLaunchKernel",
                           "cudaStreamCreateWithFlags",
                           "cudaStreamQuery",
                           "cudaStreamSynchronize",
                           "cudaEventCreateWithFlags",
                           "cudaEventRecord",
                           "cudaStreamWaitEvent",
                           "cudaStreamBeginCapture",
                           "cudaStreamEndCapture",
                           "cudaGraphLaunch",
                           "cudaStreamIsCapturing",
                           "cudaGraphInstantiate",
                           "cudaDeviceGetAttribute",
                           "cudaDeviceGetP2PAttribute",
                           "cudaDeviceEnablePeerAccess",
                           "cudaDeviceGetPCIBusId"}) {
    for (int time = 1; time <= 3; ++time) {
      restart({.gpus = 3, .peers = "0-1", .fail = std::string(call) + ":" + std::to_string(time) + ":999"});
      try {
        const auto devices = open_devices("cuda");
        round_trip(*devices, false, false);
        round_trip(*devices, true, false);
        const auto stream = (*devices)[0].make_stream();
        const Buffer memory = (*devices)[0].allocate(8);
        stream->reduce(memory.data(), memory.data() + 4, 1, {Dtype::i32, Op::sum, 1});
        stream->sync();
      } catch (const Error& error) {
        ++failed;
        EXPECT_NE(std::string(error.what()).find(": cudaError"), std::string::npos) << error.what();
      }
    }
  }
  EXPECT_GE(failed, 23);
}

TEST(Gpus, AnErrorAfterWhichNothingWorksIsTheLossOfTheDevice) {
  restart({.gpus = 1});
  const auto devices = open_devices("cuda:0");
  const auto stream = (*devices)[0].make_stream();
  restart({.gpus = 1, .fail = "cudaStreamQuery:1:700"});
  EXPECT_THROW(stream->sync(), DeviceLost);
  EXPECT_THROW((*devices)[0].allocate(8), DeviceLost);
  restart({.gpus = 1});
}

}  // namespace
}  // namespace harness
