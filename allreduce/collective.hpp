// SPDX-License-Identifier: Apache-2.0
// What ranks do together: all-reduce, and the collectives beside it. Every rank has a vector of the same length. Of
// reduce_scatter and all_gather each rank has a slice of it, the slices in the order of ranks; broadcast begins and
// reduce ends at one rank, the root. In all_to_all each rank sends its slice r to rank r and gets theirs, in the order
// of ranks; in send_recv it sends its vector to the next rank, and the last one to the first.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace allreduce {

enum class Collective { allreduce, reduce_scatter, all_gather, broadcast, reduce, all_to_all, send_recv };
inline constexpr Collective all_collectives[] = {
    Collective::allreduce, Collective::reduce_scatter, Collective::all_gather, Collective::broadcast,
    Collective::reduce,    Collective::all_to_all,     Collective::send_recv};

// "reduce_scatter". parse_collective throws harness::Error for a name of none.
std::string_view name(Collective collective);
Collective parse_collective(std::string_view name);

bool reduces(Collective collective);  // adds, or takes the minimum, ...
bool has_slices(Collective collective);
bool has_root(Collective collective);
bool differs_by_rank(Collective collective);  // what two ranks end with of the same element

// First element of slice `slice` when `count` elements are cut into `slices`: even to one element.
constexpr std::size_t slice_begin(std::size_t count, int slices, int slice) {
  return count / slices * slice + count % slices * slice / slices;  // count * slice might not fit
}

// What nccl-tests multiplies algbw with to get busbw (doc/PERFORMANCE.md): 2(n-1)/n, (n-1)/n or 1; nothing for one
// rank. Bytes are those of the whole vector.
std::optional<double> busbw_factor(Collective collective, int ranks);

}  // namespace allreduce
