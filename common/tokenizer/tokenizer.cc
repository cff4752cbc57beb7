#include "common/tokenizer/tokenizer.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/tokenizer/gguf_tokenizer.h"
#include "common/tokenizer/json_tokenizer.h"
#include "common/tokenizer/tokenizer_parts.h"
#include "common/tokenizer/unicode_text.h"
#include "common/tokenizer/utf8_stream.h"

namespace baton {
namespace {

constexpr size_t kMaxUtf8Bytes = 4;

// The ids of `encoded`, or why there are none.
absl::StatusOr<std::vector<int32_t>> IdsOf(EncodedText encoded, bool lossy) {
  BATON_RETURN_IF_ERROR(encoded.status);
  if (!lossy && encoded.first_left_out.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("the model's vocabulary has no token for byte 0x%02X at offset %d",
                        encoded.first_left_out->byte, encoded.first_left_out->offset));
  }
  return std::move(encoded.ids);
}

// See Tokenizer::max_bytes_of_token.
std::optional<size_t> MaxBytesOfToken(const TokenizerParts& parts) {
  for (const auto& [id, rule] : parts.literal_rules) {
    if (rule.takes_space_before || rule.takes_space_after) return std::nullopt;
  }
  size_t longest = kMaxUtf8Bytes;  // the unknown token stands for any character
  for (int32_t id = 0; id < parts.vocabulary->size(); ++id) {
    longest = std::max(longest, parts.vocabulary->bytes(id).size());
  }
  if (parts.shrinks_text_by == 0) return std::nullopt;
  return longest * parts.shrinks_text_by;
}

}  // namespace

struct Tokenizer::Rep {
  TokenizerParts parts;
  std::string digest;
  std::optional<size_t> max_bytes_of_token;

  // Encodes `text`. With `continues` no space is put in front of it.
  EncodedText Encode(absl::string_view text, absl::Span<const TextRange> trusted,
                     bool add_special_tokens, bool continues) const;
};

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Load(const GgufFile& file) {
  const bool is_json = file.Has(kTokenizerJsonKey);
  absl::StatusOr<TokenizerParts> parts =
      is_json ? ReadJsonTokenizer(file) : ReadGgufTokenizer(file);
  if (!parts.ok()) {
    // The reader's errors name the file already.
    const absl::string_view message = parts.status().message();
    if (absl::StartsWith(message, file.path())) return parts.status();
    return absl::Status(parts.status().code(), absl::StrCat(file.path(), ": ", message));
  }
  auto rep = std::make_unique<Rep>();
  rep->parts = *std::move(parts);
  rep->digest = file.TokenizerDigest();
  const auto tokens = static_cast<size_t>(rep->parts.vocabulary->size());
  if (rep->parts.listed_tokens > tokens) {
    LogWarning(
        "tokens without a row in the model's embedding are left out: model={} first_id={} count={}",
        LogSafe(file.path()), tokens, rep->parts.listed_tokens - tokens);
  }
  if (is_json || rep->parts.listed_tokens != tokens) {
    // The number of tokens is that of the embedding's rows, which the file's digest does not cover.
    Sha256 hash;
    hash.Update(rep->digest);
    hash.UpdateInteger<uint64_t>(tokens);
    rep->digest = hash.Finish();
  }
  rep->max_bytes_of_token = MaxBytesOfToken(rep->parts);
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(rep)));
}

