// POST /tokenize, POST /detokenize and GET /tokenizer_info, in vLLM's shapes, and the first two in
// llama-server's too: with them an evaluator needs no tokenizer of its own. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

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

struct TokenizeAnswer {
  std::vector<int32_t> tokens{};
  uint32_t max_model_len = 0;
  bool return_token_strs = false;
  bool with_pieces = false;
};
// Writes the answer to a TokenizeCall piece by piece, since its text is up to twenty times as long
// as its prompt. The answer is {"count", "max_model_len", "tokens", "token_strs"}, whose
// `token_strs` are the bytes of each token if return_token_strs asks for them. With with_pieces it
// is {"tokens": [{"id", "piece"}]}; a piece that is not UTF-8 is a list of its bytes. Not
// thread-safe.
class TokenizeText {
 public:
  using BytesOf = std::function<absl::string_view(int32_t token)>;
  TokenizeText(TokenizeAnswer answer, BytesOf bytes_of)
      : answer_(std::move(answer)), bytes_of_(std::move(bytes_of)) {}

  // Returns the next piece of the text: whole tokens, and at least `bytes` bytes except at the end.
  std::string Next(size_t bytes);
  // Whether all of it was returned.
  bool done() const { return part_ == Part::kEnd; }
  // The memory that the tokens take up.
  size_t memory_bytes() const { return answer_.tokens.capacity() * sizeof(int32_t); }

 private:
  enum class Part { kBegin, kTokens, kTexts, kEnd };
  void WriteBegin(std::string& text);
  void WriteToken(int32_t token, std::string& text) const;
  void EndTokens(std::string& text);

  const TokenizeAnswer answer_;
  const BytesOf bytes_of_;
  Part part_ = Part::kBegin;
  size_t next_ = 0;  // index of the next token in this part
};

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
