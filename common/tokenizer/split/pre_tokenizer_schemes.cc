#include "common/tokenizer/split/pre_tokenizer_schemes.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/base/log.h"

namespace baton {
namespace {

constexpr char kGpt2[] =
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr char kDigit[] = R"(\p{N})";
constexpr char kLlama3[] = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
                           R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kQwen2[] = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
                          R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kQwen35[] = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
                           R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kTekken[] =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
    R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kGpt4o[] =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kUpToThreeDigits[] = R"(\p{N}{1,3})";
constexpr char kChineseJapanese[] = "[一-龥\u3040-ゟ゠-ヿ]+";
constexpr char kDeepSeek3[] =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
    R"( ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kFalconPunctuation[] = R"([\p{P}\$\+<=>\^~\|`]+)";
constexpr char kThreeDigits[] = "[0-9][0-9][0-9]";

constexpr PreTokenizerScheme kGpt2Scheme = {{kGpt2}, false, false};
constexpr PreTokenizerScheme kDigitsApart = {{kDigit, kGpt2}, false, false};
constexpr PreTokenizerScheme kLlama3Scheme = {{kLlama3}, true, true};
constexpr PreTokenizerScheme kMergedLlama3 = {{kLlama3}, false, false};
constexpr PreTokenizerScheme kQwen2Scheme = {{kQwen2}, false, false};
constexpr PreTokenizerScheme kGpt4oScheme = {{kGpt4o}, false, false};
constexpr PreTokenizerScheme kDeepSeek3Scheme = {
    {kUpToThreeDigits, kChineseJapanese, kDeepSeek3}, false, false};

struct Named {
  const char* name;
  PreTokenizerScheme scheme;
};
constexpr Named kNamed[] = {
    {"gpt-2", kGpt2Scheme},
    {"starcoder", kDigitsApart},
    {"smollm", kDigitsApart},
    {"llama-bpe", kLlama3Scheme},
    {"qwen2", kQwen2Scheme},
    {"phi-2", kGpt2Scheme},
    {"mpt", kGpt2Scheme},
    {"olmo", kGpt2Scheme},
    {"exaone4", kGpt2Scheme},
    {"gigachat", kGpt2Scheme},
    {"granite-docling", kGpt2Scheme},
    {"mellum", kGpt2Scheme},
    {"trillion", kGpt2Scheme},
    {"refact", kDigitsApart},
    {"command-r", kDigitsApart},
    {"codeshell", kDigitsApart},
    {"exaone", kDigitsApart},
    {"mellum2", kDigitsApart},
    {"minerva-7b", kDigitsApart},
    {"llama3", kLlama3Scheme},
    {"llama-v3", kLlama3Scheme},
    {"falcon3", kLlama3Scheme},
    {"falcon-h1", kLlama3Scheme},
    {"lfm2", kLlama3Scheme},
    {"midm-2.0", kLlama3Scheme},
    {"pixtral", kLlama3Scheme},
    {"glm4", {{kLlama3}, true, false}},
    {"chatglm-bpe", kMergedLlama3},
    {"dbrx", kMergedLlama3},
    {"smaug-bpe", kMergedLlama3},
    {"deepseek-r1-qwen", kQwen2Scheme},
    {"hunyuan", kQwen2Scheme},
    {"kormo", kQwen2Scheme},
    {"megrez", kQwen2Scheme},
    {"solar-open", kQwen2Scheme},
    {"stablelm2", kQwen2Scheme},
    {"qwen35", {{kQwen35}, false, false}},
    {"tekken", {{kTekken}, true, true}},
    {"gpt-4o", kGpt4oScheme},
    {"kanana2", kGpt4oScheme},
    {"llama4", kGpt4oScheme},
    {"minimax-m2", kGpt4oScheme},
    {"deepseek-v3", kDeepSeek3Scheme},
    {"hunyuan-dense", kDeepSeek3Scheme},
    {"joyai-llm", kDeepSeek3Scheme},
    {"deepseek-coder",
     {{"[\r\n]", R"(\s?\p{L}+)", R"(\s?\p{P}+)", "[一-龥ࠀ-一가-\uD7FF]+|\\p{N}"}, false, false}},
    {"falcon", {{kFalconPunctuation, kGpt2, kThreeDigits}, false, false}},
};

}  // namespace

absl::StatusOr<PreTokenizerScheme> FindPreTokenizerScheme(absl::string_view name) {
  std::string known;
  for (const Named& candidate : kNamed) {
    if (name == candidate.name) return candidate.scheme;
    absl::StrAppend(&known, known.empty() ? "" : ", ", candidate.name);
  }
  return absl::UnimplementedError(absl::StrCat("tokenizer.ggml.pre: pre-tokenizer \"",
                                               LogSafe(name), "\" is not supported; supported are ",
                                               known));
}

}  // namespace baton
