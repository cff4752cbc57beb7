#include "common/tokenizer/gguf_tokenizer.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/tokenizer/byte_level_encoder.h"
#include "common/tokenizer/end_of_generation.h"
#include "common/tokenizer/split/pre_tokenizer.h"
#include "common/tokenizer/spm_encoder.h"
#include "common/tokenizer/vocabulary_size.h"

namespace baton {
namespace {

absl::Status LoadVocabulary(const GgufFile& file, Vocabulary::Spelling spelling,
                            TokenizerParts& parts) {
  constexpr absl::string_view kTokens = "tokenizer.ggml.tokens";
  BATON_ASSIGN_OR_RETURN(std::vector<absl::string_view> texts, file.GetStrings(kTokens));
  std::vector<int64_t> kinds(texts.size(), static_cast<int64_t>(TokenKind::kNormal));
  if (file.Has("tokenizer.ggml.token_type")) {
    BATON_ASSIGN_OR_RETURN(kinds, file.GetInts("tokenizer.ggml.token_type"));
    if (kinds.empty()) {
      return absl::InvalidArgumentError("tokenizer.ggml.token_type is an empty array");
    }
  }
  parts.listed_tokens = texts.size();
  if (!texts.empty() && kinds.size() == texts.size()) {  // else Create names what is wrong
    BATON_ASSIGN_OR_RETURN(const size_t size, VocabularySize(file, kinds, kTokens));
    texts.resize(size);
    kinds.resize(size, static_cast<int64_t>(TokenKind::kUnused));
  }
  BATON_ASSIGN_OR_RETURN(Vocabulary vocabulary, Vocabulary::Create(texts, kinds, spelling));
  parts.vocabulary = std::make_unique<const Vocabulary>(std::move(vocabulary));
  return absl::OkStatus();
}

absl::StatusOr<LiteralMatcher> CollectLiterals(const Vocabulary& vocabulary,
                                               absl::string_view tokens) {
  std::vector<LiteralMatcher::Literal> literals;
  size_t total_bytes = 0;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const bool special = vocabulary.IsSpecial(id);
    const absl::string_view literal = vocabulary.bytes(id);
    if ((!special && vocabulary.kind(id) != TokenKind::kUserDefined) || literal.empty()) continue;
    if (literal.size() > LiteralMatcher::kMaxLiteralBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(tokens, "[", id, "], a special token, has ", literal.size(),
                       " bytes; at most ", LiteralMatcher::kMaxLiteralBytes, " are supported"));
    }
    total_bytes += literal.size();
    literals.push_back({.text = literal, .id = id, .trusted_only = special});
  }
  if (total_bytes > LiteralMatcher::kMaxTotalBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        tokens, ": the ", literals.size(), " special and user-defined tokens have a total of ",
        total_bytes, " bytes; at most ", LiteralMatcher::kMaxTotalBytes,
        " are supported; use a model whose file lists fewer or shorter ones"));
  }
  return LiteralMatcher(std::move(literals));
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

absl::Status LoadByteLevel(const GgufFile& file, TokenizerParts& parts) {
  BATON_ASSIGN_OR_RETURN(const absl::string_view name, file.GetString("tokenizer.ggml.pre"));
  BATON_ASSIGN_OR_RETURN(PreTokenizer pre_tokenizer, PreTokenizer::Create(name));
  parts.add_bos = pre_tokenizer.adds_bos_by_default();
  const ByteLevelEncoder::Options options{.takes_known_pieces_whole =
                                              pre_tokenizer.takes_known_pieces_whole()};
  BATON_RETURN_IF_ERROR(LoadVocabulary(file, Vocabulary::Spelling::kByteAlphabet, parts));
  BATON_ASSIGN_OR_RETURN(const auto texts, file.GetStrings("tokenizer.ggml.merges"));
  BATON_ASSIGN_OR_RETURN(auto merges, parts.vocabulary->ResolveMerges(texts));
  BATON_ASSIGN_OR_RETURN(ByteLevelEncoder encoder,
                         ByteLevelEncoder::Create(std::move(pre_tokenizer), *parts.vocabulary,
                                                  std::move(merges), options));
  parts.encoder = std::make_unique<const ByteLevelEncoder>(std::move(encoder));
  return absl::OkStatus();
}

