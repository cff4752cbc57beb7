// Chat templates: Jinja programs of model files, run by a small interpreter with budgets.
//
// The template comes with the model and the messages come from a client; neither may do more than
// make text. Templates have no access to other objects and no I/O. Rendering takes at most 250 ms
// of CPU time and 128 MiB; steps, depth and output are bounded too.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

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

struct ChatTemplateOptions {
  bool add_generation_prompt = true;  // the template begins the assistant's message
  std::string bos_token;              // text of the variable bos_token
  std::string eos_token;              // text of the variable eos_token
  // Once it is true, from any thread, rendering ends with CANCELLED. Null: never.
  const std::atomic<bool>* cancelled = nullptr;
};

// A compiled template. Its variables are messages, add_generation_prompt, bos_token, eos_token, and
// tools and documents, which are none. There is no strftime_now (templates ask whether it is
// defined), so that a prompt does not depend on the day.
//
// The language is Jinja with trim_blocks and lstrip_blocks, but filters change the case of ASCII
// letters only, only tojson prints lists, none and what is undefined are no keys, an empty string
// is not replaced, and the filter of a loop is asked about all items before the first. Immutable
// after Compile and thread-safe.
class ChatTemplate {
 public:
  // Compiles a template. An error names the unknown or malformed construct and its line.
  static absl::StatusOr<ChatTemplate> Compile(absl::string_view source);
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // Renders the prompt. Text of the template is trusted; text of a message stays untrusted through
  // all filters. Adjacent pieces differ in trust. INVALID_ARGUMENT has the text of raise_exception;
  // RESOURCE_EXHAUSTED names the budget that ran out.
  absl::StatusOr<std::vector<TextPiece>> Render(absl::Span<const ChatMessage> messages,
                                                const ChatTemplateOptions& options) const;

 private:
  struct Rep;
  explicit ChatTemplate(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

}  // namespace baton
