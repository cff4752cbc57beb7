#include "common/grammar/compile_grammar.h"

#include <algorithm>
#include <exception>
#include <new>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"

#include "common/base/status_macros.h"
#include "common/grammar/compiled_grammar.h"
#include "common/grammar/dead_ends.h"
#include "common/grammar/grammar_rules.h"
#include "common/grammar/grammar_state.h"
#include "common/grammar/pattern_states.h"
#include "common/grammar/schema_check.h"
#include "common/grammar/string_pattern.h"
#include "common/grammar/taken_stderr.h"
#include "xgrammar/compiler.h"
#include "xgrammar/exception.h"
#include "xgrammar/grammar.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxWhitespace = 1;         // characters between two parts of an answer's JSON
constexpr size_t kMaxMessageBytes = 500;  // XGrammar repeats the client's text in some errors

// XGrammar's message without the time and the line of its source before it.
std::string PlainMessage(absl::string_view message) {
  if (absl::StartsWith(message, "[")) {
    const size_t source = message.find("] ");
    const size_t end = source == absl::string_view::npos ? source : message.find(": ", source);
    if (end != absl::string_view::npos) message.remove_prefix(end + 2);
  }
  absl::ConsumePrefix(&message, "Warning: ");
  return std::string(absl::StripAsciiWhitespace(message.substr(0, kMaxMessageBytes)));
}

// Whether the library holds a JSON string to the pattern by an automaton, which leaves out what
// JSON must escape. What it cannot make one of, it writes as rules that let such characters
// through.
bool HoldsJsonStrings(const std::string& pattern) {
  const Json schema = {{"type", "string"}, {"pattern", pattern}};
  const std::string rules = xgrammar::Grammar::FromJSONSchema(schema.dump()).ToString();
  constexpr absl::string_view kAutomaton = "\", json_string=true)";
  const size_t at = rules.find(kAutomaton.data());
  return at != std::string::npos && at > 0 && rules[at - 1] != '\\';
}

// Counts the states that repetitions of a form add, and refuses those that would take too long to
// compile. What is unrolled costs in proportion to it.
class StateBudget {
 public:
  // INVALID_ARGUMENT if the next expression, with `states` states, is too large.
  absl::Status Spend(double states) {
    constexpr double kMost = double{kMaxRepeatedStates} * kMaxRepeatedStates;
    if (states <= kMaxUnrolledRepetitions) return absl::OkStatus();
    spent_ += states * states;
    if (spent_ <= kMost) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrFormat(
        "it repeats characters %.0f times%s, but the limit is %d times in one place, or half of "
        "that in each of four places; lower the bound, or remove it and check the answer yourself",
        states, states <= kMaxRepeatedStates ? " beside others" : "", kMaxRepeatedStates));
  }

 private:
  double spent_ = 0;  // the sum of the squares
};

// The schema as XGrammar is to read it.
absl::StatusOr<std::string> ReadySchema(absl::string_view text, StateBudget& budget) {
  BATON_ASSIGN_OR_RETURN(const CheckedSchema schema, CheckSchema(text));
  for (const CheckedSchema::Repetition& repetition : schema.repetitions) {
    const absl::Status status = budget.Spend(repetition.states);
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(repetition.pointer, " is not supported: ", status.message()));
    }
  }
  for (const CheckedSchema::Pattern& pattern : schema.patterns) {
    if (!HoldsJsonStrings(pattern.expression)) {
      return absl::InvalidArgumentError(absl::StrCat(
          pattern.pointer,
          " is not supported: it cannot be compiled for JSON strings; write a simpler expression"));
    }
    const absl::Status ways_on = CheckDeadEndsOfJsonString(pattern.expression);
    if (!ways_on.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(pattern.pointer, " is not supported: ", ways_on.message()));
    }
  }
  return schema.text;
}

Json Literal(const std::string& text) { return {{"type", "const_string"}, {"value", text}}; }

Json OneOf(Json alternatives) { return {{"type", "or"}, {"elements", std::move(alternatives)}}; }

Json Sequence(Json parts) { return {{"type", "sequence"}, {"elements", std::move(parts)}}; }

