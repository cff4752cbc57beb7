#include "client/models/model_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "common/backend/make_backend.h"
#include "common/hugging_face/open_model_file.h"
#include "common/model/transformer.h"
#include "common/worker/kv_memory.h"
#include "common/worker/model_runtime.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/temporary_folder.h"

namespace baton {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kData = std::string(BATON_TEST_DATA) + "/";

class ModelFactsTest : public testing::Test {
 protected:
  ModelFacts Facts(const std::string& path, const ServingOptions& options = {}) {
    return FindOutAbout(path, options, *backend_);
  }
  // What LoadModelRuntime says of the same model: the truth about `served`.
  static absl::Status Served(const std::string& path, const ServingOptions& options = {}) {
    ModelRuntimeOptions runtime;
    runtime.model = path;
    runtime.quantisation = options.quantisation;
    runtime.engine.kv_dtype = options.kv_dtype;
    runtime.engine.max_model_len = options.max_model_len;
    runtime.backend.device = "cpu";
    runtime.backend.threads = 1;
    runtime.memory.num_kv_blocks = 4;
    return LoadModelRuntime(runtime).status();
  }
  std::string Write(const std::string& bytes) const { return folder_.File("m.gguf", bytes); }

  const TemporaryFolder folder_{"model_facts"};
  const std::unique_ptr<Backend> backend_ = *MakeBackend({.device = "cpu", .threads = 1});
};

std::string BytesOf(const std::string& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

TEST_F(ModelFactsTest, SayWhatAFileIs) {
  const std::string path = kData + "tiny/tiny-llama-q4_1.gguf";
  const ModelFacts facts = Facts(path);
  EXPECT_EQ(facts.served, absl::OkStatus());
  EXPECT_EQ(facts.path, path);
  EXPECT_EQ(facts.name, "tiny random llama");
  EXPECT_EQ(facts.architecture, "llama");
  EXPECT_EQ(facts.tokenizer, "gpt2 (smollm)");
  EXPECT_TRUE(facts.chat_template);
  EXPECT_EQ(facts.file_bytes, std::filesystem::file_size(path));
  EXPECT_EQ(facts.context_length, 512);
  ASSERT_FALSE(facts.weight_types.empty());
  EXPECT_EQ(facts.weight_types[0].type, GgmlType::kQ4_1);
}

// The bytes of weights in the backend's memory once they are loaded.
uint64_t LoadedBytes(const std::string& path, Quantisation quantisation, Backend& backend) {
  const GgufFile file = GgufFile::Quantised(*OpenModelFile(path), quantisation);
  const auto model = Transformer::Load(file, backend, [](double) {});
  EXPECT_TRUE(model.ok()) << model.status();
  const ModelWeights& weights = (*model)->weights();
  uint64_t bytes = 0;
  const auto add = [&](const std::unique_ptr<Weight>& weight) {
    if (weight != nullptr) bytes += weight->size_bytes();
  };
  add(weights.embedding);
  add(weights.output);
  for (const LayerWeights& layer : weights.layers) {
    for (const auto* weight : {&layer.query, &layer.key, &layer.value, &layer.attention_output,
                               &layer.gate, &layer.up, &layer.down, &layer.experts.router}) {
      add(*weight);
    }
    for (const auto* experts : {&layer.experts.gate, &layer.experts.up, &layer.experts.down}) {
      for (const std::unique_ptr<Weight>& weight : *experts) add(weight);
    }
  }
  for (const GgufTensor& tensor : file.tensors()) {
    // Divisors of rotation stay with the host.
    if (tensor.dims.size() != 1 || absl::StartsWith(tensor.name, "rope_")) continue;
    bytes += tensor.dims[0] * sizeof(float);
  }
  return bytes;
}

TEST_F(ModelFactsTest, CountTheMemoryThatLoadingTakes) {
  for (const char* name : {"tiny/tiny-llama-f32.gguf", "tiny/tiny-wide-q4_k.gguf",
                           "arch/qwen3moe-q8_0.gguf", "arch/phi3-f16.gguf", "arch/llama-hf"}) {
    for (const Quantisation quantisation : {Quantisation::kNone, Quantisation::kQ4_0}) {
      const ModelFacts facts = Facts(kData + name, {.quantisation = quantisation});
      EXPECT_EQ(facts.served, absl::OkStatus());
      EXPECT_EQ(facts.weight_bytes, LoadedBytes(kData + name, quantisation, *backend_)) << name;
    }
  }
}

TEST_F(ModelFactsTest, CountTheKvCacheOfTheWantedTypeAndLength) {
  const std::string path = kData + "arch/qwen3-tied-f16.gguf";
  const ModelFacts whole = Facts(path);
  const ModelFacts part = Facts(path, {.kv_dtype = KvType::kInt8, .max_model_len = 64});
  ASSERT_FALSE(whole.kv.empty());
  ASSERT_FALSE(part.kv.empty());
  EXPECT_EQ(whole.kv[0].type, KvType::kF16);
  EXPECT_EQ(whole.max_model_len, whole.context_length);
  EXPECT_EQ(part.kv[0].type, KvType::kInt8);
  EXPECT_EQ(part.max_model_len, 64);
  EXPECT_EQ(part.context_length, whole.context_length);
  const KvLayout layout = *KvLayoutOf(*OpenModelFile(path), "int8");
  EXPECT_EQ(part.kv[0].bytes, layout.block_bytes() * static_cast<size_t>(layout.BlocksFor(64)));
  EXPECT_EQ(part.kv[0].bytes_per_token, part.kv[0].bytes / 64);
}

TEST_F(ModelFactsTest, SeeAHuggingFaceFolderAsItsTwin) {
  const ModelFacts folder = Facts(kData + "arch/llama-hf");
  const ModelFacts twin = Facts(kData + "arch/llama-hf-twin-f16.gguf");
  EXPECT_EQ(folder.served, absl::OkStatus());
  EXPECT_EQ(folder.architecture, twin.architecture);
  EXPECT_EQ(folder.context_length, twin.context_length);
  EXPECT_EQ(folder.kv.size(), twin.kv.size());
  EXPECT_EQ(folder.tokenizer, "tokenizer.json");
}

TEST_F(ModelFactsTest, HaveTheErrorThatAWorkerEndsWith) {
  const std::string whole = BytesOf(kData + "tiny/tiny-llama-f32.gguf");
  for (const auto& [from, to] : {std::pair("blk.0.attn_norm.weight", "blk.0.attn_nOrm.weight"),
                                 std::pair("tokenizer.ggml.pre", "tokenizer.ggml.prE"),
                                 std::pair("llama.block_count", "llama.block_c0unt")}) {
    const std::string damaged = Write(absl::StrReplaceAll(whole, {{from, to}}));
    const ModelFacts facts = Facts(damaged);
    EXPECT_FALSE(facts.served.ok()) << to;
    EXPECT_EQ(facts.served, Served(damaged)) << to;
    EXPECT_EQ(facts.architecture, "llama") << "what is known is told";
    EXPECT_GT(facts.parameters, 0u);
  }
  const std::string both =
      Write(absl::StrReplaceAll(whole, {{"blk.0.attn_norm.weight", "blk.0.attn_nOrm.weight"},
                                        {"tokenizer.ggml.pre", "tokenizer.ggml.prE"}}));
  EXPECT_EQ(Facts(both).served, Served(both)) << "of two errors the one that comes first";
  for (const size_t size : {size_t{0}, size_t{3}, size_t{100}, whole.size() - 1}) {
    const std::string cut = Write(whole.substr(0, size));
    EXPECT_FALSE(Facts(cut).served.ok()) << size;
    EXPECT_EQ(Facts(cut).served, Served(cut)) << size;
  }
}

TEST_F(ModelFactsTest, RefuseOptionsAsAWorkerDoes) {
  const std::string path = kData + "tiny/tiny-mha-untied.gguf";
  for (const ServingOptions& options :
       {ServingOptions{.kv_dtype = KvType::kInt4}, ServingOptions{.max_model_len = 1 << 20}}) {
    EXPECT_FALSE(Served(path, options).ok());
    EXPECT_EQ(Facts(path, options).served, Served(path, options));
  }
}

TEST_F(ModelFactsTest, NameAnArchitectureThatIsNotServed) {
  GgufBuilder builder;
  builder.Text("general.architecture", "mamba").Text("general.name", "Snake");
  builder.TensorWithData("token_embd.weight", {4, 2}, 0, std::string(32, '\0'));
  const ModelFacts facts = Facts(Write(builder.Build()));
  EXPECT_EQ(facts.name, "Snake");
  EXPECT_EQ(facts.architecture, "mamba");
  EXPECT_EQ(facts.parameters, 8u);
  EXPECT_THAT(std::string(facts.served.message()),
              AllOf(HasSubstr("'mamba'"), HasSubstr("supported are")));
}

TEST_F(ModelFactsTest, RefuseAChatTemplateThatTheRouterRefuses) {
  const std::string whole = BytesOf(kData + "tiny/tiny-llama-q4_1.gguf");
  const size_t key = whole.find("tokenizer.chat_template");
  ASSERT_NE(key, std::string::npos);
  std::string damaged = whole;
  const size_t block = damaged.find("{%", key);
  ASSERT_NE(block, std::string::npos);
  damaged.replace(block, 4, "{%%%");
  EXPECT_THAT(std::string(Facts(Write(damaged)).served.message()),
              HasSubstr("tokenizer.chat_template: "));
}

}  // namespace
}  // namespace baton
