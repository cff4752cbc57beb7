#include "common/gguf/quantisation.h"

#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "common/gguf/quantise.h"
#include "tests/support/ggml_blocks.h"
#include "tests/support/gguf_builder.h"

namespace baton {
namespace {

constexpr uint32_t kF32 = 0;
constexpr uint32_t kF16 = 1;

std::string Floats(size_t count) {
  std::string bytes(count * sizeof(float), '\0');
  for (size_t i = 0; i < count; ++i) {
    const float value = 0.25f * static_cast<float>(i % 37) - 4;
    std::memcpy(&bytes[i * sizeof(value)], &value, sizeof(value));
  }
  return bytes;
}

GgufFile Model(bool tied) {
  GgufBuilder builder;
  builder.TensorWithData("token_embd.weight", {64, 3}, kF32, Floats(192));
  if (!tied) builder.TensorWithData("output.weight", {64, 3}, kF32, Floats(192));
  builder.TensorWithData("blk.0.attn_q.weight", {32, 2}, kF16, std::string(128, '\0'));
  builder.TensorWithData("blk.0.ffn_up_exps.weight", {32, 2, 2}, kF32, Floats(128));
  builder.TensorWithData("blk.0.ffn_gate_inp.weight", {32, 2}, kF32, Floats(64));
  builder.TensorWithData("blk.0.ffn_up_exps.bias", {32, 2}, kF32, Floats(64));
  builder.TensorWithData("blk.0.attn_norm.weight", {64}, kF32, Floats(64));
  builder.TensorWithData("blk.0.odd.weight", {48, 2}, kF32, Floats(96));
  builder.TensorWithData("blk.0.attn_k.weight", {32, 2}, 8, std::string(68, '\1'));
  auto file = GgufFile::Parse(builder.Build(), "m.gguf");
  EXPECT_TRUE(file.ok()) << file.status();
  return *std::move(file);
}

GgmlType TypeIn(const GgufFile& file, const char* name) { return file.FindTensor(name)->type; }

TEST(Quantisation, MatricesOfFloatsAreQuantisedAndNothingElse) {
  const GgufFile file = GgufFile::Quantised(Model(/*tied=*/false), Quantisation::kQ8_0);
  for (const char* name : {"token_embd.weight", "output.weight", "blk.0.attn_q.weight",
                           "blk.0.ffn_up_exps.weight", "blk.0.attn_k.weight"}) {
    EXPECT_EQ(TypeIn(file, name), GgmlType::kQ8_0) << name;
  }
  for (const char* name : {"blk.0.ffn_gate_inp.weight", "blk.0.ffn_up_exps.bias",
                           "blk.0.attn_norm.weight", "blk.0.odd.weight"}) {
    EXPECT_EQ(TypeIn(file, name), GgmlType::kF32) << name;
  }
}

TEST(Quantisation, AtFourBitsTheOutputHeadHasEight) {
  const GgufFile untied = GgufFile::Quantised(Model(/*tied=*/false), Quantisation::kQ4_0);
  EXPECT_EQ(TypeIn(untied, "output.weight"), GgmlType::kQ8_0);
  EXPECT_EQ(TypeIn(untied, "token_embd.weight"), GgmlType::kQ4_0);
  EXPECT_EQ(TypeIn(untied, "blk.0.attn_k.weight"), GgmlType::kQ8_0);  // it was quantised before
  const GgufFile tied = GgufFile::Quantised(Model(/*tied=*/true), Quantisation::kQ4_0);
  EXPECT_EQ(TypeIn(tied, "token_embd.weight"), GgmlType::kQ8_0);
  EXPECT_EQ(TypeIn(tied, "blk.0.attn_q.weight"), GgmlType::kQ4_0);
}

TEST(Quantisation, TheBytesAreMadeBlockByBlockWhenATensorIsHeld) {
  const GgufFile plain = Model(/*tied=*/false);
  const GgufFile file = GgufFile::Quantised(Model(/*tied=*/false), Quantisation::kQ4_0);
  for (const char* name : {"token_embd.weight", "output.weight", "blk.0.ffn_up_exps.weight"}) {
    const GgufTensor& from = *plain.FindTensor(name);
    const GgufTensor& listed = *file.FindTensor(name);
    EXPECT_TRUE(listed.data.empty());
    const HeldTensor held = file.Hold(listed);
    ASSERT_EQ(held->data.size(), listed.size_bytes());
    const std::vector<float> weights = DequantiseBlocks(from.type, from.data);
    std::string expected;
    for (size_t i = 0; i < weights.size(); i += 32) {
      uint8_t block[34];
      const bool head = listed.type == GgmlType::kQ8_0;
      head ? QuantiseQ8_0(&weights[i], block) : QuantiseQ4_0(&weights[i], block);
      expected.append(reinterpret_cast<const char*>(block), head ? 34 : 18);
    }
    EXPECT_EQ(std::string(held->data.begin(), held->data.end()), expected) << name;
  }
}

TEST(Quantisation, WorkersOfUnlikeWeightsHaveUnlikeDigests) {
  const std::string digest = Model(/*tied=*/false).Digest();
  const std::string eight = QuantisedDigest(digest, Quantisation::kQ8_0);
  const std::string four = QuantisedDigest(digest, Quantisation::kQ4_0);
  EXPECT_EQ(QuantisedDigest(digest, Quantisation::kNone), digest);
  EXPECT_EQ(eight.size(), 32u);
  EXPECT_NE(eight, digest);
  EXPECT_NE(four, digest);
  EXPECT_NE(four, eight);
  EXPECT_EQ(GgufFile::Quantised(Model(/*tied=*/false), Quantisation::kQ8_0).Digest(), digest);
}

}  // namespace
}  // namespace baton
