// SPDX-License-Identifier: Apache-2.0
// Checkpoints there and back, read by Python's own means, and every way in which a file can be bad.
#include "models/checkpoint.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "models/dataset.hpp"

namespace models {
namespace {

class Checkpoints : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<Model> make(const std::string& name, std::uint64_t seed, bool momentum = true) {
    return make_model(name, *stream_, {.capacity = 2, .seed = seed, .momentum = momentum});
  }
  void train(Model& model, int steps) {
    const Dataset data = make_synthetic(2, 3, model.input());
    for (int i = 0; i < 2; ++i) data.load(i, model.images() + i * data.image_size, model.labels() + i);
    for (int step = 0; step < steps; ++step) {
      model.forward(2);
      for (int layer = model.layers() - 1; layer >= 0; --layer) model.backward(layer, 2);
      model.step({.lr = 1e-4, .images = 2, .momentum = 0.9});
    }
    stream_->sync();
  }
  std::string read(const std::filesystem::path& path) const {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
  // A file of this header and so many bytes of zeros.
  void write(const std::string& header, std::size_t bytes, std::uint64_t length) const {
    std::string text(reinterpret_cast<const char*>(&length), sizeof(length));
    std::ofstream(path_, std::ios::binary) << text << header << std::string(bytes, '\0');
  }
  std::string refusal() const {
    try {
      load_checkpoint(path_);
    } catch (const harness::UsageError& error) {
      const std::string text = error.what();
      EXPECT_EQ(text.rfind(path_.string(), 0), 0U) << text;
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
      return text;
    }
    return "was read";
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("checkpoint_test." + std::to_string(getpid()));
  std::filesystem::path path_ = (std::filesystem::create_directories(folder_), folder_ / "run.safetensors");
  std::unique_ptr<harness::Devices> devices_ = harness::open_devices("cpu:1", {1, 60});
  std::unique_ptr<harness::Stream> stream_ = (*devices_)[0].make_stream();
};

TEST_F(Checkpoints, BringATrainingBackBitForBit) {
  const auto trained = make("resnet18", 1), other = make("resnet18", 2);
  train(*trained, 2);
  save(checkpoint_of(*trained, {{"epoch", "3"}, {"step", "17"}}), path_);
  const Checkpoint read = load_checkpoint(path_);
  EXPECT_EQ(read.metadata, (std::map<std::string, std::string>{{"epoch", "3"}, {"step", "17"}}));
  restore(read, *other);
  // Also what comes after is the same, since momentum is.
  for (const int more : {0, 2}) {
    train(*trained, more);
    train(*other, more);
    const auto expected = checkpoint_of(*trained), found = checkpoint_of(*other);
    ASSERT_EQ(found.tensors.size(), 76U + 34 + 76);
    for (std::size_t i = 0; i < found.tensors.size(); ++i) {
      EXPECT_EQ(found.tensors[i].values, expected.tensors[i].values) << found.tensors[i].name;
    }
  }
}

TEST_F(Checkpoints, AreReadByAnotherReaderOfTheFormat) {
  const auto model = make("lenet", 1, false);
  save(checkpoint_of(*model, {{"seed", "1"}}), path_);
  // From the description of the format, with nothing but Python's standard library.
  const std::string script = R"(
import json, math, struct, sys
data = open(sys.argv[1], "rb").read()
length, = struct.unpack("<Q", data[:8])
header = json.loads(data[8:8 + length])
assert data[8:9] == b"{" and length % 8 == 0
metadata = header.pop("__metadata__")
end = 0
for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
    begin, stop = entry["data_offsets"]
    assert begin == end and stop - begin == 4 * math.prod(entry["shape"]) and entry["dtype"] == "F32", name
    end = stop
    values = struct.unpack("<%df" % ((stop - begin) // 4), data[8 + length + begin:8 + length + stop])
    print(name, entry["shape"], values[-1].hex())
assert 8 + length + end == len(data)
print(metadata)
)";
  std::ofstream(folder_ / "read.py") << script;
  const std::string command = "/usr/bin/python3 " + (folder_ / "read.py").string() + " " + path_.string();
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string text(1 << 16, '\0');
  text.resize(fread(text.data(), 1, text.size(), pipe.get()));
  const auto& weight = model->parameter_table()[2];
  const std::string begin = "conv2.weight [50, 20, 5, 5] ";
  const auto line = text.find(begin);
  ASSERT_NE(line, std::string::npos) << text;
  EXPECT_EQ(std::strtod(text.c_str() + line + begin.size(), nullptr),
            model->parameters()[weight.offset + weight.count - 1]);
  EXPECT_NE(text.find("{'seed': '1'}"), std::string::npos) << text;
}

TEST_F(Checkpoints, AreRefusedByAModelOfOtherTensors) {
  const auto lenet = make("lenet", 1, false), mlp = make("mlp", 1, false), moving = make("mlp", 1);
  EXPECT_THROW(restore(checkpoint_of(*lenet), *mlp), harness::UsageError);
  EXPECT_THROW(restore(checkpoint_of(*mlp), *moving), harness::UsageError);
  EXPECT_THROW(restore(checkpoint_of(*moving), *mlp), harness::UsageError);
  Checkpoint turned = checkpoint_of(*mlp);
  std::swap(turned.tensors[0].shape[0], turned.tensors[0].shape[1]);
  EXPECT_THROW(restore(turned, *mlp), harness::UsageError);
}

TEST_F(Checkpoints, ReplaceTheFileAsAWhole) {
  const auto model = make("mlp", 1, false);
  save(checkpoint_of(*model), path_);
  save(checkpoint_of(*model, {{"epoch", "2"}}), path_);
  EXPECT_EQ(load_checkpoint(path_).metadata.at("epoch"), "2");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), std::filesystem::directory_iterator()), 1);
  EXPECT_THROW(save(checkpoint_of(*model), folder_ / "missing" / "x"), harness::Error);
}

TEST_F(Checkpoints, BadFilesAreRefusedWithTheReason) {
  EXPECT_NE(refusal().find("there is no such file"), std::string::npos);
  const auto entry = [](const std::string& name, const std::string& dtype, const std::string& shape,
                        const std::string& offsets) {
    return "\"" + name + R"(": {"dtype": ")" + dtype + R"(", "shape": )" + shape + R"(, "data_offsets": )" + offsets +
           "}";
  };
  struct Case {
    std::string header;
    std::size_t bytes;
    std::string reason;
  };
  for (const Case& bad : std::vector<Case>{
           {"", 0, "not that of a safetensors file"},
           {"{", 0, "not that of a safetensors file"},
           {"[]", 0, "no JSON object"},
           {R"({"a": 3})", 0, "not that of a safetensors file"},
           {R"({"__metadata__": {"epoch": 3}})", 0, "not that of a safetensors file"},
           {R"({"a": {"dtype": "F32", "shape": [1]}})", 4, "not that of a safetensors file"},
           {"{" + entry("a", "F16", "[2]", "[0, 4]") + "}", 4, "dtype F16"},
           {"{" + entry("a", "F32", "[-1]", "[0, 4]") + "}", 4, "shape"},
           {"{" + entry("a", "F32", "[1.5]", "[0, 4]") + "}", 4, "shape"},
           {"{" + entry("a", "F32", "[4294967296, 4294967296]", "[0, 4]") + "}", 4, "shape"},
           {"{" + entry("a", "F32", "[2]", "[0, 4]") + "}", 4, "4 bytes where its shape makes 8"},
           {"{" + entry("a", "F32", "[2]", "[0, 8]") + "}", 4, "4 bytes of tensors"},
           {"{" + entry("a", "F32", "[1]", "[4, 0]") + "}", 4, "lies at [4,0]"},
           {"{" + entry("a", "F32", "[1]", "[0]") + "}", 4, "offsets"},
           {"{" + entry("a", "F32", "[1]", "[-4, 0]") + "}", 4, "offsets"},
           {"{" + entry("a", "F32", "[1]", "[0, 4]") + "}", 8, "end at 4 of 8"},
           {"{" + entry("a", "F32", "[1]", "[4, 8]") + "}", 8, "begins at 4"},
           {"{" + entry("a", "F32", "[1]", "[0, 4]") + "," + entry("b", "F32", "[1]", "[0, 4]") + "}", 4,
            "begins at 0"},
       }) {
    write(bad.header, bad.bytes, bad.header.size());
    EXPECT_NE(refusal().find(bad.reason), std::string::npos) << bad.header << ": " << refusal();
  }
  write("{}", 0, 3);
  EXPECT_NE(refusal().find("header has 3 bytes"), std::string::npos) << refusal();
  write("{}", 0, ~std::uint64_t{0});
  EXPECT_NE(refusal().find("header has"), std::string::npos) << refusal();
  std::ofstream(path_) << "short";
  EXPECT_NE(refusal().find("too short"), std::string::npos) << refusal();
}

TEST_F(Checkpoints, AreRefusedWhereverTheyAreCutOff) {
  const auto model = make("mlp", 1, false);
  save(checkpoint_of(*model, {{"epoch", "2"}}), path_);
  const std::string whole = read(path_);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << whole.substr(0, length);
    EXPECT_NE(refusal(), "was read") << length << " of " << whole.size();
  }
}

TEST_F(Checkpoints, OfOtherProgramsMayHaveAnyOrderAndScalars) {
  const std::string header = R"({"b": {"dtype": "F32", "shape": [], "data_offsets": [8, 12]},)"
                             R"( "a": {"shape": [2, 1], "data_offsets": [0, 8], "dtype": "F32"}, )"
                             R"("c": {"dtype": "F32", "shape": [0, 3], "data_offsets": [12, 12]}}   )";
  write(header, 12, header.size());
  const Checkpoint read = load_checkpoint(path_);
  ASSERT_EQ(read.tensors.size(), 3U);
  EXPECT_EQ(read.tensors[0].values.size(), 2U);
  EXPECT_EQ(read.tensors[1].values.size(), 1U);
  EXPECT_EQ(read.tensors[2].values.size(), 0U);
}

}  // namespace
}  // namespace models
