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
constexpr char kHextet[] = "[0-9A-Fa-f]{1,4}";

struct Format {
  const char* name;
  std::string pattern;
};

// An address of IPv6: eight parts, or fewer around a gap.
std::string Ipv6() {
  const std::string part = absl::StrCat("(", kHextet, ":)");
  const std::string rest = absl::StrCat("(:", kHextet, ")");
  std::string pattern = absl::StrCat(part, "{7}", kHextet, "|", part, "{1,7}:");
  for (int before = 6; before >= 1; --before) {
    absl::StrAppend(&pattern, "|", part, "{1,", before, "}", rest, "{1,", 7 - before, "}");
  }
  return absl::StrCat(pattern, "|:(", rest, "{1,7}|:)");
}

// A host of any length, as part of a longer text. DNS allows 63 letters between dots: counted, they
// would be some 200 states more, each of which costs the compiler a walk over the vocabulary, and
// with a vocabulary of 150,000 tokens the whole of its time.
std::string Host() {
  const std::string name = "[A-Za-z0-9]+(-+[A-Za-z0-9]+)*";
  return absl::StrCat(name, "(\\.", name, ")*");
}

std::string Email() {
  const std::string word = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
  return absl::StrCat(word, "(\\.", word, ")*@", Host());
}

// A scheme, and behind it a host with a path, or a path alone; a query; a fragment. RFC 3986 bounds
// none of them.
std::string Uri() {
  const std::string mark = absl::StrCat("([A-Za-z0-9._~!$&'()*+,;=:@-]|%", kHex, "{2})");
  const std::string more = absl::StrCat("([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%", kHex, "{2})*");
  return absl::StrCat("[A-Za-z][A-Za-z0-9+.-]*:(//", Host(), "(:[0-9]{1,5})?|", mark, "+)(/", mark,
                      "*)*(\\?", more, ")?(#", more, ")?");
}

// Years to days, hours to seconds, or weeks; nothing is left out in between.
std::string Duration() {
  const auto parts = [](absl::string_view a, absl::string_view b, absl::string_view c) {
    const std::string number = "[0-9]{1,9}";
    const std::string last = absl::StrCat(number, c);
    const std::string both = absl::StrCat(number, b, "(", last, ")?");
    return absl::StrCat("(", number, a, "(", both, ")?|", both, "|", last, ")");
  };
  const std::string time = absl::StrCat("T", parts("H", "M", "S"));
  return absl::StrCat("P(", parts("Y", "M", "D"), "(", time, ")?|", time, "|[0-9]{1,9}W)");
}

// Made anew for each question, of which a schema has few.
std::vector<Format> Formats() {
  return {
      {"date", kDate},
      {"time", kTime},
      {"date-time", absl::StrCat(kDate, "T", kTime)},
      {"email", Email()},
      {"hostname", absl::StrCat(kLabel, "(\\.", kLabel, "){0,2}")},
      {"ipv4", absl::StrCat("(", kByte, "\\.){3}", kByte)},
      {"ipv6", Ipv6()},
      {"uri", Uri()},
      {"duration", Duration()},
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
