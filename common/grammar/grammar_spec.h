// The forms of output that a client can request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton {

enum class GrammarKind : uint8_t {
  kJsonObject,  // any JSON object
  kJsonSchema,  // JSON that `text`, a JSON schema, allows (schema_check.h)
  kRegex,       // a text that `text`, a regular expression, matches as a whole
  kGrammar,     // a text of the language of `text`, a grammar in EBNF with a rule "root"
  kChoice,      // one of `choices`
  kTags,        // one or several of `tags`: the forced form of tool calls
};

// The text `begin`, JSON that `schema` allows, and the text `end`.
struct GrammarTag {
  std::string begin;
  std::string schema;
  std::string end;
};

// Only the fields that the kind uses are set.
struct GrammarSpec {
  GrammarKind kind = GrammarKind::kJsonObject;
  std::string text;
  std::vector<std::string> choices;
  std::vector<GrammarTag> tags;
  // For kTags: the texts before the first and after the last tag and, if `several` tags may follow
  // each other, the text between two.
  std::string tags_begin{};
  std::string tags_end{};
  std::string tags_separator{};
  bool several = false;
  // Literals of special tokens in the texts around the JSON stand for these tokens, unless they end
  // a generation.
  bool parse_special = false;
};

// Bytes of all texts of a spec together.
inline constexpr size_t kMaxGrammarSpecBytes = size_t{256} << 10;
// Choices or tags of a spec.
inline constexpr size_t kMaxGrammarAlternatives = 1024;

// The field of a request that has a spec of this kind, such as "response_format.json_schema".
absl::string_view GrammarField(GrammarKind kind);

// INVALID_ARGUMENT names the field and what is wrong with it: nothing in it, too much, or not
// UTF-8. Whether a schema, a regular expression or a grammar is well-formed is for the compiler to
// say.
absl::Status ValidateGrammarSpec(const GrammarSpec& spec);

// A spec as bytes, equal for equal specs alone, and back. Parse: INVALID_ARGUMENT or DATA_LOSS if
// the bytes were not made by Serialize.
std::string SerializeGrammarSpec(const GrammarSpec& spec);
absl::StatusOr<GrammarSpec> ParseGrammarSpec(absl::string_view bytes);

}  // namespace baton
