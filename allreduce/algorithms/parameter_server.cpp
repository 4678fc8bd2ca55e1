// SPDX-License-Identifier: Apache-2.0
#include "allreduce/algorithms.hpp"
#include "allreduce/builder.hpp"

namespace allreduce {

Schedule parameter_server(const Shape& shape) {
  Builder build("parameter_server", shape, shape.pieces);
  constexpr Rank server = 0;
  for (int chunk = 0; chunk < shape.pieces; ++chunk) {
    for (Rank worker = 1; worker < shape.ranks; ++worker) build.reduce(build.at(worker, chunk), server);
    for (Rank worker = 1; worker < shape.ranks; ++worker) build.copy(build.at(server, chunk), worker);
  }
  return std::move(build).finish();
}

}  // namespace allreduce
