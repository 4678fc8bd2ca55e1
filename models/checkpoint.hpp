// SPDX-License-Identifier: Apache-2.0
// What a training run needs to go on later, in a file that other programs read, too: safetensors
// (https://github.com/huggingface/safetensors, 2022). That is the length of a header as 8 bytes, little-endian; the
// header, JSON that names each tensor's dtype, shape and place; then the tensors' bytes without a gap. All tensors here
// are F32.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/model.hpp"

namespace models {

struct Checkpoint {
  struct Tensor {
    std::string name;
    std::vector<int> shape;
    std::vector<float> values = {};
  };
  std::map<std::string, std::string> metadata = {};  // as in the file: of strings only
  std::vector<Tensor> tensors = {};
};

// What training has changed so far, copied after the work that was issued to the stream.
Checkpoint checkpoint_of(std::span<const StateTensor> state, harness::Stream& stream,
                         std::map<std::string, std::string> metadata = {});
Checkpoint checkpoint_of(const Model& model, std::map<std::string, std::string> metadata = {});

// Puts it back. Throws harness::UsageError naming the first tensor that one of the two has and the other not, or in
// another shape.
void restore(const Checkpoint& checkpoint, std::span<const StateTensor> state, harness::Stream& stream);
void restore(const Checkpoint& checkpoint, Model& model);

// The file is replaced as a whole or not at all. Throws harness::Error with the reason.
void save(const Checkpoint& checkpoint, const std::filesystem::path& path);

// Throws harness::UsageError, its text beginning with the path, for a file that is missing, cut off or damaged, or
// holds something else than F32.
Checkpoint load_checkpoint(const std::filesystem::path& path);
// From what the file holds; the path is for the complaint.
Checkpoint parse_checkpoint(const std::filesystem::path& path, std::string_view contents);

}  // namespace models
