#include "client/models/facts_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include <nlohmann/json.hpp>

namespace baton {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

ModelFacts Whole() {
  return {.path = "m/a.gguf",
          .name = "A",
          .architecture = "llama",
          .parameters = 134515008,
          .weight_types = {{GgmlType::kQ4_1, 900}, {GgmlType::kF32, 100}},
          .file_bytes = 98362432,
          .weight_bytes = 999,
          .context_length = 8192,
          .max_model_len = 4096,
          .kv = {{KvType::kF16, 23040, 94371840}, {KvType::kF32, 46080, 188743680}},
          .tokenizer = "gpt2 (smollm)",
          .chat_template = true,
          .served = absl::OkStatus()};
}

ModelFacts Refused() {
  ModelFacts facts;
  facts.path = "m/b.gguf";
  facts.name = "\x1b[31m";
  facts.served = absl::InvalidArgumentError("m/b.gguf: is no model");
  return facts;
}

TEST(FactsTable, HasALineForEachModelAndTheErrorBelow) {
  const std::vector<ModelFacts> models = {Whole(), Refused()};
  const std::vector<std::string> lines = absl::StrSplit(FactsTable(models), '\n');
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[1],
            "m/a.gguf  A           llama         134.5 M     Q4_1+F32  98.4 MB  999 B      "
            "23.0 kB   94.4 MB for 4096  8192     gpt2 (smollm)  yes   yes");
  EXPECT_THAT(lines[2], AllOf(HasSubstr("m/b.gguf"), Not(HasSubstr("\x1b"))));
  EXPECT_EQ(lines[3], "  not served: m/b.gguf: is no model");
  EXPECT_EQ(lines[0].find("SERVED"), lines[1].rfind("yes"));
}

TEST(FactsTable, AnErrorIsOneLineWhateverTheFileSays) {
  std::vector<ModelFacts> models = {Refused()};
  models[0].served = absl::InvalidArgumentError("m/b.gguf: \x1b[2J\r\n  m/c.gguf is served\u009b");
  const std::vector<std::string> lines = absl::StrSplit(FactsTable(models), '\n');
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[2],
            "  not served: m/b.gguf: \\u001b[2J\\u000d\\u000a  m/c.gguf is served\\u009b");
}

TEST(FactsJson, HasAllNumbersInFull) {
  const std::vector<ModelFacts> models = {Whole(), Refused()};
  const nlohmann::json list = nlohmann::json::parse(FactsJson(models))["models"];
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0], nlohmann::json::parse(R"json({
    "path": "m/a.gguf", "name": "A", "architecture": "llama", "parameters": 134515008,
    "weight_types": [{"type": "Q4_1", "bytes": 900}, {"type": "F32", "bytes": 100}],
    "file_bytes": 98362432, "weight_bytes": 999, "context_length": 8192, "max_model_len": 4096,
    "kv": [{"type": "f16", "bytes_per_token": 23040, "bytes": 94371840},
           {"type": "f32", "bytes_per_token": 46080, "bytes": 188743680}],
    "tokenizer": "gpt2 (smollm)", "chat_template": true, "served": true})json"));
  EXPECT_EQ(list[1]["served"], false);
  EXPECT_EQ(list[1]["error"], "m/b.gguf: is no model");
}

TEST(FactsJson, IsJsonWhateverAFileSays) {
  ModelFacts facts = Whole();
  facts.name = "\xff\"\n";
  const std::vector<ModelFacts> models = {facts};
  EXPECT_EQ(nlohmann::json::parse(FactsJson(models))["models"][0]["name"], "\uFFFD\"\n");
}

}  // namespace
}  // namespace baton
