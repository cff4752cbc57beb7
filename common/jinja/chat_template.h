// Chat templates: the Jinja that model files carry, run by a small interpreter with budgets.
//
// The template comes with the model and the messages from a client; neither is trusted with more
// than text. There is no attribute walk, no I/O, and a bound on steps, depth and output.
#pragma once

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
  // system, user, assistant, tool, developer, function, model and ipython are names that a client
  // chooses from, and trusted as such, because templates build markers with them; any other role is
  // a message's text.
  std::string role;
  std::string content;
  std::string name;  // empty: absent
};

struct ChatTemplateOptions {
  bool add_generation_prompt = true;
  std::string bos_token;  // text of the variables bos_token and eos_token
  std::string eos_token;
};

// A template sees messages, add_generation_prompt, bos_token, eos_token, and tools and documents,
// which are none. There is no strftime_now: a prompt does not depend on the day (templates ask
// whether it is defined).
//
// Jinja with trim_blocks and lstrip_blocks. Letters change case in ASCII only; lists are printed by
// tojson only. Immutable after Compile and thread-safe.
class ChatTemplate {
 public:
  // An unknown or malformed construct is an error that names it and its line.
  static absl::StatusOr<ChatTemplate> Compile(absl::string_view source);
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // The prompt. Text that came from a message, through whatever filters, is untrusted; the
  // template's own is trusted; adjacent pieces of one kind are one piece. INVALID_ARGUMENT carries
  // the text of raise_exception; RESOURCE_EXHAUSTED names the budget that ran out.
  absl::StatusOr<std::vector<TextPiece>> Render(absl::Span<const ChatMessage> messages,
                                                const ChatTemplateOptions& options) const;

 private:
  struct Rep;
  explicit ChatTemplate(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

}  // namespace baton
