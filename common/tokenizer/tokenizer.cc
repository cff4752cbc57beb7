#include "common/tokenizer/tokenizer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"
#include "common/tokenizer/bpe_encoder.h"
#include "common/tokenizer/literal_matcher.h"
#include "common/tokenizer/pre_tokenizer.h"
#include "common/tokenizer/utf8_stream.h"
#include "common/tokenizer/vocabulary.h"

namespace baton {
namespace {

// The tokens that end a turn in the chat formats. Some files name only one of several as EOS.
constexpr absl::string_view kEndOfTurnLiterals[] = {
    "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|endoftext|>", "<|end|>", "<end_of_turn>", "</s>"};

// Bytes [begin, end) of a text.
struct Range {
  size_t begin;
  size_t end;
};

absl::StatusOr<Vocabulary> LoadVocabulary(const GgufFile& file) {
  BATON_ASSIGN_OR_RETURN(const auto texts, file.GetStrings("tokenizer.ggml.tokens"));
  std::vector<int64_t> kinds;
  if (file.Has("tokenizer.ggml.token_type")) {
    BATON_ASSIGN_OR_RETURN(kinds, file.GetInts("tokenizer.ggml.token_type"));
    if (kinds.empty()) {
      return absl::InvalidArgumentError("tokenizer.ggml.token_type is an empty array");
    }
  }
  return Vocabulary::Create(texts, kinds);
}

absl::StatusOr<BpeEncoder> LoadEncoder(const GgufFile& file, const Vocabulary& vocabulary) {
  BATON_ASSIGN_OR_RETURN(const auto texts, file.GetStrings("tokenizer.ggml.merges"));
  BATON_ASSIGN_OR_RETURN(auto merges, vocabulary.ResolveMerges(texts));
  const int32_t unknown = vocabulary.unknown_id().value_or(BpeEncoder::kNoToken);
  std::array<int32_t, 256> byte_ids;
  bool any = false;
  for (size_t byte = 0; byte < byte_ids.size(); ++byte) {
    const char value = static_cast<char>(byte);
    const std::optional<int32_t> id = vocabulary.Find(absl::string_view(&value, 1));
    byte_ids[byte] = id.value_or(unknown);
    any |= id.has_value();
  }
  if (!any) {
    return absl::InvalidArgumentError(
        "tokenizer.ggml.tokens has no token of a single byte: not a byte-level vocabulary");
  }
  return BpeEncoder(byte_ids, std::move(merges));
}

absl::StatusOr<LiteralMatcher> CollectLiterals(const Vocabulary& vocabulary) {
  LiteralMatcher literals;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const bool special = vocabulary.IsSpecial(id);
    const absl::string_view literal = vocabulary.bytes(id);
    if ((!special && vocabulary.kind(id) != TokenKind::kUserDefined) || literal.empty()) continue;
    if (literal.size() > LiteralMatcher::kMaxLiteralBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokenizer.ggml.tokens[", id, "], a special token, has ", literal.size(),
                       " bytes; at most ", LiteralMatcher::kMaxLiteralBytes, " are supported"));
    }
    literals.Add(literal, id, /*trusted_only=*/special);
  }
  return literals;
}

// The token id at `key`; nullopt if the file lacks the key.
absl::StatusOr<std::optional<int32_t>> LoadTokenId(const GgufFile& file, absl::string_view key,
                                                   int vocab_size) {
  if (!file.Has(key)) return std::nullopt;
  BATON_ASSIGN_OR_RETURN(const uint64_t id, file.GetUint(key));
  if (id >= static_cast<uint64_t>(vocab_size)) {
    return absl::InvalidArgumentError(
        absl::StrCat(key, " is ", id, ", but the vocabulary has ", vocab_size, " tokens"));
  }
  return static_cast<int32_t>(id);
}

// Whether the token of `id_key` is added to a text. An error if the file says so but lacks the
// token.
absl::StatusOr<bool> LoadAddFlag(const GgufFile& file, absl::string_view key,
                                 absl::string_view id_key, bool by_default) {
  if (!file.Has(key)) return by_default && file.Has(id_key);
  BATON_ASSIGN_OR_RETURN(const bool add, file.GetBool(key));
  if (add && !file.Has(id_key)) {
    return absl::InvalidArgumentError(absl::StrCat(key, " is true, but ", id_key, " is missing"));
  }
  return add;
}

absl::Status CheckNothingLeftOut(absl::string_view text, std::optional<size_t> first_left_out) {
  if (!first_left_out.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("the model's vocabulary has no token for byte 0x%02X at offset %d",
                      static_cast<uint8_t>(text[*first_left_out]), *first_left_out));
}

