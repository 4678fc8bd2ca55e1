// SPDX-License-Identifier: Apache-2.0
#include "bench/replicas.hpp"

#include <gtest/gtest.h>

#include <string>

namespace bench {
namespace {

class TwoReplicas : public testing::Test {
 protected:
  std::unique_ptr<harness::Devices> devices = harness::open_devices("cpu:2", {.threads = 1});
  models::Dataset data = models::make_synthetic(8, 1);

  Replicas make(int accumulate, bool shares_momentum = false) const {
    models::ModelSettings settings;
    settings.momentum = true;
    settings.backend = "plain";
    settings.capacity = 4;
    return {*devices, "lenet", settings, {.accumulate = accumulate, .shares_momentum = shares_momentum}};
  }
};

TEST_F(TwoReplicas, ThatPartAreToldWithTheFirstTensorInWhichTheyDiffer) {
  const Replicas replicas = make(1);
  EXPECT_EQ(replicas.checksums().at(0), replicas.checksums().at(1));
  const models::Parameter& third = replicas.model().parameter_table().at(2);
  replicas.model(1).parameters()[third.offset + third.count - 1] += 1;
  replicas.model(1).parameters()[replicas.model().parameter_table().at(3).offset] += 1;
  try {
    replicas.checksums();
    FAIL() << "replicas that differ were called equal";
  } catch (const harness::Error& error) {
    EXPECT_NE(std::string(error.what()).find(third.name), std::string::npos) << error.what();
  }
}

TEST_F(TwoReplicas, InPiecesAreComparedInWhatBothHaveWhole) {
  models::ModelSettings settings;
  settings.backend = "plain";
  settings.capacity = 4;
  const Replicas shares(*devices, "lenet", settings, {.piece = Piece::share});
  EXPECT_NE(shares.checksums().at(0), shares.checksums().at(1));
  const auto state = shares.state();
  const models::Parameter& first = shares.model().parameter_table().at(0);
  ASSERT_TRUE(first.whole);
  shares.model(1).parameters()[first.offset] += 1;
  EXPECT_THROW(shares.checksums(), harness::Error);
  shares.restore(state);
  shares.checksums();
  EXPECT_EQ(shares.state(), state);
}

TEST_F(TwoReplicas, OutliveWhatWasIssuedWhenSomebodyThrows) {
  EXPECT_THROW(
      {
        Replicas replicas = make(1);
        replicas.load({&data, {0, 1, 2, 3, 4, 5, 6}, {4, 3}});
        for (int step = 0; step < 10; ++step) {
          replicas.forward();
          replicas.backward();
        }
        replicas.update({.momentum = 0.9}, [&](int) { return models::Slice{1, replicas.size()}; });
      },
      harness::Error);
}

TEST_F(TwoReplicas, AddUpTheSameGradientsInOneMicroBatchAndInThree) {
  const Batch batch{&data, {0, 1, 2, 3, 4, 5, 6}, {4, 3}};
  Replicas whole = make(1), parts = make(3);
  for (Replicas* replicas : {&whole, &parts}) {
    replicas->load(batch);
    if (replicas->accumulates()) replicas->accumulate();
    replicas->forward();
    replicas->backward();
    replicas->sync();
    EXPECT_EQ(replicas->images(), 7U);
  }
  EXPECT_NEAR(whole.loss(), parts.loss(), 1e-5 * whole.loss());
  for (int rank = 0; rank < 2; ++rank) {
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const float expected = whole.model(rank).gradients()[i];
      ASSERT_NEAR(parts.model(rank).gradients()[i], expected, 1e-5 + 1e-5 * std::abs(expected)) << rank << ' ' << i;
    }
  }
}

TEST_F(TwoReplicas, GiveBackAllThatAStepDependsOn) {
  for (const bool shares : {false, true}) {
    Replicas replicas = make(1, shares);
    const auto step = [&] {
      replicas.load({&data, {0, 1, 2, 3, 4, 5, 6}, {4, 3}});
      replicas.forward();
      replicas.backward();
      for (std::size_t part = 0; part < replicas.model().momentum_slices().size(); ++part) {
        replicas.update({.lr = 1e-3, .images = 7, .momentum = 0.9},
                        [&](int rank) { return replicas.model(rank).momentum_slices().at(part); });
      }
      replicas.sync();
    };
    step();
    const auto before = replicas.state();
    const auto checkpoint = replicas.checkpoint({});
    EXPECT_EQ(before.size(), 2 * replicas.size());  // LeNet has no statistics
    replicas.restore(before);                       // no all-reduce has made the two the same
    step();
    const auto after = replicas.state();
    EXPECT_NE(after, before);
    replicas.restore(before);
    EXPECT_EQ(replicas.state(0), before);
    EXPECT_EQ(replicas.state(1), before);
    step();
    EXPECT_EQ(replicas.state(0), after);
    // A checkpoint does not tell who kept the momentum.
    for (const bool others : {false, true}) {
      const Replicas resumed = make(1, others);
      resumed.restore(checkpoint);
      const auto found = resumed.checkpoint({});
      ASSERT_EQ(found.tensors.size(), checkpoint.tensors.size());
      for (std::size_t i = 0; i < found.tensors.size(); ++i) {
        EXPECT_EQ(found.tensors[i].name, checkpoint.tensors[i].name);
        EXPECT_EQ(found.tensors[i].values, checkpoint.tensors[i].values) << found.tensors[i].name;
      }
    }
  }
}

}  // namespace
}  // namespace bench
