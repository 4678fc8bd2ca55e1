// SPDX-License-Identifier: Apache-2.0
// Files that are whole at every moment: new contents are written beside the old ones and take their name at the end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

namespace harness {

// The file that an option's `path` means, links followed (renaming would replace the link), or a UsageError saying why
// it cannot be written.
std::filesystem::path writable(std::string_view option, const std::string& path);

// The contents of a regular file. Throws UsageError, saying why but not which, for any other, also for one that is
// larger than `most_bytes`.
std::string read_file(const std::filesystem::path& path, std::uintmax_t most_bytes = 1U << 30U);

// A file that nobody else writes while this lasts: two runs that write one file would each undo what the other kept.
// Held by a lock (flock) on .NAME.lock beside it, which is gone at the end; a run that was killed leaves that file, and
// no lock. On a file system that knows no locks nothing is held.
class Claim {
 public:
  Claim() = default;
  // As writable(); a UsageError also when another run has claimed the file.
  Claim(std::string_view option, const std::string& path);
  Claim(Claim&& other) noexcept { *this = std::move(other); }
  Claim& operator=(Claim&& other) noexcept;
  ~Claim();

  const std::filesystem::path& path() const { return path_; }  // empty: nothing is claimed

 private:
  std::filesystem::path path_;
  int lock_ = -1;
};

// Contents and name are on the disk when it returns. Throws Error with the reason when that fails; what was there
// before is then still there.
void replace_file(const std::filesystem::path& path, std::string_view contents);

}  // namespace harness
