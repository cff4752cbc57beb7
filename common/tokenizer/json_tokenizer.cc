#include "common/tokenizer/json_tokenizer.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "common/base/status_macros.h"
#include "common/tokenizer/byte_level_encoder.h"
#include "common/tokenizer/gguf_tokenizer.h"
#include "common/tokenizer/json_fields.h"
#include "common/tokenizer/json_pipeline.h"
#include "common/tokenizer/vocabulary_size.h"

namespace baton {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxJsonBytes = size_t{256} << 20;
// Normal form C makes a text shorter by less than this: 9 bytes of Hangul letters become 3, and no
// other characters gain as much.
constexpr size_t kNormalFormCShrinksBy = 4;

// How much shorter than a text its tokens' bytes may be: TokenizerParts.shrinks_text_by.
size_t ShrinksTextBy(const JsonPipeline& pipeline, const CharacterEncoder::Options& options,
                     const Vocabulary& vocabulary) {
  for (const SplitRule& rule : pipeline.rules) {
    if (rule.behavior == SplitRule::Behavior::kRemoved) return 0;
  }
  if (options.fuse_unknown) {  // any number of characters may become one token
    for (int byte = 0; byte < 256; ++byte) {
      const bool known = vocabulary.byte_piece(static_cast<uint8_t>(byte)).has_value();
      if (!options.byte_fallback || !known) return 0;
    }
  }
  // A text may have U+2581 where a token has a plain space.
  const size_t spaces = pipeline.byte_level ? 1 : kSentencePieceSpace.size();
  return pipeline.normal_form_c ? std::max(kNormalFormCShrinksBy, spaces) : spaces;
}

// The tokens of a tokenizer.json, by id. Ids that nothing names are of the kind unused.
struct JsonTokens {
  std::vector<std::string> texts;
  std::vector<int64_t> kinds;
  std::vector<bool> named;

  absl::Status Name(int64_t id, const std::string& text, TokenKind kind, const std::string& path) {
    if (id < 0 || static_cast<size_t>(id) >= Vocabulary::kMaxTokens) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": token id ", id, "; 0 to ",
                                                     Vocabulary::kMaxTokens - 1, " are supported"));
    }
    const auto index = static_cast<size_t>(id);
    Resize(std::max(index + 1, texts.size()));
    if (named[index] && texts[index] != text) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": token id ", id,
                                                     " is already used by \"",
                                                     absl::Utf8SafeCHexEscape(texts[index]), "\""));
    }
    named[index] = true;
    texts[index] = text;
    kinds[index] = static_cast<int64_t>(kind);
    return absl::OkStatus();
  }
  void Resize(size_t size) {
    texts.resize(size);
    kinds.resize(size, static_cast<int64_t>(TokenKind::kUnused));
    named.resize(size);
  }
};