std::string StructuralTag(Json format) {
  return Json{{"type", "structural_tag"}, {"format", std::move(format)}}.dump();
}

// Appends the text to the parts of a sequence: literals of special tokens as these tokens, if
// wanted.
void AppendLiteral(absl::string_view text, bool parse_special, const GrammarVocabulary& vocabulary,
                   Json& parts) {
  size_t plain_begin = 0;
  const auto end_plain = [&](size_t end) {
    if (plain_begin == end) return;
    parts.push_back(Literal(std::string(text.substr(plain_begin, end - plain_begin))));
  };
  LiteralMatcher::Search tokens(vocabulary.special_literals(), text, {});
  while (parse_special) {
    const auto token = tokens.Next(plain_begin);
    if (!token.has_value()) break;
    end_plain(token->begin);
    parts.push_back({{"type", "token"}, {"token", token->id}});
    plain_begin = token->begin + token->size;
  }
  end_plain(text.size());
}

absl::StatusOr<Json> TagsAlternatives(const GrammarSpec& spec,
                                      const GrammarVocabulary& vocabulary) {
  const std::vector<GrammarTag>& tags = spec.tags;
  Json alternatives = Json::array();
  StateBudget budget;
  for (size_t i = 0; i < tags.size(); ++i) {
    const absl::StatusOr<std::string> schema = ReadySchema(tags[i].schema, budget);
    if (!schema.ok()) {
      return absl::Status(schema.status().code(),
                          absl::StrCat("tag ", i, ": ", schema.status().message()));
    }
    Json parts = Json::array();
    AppendLiteral(tags[i].begin, spec.parse_special, vocabulary, parts);
    parts.push_back({{"type", "json_schema"},
                     {"json_schema", Json::parse(*schema)},
                     {"max_whitespace_cnt", kMaxWhitespace}});
    AppendLiteral(tags[i].end, spec.parse_special, vocabulary, parts);
    alternatives.push_back(Sequence(std::move(parts)));
  }
  return OneOf(std::move(alternatives));
}

// XGrammar makes one rule of formats that are equal, so it costs nothing to repeat the tags.
absl::StatusOr<std::string> TagsFormat(const GrammarSpec& spec,
                                       const GrammarVocabulary& vocabulary) {
  BATON_ASSIGN_OR_RETURN(const Json one, TagsAlternatives(spec, vocabulary));
  Json parts = Json::array();
  AppendLiteral(spec.tags_begin, spec.parse_special, vocabulary, parts);
  parts.push_back(one);
  if (spec.several) {
    Json next = Json::array();
    AppendLiteral(spec.tags_separator, spec.parse_special, vocabulary, next);
    next.push_back(one);
    parts.push_back({{"type", "star"}, {"content", Sequence(std::move(next))}});
  }
  AppendLiteral(spec.tags_end, spec.parse_special, vocabulary, parts);
  return StructuralTag(Sequence(std::move(parts)));
}