absl::Status RequireByteLevelModel(const GgufFile& file) {
  BATON_ASSIGN_OR_RETURN(const absl::string_view model, file.GetString("tokenizer.ggml.model"));
  if (model == "gpt2") return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("tokenizer.ggml.model: tokenizer \"", model,
                   "\" is not supported; supported is gpt2 (byte-level BPE)"));
}

}  // namespace

struct Tokenizer::Rep {
  PreTokenizer pre_tokenizer;
  Vocabulary vocabulary;
  BpeEncoder encoder;
  LiteralMatcher literals;
  std::optional<int32_t> bos_id = std::nullopt;
  std::optional<int32_t> eos_id = std::nullopt;
  bool add_bos = false;
  bool add_eos = false;
  std::vector<int32_t> end_of_generation_ids = {};  // ascending
  std::string chat_template = {};
  std::string digest = {};

  absl::Status LoadSpecialTokens(const GgufFile& file);
  // The tokens of a text, and the offset of the first byte that no token can stand for, if any.
  struct Encoded {
    std::vector<int32_t> ids;
    std::optional<size_t> first_left_out;
  };
  Encoded Encode(absl::string_view text, absl::Span<const Range> trusted,
                 bool add_special_tokens) const;
  // Appends the tokens of text[plain].
  void EncodePlain(absl::string_view text, Range plain, BpeEncoder::Scratch& scratch,
                   Encoded& encoded) const;
};

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Load(const GgufFile& file) {
  const auto load = [&]() -> absl::StatusOr<std::unique_ptr<Rep>> {
    BATON_RETURN_IF_ERROR(RequireByteLevelModel(file));
    BATON_ASSIGN_OR_RETURN(const absl::string_view name, file.GetString("tokenizer.ggml.pre"));
    BATON_ASSIGN_OR_RETURN(PreTokenizer pre_tokenizer, PreTokenizer::Create(name));
    BATON_ASSIGN_OR_RETURN(Vocabulary vocabulary, LoadVocabulary(file));
    BATON_ASSIGN_OR_RETURN(BpeEncoder encoder, LoadEncoder(file, vocabulary));
    BATON_ASSIGN_OR_RETURN(LiteralMatcher literals, CollectLiterals(vocabulary));
    auto rep = std::make_unique<Rep>(Rep{.pre_tokenizer = std::move(pre_tokenizer),
                                         .vocabulary = std::move(vocabulary),
                                         .encoder = std::move(encoder),
                                         .literals = std::move(literals)});
    BATON_RETURN_IF_ERROR(rep->LoadSpecialTokens(file));
    if (file.Has("tokenizer.chat_template")) {
      BATON_ASSIGN_OR_RETURN(const absl::string_view chat,
                             file.GetString("tokenizer.chat_template"));
      rep->chat_template = std::string(chat);
    }
    rep->digest = file.TokenizerDigest();
    return rep;
  };
  absl::StatusOr<std::unique_ptr<Rep>> rep = load();
  if (!rep.ok()) {
    // The reader's errors name the file already.
    const absl::string_view message = rep.status().message();
    if (absl::StartsWith(message, file.path())) return rep.status();
    return absl::Status(rep.status().code(), absl::StrCat(file.path(), ": ", message));
  }
  return std::unique_ptr<Tokenizer>(new Tokenizer(*std::move(rep)));
}

