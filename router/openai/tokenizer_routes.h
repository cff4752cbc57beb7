// POST /tokenize, POST /detokenize and GET /tokenizer_info, in vLLM's shapes, and the first two in
// llama-server's too: with them an evaluator needs no tokenizer of its own. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "baton/v1/generation.pb.h"

namespace baton {

struct TokenizeCall {
  // What is to be tokenised as the prompt of a request: `prompt` or `chat`, and how.
  v1::GenerateRequest request{};
  bool return_token_strs = false;
  bool with_pieces = false;
};
// {"prompt", "add_special_tokens", "return_token_strs"}, or "messages" in place of the prompt, with
// the fields of a chat that its template renders. Literals of special tokens become control tokens.
// llama-server's {"content", "add_special", "parse_special", "with_pieces"} adds no BOS by itself.
// INVALID_ARGUMENT names the field.
absl::StatusOr<TokenizeCall> ReadTokenizeRequest(absl::string_view body);

// {"count", "max_model_len", "tokens", "token_strs"}. `token_strs`: the bytes of each token, where
// `return_token_strs` asks for them.
std::string TokenizeBody(absl::Span<const uint32_t> tokens, uint32_t max_model_len,
                         const std::optional<std::vector<std::string>>& token_strs);
// {"tokens": [{"id", "piece"}]}, for `with_pieces`. A piece that is no UTF-8 is a list of its bytes.
// REQUIRES: as many pieces as tokens.
std::string PiecesBody(absl::Span<const uint32_t> tokens, const std::vector<std::string>& pieces);

// {"tokens"}; special tokens stay in the text.
absl::StatusOr<v1::DetokenizeRequest> ReadDetokenizeRequest(absl::string_view body);
// {"prompt"}, and the same text as llama-server's {"content"}.
std::string DetokenizeBody(absl::string_view text);

// An absent token, or a model without a chat template: empty, and null in JSON.
struct TokenizerInfo {
  std::string bos_token;
  std::string eos_token;
  std::string pad_token{};
  std::string chat_template{};
  uint32_t model_max_length = 0;  // tokens
  bool add_bos_token = false;
};
std::string TokenizerInfoBody(const TokenizerInfo& info);

}  // namespace baton