EncodedText Tokenizer::Rep::Encode(absl::string_view text, absl::Span<const TextRange> trusted,
                                   bool add_special_tokens, bool continues) const {
  EncodedText encoded;
  std::vector<int32_t>& ids = encoded.ids;
  ids.reserve(text.size() / 4 + 2);
  if (add_special_tokens && parts.add_bos) ids.push_back(*parts.bos_id);
  size_t plain_begin = 0;
  bool begins = !continues;
  const auto encode_plain_until = [&](size_t end) {
    if (end <= plain_begin || !encoded.status.ok()) return;
    parts.encoder->Encode({.text = text.substr(plain_begin, end - plain_begin),
                           .offset = plain_begin,
                           .begins = begins},
                          encoded);
  };
  LiteralMatcher::Search literals(parts.literals, text, trusted);
  for (size_t position = 0; const auto literal = literals.Next(position);) {
    size_t literal_begin = literal->begin;
    size_t literal_end = literal->begin + literal->size;
    position = literal_end;
    if (const auto rule = parts.literal_rules.find(literal->id);
        rule != parts.literal_rules.end()) {
      const absl::string_view before =
          text.substr(plain_begin, std::max(plain_begin, literal_begin) - plain_begin);
      const absl::string_view after = text.substr(literal_end);
      const bool in_word = EndsWithWord(text.substr(0, literal_begin)) || BeginsWithWord(after);
      if (rule->second.single_word && in_word) continue;
      if (rule->second.takes_space_before) literal_begin -= TrailingSpace(before);
      if (rule->second.takes_space_after) {
        // Inside the space that the one before takes, it ends where that does.
        literal_end = std::max(plain_begin, literal_end);
        if (literal_end > plain_begin) literal_end += LeadingSpace(text.substr(literal_end));
      }
    }
    encode_plain_until(literal_begin);
    ids.push_back(literal->id);
    // A literal in the space that this one takes counts too, as in Hugging Face's tokenizers.
    plain_begin = literal_end;
    begins = true;
  }
  encode_plain_until(text.size());
  if (add_special_tokens && parts.add_eos) ids.push_back(*parts.eos_id);
  return encoded;
}

Tokenizer::Tokenizer(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
Tokenizer::~Tokenizer() = default;

absl::StatusOr<std::vector<int32_t>> Tokenizer::Encode(absl::string_view text,
                                                       const EncodeOptions& options) const {
  const TextRange all = {0, text.size()};
  return IdsOf(rep_->Encode(text, absl::MakeConstSpan(&all, options.parse_special ? 1 : 0),
                            options.add_special_tokens, options.continues),
               options.lossy);
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::Encode(absl::Span<const TextPiece> pieces,
                                                       bool add_special_tokens) const {
  std::string text;
  std::vector<TextRange> trusted;  // ascending, with untrusted text between them
  for (const TextPiece& piece : pieces) {
    if (piece.text.empty()) continue;
    const size_t begin = text.size();
    text += piece.text;
    if (!piece.trusted) continue;
    if (!trusted.empty() && trusted.back().end == begin) {
      trusted.back().end = text.size();
    } else {
      trusted.push_back({begin, text.size()});
    }
  }
  return IdsOf(rep_->Encode(text, trusted, add_special_tokens, /*continues=*/false),
               /*lossy=*/false);
}

int Tokenizer::vocab_size() const { return rep_->parts.vocabulary->size(); }
std::optional<int32_t> Tokenizer::bos_id() const { return rep_->parts.bos_id; }
std::optional<int32_t> Tokenizer::eos_id() const { return rep_->parts.eos_id; }
bool Tokenizer::IsSpecial(int32_t id) const { return rep_->parts.vocabulary->IsSpecial(id); }
const std::vector<int32_t>& Tokenizer::end_of_generation_ids() const {
  return rep_->parts.end_of_generation_ids;
}
std::optional<size_t> Tokenizer::max_bytes_of_token() const { return rep_->max_bytes_of_token; }
absl::string_view Tokenizer::TokenBytes(int32_t id) const {
  return rep_->parts.vocabulary->bytes(id);
}

std::string Tokenizer::Decode(absl::Span<const int32_t> ids, bool skip_special_tokens) const {
  std::string bytes;
  bool at_begin = rep_->parts.adds_space_prefix;
  for (const int32_t id : ids) {
    const bool special = IsSpecial(id);
    if (special && skip_special_tokens) continue;
    absl::string_view token = TokenBytes(id);
    if (at_begin && rep_->parts.vocabulary->kind(id) == TokenKind::kNormal) {
      absl::ConsumePrefix(&token, " ");
    }
    at_begin = at_begin && special;
    bytes.append(token.data(), token.size());
  }
  return ReplaceInvalidUtf8(bytes);
}

const std::string& Tokenizer::chat_template() const { return rep_->parts.chat_template; }
const std::string& Tokenizer::tool_chat_template() const { return rep_->parts.tool_chat_template; }
const std::string& Tokenizer::digest() const { return rep_->digest; }

}  // namespace baton
