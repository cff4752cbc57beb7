// Chat templates: Jinja programs of model files, run by a small interpreter with budgets.
//
// The template comes with the model and the messages come from a client; neither may do more than
// make text. Templates have no access to other objects and no I/O. Rendering takes at most 250 ms
// of CPU time and 128 MiB; steps, depth and output are bounded too.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/civil_time.h"
#include "absl/types/span.h"
#include <nlohmann/json.hpp>

#include "common/tokenizer/text_piece.h"

namespace baton {

struct ChatMessage {
  // The roles system, user, assistant, tool, developer, function, model and ipython are trusted
  // text, because templates build markers with them and a client only chooses one. Any other role
  // is untrusted, as the content is.
  std::string role;
  std::string content;
  std::string name;  // empty: absent
};

// Messages and tools as JSON, with the fields that OpenAI's API and Hugging Face give them:
// messages[].{role, content, name, tool_calls, tool_call_id, reasoning_content, ...} and
// tools[].{type, function}. All text is untrusted but a role that ChatMessage::role names. An
// object may keep its JSON text (json_source.h).
struct ChatJson {
  nlohmann::ordered_json messages;  // an array of objects
  nlohmann::ordered_json tools;     // an array, or null: none
};

struct ChatTemplateOptions {
  bool add_generation_prompt = true;  // the template begins the assistant's message
  std::string bos_token;              // text of the variable bos_token
  std::string eos_token;              // text of the variable eos_token
  // The day that strftime_now writes; if it is not set, the function is not defined.
  std::optional<absl::CivilDay> today = std::nullopt;
  // More variables, an object, or null: none. Their text is untrusted.
  nlohmann::ordered_json variables = nullptr;
  // Once it is true, from any thread, rendering ends with CANCELLED. Null: never.
  const std::atomic<bool>* cancelled = nullptr;
};

// Whether chats always have a variable of that name, which no other value may replace.
bool IsChatVariable(absl::string_view name);

// A compiled template. Its variables are messages, tools, add_generation_prompt, bos_token,
// eos_token, and documents, which is none.
//
// The language is Jinja as transformers sets it up, but filters change the case of ASCII letters
// only, none and what is undefined are no keys, an empty string is not replaced, `safe` makes no
// HTML, a tuple is a list, and the filter of a loop is asked about all items before the first.
// Immutable after Compile and thread-safe.
class ChatTemplate {
 public:
  // Compiles a template, and `with_tools`, unless it is empty, which renders chats with tools. An
  // error names the unknown or malformed construct and its line.
  static absl::StatusOr<ChatTemplate> Compile(absl::string_view source,
                                              absl::string_view with_tools = "");
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // Whether a template calls strftime_now and does not ask whether that is defined. Where it asks,
  // it is better left undefined: a prompt should not depend on the day.
  bool NeedsToday() const;

  // Renders the prompt. Text of the template is trusted; text of a message stays untrusted through
  // all filters. Adjacent pieces differ in trust. INVALID_ARGUMENT has the text of raise_exception;
  // RESOURCE_EXHAUSTED names the budget that ran out.
  absl::StatusOr<std::vector<TextPiece>> Render(absl::Span<const ChatMessage> messages,
                                                const ChatTemplateOptions& options) const;
  // The same of JSON. INVALID_ARGUMENT even if it does not have the shape of ChatJson, or a
  // variable has a name that IsChatVariable.
  absl::StatusOr<std::vector<TextPiece>> Render(const ChatJson& chat,
                                                const ChatTemplateOptions& options) const;

 private:
  struct Rep;
  explicit ChatTemplate(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

}  // namespace baton
