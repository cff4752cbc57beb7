#include "common/grammar/dead_ends.h"

#include <algorithm>
#include <array>
#include <exception>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"

#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "common/grammar/grammar_rules.h"
#include "common/grammar/taken_stderr.h"
#include "common/grammar/utf8_tokens.h"
#include "xgrammar/grammar.h"
#include "xgrammar/tokenizer_info.h"

namespace baton {
namespace {

constexpr size_t kMostShownCharacters = 12;
constexpr int32_t kMostCodePoint = 0x10ffff;

struct CodePoints {
  int32_t first;
  int32_t last;
};

// What a text may have, and what the text of a JSON string may have without escapes.
constexpr std::array<CodePoints, 2> kCharacters = {{{0, 0xd7ff}, {0xe000, kMostCodePoint}}};
constexpr std::array<CodePoints, 4> kJsonCharacters = {
    {{0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, 0xd7ff}, {0xe000, kMostCodePoint}}};

// Whether a class of characters has one of `characters`.
bool HasOneOf(GrammarData of_class, absl::Span<const CodePoints> characters) {
  const bool negated = of_class[0] != 0;
  std::vector<CodePoints> ranges;
  for (size_t i = 1; i + 1 < of_class.size(); i += 2) {
    ranges.push_back({of_class[i], of_class[i + 1]});
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const CodePoints& a, const CodePoints& b) { return a.first < b.first; });
  return std::any_of(characters.begin(), characters.end(), [&](const CodePoints& wanted) {
    int32_t left = wanted.first;  // no range has those of `wanted` that come before it
    for (const CodePoints& range : ranges) {
      if (!negated && range.first <= wanted.last && range.last >= wanted.first) return true;
      if (range.first <= left) left = std::max(left, std::min(range.last, kMostCodePoint) + 1);
    }
    return negated && left <= wanted.last;
  });
}

// Whether a JSON string has the byte without an escape.
bool IsPlainInJson(char byte) {
  return static_cast<uint8_t>(byte) >= 0x20 && byte != '"' && byte != '\\';
}

bool IsJsonText(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), IsPlainInJson);
}

// With a backslash before those of `special`.
std::string Escaped(int32_t code_point, absl::string_view special) {
  if (code_point > 0xffff || code_point < 0) return absl::StrFormat("\\U%08x", code_point);
  if (code_point > '~' || code_point < ' ') return absl::StrFormat("\\u%04x", code_point);
  const char character = static_cast<char>(code_point);
  return absl::StrCat(absl::StrContains(special, character) ? "\\" : "",
                      absl::string_view(&character, 1));
}

std::string ShownClass(GrammarData of_class) {
  constexpr absl::string_view kInClass = "\\]-^";
  std::string shown = of_class[0] != 0 ? "[^" : "[";
  for (size_t i = 1; i + 1 < of_class.size(); i += 2) {
    if (i > kMostShownCharacters) {
      shown += "...";
      break;
    }
    absl::StrAppend(&shown, Escaped(of_class[i], kInClass));
    if (of_class[i + 1] != of_class[i])
      absl::StrAppend(&shown, "-", Escaped(of_class[i + 1], kInClass));
  }
  return shown + "]";
}

// The text in quotes. Three bytes that spell half of a pair are shown as its code point, other bytes
// that are no UTF-8 as \x.
std::string ShownText(absl::string_view text) {
  constexpr absl::string_view kInText = "\\\"";
  std::string shown = "\"";
  for (size_t count = 0; !text.empty(); ++count) {
    if (count == kMostShownCharacters) {
      shown += "...";
      break;
    }
    const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
    size_t used = NextUtf8Unit(text).size;
    if (text.size() >= 3 && byte(0) == 0xed && byte(1) >= 0xa0) {
      shown += Escaped(0xd000 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f), kInText);
      used = 3;
    } else if (byte(0) < 0x80) {
      shown += Escaped(byte(0), kInText);
    } else if (NextUtf8Unit(text).kind == Utf8Unit::Kind::kCharacter) {
      absl::StrAppend(&shown, text.substr(0, used));
    } else {
      absl::StrAppendFormat(&shown, "\\x%02x", byte(0));
    }
    text.remove_prefix(used);
  }
  return shown + "\"";
}

std::string TextOf(GrammarData bytes) { return std::string(bytes.begin(), bytes.end()); }

