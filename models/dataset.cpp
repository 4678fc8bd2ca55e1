// SPDX-License-Identifier: Apache-2.0
#include "models/dataset.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <numeric>

#include "harness/error.hpp"
#include "harness/random.hpp"
#include "models/download.hpp"
#include "models/sha256.hpp"

namespace models {

namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr const char* packaged = "/usr/share/datasets/fashion-mnist";
constexpr const char* official = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/";

struct File {
  const char* name;
  const char* sha256;
};
constexpr std::array<std::array<File, 2>, 2> files = {{
    {{{"train-images-idx3-ubyte.gz", "b0564c3eedabfbf835052cff8503ea422014ce006caf5b757f851416ee8300c7"},
      {"train-labels-idx1-ubyte.gz", "0ae29f65d86684f32d1b9c85147786c547b9c6aebcaf235f0400a0cce308b056"}}},
    {{{"t10k-images-idx3-ubyte.gz", "cc1d090a38ace84dfa1aa66e3ada7c336ef481a96936906477e6dd344da56eaa"},
      {"t10k-labels-idx1-ubyte.gz", "8d3605d196f4be44669e46906da9733c8131fef761fdbfec72c424d5222f1a05"}}},
}};
constexpr std::array<std::uint32_t, 2> sizes = {60000, 10000};

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw harness::UsageError(std::string(name).append(": ").append(why));
}

Bytes read(const std::filesystem::path& path, const char* expected) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    refuse(path.string(),
           "cannot be read; --data-dir names a folder with the four .gz files of Fashion-MNIST, without it Debian's "
           "package dataset-fashion-mnist or a download is taken");
  }
  Bytes bytes((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  if (sha256(bytes) != expected) refuse(path.string(), std::string("is damaged: its SHA-256 is not ") + expected);
  return gunzip(path.string(), bytes);
}

}  // namespace

void Dataset::load(std::size_t from, float* image, std::uint8_t* label) const {
  const std::uint8_t* source = images.data() + from * image_size;
  for (std::size_t pixel = 0; pixel < image_size; ++pixel) image[pixel] = static_cast<float>(source[pixel] / 255.0);
  *label = labels[from];
}

Bytes gunzip(const std::string& name, const Bytes& file) {
  z_stream stream{};
  if (inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK) throw harness::Error("zlib does not start");
  stream.next_in = const_cast<Bytef*>(file.data());
  stream.avail_in = static_cast<uInt>(file.size());
  Bytes result;
  Bytes piece(1 << 20);
  int status = Z_OK;
  while (status == Z_OK) {
    stream.next_out = piece.data();
    stream.avail_out = static_cast<uInt>(piece.size());
    status = inflate(&stream, Z_NO_FLUSH);
    result.insert(result.end(), piece.begin(), piece.end() - stream.avail_out);
    if (status == Z_OK && stream.avail_in == 0 && stream.avail_out > 0) status = Z_BUF_ERROR;
  }
  inflateEnd(&stream);
  if (status != Z_STREAM_END) refuse(name, "is not a whole gzip file");
  return result;
}

Bytes parse_idx(const std::string& name, const Bytes& file, const std::vector<std::uint32_t>& dimensions) {
  const std::size_t header = 4 + 4 * dimensions.size();
  const auto word = [&](std::size_t at) {
    return std::uint32_t{file[at]} << 24 | std::uint32_t{file[at + 1]} << 16 | std::uint32_t{file[at + 2]} << 8 |
           std::uint32_t{file[at + 3]};
  };
  if (file.size() < header) refuse(name, "is too short for an IDX file");
  if (word(0) != (0x800U | dimensions.size())) {
    refuse(name, "is not an IDX file of bytes in " + std::to_string(dimensions.size()) + " dimensions");
  }
  std::size_t elements = 1;
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    if (word(4 + 4 * i) != dimensions[i]) {
      refuse(name,
             "has size " + std::to_string(word(4 + 4 * i)) + " where " + std::to_string(dimensions[i]) + " is due");
    }
    elements *= dimensions[i];
  }
  if (file.size() != header + elements) {
    refuse(name, "has " + std::to_string(file.size() - header) + " bytes of data where " + std::to_string(elements) +
                     " are due");
  }
  return {file.begin() + static_cast<std::ptrdiff_t>(header), file.end()};
}

