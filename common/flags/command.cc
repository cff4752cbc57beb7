#include "common/flags/command.h"

#include <filesystem>

namespace baton {

std::string ProgramFolder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
}

}  // namespace baton
