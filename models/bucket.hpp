// SPDX-License-Identifier: Apache-2.0
// Gradients are reduced in buckets: whole parameters that lie side by side in the gradient arena, large enough to use a
// link well, small enough that the first are on their way while backward still runs. As in Li et al., "PyTorch
// Distributed: Experiences on Accelerating Data Parallel Training" (VLDB 2020), section 3.2.3; their buckets are
// copies, these are slices of the arena, since it is laid out in the order that backward fills it.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "models/tensor.hpp"

namespace models {

struct Bucket {
  Slice slice = {};              // of the gradient arena, in elements
  std::vector<int> layers = {};  // whose parameters it holds, as backward comes to them: complete after the last one's
};

struct BucketSizes {
  // At most, unless one parameter alone is larger. With 0 each parameter is a bucket.
  std::size_t bytes = std::size_t{25} << 20U;
  std::size_t first_bytes = std::size_t{1} << 20U;  // of the first one, so that communication starts early
};

// The whole arena in one.
inline constexpr BucketSizes one_bucket = {std::numeric_limits<std::size_t>::max(),
                                           std::numeric_limits<std::size_t>::max()};

// In the order in which they become complete. Together they are the whole arena; no parameter is cut.
std::vector<Bucket> buckets(std::span<const Parameter> parameters, const BucketSizes& sizes = {});

}  // namespace models
