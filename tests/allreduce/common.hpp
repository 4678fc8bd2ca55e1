// SPDX-License-Identifier: Apache-2.0
// What the tests of this floor go through and start from.
#pragma once

#include "allreduce/schedule.hpp"
#include "allreduce/topologies.hpp"
#include "harness/device/reduction.hpp"

namespace allreduce {

inline constexpr harness::Dtype dtypes[] = {harness::Dtype::f32, harness::Dtype::f64, harness::Dtype::f16,
                                            harness::Dtype::bf16, harness::Dtype::i32};
inline constexpr harness::Op all_ops[] = {harness::Op::sum, harness::Op::avg, harness::Op::min, harness::Op::max,
                                          harness::Op::prod};
inline constexpr Placement placements[] = {Placement::in_place, Placement::out_of_place};

inline const Constants constants;  // as the project has them

}  // namespace allreduce
