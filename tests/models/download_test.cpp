// SPDX-License-Identifier: Apache-2.0
// Downloads by a curl and a wget of the test's own, so that they need no network.
#include "models/download.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <optional>

#include "harness/error.hpp"
#include "models/dataset.hpp"

namespace models {
namespace {

namespace fs = std::filesystem;

constexpr const char* hello = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";  // SHA-256

// A variable of the environment for as long as this lives.
class Variable {
 public:
  Variable(std::string name, const std::string& value) : name_(std::move(name)) {
    if (const char* before = std::getenv(name_.c_str())) before_ = before;
    ::setenv(name_.c_str(), value.c_str(), 1);
  }
  ~Variable() {
    if (before_) {
      ::setenv(name_.c_str(), before_->c_str(), 1);
    } else {
      ::unsetenv(name_.c_str());
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  std::string name_;
  std::optional<std::string> before_;
};

class Download : public testing::Test {
 protected:
  Download() { fs::create_directories(folder_ / "bin"); }
  ~Download() override { fs::remove_all(folder_); }

  void make_program(const std::string& name, const std::string& body) {
    const auto path = folder_ / "bin" / name;
    std::ofstream(path) << "#!/bin/sh\nPATH=/usr/bin:/bin\n" << body << "\n";
    fs::permissions(path, fs::perms::owner_all);
  }
  std::string failure(const std::string& url, const fs::path& target, const std::string& sha) {
    try {
      download(url, target, sha);
    } catch (const harness::Error& error) {
      return error.what();
    }
    return "no failure";
  }
  static std::string contents(const fs::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  const fs::path folder_ = fs::temp_directory_path() / ("ringmark_download_" + std::to_string(::getpid()));
  const fs::path target_ = folder_ / "new" / "file";
  const Variable path_{"PATH", (folder_ / "bin").string()};
};

// curl's last three words are --output FILE URL; wget's last two --output-document=FILE URL.
constexpr const char* curl_body = "while [ $# -gt 2 ]; do shift; done; printf hello > \"$1\"";
constexpr const char* wget_body = "while [ $# -gt 2 ]; do shift; done; printf hello > \"${1#*=}\"";

TEST_F(Download, TakesCurlWhereItIs) {
  make_program("curl", curl_body);
  make_program("wget", "exit 9");
  download("http://nowhere/file", target_, hello);
  EXPECT_EQ(contents(target_), "hello");
}

TEST_F(Download, TakesWgetWhereThereIsNoCurl) {
  make_program("wget", wget_body);
  download("http://nowhere/file", target_, hello);
  EXPECT_EQ(contents(target_), "hello");
}

TEST_F(Download, SaysThatThereIsNeither) {
  EXPECT_EQ(failure("http://nowhere/file", target_, hello),
            "http://nowhere/file cannot be downloaded: there is neither curl nor wget");
}

TEST_F(Download, GivesTheStatusOfAProgramThatFailed) {
  make_program("curl", "exit 22");
  EXPECT_EQ(failure("http://nowhere/file", target_, hello),
            "http://nowhere/file cannot be downloaded: curl ended with status 22");
}

TEST_F(Download, LeavesNothingOfAFileWithAnotherDigest) {
  make_program("curl", curl_body);
  const std::string other(64, '0');
  EXPECT_NE(failure("http://nowhere/file", target_, other).find("5 bytes came, whose SHA-256 is not 000"),
            std::string::npos);
  EXPECT_TRUE(fs::is_empty(folder_ / "new"));
}

TEST_F(Download, FillsTheCacheOnceWithFashionMnist) {
  const Variable cache("XDG_CACHE_HOME", (folder_ / "cache").string());
  make_program("curl", "while [ $# -gt 2 ]; do shift; done; cp /usr/share/datasets/fashion-mnist/${2##*/} \"$1\"");
  const fs::path kept = download_fashion_mnist(Part::test);
  EXPECT_EQ(kept, folder_ / "cache" / "ringmark" / "fashion-mnist");
  EXPECT_EQ(load_fashion_mnist(Part::test, kept).size(), 10000U);
  make_program("curl", "exit 22");
  EXPECT_EQ(download_fashion_mnist(Part::test), kept);
  EXPECT_THROW(download_fashion_mnist(Part::train), harness::Error);
}

TEST(CacheFolder, IsNoRelativePath) {
  const Variable cache("XDG_CACHE_HOME", "here");
  const Variable home("HOME", "/home/someone");
  EXPECT_EQ(cache_folder(), "/home/someone/.cache/ringmark");
  const Variable none("HOME", "");
  EXPECT_THROW(cache_folder(), harness::Error);
}

}  // namespace
}  // namespace models
