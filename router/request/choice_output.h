// The text of one choice: tokens in, what may be shown to the client out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "baton/internal/v1/common.pb.h"
#include "baton/v1/generation.pb.h"
#include "common/tokenizer/stop_matcher.h"

namespace baton {

class Tokenizer;

// The vocabulary as the text pipeline uses it: views into the tokenizer, which outlives the table.
struct TokenTable {
  std::vector<absl::string_view> bytes;  // [vocab_size]
  std::vector<bool> special;  // [vocab_size] control tokens: no text if these are skipped

  size_t vocab_size() const { return bytes.size(); }
};
TokenTable MakeTokenTable(const Tokenizer& tokenizer);

struct ChoiceOutputOptions {
  uint32_t choice = 0;
  bool stream = false;  // false: everything is kept for the complete
  bool return_token_ids = false;
  // The prompt whose text the choice's text begins with; null: none. It outlives the output.
  const std::vector<uint32_t>* echoed = nullptr;
  bool no_output = false;  // the one token that comes is dropped
};

// Turns accepted tokens into text (whole UTF-8 characters, nothing from a stop string on), ids and
// logprobs, and decides when a stop string ends the choice. Not thread-safe. `table` outlives it.
class ChoiceOutput {
 public:
  ChoiceOutput(const TokenTable& table, const v1::SamplingParams& sampling,
               const ChoiceOutputOptions& options);

  // Takes the next token, whose id is inside the vocabulary. Returns what may be delivered now:
  // with `stream`, the client's next chunk (which may be empty, see IsEmpty); otherwise always
  // empty. REQUIRES: !ended().
  v1::GenerateChunk Push(const internal::v1::OutputToken& token);

  // The choice is over: by the worker's word or by a stop string.
  bool ended() const { return finish_reason_ != v1::FINISH_REASON_UNSPECIFIED; }
  bool ended_by_stop_string() const { return matched_stop_.has_value(); }
  v1::FinishReason finish_reason() const { return finish_reason_; }
  // Every token taken that was not dropped, an EOS or stop token too.
  uint32_t completion_tokens() const { return completion_tokens_; }

  // Index, finish reason, matched stop and, without `stream`, text, ids and logprobs. REQUIRES:
  // ended(); once.
  v1::GenerateComplete TakeComplete();

  static bool IsEmpty(const v1::GenerateChunk& chunk);

 private:
  void TakeToken(const internal::v1::OutputToken& token, v1::GenerateChunk& chunk);
  std::string Filter(absl::string_view text);
  void End(v1::FinishReason reason, std::string* text);
  std::string EchoedText();
  bool IsSkipped(uint32_t id) const { return skip_special_tokens_ && table_.special[id]; }
  v1::TokenLogprob WithBytes(const v1::TokenLogprob& logprob) const;

  const TokenTable& table_;
  const ChoiceOutputOptions options_;
  bool begun_ = false;  // a token was taken
  const bool skip_special_tokens_;
  const bool want_logprobs_;
  const bool include_stop_;  // in text, ids and logprobs: stop strings, EOS and stop tokens
  const uint32_t min_tokens_;
  Utf8Stream utf8_;
  StopMatcher matcher_;
  uint32_t completion_tokens_ = 0;
  v1::FinishReason finish_reason_ = v1::FINISH_REASON_UNSPECIFIED;
  std::optional<std::string> matched_stop_;
  std::optional<uint32_t> matched_token_id_;
  v1::GenerateChunk kept_;  // without `stream`: all chunks so far, as one
};

}  // namespace baton