std::filesystem::path download_fashion_mnist(Part part) {
  const auto folder = cache_folder() / "fashion-mnist";
  for (const File& file : files[static_cast<std::size_t>(part)]) {
    if (!std::filesystem::exists(folder / file.name))
      download(std::string(official) + file.name, folder / file.name, file.sha256);
  }
  return folder;
}

Dataset load_fashion_mnist(Part part, const std::filesystem::path& folder) {
  const auto index = static_cast<std::size_t>(part);
  std::filesystem::path root = folder;
  if (root.empty()) root = std::filesystem::exists(packaged) ? packaged : download_fashion_mnist(part);
  const auto& [image_file, label_file] = files[index];
  Dataset data;
  data.images = parse_idx((root / image_file.name).string(), read(root / image_file.name, image_file.sha256),
                          {sizes[index], Dataset::side, Dataset::side});
  data.labels =
      parse_idx((root / label_file.name).string(), read(root / label_file.name, label_file.sha256), {sizes[index]});
  if (*std::max_element(data.labels.begin(), data.labels.end()) >= Dataset::classes) {
    refuse((root / label_file.name).string(), "has labels above 9");
  }
  return data;
}

Dataset make_synthetic(std::size_t size, std::uint64_t seed, const Shape& shape, int classes) {
  constexpr int cell_side = 7;
  Dataset data;
  data.image_size = shape.size();
  const bool checkered = data.image_size == Dataset::pixels;
  for (std::size_t image = 0; image < size; ++image) {
    const auto label = static_cast<std::uint8_t>(harness::splitmix64(seed + image) % classes);
    data.labels.push_back(label);
    for (std::size_t pixel = 0; pixel < data.image_size; ++pixel) {
      const std::size_t cell =
          checkered ? pixel / Dataset::side / cell_side * Dataset::side + pixel % Dataset::side / cell_side : pixel;
      const std::uint64_t pattern = harness::splitmix64(std::uint64_t{label} * data.image_size + cell) % 160;
      const std::uint64_t noise = harness::splitmix64(seed ^ (image * data.image_size + pixel)) % 96;
      data.images.push_back(static_cast<std::uint8_t>(pattern + noise));
    }
  }
  return data;
}

Sampler::Sampler(std::size_t images, std::size_t global_batch, int ranks, Order order, std::uint64_t seed)
    : global_batch_(global_batch), ranks_(ranks), order_(order), seed_(seed), images_(images) {
  if (images == 0 || global_batch == 0 || ranks < 1) {
    throw harness::Error("a sampler needs images, a batch and at least one rank");
  }
  begin(0);
}

std::size_t Sampler::batches() const { return (images_.size() + global_batch_ - 1) / global_batch_; }

// Fisher and Yates, as Durstenfeld wrote it (1964).
void Sampler::begin(std::size_t epoch) {
  epoch_ = epoch;
  std::iota(images_.begin(), images_.end(), 0);
  if (order_ == Order::sequential) return;
  const std::uint64_t start = harness::splitmix64(seed_ ^ harness::splitmix64(epoch));
  for (std::size_t left = images_.size(); left > 1; --left) {
    std::swap(images_[left - 1], images_[harness::splitmix64(start + left) % left]);
  }
}

std::vector<std::size_t> Sampler::shard(std::size_t epoch, std::size_t batch, int rank) {
  if (epoch != epoch_) begin(epoch);
  const std::size_t first = batch * global_batch_;
  const std::size_t size = std::min(global_batch_, images_.size() - first);
  const auto border = [&](int at) { return static_cast<std::ptrdiff_t>(first + size * at / ranks_); };
  return {images_.begin() + border(rank), images_.begin() + border(rank + 1)};
}

}  // namespace models