// A text that the expression wants and no UTF-8 text has; "": none.
std::string BrokenTextOf(const GrammarExpression& expression) {
  const GrammarData data = expression.data;
  if (expression.kind == GrammarPart::kByteString && IsBrokenUtf8(TextOf(data))) {
    return TextOf(data);
  }
  if (expression.kind != GrammarPart::kSubstring) return "";
  for (size_t i = 0; i < data.size();) {
    const auto length = static_cast<size_t>(data[i]);
    const std::string text = TextOf(data.subspan(i + 1, length));
    if (IsBrokenUtf8(text)) return text;
    i += 1 + length;
  }
  return "";
}

// Which beginnings an expression's texts have.
struct Ways {
  bool empty = false;   // it can be the empty text
  bool begins = false;  // it can begin with a character or a token
  bool none() const { return !empty && !begins; }
};

class DeadEndFinder {
 public:
  struct Options {
    const GrammarVocabulary* vocabulary = nullptr;  // null: there are no tokens
    bool json_string = false;
  };

  DeadEndFinder(const xgrammar::Grammar& grammar, const Options& options)
      : rules_(grammar), options_(options), ways_(rules_.size()) {}

  absl::Status Check() {
    BATON_RETURN_IF_ERROR(Reach(rules_.root()));
    while (Settle()) {
    }
    for (const int32_t rule : order_) BATON_RETURN_IF_ERROR(CheckWaysOn(rules_.body(rule)));
    return absl::OkStatus();
  }

 private:
  absl::Status Reach(int32_t root);
  absl::Status CheckCharacters(const GrammarExpression& expression) const;
  bool Settle();
  Ways WaysOf(int32_t id) const;
  Ways WaysOfSequence(GrammarData parts) const;
  absl::Status CheckWaysOn(int32_t id) const;
  bool MayCome(int32_t token) const;
  std::string Shown(int32_t id) const;

  const GrammarRules rules_;
  const Options options_;
  std::vector<Ways> ways_;      // by rules; those found so far
  std::set<int32_t> reached_;   // rules that can be met
  std::vector<int32_t> order_;  // the same, as they were found
};

// Finds the rules that an answer can meet, and looks at all characters in them.
absl::Status DeadEndFinder::Reach(int32_t root) {
  const auto reach = [&](int32_t rule) {
    if (reached_.insert(rule).second) order_.push_back(rule);
  };
  reach(root);
  for (size_t i = 0; i < order_.size(); ++i) {
    std::vector<int32_t> expressions = {rules_.body(order_[i])};
    while (!expressions.empty()) {
      const GrammarExpression expression = rules_.At(expressions.back());
      expressions.pop_back();
      BATON_RETURN_IF_ERROR(CheckCharacters(expression));
      for (const int32_t rule : RulesOf(expression)) reach(rule);
      const std::vector<int32_t> parts = PartsOf(expression);
      expressions.insert(expressions.end(), parts.rbegin(), parts.rend());
    }
  }
  return absl::OkStatus();
}

absl::Status CheckExpression(absl::string_view pattern, const DeadEndFinder::Options& options) {
  // What case says about letters alone does not matter here.
  absl::ConsumePrefix(&pattern, "(?i)");
  const TakenStderr ignored;
  std::optional<xgrammar::Grammar> grammar;
  try {
    grammar = xgrammar::Grammar::FromRegex(std::string(pattern));
  } catch (const std::exception&) {
    return absl::OkStatus();  // what it is fails where it is compiled, or not at all
  }
  return DeadEndFinder(*grammar, options).Check();
}

absl::Status DeadEndFinder::CheckCharacters(const GrammarExpression& expression) const {
  const GrammarData data = expression.data;
  std::string shown;
  if (expression.kind == GrammarPart::kRegex) {
    return CheckExpression(TextOf(data.subspan(1)), {.json_string = data[0] != 0});
  }
  if (const std::string text = BrokenTextOf(expression); !text.empty()) {
    shown = ShownText(text);
  } else if ((expression.kind == GrammarPart::kCharacterClass ||
              expression.kind == GrammarPart::kCharacterClassStar) &&
             !HasOneOf(data, kCharacters)) {
    shown = ShownClass(data);
  } else {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(shown,
                   " matches no text: neither U+D800 to U+DFFF (halves of UTF-16 pairs) nor values "
                   "above U+10FFFF are characters; write whole characters, as \\u{1f600} in an "
                   "expression or \\U0001f600 in a grammar"));
}

// Finds more of the ways of rules. False: these are all.
bool DeadEndFinder::Settle() {
  bool found = false;
  for (auto rule = order_.rbegin(); rule != order_.rend(); ++rule) {
    Ways& known = ways_[static_cast<size_t>(*rule)];
    const Ways now = WaysOf(rules_.body(*rule));
    found = found || now.empty != known.empty || now.begins != known.begins;
    known = now;
  }
  return found;
}