absl::Status RequirePlainBpe(const Json& model) {
  BATON_ASSIGN_OR_RETURN(const std::string type, StringField(model, "model", "type"));
  if (type != "BPE") {
    return absl::UnimplementedError(absl::StrCat("model.type \"", absl::Utf8SafeCHexEscape(type),
                                                 "\" is not supported; supported is BPE"));
  }
  for (const char* name : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
    const Json& field = Field(model, name);
    if (!field.is_null() && field != "" && field != 0) {
      return absl::UnimplementedError(absl::StrCat("model.", name, " is not supported"));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadVocab(const Json& model, bool byte_fallback, JsonTokens& tokens) {
  const Json& vocab = Field(model, "vocab");
  if (!vocab.is_object()) {
    return absl::InvalidArgumentError("model.vocab is missing or not an object");
  }
  for (const auto& [text, id] : vocab.items()) {
    const std::string path = absl::StrCat("model.vocab[\"", absl::Utf8SafeCHexEscape(text), "\"]");
    if (!id.is_number_integer()) return absl::InvalidArgumentError(path + " is not an integer");
    const bool byte = byte_fallback && text.size() == 6 && absl::StartsWith(text, "<0x") &&
                      absl::ascii_isxdigit(static_cast<unsigned char>(text[3])) &&
                      absl::ascii_isxdigit(static_cast<unsigned char>(text[4])) && text[5] == '>';
    BATON_RETURN_IF_ERROR(
        tokens.Name(id.get<int64_t>(), text, byte ? TokenKind::kByte : TokenKind::kNormal, path));
  }
  return absl::OkStatus();
}

absl::Status ReadAddedToken(const Json& added, const std::string& path, JsonTokens& tokens,
                            TokenizerParts& parts) {
  BATON_ASSIGN_OR_RETURN(const std::string content, StringField(added, path, "content"));
  const Json& id = Field(added, "id");
  if (!id.is_number_integer()) {
    return absl::InvalidArgumentError(path + ": \"id\" is missing or not an integer");
  }
  BATON_ASSIGN_OR_RETURN(const bool special, BoolField(added, path, "special", false));
  BATON_RETURN_IF_ERROR(tokens.Name(id.get<int64_t>(), content,
                                    special ? TokenKind::kControl : TokenKind::kUserDefined, path));
  LiteralRule rule;
  BATON_ASSIGN_OR_RETURN(rule.single_word, BoolField(added, path, "single_word", false));
  BATON_ASSIGN_OR_RETURN(rule.takes_space_before, BoolField(added, path, "lstrip", false));
  BATON_ASSIGN_OR_RETURN(rule.takes_space_after, BoolField(added, path, "rstrip", false));
  if (rule != LiteralRule{}) {
    parts.literal_rules.try_emplace(static_cast<int32_t>(id.get<int64_t>()), rule);
  }
  return absl::OkStatus();
}

absl::StatusOr<JsonTokens> ReadTokens(const Json& json, const GgufFile& file,
                                      TokenizerParts& parts) {
  const Json& model = Field(json, "model");
  BATON_ASSIGN_OR_RETURN(const bool byte_fallback,
                         BoolField(model, "model", "byte_fallback", false));
  JsonTokens tokens;
  BATON_RETURN_IF_ERROR(ReadVocab(model, byte_fallback, tokens));
  if (!Field(json, "added_tokens").is_null()) {
    BATON_ASSIGN_OR_RETURN(const Json* added, ArrayField(json, "tokenizer.json", "added_tokens"));
    for (size_t i = 0; i < added->size(); ++i) {
      BATON_RETURN_IF_ERROR(
          ReadAddedToken((*added)[i], absl::StrCat("added_tokens[", i, "]"), tokens, parts));
    }
  }
  const Json& unknown = Field(model, "unk_token");
  if (!unknown.is_null()) {
    BATON_ASSIGN_OR_RETURN(const std::string text, StringField(model, "model", "unk_token"));
    const auto found = std::find(tokens.texts.begin(), tokens.texts.end(), text);
    if (found == tokens.texts.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "model.unk_token \"", absl::Utf8SafeCHexEscape(text), "\" is not in the vocabulary"));
    }
    tokens.kinds[static_cast<size_t>(found - tokens.texts.begin())] =
        static_cast<int64_t>(TokenKind::kUnknown);
  }
  parts.listed_tokens = tokens.texts.size();
  BATON_ASSIGN_OR_RETURN(const size_t size,
                         VocabularySize(file, tokens.kinds, "model.vocab with added_tokens"));
  tokens.Resize(size);
  absl::erase_if(parts.literal_rules,
                 [size](const auto& rule) { return static_cast<size_t>(rule.first) >= size; });
  return tokens;
}

absl::StatusOr<std::pair<std::string, std::string>> HalvesOf(const Json& merge,
                                                             const std::string& path) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return std::make_pair(merge[0].get<std::string>(), merge[1].get<std::string>());
  }
  if (merge.is_string()) {
    const std::vector<std::string> halves = absl::StrSplit(merge.get<std::string>(), ' ');
    if (halves.size() == 2) return std::make_pair(halves[0], halves[1]);
  }
  return absl::InvalidArgumentError(path + " is not a pair of tokens");
}

absl::StatusOr<std::vector<BpeEncoder::Merge>> ReadMerges(const Json& model,
                                                          const JsonTokens& tokens,
                                                          const Vocabulary& vocabulary) {
  BATON_ASSIGN_OR_RETURN(const Json* merges, ArrayField(model, "model", "merges"));
  if (merges->size() > Vocabulary::kMaxMerges) {
    return absl::InvalidArgumentError(absl::StrCat("model.merges has ", merges->size(),
                                                   " entries; at most ", Vocabulary::kMaxMerges,
                                                   " are supported"));
  }
  absl::flat_hash_set<absl::string_view> literals;
  for (size_t id = 0; id < tokens.texts.size(); ++id) {
    if (tokens.kinds[id] != static_cast<int64_t>(TokenKind::kNormal)) {
      literals.insert(tokens.texts[id]);
    }
  }
  std::vector<BpeEncoder::Merge> resolved;
  resolved.reserve(merges->size());
  for (size_t rank = 0; rank < merges->size(); ++rank) {
    BATON_ASSIGN_OR_RETURN(const auto halves,
                           HalvesOf((*merges)[rank], absl::StrCat("model.merges[", rank, "]")));
    const auto& [left, right] = halves;
    const auto merge = vocabulary.ResolveMerge(left, right);
    if (merge.has_value()) {
      resolved.push_back(*merge);
      continue;
    }
    // The literal of an added token is found before anything merges, so nothing becomes it.
    const bool of_literals = literals.contains(left) || literals.contains(right) ||
                             literals.contains(absl::StrCat(left, right));
    if (!of_literals) {
      return absl::InvalidArgumentError(absl::StrCat(
          "model.merges[", rank, "] has a part or a result that is not in the vocabulary"));
    }
  }
  return resolved;
}

