// Any bytes as the file of --config: an error that names the file, or values.
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "common/flags/config_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const int file = memfd_create("config", 0);
  BATON_CHECK(write(file, data, size) == static_cast<ssize_t>(size), "a file in memory");
  const std::string path = absl::StrCat("/proc/self/fd/", file);
  const auto values = baton::ReadConfigFile(path);
  BATON_CHECK(values.ok() || absl::StrContains(values.status().message(), path),
              "an error must name the file");
  close(file);
  return 0;
}