absl::Status LoadSpm(const GgufFile& file, TokenizerParts& parts) {
  constexpr absl::string_view kPrefix = "tokenizer.ggml.add_space_prefix";
  parts.add_bos = true;
  parts.adds_space_prefix = true;
  parts.shrinks_text_by = kSentencePieceSpace.size();  // where a token has a plain space
  if (file.Has(kPrefix)) {
    BATON_ASSIGN_OR_RETURN(parts.adds_space_prefix, file.GetBool(kPrefix));
  }
  BATON_RETURN_IF_ERROR(LoadVocabulary(file, Vocabulary::Spelling::kSentencePiece, parts));
  BATON_ASSIGN_OR_RETURN(std::vector<float> scores, file.GetFloats("tokenizer.ggml.scores"));
  if (scores.size() == parts.listed_tokens) {
    scores.resize(static_cast<size_t>(parts.vocabulary->size()));
  }
  BATON_ASSIGN_OR_RETURN(parts.encoder,
                         SpmEncoder::Create(*parts.vocabulary, scores, parts.adds_space_prefix));
  return absl::OkStatus();
}

// Appends the ids of the array at `key`; none if the file lacks it.
absl::Status AppendTokenIds(const GgufFile& file, absl::string_view key, int vocab_size,
                            std::vector<int32_t>& ids) {
  if (!file.Has(key)) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(const std::vector<int64_t> values, file.GetInts(key));
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0 || values[i] >= vocab_size) {
      return absl::InvalidArgumentError(absl::StrCat(
          key, "[", i, "] is ", values[i], ", but the vocabulary has ", vocab_size, " tokens"));
    }
    ids.push_back(static_cast<int32_t>(values[i]));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadSpecialTokens(const GgufFile& file, absl::string_view tokens,
                               TokenizerParts& parts) {
  constexpr absl::string_view kBos = "tokenizer.ggml.bos_token_id";
  constexpr absl::string_view kEos = "tokenizer.ggml.eos_token_id";
  const Vocabulary& vocabulary = *parts.vocabulary;
  BATON_ASSIGN_OR_RETURN(parts.literals, CollectLiterals(vocabulary, tokens));
  const int size = vocabulary.size();
  BATON_ASSIGN_OR_RETURN(parts.bos_id, LoadTokenId(file, kBos, size));
  BATON_ASSIGN_OR_RETURN(parts.eos_id, LoadTokenId(file, kEos, size));
  BATON_ASSIGN_OR_RETURN(parts.add_bos,
                         LoadAddFlag(file, "tokenizer.ggml.add_bos_token", kBos, parts.add_bos));
  BATON_ASSIGN_OR_RETURN(parts.add_eos,
                         LoadAddFlag(file, "tokenizer.ggml.add_eos_token", kEos, false));

  std::vector<int32_t>& ends = parts.end_of_generation_ids;
  for (const absl::string_view key : {kEos, absl::string_view("tokenizer.ggml.eot_token_id"),
                                      absl::string_view("tokenizer.ggml.eom_token_id")}) {
    BATON_ASSIGN_OR_RETURN(const std::optional<int32_t> id, LoadTokenId(file, key, size));
    if (id.has_value()) ends.push_back(*id);
  }
  BATON_RETURN_IF_ERROR(AppendTokenIds(file, "tokenizer.ggml.eos_token_ids", size, ends));
  AppendKnownEnds(vocabulary, ends);
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  for (const auto& [key, chat_template] :
       {std::pair("tokenizer.chat_template", &parts.chat_template),
        std::pair("tokenizer.chat_template.tool_use", &parts.tool_chat_template)}) {
    if (!file.Has(key)) continue;
    BATON_ASSIGN_OR_RETURN(const absl::string_view text, file.GetString(key));
    *chat_template = std::string(text);
  }
  return absl::OkStatus();
}

absl::StatusOr<TokenizerParts> ReadGgufTokenizer(const GgufFile& file) {
  BATON_ASSIGN_OR_RETURN(const absl::string_view model, file.GetString("tokenizer.ggml.model"));
  TokenizerParts parts;
  if (model == "gpt2") {
    BATON_RETURN_IF_ERROR(LoadByteLevel(file, parts));
  } else if (model == "llama") {
    BATON_RETURN_IF_ERROR(LoadSpm(file, parts));
  } else {
    return absl::UnimplementedError(
        absl::StrCat("tokenizer.ggml.model: tokenizer \"", LogSafe(model),
                     "\" is not supported; supported are gpt2 (byte-level BPE) and llama "
                     "(SentencePiece's BPE)"));
  }
  BATON_RETURN_IF_ERROR(ReadSpecialTokens(file, "tokenizer.ggml.tokens", parts));
  return parts;
}

}  // namespace baton
