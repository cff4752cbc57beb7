#include "common/gguf/model_name.h"

#include <filesystem>
#include <system_error>

namespace baton {

std::string DefaultModelName(const std::string& path) {
  std::error_code unknown;  // without a current folder the path stays as it is
  const std::filesystem::path absolute = std::filesystem::absolute(path, unknown);
  std::filesystem::path whole =
      (unknown ? std::filesystem::path(path) : absolute).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();  // "model/"
  return whole.extension() == ".gguf" ? whole.stem().string() : whole.filename().string();
}

}  // namespace baton
