// SPDX-License-Identifier: Apache-2.0
// Images to train on. Fashion-MNIST (Xiao, Rasul, Vollgraf 2017) comes as the four gzip'd IDX files of its authors,
// whose SHA-256 is always checked; it is never replaced by anything else. Synthetic images are made only when asked
// for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "models/tensor.hpp"

namespace models {

struct Dataset {
  static constexpr int side = 28;
  static constexpr int pixels = side * side;
  static constexpr int classes = 10;

  std::vector<std::uint8_t> images;  // [size()][image_size], one channel of 28x28 pixels unless asked for otherwise
  std::vector<std::uint8_t> labels;  // 0 to 9
  std::size_t image_size = pixels;
  std::size_t size() const { return labels.size(); }

  // Image `from` as floats, pixel / 255 rounded once, and its label.
  void load(std::size_t from, float* image, std::uint8_t* label) const;
};

enum class Part { train, test };

// From `folder`. An empty path takes what Debian's package dataset-fashion-mnist brought, else a download. Throws
// harness::UsageError naming the file for one that is missing, corrupt or not what its name says.
Dataset load_fashion_mnist(Part part, const std::filesystem::path& folder = {});

// The folder of the cache that keeps the part's two files, downloaded from their authors' site where they are missing.
// Throws harness::Error when that fails.
std::filesystem::path download_fashion_mnist(Part part);

// Each class is a checkerboard of its own greys, with noise: learnable, and the same for the same seed. Of another
// shape than one channel of 28x28, each number is a cell of its own.
Dataset make_synthetic(std::size_t size, std::uint64_t seed, const Shape& shape = {1, Dataset::side, Dataset::side},
                       int classes = Dataset::classes);

// The bytes of an IDX file (http://yann.lecun.com/exdb/mnist: big-endian magic 0x08 and the number of dimensions, then
// the sizes, then one byte an element). Throws harness::UsageError, its text beginning with `name`, unless the
// dimensions are just those.
std::vector<std::uint8_t> parse_idx(const std::string& name, const std::vector<std::uint8_t>& file,
                                    const std::vector<std::uint32_t>& dimensions);

// What a gzip file holds. Throws harness::UsageError for one that is damaged or cut off.
std::vector<std::uint8_t> gunzip(const std::string& name, const std::vector<std::uint8_t>& file);

// The order in which an epoch sees the images, and each rank's part of a batch.
class Sampler {
 public:
  enum class Order { shuffled, sequential };
  Sampler(std::size_t images, std::size_t global_batch, int ranks, Order order, std::uint64_t seed);

  std::size_t batches() const;  // of an epoch; the last may be smaller

  // The images of `rank` in a batch of an epoch: contiguous parts of the batch in rank order, whose sizes differ by one
  // at most.
  std::vector<std::size_t> shard(std::size_t epoch, std::size_t batch, int rank);

 private:
  void begin(std::size_t epoch);

  std::size_t global_batch_;
  int ranks_;
  Order order_;
  std::uint64_t seed_;
  std::size_t epoch_ = 0;
  std::vector<std::size_t> images_;
};

}  // namespace models