absl::Status Tokenizer::Rep::LoadSpecialTokens(const GgufFile& file) {
  constexpr absl::string_view kBos = "tokenizer.ggml.bos_token_id";
  constexpr absl::string_view kEos = "tokenizer.ggml.eos_token_id";
  const int size = vocabulary.size();
  BATON_ASSIGN_OR_RETURN(bos_id, LoadTokenId(file, kBos, size));
  BATON_ASSIGN_OR_RETURN(eos_id, LoadTokenId(file, kEos, size));
  BATON_ASSIGN_OR_RETURN(add_bos, LoadAddFlag(file, "tokenizer.ggml.add_bos_token", kBos,
                                              pre_tokenizer.adds_bos_by_default()));
  BATON_ASSIGN_OR_RETURN(add_eos, LoadAddFlag(file, "tokenizer.ggml.add_eos_token", kEos, false));

  std::vector<int32_t>& ends = end_of_generation_ids;
  for (const absl::string_view key : {kEos, absl::string_view("tokenizer.ggml.eot_token_id"),
                                      absl::string_view("tokenizer.ggml.eom_token_id")}) {
    BATON_ASSIGN_OR_RETURN(const std::optional<int32_t> id, LoadTokenId(file, key, size));
    if (id.has_value()) ends.push_back(*id);
  }
  for (int32_t id = 0; id < size; ++id) {
    if (vocabulary.kind(id) != TokenKind::kControl) continue;
    if (absl::c_linear_search(kEndOfTurnLiterals, vocabulary.bytes(id))) ends.push_back(id);
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  return absl::OkStatus();
}

Tokenizer::Rep::Encoded Tokenizer::Rep::Encode(absl::string_view text,
                                               absl::Span<const Range> trusted,
                                               bool add_special_tokens) const {
  Encoded encoded;
  std::vector<int32_t>& ids = encoded.ids;
  ids.reserve(text.size() / 4 + 2);
  if (add_special_tokens && add_bos) ids.push_back(*bos_id);
  BpeEncoder::Scratch scratch;
  size_t plain_begin = 0;
  for (size_t position = 0; position < text.size();) {
    while (!trusted.empty() && trusted.front().end <= position) trusted.remove_prefix(1);
    const bool is_trusted = !trusted.empty() && trusted.front().begin <= position;
    const size_t trusted_size = is_trusted ? trusted.front().end - position : 0;
    const auto literal = literals.Longest(text.substr(position), trusted_size);
    if (!literal.has_value()) {
      ++position;
      continue;
    }
    EncodePlain(text, {plain_begin, position}, scratch, encoded);
    ids.push_back(literal->id);
    position += literal->size;
    plain_begin = position;
  }
  EncodePlain(text, {plain_begin, text.size()}, scratch, encoded);
  if (add_special_tokens && add_eos) ids.push_back(*eos_id);
  return encoded;
}

void Tokenizer::Rep::EncodePlain(absl::string_view text, Range plain, BpeEncoder::Scratch& scratch,
                                 Encoded& encoded) const {
  const bool whole = pre_tokenizer.takes_known_pieces_whole();
  size_t position = plain.begin;
  pre_tokenizer.Split(
      text.substr(plain.begin, plain.end - plain.begin), [&](absl::string_view piece) {
        const std::optional<int32_t> id = whole ? vocabulary.Find(piece) : std::nullopt;
        if (id.has_value()) {
          encoded.ids.push_back(*id);
        } else {
          const auto left_out = encoder.Encode(piece, scratch, encoded.ids);
          if (left_out.has_value() && !encoded.first_left_out.has_value()) {
            encoded.first_left_out = position + *left_out;
          }
        }
        position += piece.size();
      });
}

Tokenizer::Tokenizer(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
Tokenizer::~Tokenizer() = default;

absl::StatusOr<std::vector<int32_t>> Tokenizer::Encode(absl::string_view text,
                                                       const EncodeOptions& options) const {
  const Range all = {0, text.size()};
  Rep::Encoded encoded = rep_->Encode(
      text, absl::MakeConstSpan(&all, options.parse_special ? 1 : 0), options.add_special_tokens);
  if (!options.lossy) BATON_RETURN_IF_ERROR(CheckNothingLeftOut(text, encoded.first_left_out));
  return std::move(encoded.ids);
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::Encode(absl::Span<const TextPiece> pieces,
                                                       bool add_special_tokens) const {
  std::string text;
  std::vector<Range> trusted;  // ascending, with untrusted text between them
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
  Rep::Encoded encoded = rep_->Encode(text, trusted, add_special_tokens);
  BATON_RETURN_IF_ERROR(CheckNothingLeftOut(text, encoded.first_left_out));
  return std::move(encoded.ids);
}

int Tokenizer::vocab_size() const { return rep_->vocabulary.size(); }
std::optional<int32_t> Tokenizer::bos_id() const { return rep_->bos_id; }
std::optional<int32_t> Tokenizer::eos_id() const { return rep_->eos_id; }
bool Tokenizer::IsSpecial(int32_t id) const { return rep_->vocabulary.IsSpecial(id); }
const std::vector<int32_t>& Tokenizer::end_of_generation_ids() const {
  return rep_->end_of_generation_ids;
}
absl::string_view Tokenizer::TokenBytes(int32_t id) const { return rep_->vocabulary.bytes(id); }

std::string Tokenizer::Decode(absl::Span<const int32_t> ids, bool skip_special_tokens) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (skip_special_tokens && IsSpecial(id)) continue;
    const absl::string_view token = TokenBytes(id);
    bytes.append(token.data(), token.size());
  }
  return ReplaceInvalidUtf8(bytes);
}

const std::string& Tokenizer::chat_template() const { return rep_->chat_template; }
const std::string& Tokenizer::digest() const { return rep_->digest; }

}  // namespace baton
