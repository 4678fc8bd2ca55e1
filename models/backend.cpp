// SPDX-License-Identifier: Apache-2.0
#include "models/backend.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "harness/options.hpp"

namespace models {

namespace {

constexpr std::array rows = {
#ifdef RINGMARK_ONEDNN
    BackendRow{"onednn", "Intel's library of primitives, on all threads of a device", make_onednn_backend},
#else
    BackendRow{"onednn", "Intel's library of primitives, on all threads of a device", nullptr,
               "it was built without oneDNN (Debian: libdnnl-dev)"},
#endif
    BackendRow{"plain", "loops on one thread: the truth that others are held against", make_plain_backend},
};

}  // namespace

Math parse_math(std::string_view name) {
  if (name == "f32") return Math::f32;
  if (name == "winograd") return Math::winograd;
  throw harness::bad_value("math", name, "allowed: f32, winograd");
}

std::span<const BackendRow> backends() { return rows; }

std::string_view default_backend() {
  return std::find_if(rows.begin(), rows.end(), [](const BackendRow& row) { return row.make != nullptr; })->name;
}

const BackendRow& find_backend(std::string_view name) {
  std::string known;
  for (const auto& row : rows) {
    if (row.name == name && row.make) return row;
    if (row.name == name) throw harness::bad_value("backend", name, row.lacks);
    if (row.make) known.append(known.empty() ? "" : ", ").append(row.name);
  }
  throw harness::bad_value("backend", name, "this build has: " + known);
}

}  // namespace models
