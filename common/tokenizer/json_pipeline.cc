#include "common/tokenizer/json_pipeline.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"
#include "common/tokenizer/json_fields.h"
#include "common/tokenizer/split/regex_dialect.h"
#include "common/tokenizer/vocabulary.h"

namespace baton {
namespace {

using Json = nlohmann::json;
using Prefix = CharacterEncoder::Prefix;

// The expressions of "ByteLevel" (GPT-2's) and "Digits".
constexpr char kByteLevelExpression[] =
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr char kDigitExpression[] = R"(\p{N})";
constexpr char kDigitsExpression[] = R"(\p{N}+)";
constexpr int kMaxDepth = 4;  // nesting depth of a Sequence in a Sequence

absl::Status Unsupported(const std::string& path, absl::string_view what) {
  return absl::UnimplementedError(absl::StrCat(path, ": ", what, " is not supported"));
}

absl::StatusOr<std::string> TypeOf(const Json& step, const std::string& path) {
  return StringField(step, path, "type");
}

// Calls `read` for `step`, or for each step of it if it is a Sequence of `list`.
template <typename Read>
absl::Status ForEachStep(const Json& step, const std::string& path, const char* list, int depth,
                         const Read& read) {
  if (step.is_null()) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(const std::string type, TypeOf(step, path));
  if (type != "Sequence") return read(step, path, type);
  if (depth == kMaxDepth) return Unsupported(path, "a Sequence this deep");
  BATON_ASSIGN_OR_RETURN(const Json* steps, ArrayField(step, path, list));
  for (size_t i = 0; i < steps->size(); ++i) {
    BATON_RETURN_IF_ERROR(ForEachStep((*steps)[i], absl::StrCat(path, ".", list, "[", i, "]"), list,
                                      depth + 1, read));
  }
  return absl::OkStatus();
}

absl::Status ReadNormalizer(const Json& step, const std::string& path, const std::string& type,
                            JsonPipeline& pipeline) {
  if (type == "NFC") {
    pipeline.normal_form_c = true;
    return absl::OkStatus();
  }
  if (type == "Prepend") {
    BATON_ASSIGN_OR_RETURN(const std::string text, StringField(step, path, "prepend"));
    if (text != kSentencePieceSpace)
      return Unsupported(path, "to prepend another text than U+2581");
    pipeline.prefix = Prefix::kAlways;
    return absl::OkStatus();
  }
  if (type == "Replace") {
    BATON_ASSIGN_OR_RETURN(const std::string content, StringField(step, path, "content"));
    const Json& pattern = Field(step, "pattern");
    if (Field(pattern, "String") != " " || content != kSentencePieceSpace) {
      return Unsupported(path, "to replace something else than a space by U+2581");
    }
    pipeline.replace_spaces = true;
    return absl::OkStatus();
  }
  return Unsupported(path, absl::StrCat("the normalizer \"", absl::Utf8SafeCHexEscape(type), "\""));
}

absl::StatusOr<SplitRule::Behavior> BehaviorOf(const Json& step, const std::string& path) {
  constexpr std::pair<const char*, SplitRule::Behavior> kBehaviors[] = {
      {"Isolated", SplitRule::Behavior::kIsolated},
      {"Removed", SplitRule::Behavior::kRemoved},
      {"MergedWithPrevious", SplitRule::Behavior::kMergedWithPrevious},
      {"MergedWithNext", SplitRule::Behavior::kMergedWithNext},
      {"Contiguous", SplitRule::Behavior::kContiguous}};
  BATON_ASSIGN_OR_RETURN(const std::string name, StringField(step, path, "behavior"));
  for (const auto& [known, behavior] : kBehaviors) {
    if (name == known) return behavior;
  }
  return Unsupported(path, absl::StrCat("behavior \"", absl::Utf8SafeCHexEscape(name), "\""));
}

absl::Status ReadSplit(const Json& step, const std::string& path, JsonPipeline& pipeline) {
  SplitRule rule;
  BATON_ASSIGN_OR_RETURN(rule.behavior, BehaviorOf(step, path));
  BATON_ASSIGN_OR_RETURN(rule.invert, BoolField(step, path, "invert", false));
  const Json& pattern = Field(step, "pattern");
  if (pattern.contains("Regex")) {
    BATON_ASSIGN_OR_RETURN(rule.expression, StringField(pattern, path + ".pattern", "Regex"));
  } else {
    BATON_ASSIGN_OR_RETURN(const std::string text,
                           StringField(pattern, path + ".pattern", "String"));
    rule.expression = QuotedExpression(text);
  }
  pipeline.rules.push_back(std::move(rule));
  return absl::OkStatus();
}

absl::Status ReadMetaspace(const Json& step, const std::string& path, JsonPipeline& pipeline) {
  BATON_ASSIGN_OR_RETURN(const std::string replacement, StringField(step, path, "replacement"));
  BATON_ASSIGN_OR_RETURN(const bool split, BoolField(step, path, "split", true));
  if (replacement != kSentencePieceSpace || split) {
    return Unsupported(path, "a Metaspace that splits or has another replacement than U+2581");
  }
  const Json& scheme = Field(step, "prepend_scheme");
  if (scheme == "first") {
    pipeline.prefix = Prefix::kFirst;
  } else if (scheme == "always") {
    pipeline.prefix = Prefix::kMissing;
  } else if (scheme != "never") {
    return Unsupported(path, "a prepend_scheme other than first, always and never");
  }
  pipeline.replace_spaces = true;
  return absl::OkStatus();
}

absl::Status ReadPreTokenizer(const Json& step, const std::string& path, const std::string& type,
                              JsonPipeline& pipeline) {
  if (pipeline.byte_level) return Unsupported(path, "a step after ByteLevel");
  if (type == "Split") return ReadSplit(step, path, pipeline);
  if (type == "Metaspace") return ReadMetaspace(step, path, pipeline);
  if (type == "Digits") {
    BATON_ASSIGN_OR_RETURN(const bool single, BoolField(step, path, "individual_digits", false));
    pipeline.rules.push_back({.expression = single ? kDigitExpression : kDigitsExpression});
    return absl::OkStatus();
  }
  if (type == "ByteLevel") {
    BATON_ASSIGN_OR_RETURN(const bool prefix, BoolField(step, path, "add_prefix_space", true));
    if (prefix) return Unsupported(path, "add_prefix_space");
    BATON_ASSIGN_OR_RETURN(const bool use_regex, BoolField(step, path, "use_regex", true));
    if (use_regex) pipeline.rules.push_back({.expression = kByteLevelExpression});
    pipeline.byte_level = true;
    return absl::OkStatus();
  }
  return Unsupported(path,
                     absl::StrCat("the pre-tokenizer \"", absl::Utf8SafeCHexEscape(type), "\""));
}

absl::Status ReadDecoder(const Json& step, const std::string& path, const std::string& type,
                         JsonPipeline& pipeline) {
  if (type == "ByteLevel" && pipeline.byte_level) return absl::OkStatus();
  if (!pipeline.byte_level && (type == "ByteFallback" || type == "Fuse")) return absl::OkStatus();
  if (!pipeline.byte_level && type == "Replace" && Field(step, "content") == " " &&
      Field(Field(step, "pattern"), "String") == std::string(kSentencePieceSpace)) {
    return absl::OkStatus();
  }
  if (!pipeline.byte_level && type == "Metaspace") {
    pipeline.strips_first_space = Field(step, "prepend_scheme") != "never";
    return absl::OkStatus();
  }
  if (!pipeline.byte_level && type == "Strip" && Field(step, "content") == " " &&
      Field(step, "stop") == 0 && (Field(step, "start") == 0 || Field(step, "start") == 1)) {
    pipeline.strips_first_space = Field(step, "start") == 1;
    return absl::OkStatus();
  }
  return Unsupported(path, absl::StrCat("the decoder \"", absl::Utf8SafeCHexEscape(type),
                                        "\" with these settings"));
}

// The id of the special token that `part` of a template names.
absl::StatusOr<int64_t> TemplateToken(const Json& post, const Json& part, const std::string& path) {
  BATON_ASSIGN_OR_RETURN(const std::string name,
                         StringField(Field(part, "SpecialToken"), path, "id"));
  const Json& ids = Field(Field(Field(post, "special_tokens"), name.c_str()), "ids");
  if (!ids.is_array() || ids.size() != 1 || !ids[0].is_number_integer()) {
    return Unsupported(path, "a special token that is not one token");
  }
  return ids[0].get<int64_t>();
}

absl::Status ReadPostProcessor(const Json& post, const std::string& path, const std::string& type,
                               JsonPipeline& pipeline) {
  if (type == "ByteLevel") return absl::OkStatus();
  if (type != "TemplateProcessing") {
    return Unsupported(path,
                       absl::StrCat("the post-processor \"", absl::Utf8SafeCHexEscape(type), "\""));
  }
  BATON_ASSIGN_OR_RETURN(const Json* single, ArrayField(post, path, "single"));
  bool text_seen = false;
  for (size_t i = 0; i < single->size(); ++i) {
    const Json& part = (*single)[i];
    const std::string part_path = absl::StrCat(path, ".single[", i, "]");
    if (part.contains("Sequence") && !text_seen) {
      text_seen = true;
      continue;
    }
    std::optional<int64_t>& id = text_seen ? pipeline.eos_id : pipeline.bos_id;
    if (!part.contains("SpecialToken") || id.has_value()) {
      return Unsupported(part_path, "a template of more than BOS, the text and EOS");
    }
    BATON_ASSIGN_OR_RETURN(id, TemplateToken(post, part, part_path));
  }
  if (!text_seen) return Unsupported(path + ".single", "a template without the text");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<JsonPipeline> ReadJsonPipeline(const Json& json) {
  JsonPipeline pipeline;
  const auto read = [&](const char* key, const char* list, auto read_step) {
    return ForEachStep(Field(json, key), key, list, 0,
                       [&](const Json& step, const std::string& path, const std::string& type) {
                         return read_step(step, path, type, pipeline);
                       });
  };
  BATON_RETURN_IF_ERROR(read("normalizer", "normalizers", ReadNormalizer));
  BATON_RETURN_IF_ERROR(read("pre_tokenizer", "pretokenizers", ReadPreTokenizer));
  BATON_RETURN_IF_ERROR(read("decoder", "decoders", ReadDecoder));
  BATON_RETURN_IF_ERROR(read("post_processor", "processors", ReadPostProcessor));
  if (pipeline.byte_level &&
      (pipeline.replace_spaces || pipeline.prefix != CharacterEncoder::Prefix::kNone)) {
    return Unsupported("pre_tokenizer", "ByteLevel with U+2581 for spaces");
  }
  return pipeline;
}

}  // namespace baton
