// SPDX-License-Identifier: Apache-2.0
#include "models/dataset.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "harness/error.hpp"
#include "models/model.hpp"
#include "models/sha256.hpp"

namespace models {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

TEST(Sha256, GivesThePublishedDigests) {
  EXPECT_EQ(sha256(bytes_of("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256(bytes_of("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256(bytes_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(Bytes(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(FashionMnist, IsWholeAndBalanced) {
  const Dataset train = load_fashion_mnist(Part::train);
  const Dataset test = load_fashion_mnist(Part::test);
  EXPECT_EQ(train.size(), 60000U);
  EXPECT_EQ(test.size(), 10000U);
  for (std::uint8_t label = 0; label < Dataset::classes; ++label) {
    EXPECT_EQ(std::count(train.labels.begin(), train.labels.end(), label), 6000);
    EXPECT_EQ(std::count(test.labels.begin(), test.labels.end(), label), 1000);
  }
}

TEST(FashionMnist, AMissingFolderAndADamagedFileAreNamed) {
  EXPECT_THROW(load_fashion_mnist(Part::train, "/no/such/folder"), harness::UsageError);
  const auto folder = std::filesystem::temp_directory_path() / ("ringmark_" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "train-images-idx3-ubyte.gz") << "not the images";
  try {
    load_fashion_mnist(Part::train, folder);
    ADD_FAILURE() << "a damaged file was taken";
  } catch (const harness::UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("train-images-idx3-ubyte.gz: is damaged"), std::string::npos);
  }
  std::filesystem::remove_all(folder);
}

struct BadIdx {
  const char* what;
  Bytes file;
  friend std::ostream& operator<<(std::ostream& out, const BadIdx& bad) { return out << bad.what; }
};

class IdxRefuses : public testing::TestWithParam<BadIdx> {};

TEST_P(IdxRefuses, WithItsNameFirst) {
  try {
    parse_idx("labels", GetParam().file, {3});
    ADD_FAILURE() << "was taken";
  } catch (const harness::UsageError& error) {
    EXPECT_EQ(std::string(error.what()).rfind("labels: ", 0), 0U) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Files, IdxRefuses,
                         testing::Values(BadIdx{"Empty", {}}, BadIdx{"HeaderOnlyInPart", {0, 0, 8, 1, 0, 0}},
                                         BadIdx{"AnotherType", {0, 0, 9, 1, 0, 0, 0, 3, 1, 2, 3}},
                                         BadIdx{"MoreDimensions", {0, 0, 8, 3, 0, 0, 0, 3, 1, 2, 3}},
                                         BadIdx{"AnotherSize", {0, 0, 8, 1, 0, 0, 0, 2, 1, 2}},
                                         BadIdx{"Truncated", {0, 0, 8, 1, 0, 0, 0, 3, 1, 2}},
                                         BadIdx{"TooLong", {0, 0, 8, 1, 0, 0, 0, 3, 1, 2, 3, 4}}),
                         [](const auto& row) { return std::string(row.param.what); });

TEST(Idx, GivesTheDataOfAGoodFile) {
  EXPECT_EQ(parse_idx("labels", {0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9}, {3}), (Bytes{7, 8, 9}));
}

TEST(Gunzip, RefusesWhatIsNotGzipOrCutOff) {
  EXPECT_THROW(gunzip("x", bytes_of("plain text")), harness::UsageError);
  EXPECT_THROW(gunzip("x", {}), harness::UsageError);
  EXPECT_THROW(gunzip("x", {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3}), harness::UsageError);
}

TEST(Sampler, ShowsEveryImageExactlyOnceAnEpochOnAnyNumberOfRanks) {
  for (const int ranks : {1, 2, 3, 7}) {
    Sampler sampler(103, 20, ranks, Sampler::Order::shuffled, 9);
    EXPECT_EQ(sampler.batches(), 6U);
    for (std::size_t epoch = 0; epoch < 2; ++epoch) {
      std::multiset<std::size_t> seen;
      for (std::size_t batch = 0; batch < sampler.batches(); ++batch) {
        std::size_t smallest = 103;
        std::size_t largest = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          const auto shard = sampler.shard(epoch, batch, rank);
          seen.insert(shard.begin(), shard.end());
          smallest = std::min(smallest, shard.size());
          largest = std::max(largest, shard.size());
        }
        EXPECT_LE(largest - smallest, 1U);
      }
      EXPECT_EQ(seen.size(), 103U);
      EXPECT_EQ(std::set<std::size_t>(seen.begin(), seen.end()).size(), 103U);
    }
  }
}

TEST(Sampler, ShufflesByEpochAndSeedAndRepeatsItself) {
  const auto first = [](std::size_t epoch, std::uint64_t seed) {
    return Sampler(1000, 100, 1, Sampler::Order::shuffled, seed).shard(epoch, 0, 0);
  };
  EXPECT_EQ(first(1, 1), first(1, 1));
  EXPECT_NE(first(0, 1), first(1, 1));
  EXPECT_NE(first(0, 1), first(0, 2));
}

TEST(Sampler, SequentialOrderIsTheFilesOrder) {
  Sampler sampler(10, 4, 2, Sampler::Order::sequential, 1);
  EXPECT_EQ(sampler.shard(0, 1, 0), (std::vector<std::size_t>{4, 5}));
  EXPECT_EQ(sampler.shard(0, 1, 1), (std::vector<std::size_t>{6, 7}));
}

TEST(Synthetic, IsTheSameForTheSameSeed) {
  EXPECT_EQ(make_synthetic(20, 4).images, make_synthetic(20, 4).images);
  EXPECT_NE(make_synthetic(20, 4).images, make_synthetic(20, 5).images);
}

TEST(Synthetic, CanBeLearnedInFortySteps) {
  constexpr int batch = 32;
  const Dataset data = make_synthetic(2 * batch, 4);
  const auto devices = harness::open_devices("cpu:1", {1, 60});
  const auto stream = (*devices)[0].make_stream();
  const auto model = make_lenet(*stream, {.capacity = batch});
  const auto correct_of = [&](std::size_t first) {
    for (int i = 0; i < batch; ++i) data.load(first + i, model->images() + i * Dataset::pixels, model->labels() + i);
    model->forward(batch);
    stream->sync();
    return model->outcome().correct;
  };
  for (int step = 0; step < 40; ++step) {
    correct_of(0);
    for (int layer = model->layers() - 1; layer >= 0; --layer) model->backward(layer, batch);
    model->step({.lr = 0.02, .images = batch});
    stream->sync();
  }
  EXPECT_GE(correct_of(batch), 3 * batch / 4);  // images that it never saw
}

}  // namespace
}  // namespace models
