// Folders whose weights are E4M3 with scales of blocks, or gpt-oss's MXFP4.
#include <cstdint>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/base/float_types.h"
#include "common/hugging_face/open_model_file.h"
#include "tests/common/hugging_face/model_folder.h"
#include "tests/support/safetensors_builder.h"

namespace baton {
namespace {

using Folder = ModelFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(Folder, E4m3IsReadAsBf16WithTheScaleOfItsBlock) {
  Change(
      "1e-5",
      R"(1e-5, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]})");
  constexpr uint64_t kRows = 130;
  constexpr uint64_t kColumns = 129;
  std::string codes(kRows * kColumns, '\x38');  // 1
  codes[0] = '\x7e';                            // 448
  codes[kColumns - 1] = '\xb8';                 // -1
  const auto weights = [&](const std::string& scale_dtype, const std::string& scales) {
    return Weights()
        .Add("model.layers.0.mlp.up_proj.weight", "F8_E4M3", {kRows, kColumns}, codes)
        .Add("model.layers.0.mlp.up_proj.weight_scale_inv", scale_dtype, {2, 2}, scales);
  };
  Write("model.safetensors", weights("F32", FloatBytes({0.5f, 2, 3, 0.1f})).Build());
  const GgufFile file = Open();
  const GgufTensor& up = *file.FindTensor("blk.0.ffn_up.weight");
  EXPECT_EQ(up.type, GgmlType::kBf16);
  EXPECT_THAT(up.dims, ElementsAre(kColumns, kRows));
  const HeldTensor held = file.Hold(up);
  const auto at = [&held](uint64_t row, uint64_t column) {
    uint16_t bits;
    std::memcpy(&bits, held->data.data() + (row * kColumns + column) * 2, sizeof(bits));
    return Bf16ToF32(bits);
  };
  EXPECT_EQ(at(0, 0), 224);
  EXPECT_EQ(at(0, 127), 0.5f);
  EXPECT_EQ(at(0, 128), -2);
  EXPECT_EQ(at(127, 127), 0.5f);
  EXPECT_EQ(at(128, 127), 3);
  EXPECT_EQ(at(129, 128), Bf16ToF32(F32ToBf16(0.1f)));
  EXPECT_EQ(file.FindTensor("blk.0.ffn_up.weight_scale_inv"), nullptr);
  Write("model.safetensors", weights("I32", FloatBytes({1, 1, 1, 1})).Build());
  EXPECT_THAT(Error(), HasSubstr("but no fitting weight_scale_inv"));
}

// gpt-oss with one expert of one row, and of its tensors only gate and up: two rows of 32.
constexpr char kGptOss[] =
    R"("gpt_oss", "num_local_experts": 1, "num_experts_per_tok": 1, "sliding_window": 8,
       "quantization_config": {"quant_method": "mxfp4"})";
constexpr char kGateAndUp[] = "model.layers.0.mlp.experts.gate_up_proj";

// Byte j of a block: column 2j has the code j and column 2j + 1 the code 15 - j.
std::string Codes() {
  std::string codes;
  for (unsigned j = 0; j < 16; ++j) codes += static_cast<char>(j | (15 - j) << 4);
  return codes;
}

TEST_F(Folder, Mxfp4BlocksAreThoseOfGgufAndGateAndUpStandInTurns) {
  Change(R"("llama")", kGptOss);
  SafetensorsBuilder weights;
  weights.Add(absl::StrCat(kGateAndUp, "_blocks"), "U8", {1, 2, 1, 16},
              Codes() + std::string(16, '\x21'));
  weights.Add(absl::StrCat(kGateAndUp, "_scales"), "U8", {1, 2, 1}, "\x7f\x70");
  weights.Add(absl::StrCat(kGateAndUp, "_bias"), "F32", {1, 2}, FloatBytes({3, 4}));
  Write("model.safetensors", weights.Build());
  const GgufFile file = Open();
  const GgufTensor& gate = *file.FindTensor("blk.0.ffn_gate_exps.weight");
  EXPECT_EQ(gate.type, GgmlType::kMxfp4);
  EXPECT_THAT(gate.dims, ElementsAre(32, 1, 1));
  // GGUF: columns j and j + 16 in byte j. Column 2i is i, column 2i + 1 is 15 - i.
  std::string expected = "\x7f";
  for (unsigned j = 0; j < 16; ++j) {
    const auto code = [](unsigned column) { return column % 2 ? 15 - column / 2 : column / 2; };
    expected += static_cast<char>(code(j) | code(j + 16) << 4);
  }
  const HeldTensor held = file.Hold(gate);
  EXPECT_EQ(std::string(held->data.begin(), held->data.end()), expected);
  const HeldTensor up = file.Hold(*file.FindTensor("blk.0.ffn_up_exps.weight"));
  // Codes 1 and 2 in turns come to lie beside their like.
  std::string ones_and_twos = "\x70";
  for (int j = 0; j < 8; ++j) ones_and_twos += "\x11\x22";
  EXPECT_EQ(std::string(up->data.begin(), up->data.end()), ones_and_twos);
  EXPECT_EQ(Floats(file, "blk.0.ffn_gate_exps.bias"), std::vector<float>{3});
  EXPECT_EQ(Floats(file, "blk.0.ffn_up_exps.bias"), std::vector<float>{4});
  EXPECT_EQ(*file.GetUint("general.file_type"), 38u);
}

TEST_F(Folder, Mxfp4ThatDoesNotFitIsNamed) {
  Change(R"("llama")", kGptOss);
  const std::string blocks = absl::StrCat(kGateAndUp, "_blocks");
  const std::string scales = absl::StrCat(kGateAndUp, "_scales");
  const auto error = [&](const SafetensorsBuilder& weights) {
    Write("model.safetensors", weights.Build());
    return Error();
  };
  EXPECT_THAT(error(SafetensorsBuilder().Add(blocks, "U8", {1, 2, 1, 16}, std::string(32, 'x'))),
              HasSubstr(blocks + "' is not of dtype U8"));
  EXPECT_THAT(error(SafetensorsBuilder()
                        .Add(blocks, "U8", {1, 2, 1, 16}, std::string(32, 'x'))
                        .Add(scales, "U8", {2, 1}, "xx")),
              HasSubstr("_scales of dtype U8"));
  EXPECT_THAT(error(SafetensorsBuilder()
                        .Add(blocks, "U8", {1, 2, 1, 8}, std::string(16, 'x'))
                        .Add(scales, "U8", {1, 2, 1}, "xx")),
              HasSubstr("[experts, rows, blocks, 16]"));
  EXPECT_THAT(error(SafetensorsBuilder()
                        .Add(blocks, "U8", {1, 3, 1, 16}, std::string(48, 'x'))
                        .Add(scales, "U8", {1, 3, 1}, "xxx")),
              HasSubstr("must have an even number of rows"));
  EXPECT_THAT(error(SafetensorsBuilder().Add("model.norm.weight", "U8", {4}, "xxxx")),
              HasSubstr("has dtype U8"));
}

TEST_F(Folder, GptOssIsReadAsItIsPublishedOnly) {
  for (const auto& [from, to, field] :
       {std::tuple("mxfp4", "awq", "quant_method"),
        std::tuple("quantization_config", "quantisation", "quantization_config"),
        std::tuple("\"sliding_window\": 8", "\"swiglu_limit\": 9", "swiglu_limit"),
        std::tuple("\"sliding_window\": 8",
                   R"("rope_scaling": {"rope_type": "yarn", "factor": 2, "truncate": true})",
                   "truncate")}) {
    Change(R"("llama")", absl::StrReplaceAll(kGptOss, {{from, to}}));
    EXPECT_THAT(Error(), HasSubstr(absl::StrCat(field, " ")));
  }
}

}  // namespace
}  // namespace baton
