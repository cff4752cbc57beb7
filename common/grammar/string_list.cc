#include "common/grammar/string_list.h"

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace baton {
namespace {

constexpr size_t kLengthBytes = 4;

}  // namespace

void AppendString(absl::string_view text, std::string& list) {
  for (size_t i = 0; i < kLengthBytes; ++i) {
    list.push_back(static_cast<char>(text.size() >> (8 * i) & 0xff));
  }
  list.append(text.data(), text.size());
}

absl::StatusOr<std::vector<absl::string_view>> ReadStrings(absl::string_view list) {
  std::vector<absl::string_view> strings;
  absl::string_view rest = list;
  while (!rest.empty()) {
    size_t length = 0;
    for (size_t i = 0; i < kLengthBytes && i < rest.size(); ++i) {
      length |= static_cast<size_t>(static_cast<uint8_t>(rest[i])) << (8 * i);
    }
    if (rest.size() < kLengthBytes || rest.size() - kLengthBytes < length) {
      return absl::DataLossError(
          absl::StrCat("string ", strings.size(), " is longer than what is left of its list"));
    }
    strings.push_back(rest.substr(kLengthBytes, length));
    rest.remove_prefix(kLengthBytes + length);
  }
  return strings;
}

}  // namespace baton
