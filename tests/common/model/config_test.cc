#include "common/model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace baton {
namespace {

absl::StatusOr<ModelConfig> Read(const std::string& name) {
  auto file = GgufFile::Open(std::string(BATON_TEST_DATA "/tiny/") + name + ".gguf");
  if (!file.ok()) return file.status();
  return ModelConfig::FromGguf(*file);
}

TEST(ModelConfig, ReadsTheSizesOfALlama) {
  const auto config = Read("tiny-llama-f32");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->architecture, "llama");
  EXPECT_EQ(config->layers, 3);
  EXPECT_EQ(config->width, 64);
  EXPECT_EQ(config->feed_forward_width, 128);
  EXPECT_EQ(config->heads, 4);
  EXPECT_EQ(config->kv_heads, 2);
  EXPECT_EQ(config->head_dim, 16);
  EXPECT_EQ(config->vocab_size, 320);
  EXPECT_EQ(config->context_length, 512);
  EXPECT_EQ(config->rope_pairs, RopePairs::kInterleaved);
  EXPECT_EQ(config->rope_linear_scale, 1);
}

TEST(ModelConfig, ReadsWhatDiffersInTheOthers) {
  EXPECT_EQ(Read("tiny-qwen2-bias")->rope_pairs, RopePairs::kHalfSplit);
  EXPECT_EQ(Read("tiny-mqa-linear-rope")->rope_linear_scale, 2);
  EXPECT_EQ(Read("tiny-mqa-linear-rope")->kv_heads, 1);
}

TEST(ModelConfig, DigestTellsArchitecturesApartAndQuantisationsNot) {
  EXPECT_EQ(Read("tiny-llama-f32")->Digest(), Read("tiny-llama-q4_0")->Digest());
  EXPECT_EQ(Read("tiny-llama-f32")->Digest().size(), 32u);
  EXPECT_NE(Read("tiny-llama-f32")->Digest(), Read("tiny-qwen2-bias")->Digest());
  EXPECT_NE(Read("tiny-llama3-rope")->Digest(), Read("tiny-mqa-linear-rope")->Digest());
}

// A GGUF file made of metadata and one embedding, to try what a damaged or foreign file says.
class FileBuilder {
 public:
  FileBuilder& Text(const std::string& key, const std::string& value) {
    return Entry(key, 8, Sized(value));
  }
  FileBuilder& Uint(const std::string& key, uint32_t value) { return Entry(key, 4, Raw(value)); }
  FileBuilder& Float(const std::string& key, float value) { return Entry(key, 6, Raw(value)); }

  absl::StatusOr<ModelConfig> Read() const {
    std::string bytes = "GGUF" + Raw(uint32_t{3}) + Raw(uint64_t{1}) + Raw(entries_) + metadata_;
    bytes += Sized("token_embd.weight") + Raw(uint32_t{2}) + Raw(uint64_t{64}) + Raw(uint64_t{8}) +
             Raw(uint32_t{0}) + Raw(uint64_t{0});
    bytes.resize((bytes.size() + 31) / 32 * 32 + 64 * 8 * 4);
    const auto file = GgufFile::Parse(bytes, "made.gguf");
    if (!file.ok()) return file.status();
    return ModelConfig::FromGguf(*file);
  }

 private:
  template <class T>
  static std::string Raw(T value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  static std::string Sized(const std::string& text) { return Raw(uint64_t{text.size()}) + text; }
  FileBuilder& Entry(const std::string& key, uint32_t type, const std::string& value) {
    metadata_ += Sized(key) + Raw(type) + value;
    ++entries_;
    return *this;
  }

  std::string metadata_;
  uint64_t entries_ = 0;
};

FileBuilder Llama() {
  return FileBuilder()
      .Text("general.architecture", "llama")
      .Uint("llama.block_count", 2)
      .Uint("llama.embedding_length", 64)
      .Uint("llama.feed_forward_length", 128)
      .Uint("llama.context_length", 512)
      .Uint("llama.attention.head_count", 4)
      .Float("llama.attention.layer_norm_rms_epsilon", 1e-5f);
}

void ExpectRefused(const FileBuilder& builder, absl::StatusCode code, const std::string& key,
                   const std::string& why) {
  const auto config = builder.Read();
  EXPECT_EQ(config.status().code(), code) << config.status();
  EXPECT_THAT(std::string(config.status().message()),
              testing::AllOf(testing::HasSubstr("made.gguf"), testing::HasSubstr(key),
                             testing::HasSubstr(why)));
}

TEST(ModelConfig, ReadsAFileWithoutOptionalKeys) {
  const auto config = Llama().Read();
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->kv_heads, 4);
  EXPECT_EQ(config->rope_base, 10000);
}

TEST(ModelConfig, RefusesByNameWhatIsNotSupported) {
  const auto kUnimplemented = absl::StatusCode::kUnimplemented;
  ExpectRefused(FileBuilder().Text("general.architecture", "gemma"), kUnimplemented,
                "general.architecture", "supported are llama and qwen2");
  ExpectRefused(Llama().Text("llama.rope.scaling.type", "yarn"), kUnimplemented,
                "llama.rope.scaling.type", "'yarn'");
  ExpectRefused(Llama().Uint("llama.expert_count", 8), kUnimplemented, "llama.expert_count",
                "experts");
  ExpectRefused(Llama().Uint("llama.attention.key_length", 24), kUnimplemented,
                "llama.attention.key_length", "multiples of 16");
}

TEST(ModelConfig, RefusesByNameWhatContradictsItself) {
  const auto kInvalid = absl::StatusCode::kInvalidArgument;
  ExpectRefused(Llama().Uint("llama.attention.head_count_kv", 3), kInvalid,
                "llama.attention.head_count_kv", "divide");
  ExpectRefused(Llama().Uint("llama.vocab_size", 9), kInvalid, "llama.vocab_size", "8 rows");
  ExpectRefused(Llama().Uint("llama.rope.dimension_count", 7), kInvalid,
                "llama.rope.dimension_count", "even");
  ExpectRefused(Llama().Float("llama.rope.freq_base", -1), kInvalid, "llama.rope.freq_base",
                "positive");
}

}  // namespace
}  // namespace baton
