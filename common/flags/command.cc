#include "common/flags/command.h"

#include <errno.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"

namespace baton {

std::string ProgramFolder() {
  std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
  // Where glibc is older than this program's, it is started by a loader that was brought along
  // (scripts/gpu_bundle.sh). Then that is what runs, and argv[0] is the program's launcher.
  if (absl::StartsWith(program.filename().string(), "ld-linux")) {
    program = std::filesystem::absolute(program_invocation_name);
  }
  return program.parent_path().string();
}

std::string HelperProgram(const std::string& name) {
  const std::filesystem::path folder = ProgramFolder();
  const std::filesystem::path installed = folder.parent_path() / "libexec" / "baton" / name;
  std::error_code unknown;  // what cannot be looked at cannot be started either
  const bool is_installed = !std::filesystem::exists(folder / name, unknown) &&
                            std::filesystem::exists(installed, unknown);
  return (is_installed ? installed : folder / name).string();
}

}  // namespace baton
