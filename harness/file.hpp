// SPDX-License-Identifier: Apache-2.0
// Files that are whole at every moment: new contents are written beside the old ones and take their name at the end.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace harness {

// The file that an option's `path` means, links followed (renaming would replace the link), or a UsageError saying why
// it cannot be written.
std::filesystem::path writable(std::string_view option, const std::string& path);

// Throws Error with the reason when that fails; what was there before is then still there.
void replace_file(const std::filesystem::path& path, std::string_view contents);

}  // namespace harness
