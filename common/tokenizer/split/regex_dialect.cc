#include "common/tokenizer/split/regex_dialect.h"

#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "common/base/status_macros.h"
#include "common/tokenizer/split/unicode_classes.h"

namespace baton {
namespace {

constexpr absl::string_view kGroups[] = {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};

class Translation {
 public:
  explicit Translation(absl::string_view expression) : whole_(expression), rest_(expression) {}

  absl::StatusOr<std::string> Run() {
    if (rest_.size() > kMaxExpressionBytes) {
      return absl::InvalidArgumentError(absl::StrCat("an expression of ", rest_.size(),
                                                     " bytes; at most ", kMaxExpressionBytes,
                                                     " are supported"));
    }
    while (!rest_.empty()) {
      if (rest_[0] == '\\') {
        BATON_RETURN_IF_ERROR(Escape(/*in_brackets=*/false));
      } else if (rest_[0] == '[') {
        BATON_RETURN_IF_ERROR(Brackets());
      } else if (rest_[0] == '(') {
        BATON_RETURN_IF_ERROR(Group());
      } else if (absl::StartsWith(rest_, "}+")) {
        return Unknown("}+");
      } else if (rest_[0] == '#') {
        Take("\\#", 1);
      } else {
        Take(rest_.substr(0, 1), 1);
      }
    }
    return std::move(result_);
  }

 private:
  void Take(absl::string_view translated, size_t size) {
    absl::StrAppend(&result_, translated);
    rest_.remove_prefix(size);
  }
  absl::Status Unknown(absl::string_view what) const {
    return absl::UnimplementedError(
        absl::StrCat("the expression \"", absl::Utf8SafeCHexEscape(whole_.substr(0, 200)),
                     "\" has \"", absl::Utf8SafeCHexEscape(what), "\" at offset ",
                     whole_.size() - rest_.size(), ", which is not supported"));
  }

  // A group's beginning.
  absl::Status Group() {
    if (!absl::StartsWith(rest_, "(?") && !absl::StartsWith(rest_, "(*")) {
      Take("(?:", 1);  // nothing refers to a group
      return absl::OkStatus();
    }
    for (const absl::string_view group : kGroups) {
      if (!absl::StartsWith(rest_, group)) continue;
      Take(group, group.size());
      return absl::OkStatus();
    }
    return Unknown(rest_.substr(0, 4));
  }

  // A class in brackets.
  absl::Status Brackets() {
    const bool negated = absl::StartsWith(rest_, "[^");
    Take(negated ? "[^" : "[", negated ? 2 : 1);
    if (absl::StartsWith(rest_, "]")) return Unknown("]");
    while (!absl::StartsWith(rest_, "]")) {
      if (rest_.empty()) return Unknown("[ without ]");
      if (rest_[0] == '\\') {
        BATON_RETURN_IF_ERROR(Escape(/*in_brackets=*/true));
      } else if (rest_[0] == '[' || absl::StartsWith(rest_, "&&")) {
        return Unknown(rest_.substr(0, 2));
      } else {
        Take(rest_.substr(0, 1), 1);
      }
    }
    Take("]", 1);
    return absl::OkStatus();
  }

  absl::Status Escape(bool in_brackets) {
    if (rest_.size() < 2) return Unknown("\\");
    const char escaped = rest_[1];
    if (escaped == 'r' || escaped == 'n' || escaped == 't' ||
        absl::ascii_ispunct(static_cast<unsigned char>(escaped))) {
      Take(rest_.substr(0, 2), 2);
      return absl::OkStatus();
    }
    absl::string_view name = rest_.substr(1, 1);
    size_t size = 2;
    if (escaped == 'p' || escaped == 'P') {
      const size_t end = rest_.find('}');
      if (rest_.size() < 4 || rest_[2] != '{' || end == absl::string_view::npos) {
        return Unknown(rest_.substr(0, 3));
      }
      name = rest_.substr(3, end - 3);
      size = end + 1;
      if (name == "s" || name == "d") return Unknown(rest_.substr(0, size));
    }
    const bool negated = escaped == 'P' || escaped == 'S' || escaped == 'D';
    const std::string lower =
        escaped == 'S' || escaped == 'D' ? absl::AsciiStrToLower(name) : std::string(name);
    const std::optional<absl::string_view> known = UnicodeClass(lower);
    const bool is_class = size > 2 || lower == "s" || lower == "d";
    // Brackets cannot hold what is not in a class.
    if (!known.has_value() || !is_class || (negated && in_brackets)) {
      return Unknown(rest_.substr(0, size));
    }
    if (in_brackets) {
      Take(*known, size);
    } else {
      Take(absl::StrCat(negated ? "[^" : "[", *known, "]"), size);
    }
    return absl::OkStatus();
  }

  const absl::string_view whole_;
  absl::string_view rest_;
  std::string result_;
};

}  // namespace

absl::StatusOr<std::string> PcreFromOniguruma(absl::string_view expression) {
  return Translation(expression).Run();
}

std::string QuotedExpression(absl::string_view text) {
  std::string quoted;
  for (const char byte : text) {
    if (absl::ascii_ispunct(static_cast<unsigned char>(byte))) quoted.push_back('\\');
    quoted.push_back(byte);
  }
  return quoted;
}

}  // namespace baton
