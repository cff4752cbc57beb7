// A folder of a test's own.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace baton {

// A new empty folder, which the destructor removes. Its name has the process's id, so `name` need
// be unlike others of one program only.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& name)
      : path_(::testing::TempDir() + "baton_" + name + "_" + std::to_string(getpid())) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directory(path_);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }

  const std::string& path() const { return path_; }
  // Writes a file into it, and returns the file's path.
  std::string File(const std::string& name, const std::string& content) const {
    const std::string path = path_ + "/" + name;
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

 private:
  const std::string path_;
};

}  // namespace baton
