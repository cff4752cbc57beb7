// Small tokenizers as tokenizer.json has them, and files that hold one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

#include "common/tokenizer/tokenizer.h"
#include "tests/common/tokenizer/small_vocabulary.h"

namespace baton {

inline absl::StatusOr<std::unique_ptr<Tokenizer>> LoadJson(const nlohmann::json& json,
                                                           GgufBuilder keys = {}) {
  return Load(keys.Text("tokenizer.huggingface.json", json.dump()));
}

// The tokens a=0 b=1 Ġ=2 ab=3 abb=4 K=5 <s>=6 (special) <u>=7 (added, not special).
inline nlohmann::json ByteLevelJson() {
  return {{"normalizer", nullptr},
          {"pre_tokenizer",
           {{"type", "Sequence"},
            {"pretokenizers",
             {{{"type", "Split"},
               {"pattern", {{"Regex", R"( ?\p{L}+|\s+)"}}},
               {"behavior", "Isolated"},
               {"invert", false}},
              {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"added_tokens",
           {{{"id", 6}, {"content", "<s>"}, {"special", true}, {"normalized", false}},
            {{"id", 7}, {"content", "<u>"}, {"special", false}, {"normalized", false}}}},
          {"model",
           {{"type", "BPE"},
            {"vocab", {{"a", 0}, {"b", 1}, {"Ġ", 2}, {"ab", 3}, {"abb", 4}, {"K", 5}}},
            {"merges", {"a b"}}}}};
}

// The tokens <unk>=0 <s>=1 </s>=2 a=3 ▁=4 ▁a=5 and the byte pieces of "é", 6 and 7.
inline nlohmann::json CharacterJson() {
  const nlohmann::json space = {
      {"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}};
  return {
      {"normalizer",
       {{"type", "Sequence"}, {"normalizers", {{{"type", "Prepend"}, {"prepend", "▁"}}, space}}}},
      {"pre_tokenizer", nullptr},
      {"decoder",
       {{"type", "Sequence"},
        {"decoders",
         {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
          {{"type", "ByteFallback"}},
          {{"type", "Fuse"}},
          {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}}},
      {"added_tokens",
       {{{"id", 0}, {"content", "<unk>"}, {"special", true}},
        {{"id", 1}, {"content", "<s>"}, {"special", true}},
        {{"id", 2}, {"content", "</s>"}, {"special", true}}}},
      {"model",
       {{"type", "BPE"},
        {"unk_token", "<unk>"},
        {"byte_fallback", true},
        {"fuse_unk", true},
        {"vocab",
         {{"<unk>", 0},
          {"<s>", 1},
          {"</s>", 2},
          {"a", 3},
          {"▁", 4},
          {"▁a", 5},
          {"<0xC3>", 6},
          {"<0xA9>", 7}}},
        {"merges", {"▁ a"}}}}};
}

// A template: "" is the text, other strings are special tokens, all with the id `id`.
inline nlohmann::json TemplateJson(const std::vector<std::string>& parts, int id) {
  nlohmann::json single = nlohmann::json::array();
  nlohmann::json tokens = nlohmann::json::object();
  for (const std::string& part : parts) {
    if (part.empty()) {
      single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
    } else {
      single.push_back({{"SpecialToken", {{"id", part}, {"type_id", 0}}}});
      tokens[part] = {{"id", part}, {"ids", {id}}, {"tokens", {part}}};
    }
  }
  return {{"type", "TemplateProcessing"}, {"single", single}, {"special_tokens", tokens}};
}

}  // namespace baton
