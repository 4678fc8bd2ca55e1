// SPDX-License-Identifier: Apache-2.0
#include "models/checkpoint.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "harness/error.hpp"
#include "harness/file.hpp"
#include "harness/json.hpp"

namespace models {

namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "the format is little-endian, and is copied as it lies");

constexpr std::size_t length_bytes = 8;
constexpr std::uintmax_t largest_file = std::uintmax_t{1} << 40U;
constexpr std::size_t longest_header = 100'000'000;  // as the format's authors allow

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why) {
  throw harness::UsageError(path.string() + ": " + why);
}

std::string text_of(const std::vector<int>& shape) { return json(shape).dump(); }

// Where a tensor lies, in bytes after the header.
struct Place {
  std::size_t begin = 0, end = 0;
  std::size_t tensor = 0;  // index in the checkpoint
};

// Reads one tensor's entry of the header; the values come later. Throws json's exceptions for what is not there.
Place parse_entry(const std::filesystem::path& path, const std::string& name, const json& entry, std::size_t data_bytes,
                  Checkpoint::Tensor& tensor) {
  const auto dtype = entry.at("dtype").get<std::string>();
  if (dtype != "F32") refuse(path, "tensor " + name + " is of dtype " + dtype + "; allowed: F32");
  std::size_t elements = 1;
  for (const json& size : entry.at("shape")) {
    if (!size.is_number_unsigned() || (size != 0 && elements > data_bytes / size.get<std::size_t>())) {
      refuse(path, "tensor " + name + " has a shape of " + entry.at("shape").dump() + ", more than the file holds");
    }
    elements *= size.get<std::size_t>();
    tensor.shape.push_back(static_cast<int>(harness::whole_number(size, 0, std::numeric_limits<int>::max())));
  }
  const json& offsets = entry.at("data_offsets");
  if (offsets.size() != 2 || !offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned()) {
    refuse(path, "tensor " + name + " has no two offsets");
  }
  const Place place{offsets[0], offsets[1]};
  if (place.begin > place.end || place.end > data_bytes) {
    refuse(path, "tensor " + name + " lies at " + offsets.dump() + ", the file has " + std::to_string(data_bytes) +
                     " bytes of tensors");
  }
  if (place.end - place.begin != elements * sizeof(float)) {
    refuse(path, "tensor " + name + " has " + std::to_string(place.end - place.begin) +
                     " bytes where its shape makes " + std::to_string(elements * sizeof(float)));
  }
  return place;
}

Checkpoint parse(const std::filesystem::path& path, const json& header, std::string_view data) {
  if (!header.is_object()) refuse(path, "its header is no JSON object");
  Checkpoint checkpoint;
  std::vector<Place> places;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      entry.get_to(checkpoint.metadata);
      continue;
    }
    Checkpoint::Tensor tensor{.name = name, .shape = {}};
    places.push_back(parse_entry(path, name, entry, data.size(), tensor));
    places.back().tensor = checkpoint.tensors.size();
    checkpoint.tensors.push_back(std::move(tensor));
  }
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) { return a.end < b.end; });
  std::size_t end = 0;
  for (const Place& place : places) {
    Checkpoint::Tensor& tensor = checkpoint.tensors[place.tensor];
    if (place.begin != end) {
      refuse(path, "tensor " + tensor.name + " begins at " + std::to_string(place.begin) +
                       " where the one before ends at " + std::to_string(end));
    }
    end = place.end;
    tensor.values.resize((place.end - place.begin) / sizeof(float));
    std::memcpy(tensor.values.data(), data.data() + place.begin, place.end - place.begin);
  }
  if (end != data.size()) {
    refuse(path, "its tensors end at " + std::to_string(end) + " of " + std::to_string(data.size()) + " bytes");
  }
  return checkpoint;
}

std::map<std::string, const Checkpoint::Tensor*> by_name(const Checkpoint& checkpoint) {
  std::map<std::string, const Checkpoint::Tensor*> tensors;
  for (const auto& tensor : checkpoint.tensors) tensors[tensor.name] = &tensor;
  return tensors;
}

harness::UsageError lacks(const std::string& name) {
  return harness::UsageError("the checkpoint lacks the tensor " + name);
}

}  // namespace

Checkpoint checkpoint_of(const Model& model, std::map<std::string, std::string> metadata) {
  Checkpoint checkpoint{std::move(metadata)};
  add(checkpoint, model.state(), model.stream());
  return checkpoint;
}

