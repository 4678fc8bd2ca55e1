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
Checkpoint checkpoint_of(const Model& model, std::map<std::string, std::string> metadata = {});
// The same of a network of which each device has a piece: called for one after the other, it puts them together.
void add(Checkpoint& checkpoint, std::span<const StateTensor> state, harness::Stream& stream);

// Puts it back. Throws as require_alike does.
void restore(const Checkpoint& checkpoint, Model& model);
// The same for a piece, which takes what it has of it. Throws harness::UsageError naming a tensor that is not there.
void restore(const Checkpoint& checkpoint, std::span<const StateTensor> state, harness::Stream& stream);

// Throws harness::UsageError naming the first tensor that a checkpoint has and the model, of which the other one is,
// not, or the other way round, or in another shape.
void require_alike(const Checkpoint& checkpoint, const Checkpoint& of_model);

// The file is replaced as a whole or not at all. Throws harness::Error with the reason.
void save(const Checkpoint& checkpoint, const std::filesystem::path& path);

// Throws harness::UsageError, its text beginning with the path, for a file that is missing, cut off or damaged, or
// holds something else than F32.
Checkpoint load_checkpoint(const std::filesystem::path& path);
// From what the file holds; the path is for the complaint.
Checkpoint parse_checkpoint(const std::filesystem::path& path, std::string_view contents);

}  // namespace models