Ways DeadEndFinder::WaysOf(int32_t id) const {
  const auto [kind, data] = rules_.At(id);
  switch (kind) {
    case GrammarPart::kByteString:
      return {.begins = !options_.json_string || IsJsonText(TextOf(data))};
    case GrammarPart::kCharacterClass:
    case GrammarPart::kCharacterClassStar:
      return {.empty = kind == GrammarPart::kCharacterClassStar,
              .begins = options_.json_string ? HasOneOf(data, kJsonCharacters)
                                             : HasOneOf(data, kCharacters)};
    case GrammarPart::kRule:
      return ways_.at(static_cast<size_t>(data[0]));
    case GrammarPart::kRepeat: {
      const Ways once = ways_.at(static_cast<size_t>(data[0]));
      return {.empty = once.empty || data[1] == 0, .begins = once.begins && data[2] != 0};
    }
    case GrammarPart::kSequence:
      return WaysOfSequence(data);
    case GrammarPart::kChoices: {
      Ways any;
      for (const int32_t part : data) {
        const Ways ways = WaysOf(part);
        any = {.empty = any.empty || ways.empty, .begins = any.begins || ways.begins};
      }
      return any;
    }
    case GrammarPart::kToken:
      return {.begins = std::any_of(data.begin(), data.end(),
                                    [&](int32_t token) { return MayCome(token); })};
    case GrammarPart::kEmptyText:
      return {.empty = true};
    case GrammarPart::kTagDispatch:
    case GrammarPart::kExcludeToken:
    case GrammarPart::kTokenTagDispatch:
    case GrammarPart::kRegex:
    case GrammarPart::kSubstring:
      break;
  }
  return {.empty = true, .begins = true};
}

// Whether there is a token of this number, with a text that can be a part of UTF-8 by itself.
bool DeadEndFinder::MayCome(int32_t token) const {
  const GrammarVocabulary* const vocabulary = options_.vocabulary;
  if (vocabulary == nullptr || token >= vocabulary->size()) return false;
  const std::string& text = vocabulary->info().GetDecodedVocab()[static_cast<size_t>(token)];
  return !text.empty() && Utf8Tokens::OpenByte(text) == 0 &&
         !vocabulary->utf8()->IsForbidden(0, token);
}

Ways DeadEndFinder::WaysOfSequence(GrammarData parts) const {
  Ways all = {.empty = true};
  for (const int32_t part : parts) {
    const Ways ways = WaysOf(part);
    all.begins = all.begins || ways.begins;
    all.empty = ways.empty;
    if (!all.empty) break;
  }
  return all;
}

// Whether an automaton of the string's bytes comes to one that no JSON string has.
bool BeginsInVain(const GrammarExpression& expression) {
  return expression.kind == GrammarPart::kByteString &&
         IsPlainInJson(static_cast<char>(expression.data[0]));
}

// Whether an answer can go on or end wherever it has begun one of the sequences.
absl::Status DeadEndFinder::CheckWaysOn(int32_t id) const {
  const auto [kind, data] = rules_.At(id);
  bool begun = false;
  for (const int32_t part : PartsOf({kind, data})) {
    BATON_RETURN_IF_ERROR(CheckWaysOn(part));
    if (kind != GrammarPart::kSequence) continue;
    const Ways ways = WaysOf(part);
    if (!ways.none()) {
      begun = begun || ways.begins;
      continue;
    }
    if (!begun && !BeginsInVain(rules_.At(part))) break;  // so the sequence cannot begin
    return absl::InvalidArgumentError(absl::StrCat(
        Shown(part), " matches ",
        options_.json_string ? "only characters that a JSON string must escape" : "no text",
        ", so an answer could not continue there; remove or change that part"));
  }
  return absl::OkStatus();
}

std::string DeadEndFinder::Shown(int32_t id) const {
  const GrammarExpression expression = rules_.At(id);
  if (expression.kind == GrammarPart::kByteString) return ShownText(TextOf(expression.data));
  if (expression.kind == GrammarPart::kCharacterClass) return ShownClass(expression.data);
  const std::vector<int32_t> rules = RulesOf(expression);
  return rules.empty() ? "a part" : absl::StrCat("rule ", rules_.name(rules[0]));
}

}  // namespace

absl::Status CheckDeadEnds(const xgrammar::Grammar& grammar, const GrammarVocabulary& vocabulary) {
  return DeadEndFinder(grammar, {.vocabulary = &vocabulary}).Check();
}

absl::Status CheckDeadEndsOfJsonString(const std::string& expression) {
  return CheckExpression(expression, {.json_string = true});
}

}  // namespace baton