// A rule's attributes say how to sample or what to report, which this server does not.
absl::Status CheckRuleAttributes(const xgrammar::Grammar& grammar) {
  const std::string rules = grammar.ToString();
  for (const absl::string_view rule : absl::StrSplit(rules, '\n')) {
    const absl::string_view name = rule.substr(0, rule.find(" ::= "));
    if (absl::EndsWith(name, "]")) {
      return absl::InvalidArgumentError(
          absl::StrCat("rule ", name, " has attributes, which are not supported"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<xgrammar::Grammar> TagGrammar(const std::string& tag,
                                             const GrammarVocabulary& vocabulary) {
  auto made = xgrammar::Grammar::FromStructuralTag(tag, vocabulary.info());
  if (auto* const grammar = std::get_if<xgrammar::Grammar>(&made)) return std::move(*grammar);
  return absl::InvalidArgumentError(
      PlainMessage(std::visit([](const auto& error) { return std::string(error.what()); },
                              std::get<xgrammar::StructuralTagError>(made))));
}

absl::StatusOr<xgrammar::Grammar> GrammarOf(const GrammarSpec& spec,
                                            const GrammarVocabulary& vocabulary) {
  StateBudget budget;
  switch (spec.kind) {
    case GrammarKind::kJsonObject:
    case GrammarKind::kJsonSchema: {
      const std::string text =
          spec.kind == GrammarKind::kJsonObject ? R"({"type":"object"})" : spec.text;
      BATON_ASSIGN_OR_RETURN(const std::string schema, ReadySchema(text, budget));
      return xgrammar::Grammar::FromJSONSchema(schema, /*any_whitespace=*/true, std::nullopt,
                                               std::nullopt, /*strict_mode=*/true, kMaxWhitespace);
    }
    case GrammarKind::kRegex:
      return xgrammar::Grammar::FromRegex(spec.text);
    case GrammarKind::kGrammar: {
      xgrammar::Grammar grammar = xgrammar::Grammar::FromEBNF(spec.text);
      BATON_RETURN_IF_ERROR(CheckRuleAttributes(grammar));
      return grammar;
    }
    case GrammarKind::kChoice: {
      Json alternatives = Json::array();
      for (const std::string& choice : spec.choices) alternatives.push_back(Literal(choice));
      return TagGrammar(StructuralTag(OneOf(std::move(alternatives))), vocabulary);
    }
    case GrammarKind::kTags: {
      BATON_ASSIGN_OR_RETURN(const std::string tags, TagsFormat(spec, vocabulary));
      return TagGrammar(tags, vocabulary);
    }
  }
  return absl::InvalidArgumentError("the kind of the grammar is unknown");
}

// Whether an answer can begin at all.
absl::Status CheckBeginning(const CompiledGrammar& grammar, const GrammarVocabulary& vocabulary) {
  BATON_ASSIGN_OR_RETURN(GrammarState state, GrammarState::Create(grammar));
  std::vector<uint32_t> mask(MaskWords(vocabulary.size()));
  if (state.FillMask(absl::MakeSpan(mask)).ok()) return absl::OkStatus();
  return absl::InvalidArgumentError("no answer can match it");
}

absl::StatusOr<std::string> CompileOrThrow(const GrammarSpec& spec,
                                           const GrammarVocabulary& vocabulary) {
  const TakenStderr ignored;
  BATON_ASSIGN_OR_RETURN(xgrammar::Grammar rules, GrammarOf(spec, vocabulary));
  BATON_RETURN_IF_ERROR(CheckDeadEnds(rules, vocabulary));
  // XGrammar 0.2.8 allows no token that ends the root rule and goes on behind it, also where the
  // rule stands within itself, as that of `{"$ref":"#"}` does.
  if (GrammarRules(rules).RefersToItsRoot()) rules = xgrammar::Grammar::Union({rules});
  xgrammar::GrammarCompiler compiler(vocabulary.info(), /*max_threads=*/1, /*cache_enabled=*/false);
  const xgrammar::CompiledGrammar compiled = compiler.CompileGrammar(rules);
  // tests/planted_bugs: schema_warning_ignored
  if (const std::string text = ignored.text(); !text.empty()) {
    return absl::InvalidArgumentError(PlainMessage(text));
  }
  const CompiledGrammar grammar(compiled, vocabulary);
  BATON_RETURN_IF_ERROR(CheckBeginning(grammar, vocabulary));
  absl::StatusOr<std::string> bytes = grammar.Serialize(vocabulary);
  if (!absl::IsResourceExhausted(bytes.status())) return bytes;
  return absl::InvalidArgumentError(bytes.status().message());
}

}  // namespace

absl::StatusOr<std::string> CompileGrammar(const GrammarSpec& spec,
                                           const GrammarVocabulary& vocabulary) {
  const auto named = [&](absl::StatusCode code, absl::string_view message) {
    return absl::Status(code, absl::StrCat(GrammarField(spec.kind), ": ", message));
  };
  try {
    absl::StatusOr<std::string> compiled = CompileOrThrow(spec, vocabulary);
    if (!compiled.ok()) return named(compiled.status().code(), compiled.status().message());
    return compiled;
  } catch (const std::bad_alloc&) {
    throw;  // the caller's, who bounds the memory
  } catch (const std::exception& error) {
    return named(absl::StatusCode::kInvalidArgument, PlainMessage(error.what()));
  }
}

}  // namespace baton
