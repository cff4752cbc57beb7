#include "common/grammar/string_pattern.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"

namespace baton {
namespace {

constexpr size_t kMaxPatternBytes = size_t{64} << 10;

bool EscapedInJson(char character) { return character == '"' || character == '\\'; }

// Whether `atom`, of printable ASCII, matches no character that JSON escapes. False if that
// takes more than a look.
bool MatchesPlainCharacters(absl::string_view atom) {
  if (atom.size() == 1) return atom != "." && !EscapedInJson(atom[0]);
  if (atom.size() == 2 && atom[0] == '\\') {
    return atom[1] == 'd' || atom[1] == 'w' ||
           (absl::ascii_ispunct(static_cast<unsigned char>(atom[1])) && !EscapedInJson(atom[1]));
  }
  if (!absl::StartsWith(atom, "[") || absl::StartsWith(atom, "[^")) return false;
  const absl::string_view members = atom.substr(1, atom.size() - 2);
  for (size_t i = 0; i < members.size(); ++i) {
    char last = members[i];
    if (i + 2 < members.size() && members[i + 1] == '-') last = members[i + 2];
    for (const char escaped : {'"', '\\'}) {
      if (members[i] <= escaped && escaped <= last) return false;
    }
  }
  return true;
}

class PatternWriter {
 public:
  explicit PatternWriter(absl::string_view pattern) : pattern_(pattern) {}

  absl::StatusOr<std::string> Write() {
    while (at_ < pattern_.size()) {
      BATON_RETURN_IF_ERROR(Next());
      if (out_.size() > kMaxPatternBytes) return absl::InvalidArgumentError("it is too long");
    }
    return std::move(out_);
  }

 private:
  char Peek(size_t ahead = 0) const {
    return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0';
  }
  void Copy(size_t count) {
    absl::StrAppend(&out_, pattern_.substr(at_, count));
    at_ = std::min(at_ + count, pattern_.size());
  }

  absl::Status Next() {
    switch (Peek()) {
      case '(':
        groups_.push_back(out_.size());
        Copy(Peek(1) == '?' ? 2 : 1);  // this question mark is no quantifier
        return absl::OkStatus();
      case ')':
        if (groups_.empty()) return absl::InvalidArgumentError("a ')' has no matching '('");
        atom_ = groups_.back();
        groups_.pop_back();
        Copy(1);
        return absl::OkStatus();
      case '*':
      case '+':
        Copy(1);
        break;
      case '?':
        ++at_;
        // tests/planted_bugs: schema_optional_part_cut
        out_ += "{0,1}";
        break;
      case '{':
        BATON_RETURN_IF_ERROR(Repetition());
        break;
      default:
        atom_ = out_.size();
        Copy(AtomBytes());
        return absl::OkStatus();
    }
    if (Peek() == '?') ++at_;  // the preferred match does not matter
    return absl::OkStatus();
  }

  // The length of the class, escape or character at the front.
  size_t AtomBytes() const {
    if (Peek() == '\\') {
      const size_t digits = Peek(1) == 'x' ? 2 : Peek(1) == 'u' && Peek(2) != '{' ? 4 : 0;
      if (digits > 0) return 2 + digits;
      if (Peek(2) != '{' || (Peek(1) != 'u' && Peek(1) != 'p' && Peek(1) != 'P')) return 2;
      return std::min(pattern_.find('}', at_), pattern_.size()) - at_ + 1;
    }
    if (Peek() != '[') return 1;
    size_t end = at_ + (Peek(1) == '^' ? 2 : 1);
    while (end < pattern_.size() && pattern_[end] != ']') end += pattern_[end] == '\\' ? 2U : 1U;
    return end + 1 - at_;
  }

  absl::Status Repetition() {
    const size_t end = pattern_.find('}', at_);
    if (end == absl::string_view::npos) {
      return absl::InvalidArgumentError("a '{' has no matching '}'");
    }
    const absl::string_view bounds = pattern_.substr(at_ + 1, end - at_ - 1);
    const size_t comma = bounds.find(',');
    int least = 0;
    int most = 0;
    const bool unbounded = comma + 1 == bounds.size();
    if (!absl::SimpleAtoi(bounds.substr(0, comma), &least) ||
        (comma != absl::string_view::npos && !unbounded &&
         !absl::SimpleAtoi(bounds.substr(comma + 1), &most))) {
      return absl::InvalidArgumentError(
          absl::StrCat("{", bounds, "} is not a valid repetition, such as {1,3}"));
    }
    const std::string atom = out_.substr(atom_);
    if (std::max(least, most) > kMaxUnrolledRepetitions && !MatchesPlainCharacters(atom)) {
      return absl::InvalidArgumentError(
          absl::StrCat("only a plain character or a character class that JSON need not escape may "
                       "be repeated more than ",
                       kMaxUnrolledRepetitions, " times"));
    }
    at_ = end + 1;
    if (!unbounded || !absl::StartsWith(atom, "(")) {
      absl::StrAppend(&out_, "{", bounds, "}");
    } else if (least < 2) {
      absl::StrAppend(&out_, least == 0 ? "*" : "+");
    } else {
      absl::StrAppend(&out_, "{", least, "}", atom, "*");
    }
    return absl::OkStatus();
  }

  const absl::string_view pattern_;
  size_t at_ = 0;               // in pattern_
  size_t atom_ = 0;             // where in out_ that begins which a quantifier is about
  std::vector<size_t> groups_;  // where in out_ the open groups begin
  std::string out_;
};

}  // namespace

absl::StatusOr<std::string> SoundPattern(absl::string_view pattern) {
  return PatternWriter(pattern).Write();
}

}  // namespace baton
