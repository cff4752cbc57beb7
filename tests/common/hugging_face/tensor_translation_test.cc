#include "common/hugging_face/tensor_translation.h"

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::Key;
using ::testing::StartsWith;

// A folder's tensors of floats, and their translation.
class TensorTranslationTest : public ::testing::Test {
 protected:
  TensorTranslationTest() {
    keys_.heads = 2;
    keys_.kv_heads = 1;
    keys_.head_dim = 2;
    options_.folder = "folder";
  }

  // Adds a tensor whose values count up from 0.
  void Add(const std::string& name, const std::vector<uint64_t>& shape) {
    SafeTensor tensor = {
        .name = name, .type = SafeType::kF32, .dtype = "F32", .shape = shape, .data = {}};
    std::vector<float>& values = values_[name];
    for (uint64_t i = 0; i < tensor.elements(); ++i) values.push_back(static_cast<float>(i));
    tensor.data = {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(float)};
    tensors_[name] = {tensor, "a.safetensors"};
  }
  absl::StatusOr<std::map<std::string, ModelTensor>> Translate(const char* model_type = "llama") {
    auto list = TranslateTensors(tensors_, *FindModelType(model_type), keys_, options_);
    if (!list.ok()) return list.status();
    std::map<std::string, ModelTensor> by_name;
    for (const ModelTensor& tensor : *list) by_name[tensor.name] = tensor;
    EXPECT_EQ(by_name.size(), list->size());
    return by_name;
  }
  std::string Fault(const char* model_type = "llama") {
    return std::string(Translate(model_type).status().message());
  }
  static std::vector<float> Values(const ModelTensor& tensor) {
    uint64_t count = 1;
    for (const uint64_t dim : tensor.dims) count *= dim;
    std::vector<float> values(count);
    const auto out = absl::MakeSpan(reinterpret_cast<uint8_t*>(values.data()), count * 4);
    if (tensor.maker.make != nullptr) {
      tensor.maker.make(out);
    } else {
      std::memcpy(out.data(), tensor.data.data(), out.size());
    }
    return values;
  }

  std::map<std::string, std::vector<float>> values_;
  FolderTensors tensors_;
  TranslatedKeys keys_;
  TranslationOptions options_;
};

TEST_F(TensorTranslationTest, NamesDimensionsAndRowsAreThoseOfGguf) {
  Add("model.embed_tokens.weight", {5, 3});
  Add("model.layers.12.self_attn.q_proj.weight", {4, 1});
  Add("model.layers.12.self_attn.v_proj.weight", {2, 1});
  keys_.rope_freqs = {1, 8};
  const auto made = Translate();
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_THAT(*made, ElementsAre(Key("blk.12.attn_q.weight"), Key("blk.12.attn_v.weight"),
                                 Key("rope_freqs.weight"), Key("token_embd.weight")));
  EXPECT_THAT(made->at("token_embd.weight").dims, ElementsAre(3, 5));
  EXPECT_THAT(Values(made->at("rope_freqs.weight")), ElementsAre(1, 8));
  keys_.head_dim = 4;
  keys_.heads = 1;
  EXPECT_THAT(Values(Translate()->at("blk.12.attn_q.weight")), ElementsAre(0, 2, 1, 3));
  EXPECT_THAT(Values(Translate("qwen2")->at("blk.12.attn_q.weight")), ElementsAre(0, 1, 2, 3));
}

TEST_F(TensorTranslationTest, PartsThatAreNoLanguageModelAreLeftOutWhereThereAreSome) {
  Add("language_model.model.norm.weight", {4});
  Add("model.language_model.embed_tokens.weight", {5, 4});
  Add("vision_tower.x.weight", {4});
  Add("model.multi_modal_projector.y.weight", {4});
  EXPECT_THAT(Fault(), StartsWith("folder/a.safetensors: tensor 'language_model.model.norm.weight' "
                                  "is not part of the supported models of type llama"));
  options_.multimodal = true;
  EXPECT_THAT(*Translate(), ElementsAre(Key("output_norm.weight"), Key("token_embd.weight")));
}

TEST_F(TensorTranslationTest, ATiedHeadIsLeftOut) {
  Add("lm_head.weight", {5, 3});
  EXPECT_THAT(*Translate(), ElementsAre(Key("output.weight")));
  options_.tied = true;
  EXPECT_TRUE(Translate()->empty());
}

TEST_F(TensorTranslationTest, ExpertsAreStackedInTheOrderOfTheirNumbers) {
  for (const char* expert : {"2", "10", "0", "1"}) {
    Add("model.layers.0.block_sparse_moe.experts." + std::string(expert) + ".w1.weight", {1, 2});
  }
  EXPECT_EQ(Fault("mixtral"),
            "folder: expert 3 or a lower-numbered one is missing from blk.0.ffn_gate_exps.weight; "
            "fetch the folder again");
  tensors_.erase("model.layers.0.block_sparse_moe.experts.10.w1.weight");
  values_["model.layers.0.block_sparse_moe.experts.1.w1.weight"][0] = 7;
  const auto made = Translate("mixtral");
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_THAT(made->at("blk.0.ffn_gate_exps.weight").dims, ElementsAre(2, 1, 3));
  EXPECT_THAT(Values(made->at("blk.0.ffn_gate_exps.weight")), ElementsAre(0, 1, 7, 1, 0, 1));
}

TEST_F(TensorTranslationTest, GateAndUpAreHalvesOfEachMatrix) {
  Add("model.layers.0.block_sparse_moe.input_linear.weight", {2, 2, 1});
  const auto made = Translate("granitemoe");
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_THAT(made->at("blk.0.ffn_gate_exps.weight").dims, ElementsAre(1, 1, 2));
  EXPECT_THAT(Values(made->at("blk.0.ffn_gate_exps.weight")), ElementsAre(0, 2));
  EXPECT_THAT(Values(made->at("blk.0.ffn_up_exps.weight")), ElementsAre(1, 3));
  Add("model.layers.0.block_sparse_moe.input_linear.weight", {2, 3, 1});
  EXPECT_THAT(Fault("granitemoe"), testing::HasSubstr("must have an even number of rows"));
}

}  // namespace
}  // namespace baton
