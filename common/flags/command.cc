#include "common/flags/command.h"

#include <filesystem>
#include <system_error>

namespace baton {

std::string ProgramFolder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
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
