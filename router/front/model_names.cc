#include "router/front/model_names.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "common/base/log.h"
#include "common/rpc/limits.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

// The index behind the UTF-8 character at `index`.
size_t AfterCharacter(absl::string_view text, size_t index) {
  ++index;
  while (index < text.size() && (text[index] & 0xc0) == 0x80) ++index;
  return index;
}

// Whether the whole name matches. Takes time in proportion to the product of both lengths at most.
bool Matches(absl::string_view pattern, absl::string_view name) {
  size_t at = 0, done = 0;                // bytes of the pattern and of the name that match
  size_t star = absl::string_view::npos;  // the last '*' before `at`
  size_t behind_star = 0;                 // bytes of the name up to the end of that star's match
  while (done < name.size()) {
    const char wanted = at < pattern.size() ? pattern[at] : '\0';
    if (wanted == '*') {
      star = at++;
      behind_star = done;
    } else if (wanted == '?') {
      ++at;
      done = AfterCharacter(name, done);
    } else if (at < pattern.size() && wanted == name[done]) {
      ++at;
      ++done;
    } else if (star != absl::string_view::npos) {
      at = star + 1;
      done = ++behind_star;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == absl::string_view::npos;
}

// The first names in quotes, and the number of the others.
std::string Listed(const std::vector<std::string>& names) {
  constexpr size_t kMost = 5;  // an error of gRPC has little room
  std::string list;
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i) {
    absl::StrAppend(&list, i == 0 ? "'" : ", '", LogSafe(names[i]), "'");
  }
  if (names.size() > kMost) absl::StrAppend(&list, " and ", names.size() - kMost, " more");
  return list;
}

}  // namespace

absl::Status ModelNames::Check(absl::string_view name) const {
  if (name.empty() || std::find(served.begin(), served.end(), name) != served.end()) {
    return absl::OkStatus();
  }
  const auto matches = [name](const std::string& pattern) { return Matches(pattern, name); };
  if (name.size() <= kMaxNameBytes && std::any_of(aliases.begin(), aliases.end(), matches)) {
    return absl::OkStatus();
  }
  const std::string message =
      absl::StrCat("model '", LogSafe(name), "' is not served here; served ",
                   served.size() == 1 ? "is " : "are ", Listed(served),
                   aliases.empty() ? "" : ", and any name like ", Listed(aliases));
  return WithResourceInfo(absl::NotFoundError(message), "model", LogSafe(name), message);
}

}  // namespace baton
