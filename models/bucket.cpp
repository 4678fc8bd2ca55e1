// SPDX-License-Identifier: Apache-2.0
#include "models/bucket.hpp"

#include <algorithm>

namespace models {

std::vector<Bucket> buckets(std::span<const Parameter> parameters, const BucketSizes& sizes) {
  std::vector<const Parameter*> in_arena_order;
  for (const Parameter& parameter : parameters) in_arena_order.push_back(&parameter);
  std::sort(in_arena_order.begin(), in_arena_order.end(),
            [](const Parameter* a, const Parameter* b) { return a->offset < b->offset; });

  std::vector<Bucket> result;
  for (const Parameter* parameter : in_arena_order) {
    const std::size_t full = result.size() <= 1 ? std::min(sizes.first_bytes, sizes.bytes) : sizes.bytes;
    if (result.empty() || (result.back().slice.count + parameter->count) * sizeof(float) > full) {
      result.push_back({.slice = {.offset = parameter->offset}});
    }
    Bucket& bucket = result.back();
    bucket.slice.count += parameter->count;
    if (bucket.layers.empty() || bucket.layers.back() != parameter->layer) bucket.layers.push_back(parameter->layer);
  }
  return result;
}

}  // namespace models
