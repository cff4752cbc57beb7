#include "router/request/choice_output.h"

#include <utility>

#include "common/base/check.h"
#include "common/tokenizer/tokenizer.h"

namespace baton {

TokenTable MakeTokenTable(const Tokenizer& tokenizer) {
  TokenTable table;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    table.bytes.push_back(tokenizer.TokenBytes(id));
    table.special.push_back(tokenizer.IsSpecial(id));
  }
  return table;
}

ChoiceOutput::ChoiceOutput(const TokenTable& table, const v1::SamplingParams& sampling,
                           const ChoiceOutputOptions& options)
    : table_(table),
      options_(options),
      skip_special_tokens_(!sampling.has_skip_special_tokens() || sampling.skip_special_tokens()),
      want_logprobs_(sampling.has_logprobs()),
      include_stop_(sampling.include_stop_str_in_output()),
      min_tokens_(sampling.min_tokens()),
      matcher_({sampling.stop().begin(), sampling.stop().end()}, include_stop_) {}

v1::GenerateChunk ChoiceOutput::Push(const internal::v1::OutputToken& token) {
  BATON_CHECK(!ended(), "a token after the end of its choice");
  const uint32_t id = token.token().token_id();
  BATON_CHECK(id < table_.vocab_size(), "a token outside the vocabulary reached the text");
  v1::GenerateChunk chunk;
  chunk.set_index(options_.choice);
  const std::string echoed = std::exchange(begun_, true) ? std::string() : EchoedText();
  if (options_.no_output) {
    chunk.set_text(utf8_.Finish());
    finish_reason_ = v1::FINISH_REASON_LENGTH;
  } else {
    TakeToken(token, chunk);
  }
  chunk.mutable_text()->insert(0, echoed);
  if (options_.stream) return chunk;
  kept_.MergeFrom([&] {  // strings do not merge by appending
    chunk.set_text(kept_.text() + chunk.text());
    return std::move(chunk);
  }());
  return {};
}

void ChoiceOutput::TakeToken(const internal::v1::OutputToken& token, v1::GenerateChunk& chunk) {
  const uint32_t id = token.token().token_id();
  ++completion_tokens_;
  const bool stop_token =
      token.ends_sequence() && token.finish_reason() == v1::FINISH_REASON_STOP;  // or an EOS
  if (!stop_token || include_stop_) {
    if (options_.return_token_ids) chunk.add_token_ids(id);
    if (want_logprobs_) *chunk.add_logprobs() = WithBytes(token.token());
    // tests/planted_bugs: guess_hides_a_stop_string
    *chunk.mutable_text() =
        Filter(utf8_.Push(IsSkipped(id) ? absl::string_view() : table_.bytes[id]));
  }
  if (token.ends_sequence() && !ended()) {
    if (stop_token) matched_token_id_ = id;
    End(token.finish_reason(), chunk.mutable_text());
  }
}

// The output may complete its last character. No stop string is looked for in it.
std::string ChoiceOutput::EchoedText() {
  std::string text;
  if (options_.echoed == nullptr) return text;
  for (const uint32_t id : *options_.echoed) {
    if (!IsSkipped(id)) text += utf8_.Push(table_.bytes[id]);
  }
  return text;
}

// A stop string counts where it ends after min_tokens tokens, wherever it began.
std::string ChoiceOutput::Filter(absl::string_view text) {
  if (completion_tokens_ <= min_tokens_) return matcher_.Pass(text);
  StopMatcher::Result result = matcher_.Push(text);
  if (result.stop.has_value()) {
    matched_stop_ = std::move(result.stop);
    finish_reason_ = v1::FINISH_REASON_STOP;
  }
  return std::move(result.text);
}

// Lets go of what UTF-8 and stop matching held back.
void ChoiceOutput::End(v1::FinishReason reason, std::string* text) {
  *text += Filter(utf8_.Finish());
  if (!ended()) {
    *text += matcher_.Finish();
    finish_reason_ = reason;
  }
  if (matched_token_id_.has_value()) matched_stop_.reset();
}

v1::TokenLogprob ChoiceOutput::WithBytes(const v1::TokenLogprob& logprob) const {
  const auto bytes = [this](uint32_t id) {
    return id < table_.vocab_size() ? std::string(table_.bytes[id]) : std::string();
  };
  v1::TokenLogprob result = logprob;
  result.set_token(bytes(result.token_id()));
  for (v1::TopLogprob& top : *result.mutable_top_logprobs()) top.set_token(bytes(top.token_id()));
  return result;
}

v1::GenerateComplete ChoiceOutput::TakeComplete() {
  BATON_CHECK(ended(), "a complete before the end of its choice");
  v1::GenerateComplete complete;
  complete.set_index(options_.choice);
  complete.set_finish_reason(finish_reason_);
  if (matched_token_id_.has_value()) {
    complete.set_matched_token_id(*matched_token_id_);
  } else if (matched_stop_.has_value()) {
    complete.set_matched_stop_str(*matched_stop_);
  }
  complete.mutable_text()->swap(*kept_.mutable_text());
  complete.mutable_token_ids()->Swap(kept_.mutable_token_ids());
  complete.mutable_logprobs()->Swap(kept_.mutable_logprobs());
  return complete;
}

bool ChoiceOutput::IsEmpty(const v1::GenerateChunk& chunk) {
  return chunk.text().empty() && chunk.token_ids().empty() && chunk.logprobs().empty();
}

}  // namespace baton
