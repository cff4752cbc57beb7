#include "client/doctor/machine_files.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace baton {

std::string ReadMachineFile(const std::string& path) {
  constexpr std::streamsize kMostBytes = 1 << 20;
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostBytes, '\0');
  file.read(text.data(), kMostBytes);
  text.resize(static_cast<size_t>(std::max<std::streamsize>(0, file.gcount())));
  return text;
}

std::string ReadMachineLine(const std::string& path) {
  return std::string(absl::StripAsciiWhitespace(ReadMachineFile(path)));
}

std::optional<uint64_t> ReadMachineNumber(const std::string& path) {
  const std::string text = ReadMachineLine(path);
  const std::vector<std::string> words = absl::StrSplit(text, absl::ByAnyChar(" \t\n"));
  uint64_t number = 0;
  if (words.empty() || !absl::SimpleAtoi(words.front(), &number)) return std::nullopt;
  return number;
}

std::vector<std::string> NumberedEntries(const std::string& folder, const std::string& prefix) {
  std::map<uint64_t, std::string> found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    absl::string_view rest = name;
    uint64_t number = 0;
    if (absl::ConsumePrefix(&rest, prefix) && absl::SimpleAtoi(rest, &number)) {
      found.emplace(number, name);
    }
  }
  std::vector<std::string> names;
  for (const auto& [number, name] : found) names.push_back(name);
  return names;
}

}  // namespace baton