void add(Checkpoint& checkpoint, std::span<const StateTensor> state, harness::Stream& stream) {
  for (const StateTensor& from : state) {
    std::vector<float> values(from.values.size());
    stream.copy(from.values.data(), values.data(), from.values.size_bytes());
    stream.sync();
    const auto found = std::find_if(checkpoint.tensors.begin(), checkpoint.tensors.end(),
                                    [&](const auto& tensor) { return tensor.name == from.name; });
    Checkpoint::Tensor& to =
        found != checkpoint.tensors.end()
            ? *found
            : checkpoint.tensors.emplace_back(from.name, from.shape, std::vector<float>(elements_of(from.shape)));
    for (std::size_t i = 0; i < values.size(); ++i) to.values[from.cut.in_whole(i)] = values[i];
  }
}

void restore(const Checkpoint& checkpoint, Model& model) {
  require_alike(checkpoint, checkpoint_of(model));
  restore(checkpoint, model.state(), model.stream());
}

void restore(const Checkpoint& checkpoint, std::span<const StateTensor> state, harness::Stream& stream) {
  const auto all = by_name(checkpoint);
  for (const StateTensor& to : state) {
    const auto from = all.find(to.name);
    if (from == all.end()) throw lacks(to.name);
    std::vector<float> values(to.values.size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = from->second->values.at(to.cut.in_whole(i));
    stream.copy(values.data(), to.values.data(), to.values.size_bytes());
    stream.sync();
  }
}

void require_alike(const Checkpoint& checkpoint, const Checkpoint& of_model) {
  auto left = by_name(checkpoint);
  for (const Checkpoint::Tensor& expected : of_model.tensors) {
    const auto found = left.find(expected.name);
    if (found == left.end()) throw lacks(expected.name);
    const Checkpoint::Tensor& tensor = *found->second;
    if (tensor.shape != expected.shape || tensor.values.size() != expected.values.size()) {
      throw harness::UsageError("the checkpoint's tensor " + tensor.name + " is of shape " + text_of(tensor.shape) +
                                ", the model's of " + text_of(expected.shape));
    }
    left.erase(found);
  }
  if (left.empty()) return;
  throw harness::UsageError("the checkpoint's tensor " + left.begin()->first + " has no place in the model");
}

void save(const Checkpoint& checkpoint, const std::filesystem::path& path) {
  json header = json::object();
  if (!checkpoint.metadata.empty()) header["__metadata__"] = checkpoint.metadata;
  std::size_t end = 0;
  for (const auto& tensor : checkpoint.tensors) {
    const std::size_t begin = end;
    end += tensor.values.size() * sizeof(float);
    header[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
  }
  std::string text = header.dump();
  text.append((length_bytes - text.size() % length_bytes) % length_bytes, ' ');  // so that the tensors are aligned
  const auto length = static_cast<std::uint64_t>(text.size());
  std::string contents(reinterpret_cast<const char*>(&length), length_bytes);
  contents.reserve(length_bytes + text.size() + end);
  contents += text;
  for (const auto& tensor : checkpoint.tensors) {
    contents.append(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size() * sizeof(float));
  }
  harness::replace_file(path, contents);
}

Checkpoint load_checkpoint(const std::filesystem::path& path) {
  std::string contents;
  try {
    contents = harness::read_file(path, largest_file);
  } catch (const harness::UsageError& error) {
    refuse(path, error.what());
  }
  return parse_checkpoint(path, contents);
}

Checkpoint parse_checkpoint(const std::filesystem::path& path, std::string_view contents) {
  std::uint64_t length = 0;
  if (contents.size() < length_bytes) refuse(path, "is too short for a safetensors file");
  std::memcpy(&length, contents.data(), length_bytes);
  if (length > std::min(longest_header, contents.size() - length_bytes)) {
    refuse(path, "says that its header has " + std::to_string(length) + " bytes, of a file of " +
                     std::to_string(contents.size()));
  }
  json header;
  try {
    header = harness::parse_json(contents.substr(length_bytes, length));
  } catch (const harness::UsageError& error) {
    refuse(path, std::string("its header is not that of a safetensors file: ") + error.what());
  }
  try {
    return parse(path, header, contents.substr(length_bytes + length));
  } catch (const json::exception& error) {
    refuse(path, std::string("its header is not that of a safetensors file: ") + error.what());
  }
}

}  // namespace models
