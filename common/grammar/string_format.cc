#include "common/grammar/string_format.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace baton {
namespace {

constexpr char kDate[] =
    "[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])"
    "|(0[469]|11)-(0[1-9]|[12][0-9]|30)"
    "|02-(0[1-9]|1[0-9]|2[0-8]))";
constexpr char kTime[] =
    "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?"
    "(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])";
constexpr char kByte[] = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
constexpr char kLabel[] = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
constexpr char kHex[] = "[0-9A-Fa-f]";

struct Format {
  const char* name;
  std::string pattern;
};

// Made anew for each question, of which a schema has few.
std::vector<Format> Formats() {
  const std::string word = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,20}";
  return {
      {"date", kDate},
      {"time", kTime},
      {"date-time", absl::StrCat(kDate, "T", kTime)},
      {"email", absl::StrCat(word, "(\\.", word, "){0,2}@", kLabel, "(\\.", kLabel, "){0,2}")},
      {"ipv4", absl::StrCat("(", kByte, "\\.){3}", kByte)},
      {"uuid", absl::StrCat(kHex, "{8}(-", kHex, "{4}){3}-", kHex, "{12}")},
  };
}

}  // namespace

std::optional<std::string> FormatPattern(absl::string_view format) {
  for (const Format& known : Formats()) {
    if (format == known.name) return absl::StrCat("^(", known.pattern, ")$");
  }
  return std::nullopt;
}

std::string SupportedFormats() {
  return absl::StrJoin(Formats(), ", ", [](std::string* out, const Format& format) {
    absl::StrAppend(out, format.name);
  });
}

}  // namespace baton
