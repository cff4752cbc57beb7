// The form in which a model writes tool calls and reasoning. A model's family has
// its form, which its chat template shows.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include <nlohmann/json_fwd.hpp>

#include "baton/v1/generation.pb.h"

namespace baton {

// A part of an answer, as the client is to see it. Parts in a row of one kind and one call are to be
// joined.
struct AnswerPart {
  enum class Kind {
    kText,
    kReasoning,
    kCall,       // a call of a tool begins: `name` and `id`
    kArguments,  // more of the call's arguments, JSON as the model wrote it
  };
  Kind kind = Kind::kText;
  int call = 0;        // index of the call in the answer, of the last two kinds
  std::string id{};    // id of a call: 24 letters and digits, determined by the seed
  std::string name{};  // name of the tool
  std::string text{};  // text, reasoning or arguments
  // For calls, the tool in the client's terms (client_parser.h):
  std::string space{};     // the namespace of the tool; empty: none
  bool is_custom = false;  // `text` is a custom tool's, not JSON; of the last two kinds

  friend bool operator==(const AnswerPart&, const AnswerPart&) = default;
};

// Splits the text of one choice into its parts. What could still become a marker is held back. What
// begins as a call and does not go on as one is text, so no text of the model is lost but blanks
// beside markers. Not thread-safe.
class AnswerParser {
 public:
  virtual ~AnswerParser() = default;
  // Tokens, each of which comes with its text or before it. They distinguish special tokens from
  // texts that are spelled like them; without any, such texts are markers too.
  virtual void AddTokens(absl::Span<const uint32_t> /*ids*/) {}
  // The parts that are certain after more text; cut anywhere between characters.
  virtual std::vector<AnswerPart> Add(absl::string_view text) = 0;
  // The rest, when the choice has ended.
  virtual std::vector<AnswerPart> Finish() = 0;
};

// What a vocabulary says of its tokens. Both functions are thread-safe and take every id.
struct TokenTexts {
  std::function<absl::string_view(uint32_t id)> bytes;
  std::function<bool(uint32_t id)> is_special;
};
struct MarkerTokens;

// The tools of a chat by name; the schemas of their arguments, or null. The parsers of its choices
// share them.
using ToolSchemas = std::map<std::string, nlohmann::ordered_json, std::less<>>;

enum class ToolFormKind {
  // The template knows no tools, or none of these forms: a system message describes the tools and
  // asks for calls as {"tool_calls": [{"name": ..., "arguments": {...}}]}, and nothing else.
  kGeneric,
  kHermes,      // <tool_call>{"name": ..., "arguments": ...}</tool_call>: Qwen, Hermes, Granite 4
  kQwenXml,     // <tool_call><function=name><parameter=key>value</parameter></function></tool_call>
  kLlama3,      // {"name": ..., "parameters": ...}
  kMistral,     // [TOOL_CALLS][{"name": ..., "arguments": ...}]
  kMistralV13,  // [TOOL_CALLS]name[ARGS]{...}
  kHarmony,     // gpt-oss: <|channel|>commentary to=functions.name ... <|message|>{...}<|call|>
  kGranite,     // <tool_call>[{"name": ..., "arguments": ...}] or <|tool_call|>[...]
  kPhi4,        // <|tool_call|>[{...}]<|/tool_call|>
};

// Immutable and thread-safe.
class ToolForm {
 public:
  // `chat_template`: the source that renders chats with tools; may be empty. `is_special`: whether a
  // text is that of a special token.
  static ToolForm OfTemplate(absl::string_view chat_template,
                             absl::FunctionRef<bool(absl::string_view)> is_special);
  // The same if no token is special.
  static ToolForm OfTemplate(absl::string_view chat_template);

  ToolFormKind kind() const { return kind_; }
  // Whether the model writes reasoning apart from its answer (<think>, harmony's analysis channel).
  bool has_reasoning() const { return kind_ == ToolFormKind::kHarmony || !think_begin_.empty(); }

  // Whether markers of calls or reasoning are special tokens: the request has to leave them in the
  // text (skip_special_tokens false), and the parser takes out all of them.
  bool needs_special_tokens() const { return needs_special_tokens_; }

  // The same form of a model with this vocabulary, which outlives all parsers: their markers that
  // are special tokens are then looked for among tokens, not in text.
  ToolForm WithTokens(TokenTexts texts) const;
  // Whether a parser wants the tokens of its text, in which special ones are left.
  bool needs_token_ids() const { return tokens_ != nullptr; }

  // Whether a prompt ends inside the reasoning, whose beginning the template wrote.
  bool OpensReasoning(absl::string_view prompt) const;
  // The same form of answers to prompts that do, or do not.
  ToolForm WithOpenReasoning(bool is_open) const;

  // Makes a parser for an answer to a chat with these tools; without tools it only splits off
  // reasoning. For a chat with single_call it returns only the first call. `seed` determines the
  // ids of the calls.
  std::unique_ptr<AnswerParser> NewParser(const v1::ChatInput& chat, uint64_t seed,
                                          int choice) const;
  // Makes one parser for each choice; they share the tools' schemas.
  std::vector<std::unique_ptr<AnswerParser>> NewParsers(const v1::ChatInput& chat, uint64_t seed,
                                                        int choices) const;

  // The form to which chat.tool_choice holds the answer: of `required` and of a named tool; nothing
  // set for the others. INVALID_ARGUMENT names the field: a tool that is not there, a schema that
  // is none.
  absl::StatusOr<v1::ResponseFormat> FormOf(const v1::ChatInput& chat) const;

 private:
  std::unique_ptr<AnswerParser> NewParser(const v1::ChatInput& chat,
                                          std::shared_ptr<const ToolSchemas> schemas, uint64_t seed,
                                          int choice) const;

  ToolFormKind kind_ = ToolFormKind::kGeneric;
  std::string think_begin_;  // empty: no reasoning by markers
  std::string think_end_;
  std::vector<std::string> special_markers_;  // markers that are special tokens
  bool needs_special_tokens_ = false;
  std::shared_ptr<const MarkerTokens> tokens_;  // null: markers are looked for in text alone
  bool reasoning_is_open_ = false;  // the prompt ends inside the reasoning: "<think>" was written
};

// Whether the answer to the chat may call tools.
bool UsesTools(const v1::ChatInput& chat);

}  // namespace baton
