// SPDX-License-Identifier: Apache-2.0
#include "harness/file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "harness/error.hpp"

namespace harness {
namespace {

std::string reason_of(int error) { return std::strerror(error); }

// Where the new contents are written before they take the file's name: in the same folder, or rename could not be
// atomic.
std::filesystem::path beside(const std::filesystem::path& path) {
  std::string name = ".";
  name.append(path.filename().string()).append(".").append(std::to_string(getpid())).append(".tmp");
  return path.parent_path() / name;
}

int open_new(const std::filesystem::path& path) {
  return open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
}

// Writes, syncs and closes; gives errno, or 0.
int write_all(int file, std::string_view text) {
  int error = 0;
  while (!text.empty() && error == 0) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  if (error == 0 && fsync(file) != 0) error = errno;
  if (close(file) != 0 && error == 0) error = errno;
  return error;
}

// So that the new name outlives a loss of power. Some file systems cannot sync a folder, and need not.
void sync_folder(const std::filesystem::path& folder) {
  const int opened = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened < 0) return;
  fsync(opened);
  close(opened);
}

UsageError refusal(std::string_view option, const std::string& path, const std::string& why) {
  std::string text = "--";
  text.append(option).append("=").append(path).append(": ").append(why);
  return UsageError(text + "; allowed: a file in a folder that is there and writable");
}

std::filesystem::path lock_of(const std::filesystem::path& path) {
  std::string name = ".";
  name.append(path.filename().string()).append(".lock");
  return path.parent_path() / name;
}

// Whether the name still means the open file, which another run may have removed at its end.
bool is_named(int file, const std::filesystem::path& name) {
  struct stat opened {};
  struct stat named {};
  return fstat(file, &opened) == 0 && stat(name.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

}  // namespace

std::filesystem::path writable(std::string_view option, const std::string& path) {
  const auto refuse = [&](const std::string& why) { return refusal(option, path, why); };
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path file = fs::absolute(path, error);
  for (int links = 0; fs::is_symlink(file, error); ++links) {
    if (links == 40) throw refuse("it is a link in a circle");  // as many as Linux follows
    file = file.parent_path() / fs::read_symlink(file, error);
  }
  if (!file.has_filename() || fs::is_directory(file, error)) throw refuse("it is a folder");
  if (fs::exists(file, error)) {
    // Renaming over /dev/null would replace the device.
    if (!fs::is_regular_file(file, error)) throw refuse("it is there and is no regular file");
    if (access(file.c_str(), W_OK) != 0) throw refuse(reason_of(errno));
  }
  if (!fs::is_directory(file.parent_path(), error)) {
    throw refuse("the folder " + file.parent_path().string() + " is missing");
  }
  const fs::path probe = beside(file);
  const int opened = open_new(probe);
  if (opened < 0) throw refuse(reason_of(errno));
  close(opened);
  unlink(probe.c_str());
  return file;
}

std::string read_file(const std::filesystem::path& path, std::uintmax_t most_bytes) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) throw UsageError("there is no such file");
  if (fs::is_directory(status)) throw UsageError("that is a folder");
  if (!fs::is_regular_file(status)) throw UsageError("that is no regular file");
  const std::uintmax_t bytes = fs::file_size(path, error);
  if (error) throw UsageError("that file cannot be read: " + error.message());
  if (bytes > most_bytes) throw UsageError("that file has more than " + std::to_string(most_bytes) + " bytes");
  std::ifstream file(path, std::ios::binary);
  std::string text(bytes, '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(bytes))) throw UsageError("that file cannot be read");
  return text;
}

Claim::Claim(std::string_view option, const std::string& path) : path_(writable(option, path)) {
  const std::filesystem::path name = lock_of(path_);
  while (lock_ < 0) {
    lock_ = open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (lock_ < 0) throw refusal(option, path, reason_of(errno));
    if (flock(lock_, LOCK_EX | LOCK_NB) == 0) {
      if (is_named(lock_, name)) return;
    } else if (errno == EWOULDBLOCK) {
      close(lock_);
      throw refusal(option, path, "another run is writing it");
    } else if (errno != EINTR) {
      unlink(name.c_str());
      return;
    }
    close(std::exchange(lock_, -1));
  }
}

Claim& Claim::operator=(Claim&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(lock_, other.lock_);
  return *this;
}

Claim::~Claim() {
  if (lock_ < 0) return;
  unlink(lock_of(path_).c_str());  // before it is unlocked: who locks it after that sees that it has no name
  close(lock_);
}

void replace_file(const std::filesystem::path& path, std::string_view contents) {
  const std::filesystem::path temporary = beside(path);
  const int file = open_new(temporary);
  int error = file < 0 ? errno : write_all(file, contents);
  if (error == 0 && rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return sync_folder(path.parent_path());
  unlink(temporary.c_str());
  throw Error("cannot write " + path.string() + ": " + reason_of(error));
}

}  // namespace harness
