#include "common/grammar/grammar_spec.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "common/grammar/string_list.h"

namespace baton {
namespace {

constexpr size_t kTagParts = 3;
constexpr size_t kTagsTexts = 3;  // around all tags

// What stands behind the kind of kTags.
char TagsFlags(const GrammarSpec& spec) {
  return static_cast<char>((spec.several ? 1 : 0) | (spec.parse_special ? 2 : 0));
}

// The texts of a spec, in the order in which they are sent.
std::vector<absl::string_view> Texts(const GrammarSpec& spec) {
  std::vector<absl::string_view> texts;
  switch (spec.kind) {
    case GrammarKind::kJsonObject:
      break;
    case GrammarKind::kJsonSchema:
    case GrammarKind::kRegex:
    case GrammarKind::kGrammar:
      texts.push_back(spec.text);
      break;
    case GrammarKind::kChoice:
      texts.assign(spec.choices.begin(), spec.choices.end());
      break;
    case GrammarKind::kTags:
      texts = {spec.tags_begin, spec.tags_end, spec.tags_separator};
      for (const GrammarTag& tag : spec.tags) {
        texts.insert(texts.end(), {tag.begin, tag.schema, tag.end});
      }
      break;
  }
  return texts;
}

// What is wrong with the number of texts and with those that are empty; nothing: "".
absl::string_view EmptinessFault(const GrammarSpec& spec) {
  switch (spec.kind) {
    case GrammarKind::kJsonObject:
      return "";
    case GrammarKind::kJsonSchema:
    case GrammarKind::kRegex:
    case GrammarKind::kGrammar:
      return spec.text.empty() ? "is empty" : "";
    case GrammarKind::kChoice:
      if (spec.choices.empty()) return "has no choice";
      for (const std::string& choice : spec.choices) {
        if (choice.empty()) return "has an empty choice";
      }
      return "";
    case GrammarKind::kTags:
      if (spec.tags.empty()) return "has no tag";
      for (const GrammarTag& tag : spec.tags) {
        if (tag.begin.empty()) return "has a tag without a begin";
        if (tag.schema.empty()) return "has a tag without a schema";
      }
      return "";
  }
  return "is of an unknown kind";
}

}  // namespace

absl::string_view GrammarField(GrammarKind kind) {
  switch (kind) {
    case GrammarKind::kJsonObject:
      return "response_format.json_object";
    case GrammarKind::kJsonSchema:
      return "response_format.json_schema";
    case GrammarKind::kRegex:
      return "response_format.regex";
    case GrammarKind::kGrammar:
      return "response_format.grammar";
    case GrammarKind::kChoice:
      return "response_format.choice";
    case GrammarKind::kTags:
      return "response_format.structural_tags";
  }
  return "response_format";
}

absl::Status ValidateGrammarSpec(const GrammarSpec& spec) {
  const auto refused = [&](auto... what) {
    return absl::InvalidArgumentError(absl::StrCat(GrammarField(spec.kind), " ", what...));
  };
  if (const absl::string_view fault = EmptinessFault(spec); !fault.empty()) return refused(fault);
  if (spec.choices.size() > kMaxGrammarAlternatives || spec.tags.size() > kMaxGrammarAlternatives) {
    return refused("has more than ", kMaxGrammarAlternatives, " alternatives");
  }
  size_t bytes = 0;
  for (const absl::string_view text : Texts(spec)) {
    bytes += text.size();
    if (bytes > kMaxGrammarSpecBytes) {
      return refused("has more than ", kMaxGrammarSpecBytes, " bytes");
    }
    if (!IsUtf8(text)) return refused("is not UTF-8");
  }
  return absl::OkStatus();
}

std::string SerializeGrammarSpec(const GrammarSpec& spec) {
  std::string bytes;
  std::string kind(1, static_cast<char>(spec.kind));
  if (spec.kind == GrammarKind::kTags) kind += TagsFlags(spec);
  AppendString(kind, bytes);
  for (const absl::string_view text : Texts(spec)) AppendString(text, bytes);
  return bytes;
}

absl::StatusOr<GrammarSpec> ParseGrammarSpec(absl::string_view bytes) {
  BATON_ASSIGN_OR_RETURN(const std::vector<absl::string_view> strings, ReadStrings(bytes));
  if (strings.empty() || strings[0].empty() || strings[0][0] < 0 ||
      strings[0][0] > static_cast<char>(GrammarKind::kTags)) {
    return absl::DataLossError("a grammar's spec is of no known kind");
  }
  GrammarSpec spec;
  spec.kind = static_cast<GrammarKind>(strings[0][0]);
  if (strings[0].size() != (spec.kind == GrammarKind::kTags ? 2u : 1u) ||
      (strings[0].size() == 2 && (strings[0][1] < 0 || strings[0][1] > 3))) {
    return absl::DataLossError("a grammar's spec has flags that its kind does not know");
  }
  const size_t texts = strings.size() - 1;
  if (spec.kind == GrammarKind::kChoice) {
    for (size_t i = 1; i <= texts; ++i) spec.choices.emplace_back(strings[i]);
  } else if (spec.kind == GrammarKind::kTags && texts >= kTagsTexts) {
    spec.several = (strings[0][1] & 1) != 0;
    spec.parse_special = (strings[0][1] & 2) != 0;
    spec.tags_begin = std::string(strings[1]);
    spec.tags_end = std::string(strings[2]);
    spec.tags_separator = std::string(strings[3]);
    for (size_t i = 1 + kTagsTexts; i + kTagParts <= strings.size(); i += kTagParts) {
      spec.tags.push_back({.begin = std::string(strings[i]),
                           .schema = std::string(strings[i + 1]),
                           .end = std::string(strings[i + 2])});
    }
  } else if (texts > 0 && spec.kind != GrammarKind::kTags) {
    spec.text = std::string(strings[1]);
  }
  if (Texts(spec).size() != texts) {
    return absl::DataLossError("a grammar's spec has texts that its kind does not use");
  }
  BATON_RETURN_IF_ERROR(ValidateGrammarSpec(spec));
  return spec;
}

}  // namespace baton