absl::Status Assemble(const Json& json, const JsonPipeline& pipeline, JsonTokens tokens,
                      TokenizerParts& parts) {
  const Json& model = Field(json, "model");
  const std::vector<absl::string_view> texts(tokens.texts.begin(), tokens.texts.end());
  BATON_ASSIGN_OR_RETURN(
      Vocabulary vocabulary,
      Vocabulary::Create(texts, tokens.kinds,
                         pipeline.byte_level ? Vocabulary::Spelling::kByteAlphabet
                                             : Vocabulary::Spelling::kSentencePiece));
  parts.vocabulary = std::make_unique<const Vocabulary>(std::move(vocabulary));
  BATON_ASSIGN_OR_RETURN(auto merges, ReadMerges(model, tokens, *parts.vocabulary));
  BATON_ASSIGN_OR_RETURN(PreTokenizer pre_tokenizer, PreTokenizer::Create(pipeline.rules));
  BATON_ASSIGN_OR_RETURN(const bool whole, BoolField(model, "model", "ignore_merges", false));
  if (pipeline.byte_level) {
    parts.shrinks_text_by = ShrinksTextBy(pipeline, {}, *parts.vocabulary);
    BATON_ASSIGN_OR_RETURN(
        ByteLevelEncoder encoder,
        ByteLevelEncoder::Create(
            std::move(pre_tokenizer), *parts.vocabulary, std::move(merges),
            {.normal_form_c = pipeline.normal_form_c, .takes_known_pieces_whole = whole}));
    parts.encoder = std::make_unique<const ByteLevelEncoder>(std::move(encoder));
    return absl::OkStatus();
  }
  CharacterEncoder::Options options{.normal_form_c = pipeline.normal_form_c,
                                    .replace_spaces = pipeline.replace_spaces,
                                    .prefix = pipeline.prefix,
                                    .takes_known_pieces_whole = whole};
  BATON_ASSIGN_OR_RETURN(options.byte_fallback, BoolField(model, "model", "byte_fallback", false));
  BATON_ASSIGN_OR_RETURN(options.fuse_unknown, BoolField(model, "model", "fuse_unk", false));
  parts.shrinks_text_by = ShrinksTextBy(pipeline, options, *parts.vocabulary);
  parts.adds_space_prefix = pipeline.strips_first_space;
  parts.encoder = std::make_unique<const CharacterEncoder>(
      std::move(pre_tokenizer), *parts.vocabulary, std::move(merges), options);
  return absl::OkStatus();
}

// Takes the token that the post-processor adds, unless the flag under `key` has decided.
absl::Status TakeAdded(const GgufFile& file, absl::string_view key, std::optional<int64_t> added,
                       int vocab_size, bool& add, std::optional<int32_t>& id) {
  if (file.Has(key)) return absl::OkStatus();
  add = added.has_value();
  if (!add) return absl::OkStatus();
  if (*added < 0 || *added >= vocab_size) {
    return absl::InvalidArgumentError(absl::StrCat("post_processor: adds token id ", *added,
                                                   ", but there are ", vocab_size, " tokens"));
  }
  id = static_cast<int32_t>(*added);
  return absl::OkStatus();
}

absl::StatusOr<TokenizerParts> Read(const GgufFile& file) {
  BATON_ASSIGN_OR_RETURN(const absl::string_view text, file.GetString(kTokenizerJsonKey));
  if (text.size() > kMaxJsonBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", text.size(), " bytes; at most ", kMaxJsonBytes, " are supported"));
  }
  const Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::InvalidArgumentError("is not a JSON object");
  BATON_RETURN_IF_ERROR(RequirePlainBpe(Field(json, "model")));
  BATON_ASSIGN_OR_RETURN(JsonPipeline pipeline, ReadJsonPipeline(json));
  const std::optional<int64_t> bos = pipeline.bos_id;
  const std::optional<int64_t> eos = pipeline.eos_id;
  TokenizerParts parts;
  BATON_ASSIGN_OR_RETURN(JsonTokens tokens, ReadTokens(json, file, parts));
  BATON_RETURN_IF_ERROR(Assemble(json, pipeline, std::move(tokens), parts));
  BATON_RETURN_IF_ERROR(ReadSpecialTokens(file, "tokens by id", parts));
  const int size = parts.vocabulary->size();
  BATON_RETURN_IF_ERROR(
      TakeAdded(file, "tokenizer.ggml.add_bos_token", bos, size, parts.add_bos, parts.bos_id));
  BATON_RETURN_IF_ERROR(
      TakeAdded(file, "tokenizer.ggml.add_eos_token", eos, size, parts.add_eos, parts.eos_id));
  return parts;
}

}  // namespace

absl::StatusOr<TokenizerParts> ReadJsonTokenizer(const GgufFile& file) {
  absl::StatusOr<TokenizerParts> parts = Read(file);
  if (parts.ok()) return parts;
  return absl::Status(parts.status().code(),
                      absl::StrCat(kTokenizerJsonKey, ": ", parts.status().message()));
}

}  // namespace baton
