// Hugging Face folders as they come: what is missing, damaged or not supported is named.
#include "common/hugging_face/open_model_file.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/base/hash.h"
#include "tests/common/hugging_face/model_folder.h"
#include "tests/support/safetensors_builder.h"

namespace baton {
namespace {

using Folder = ModelFolder;
using Part = GgufFile::Part;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(Folder, IsReadUnderTheNamesOfGguf) {
  const GgufFile file = Open();
  EXPECT_EQ(file.path(), folder_.path());
  EXPECT_EQ(*file.GetString("general.architecture"), "llama");
  EXPECT_EQ(*file.GetUint("llama.attention.head_count_kv"), 1u);
  EXPECT_EQ(*file.GetString("tokenizer.huggingface.json"), R"({"version": "1.0"})");
  EXPECT_THAT(Floats(file, "token_embd.weight"), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_FALSE(file.FindTensor("token_embd.weight")->data.empty());  // as it lies in the file
  EXPECT_THAT(Floats(file, "blk.0.attn_q.weight"), ElementsAre(10, 12, 11, 13));
}

TEST_F(Folder, OpensFilesToo) {
  EXPECT_THAT(std::string(OpenModelFile(Path("none.gguf")).status().message()),
              HasSubstr("cannot be opened"));
  EXPECT_THAT(std::string(OpenModelFile(Path("config.json")).status().message()),
              HasSubstr("is not a GGUF file"));
}

TEST_F(Folder, HasTheDigestOfTheFilesThatAreRead) {
  Write("README.md", "not read");
  std::string list;
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.json"}) {
    std::ifstream content(Path(name), std::ios::binary);
    Sha256 hash;
    hash.Update(std::string((std::istreambuf_iterator<char>(content)), {}));
    absl::StrAppend(&list, ToHex(hash.Finish()), "  ", name, "\n");
  }
  Sha256 hash;
  hash.Update(list);
  const std::string expected = hash.Finish();
  EXPECT_EQ(Open().Digest(), expected);
  EXPECT_EQ(OpenModelFile(folder_.path(), Part::kTokenizer)->Digest(), expected);
}

TEST_F(Folder, HasThePiecewiseDigestOfEachFileAndItsName) {
  const auto run = [](int count, absl::FunctionRef<void(int, int)> work) {
    for (int i = 0; i < count; ++i) work(0, i);
  };
  Sha256 hash;
  for (const std::string name : {"config.json", "model.safetensors", "tokenizer.json"}) {
    std::ifstream content(Path(name), std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(content)), {});
    hash.UpdateInteger<uint64_t>(name.size());
    hash.Update(name);
    hash.UpdateInteger<uint64_t>(bytes.size());
    Sha256 piece;
    piece.Update(bytes);
    hash.Update(piece.Finish());
  }
  EXPECT_EQ(Open().PiecewiseDigest(run), hash.Finish());
}

TEST_F(Folder, ForTheTokenizerNeedsNoWeights) {
  Remove("model.safetensors");
  EXPECT_EQ(Error(Part::kTokenizer), "");
  EXPECT_THAT(Error(), StartsWith(folder_.path() + ": has neither model.safetensors nor "
                                                   "model.safetensors.index.json; fetch"));
}

TEST_F(Folder, FilesThatAreMissingAreNamed) {
  Remove("tokenizer.json");
  EXPECT_THAT(Error(), StartsWith(Path("tokenizer.json") + ": does not exist; fetch"));
  Remove("config.json");
  EXPECT_THAT(Error(), StartsWith(Path("config.json") + ": cannot be opened"));
  EXPECT_THAT(Error(), HasSubstr("else give the path of a GGUF file"));
}

TEST_F(Folder, AConfigThatIsNotSupportedIsNamedByItsField) {
  Change("llama", "mamba");
  EXPECT_THAT(Error(), StartsWith(Path("config.json") +
                                  ": model_type is 'mamba'; supported are llama, mistral, "));
  Change("\"hidden_size\": 4", "\"hidden_size\": 0");
  EXPECT_THAT(Error(), HasSubstr("hidden_size is not a whole number from 1 to"));
  Change("1e-5", "1e-5, \"hidden_act\": \"relu\"");
  EXPECT_THAT(Error(), HasSubstr("hidden_act is 'relu'; supported is silu"));
  Change("1e-5", R"(1e-5, "rope_scaling": {"type": "dynamic", "factor": 2})");
  EXPECT_THAT(Error(), HasSubstr("rope_scaling.rope_type is 'dynamic'; supported are default"));
  Change("1e-5", R"(1e-5, "rope_scaling": {"type": "llama3", "factor": 0.5, "low_freq_factor": 1,
                     "high_freq_factor": 4, "original_max_position_embeddings": 8})");
  EXPECT_THAT(Error(), HasSubstr("rope_scaling.factor is below 1"));
  Change("1e-5", R"(1e-5, "quantization_config": {"quant_method": "awq"})");
  EXPECT_THAT(Error(), HasSubstr("quantization_config.quant_method is 'awq'; supported is fp8"));
  Change("\"num_attention_heads\": 1", "\"num_attention_heads\": 3");
  EXPECT_THAT(Error(), HasSubstr("num_attention_heads does not divide hidden_size"));
  Write("config.json", "[]");
  EXPECT_THAT(Error(), HasSubstr("is not a JSON object"));
}

TEST_F(Folder, AWindowThatIsNotComputedEndsTheContext) {
  Change("\"llama\"", R"("mistral", "sliding_window": 5)");
  EXPECT_EQ(*Open().GetUint("llama.context_length"), 5u);
  Change("\"llama\"", R"("mistral", "sliding_window": null)");
  EXPECT_EQ(*Open().GetUint("llama.context_length"), 16u);
}

TEST_F(Folder, TensorsThatAreNotTheModelsAreNamed) {
  const auto error = [this](const SafetensorsBuilder& weights) {
    Write("model.safetensors", weights.Build());
    return Error();
  };
  const std::string floats = FloatBytes({1, 2, 3, 4});
  const std::string file = Path("model.safetensors");
  EXPECT_THAT(error(Weights().Add("model.layers.0.mixer.weight", "F32", {4}, floats)),
              StartsWith(file + ": tensor 'model.layers.0.mixer.weight' is not part of the "
                                "supported models of type llama"));
  EXPECT_THAT(error(Weights().Add("model.layers.00.input_layernorm.weight", "F32", {4}, floats)),
              HasSubstr("is not part of"));
  EXPECT_THAT(error(Weights().Add("model.layers.0.mlp.up_proj.weight", "I32", {4}, floats)),
              HasSubstr("has dtype I32; supported are BF16, F16, F32 and F8_E4M3"));
  EXPECT_THAT(
      error(Weights().Add("model.layers.0.mlp.up_proj.weight", "F32", {1, 1, 2, 2}, floats)),
      HasSubstr("has 4 dimensions, not 1 to 3"));
  EXPECT_THAT(error(Weights().Add("lm_head.weight", "F32", {}, FloatBytes({1}))),
              HasSubstr("has 0 dimensions"));
  EXPECT_THAT(error(Weights().Add("model.layers.0.self_attn.k_proj.weight", "F32", {2, 2}, floats)),
              HasSubstr("has 2 rows, not those of 1 heads of 4"));
  EXPECT_THAT(error(Weights().Add("lm_head.weight", "F8_E4M3", {2, 2}, "1234")),
              HasSubstr("has dtype F8_E4M3, but no fitting weight_scale_inv"));
}

TEST_F(Folder, ATiedHeadIsTheEmbeddingWhateverElseIsThere) {
  Write(
      "model.safetensors",
      Weights().Add("lm_head.weight", "F32", {2, 4}, FloatBytes({1, 2, 3, 4, 5, 6, 7, 9})).Build());
  EXPECT_NE(Open().FindTensor("output.weight"), nullptr);
  Change("1e-5", "1e-5, \"tie_word_embeddings\": true");
  EXPECT_EQ(Open().FindTensor("output.weight"), nullptr);
}

TEST_F(Folder, AnIndexNamesFilesOfItsOwnFolderOnly) {
  Write("a.safetensors", Weights().Build());
  const auto error = [this](const std::string& map) {
    Write("model.safetensors.index.json", absl::StrCat("{\"weight_map\":", map, "}"));
    return Error();
  };
  EXPECT_EQ(error(R"({"model.norm.weight": "a.safetensors"})"), "");
  for (const char* name : {"../a.safetensors", "/a.safetensors", "x/a.safetensors", ".safetensors",
                           "a.gguf", "", "a.safetensors\\u0000", "..safetensors"}) {
    EXPECT_THAT(error(absl::StrCat(R"({"model.norm.weight": ")", name, "\"}")),
                HasSubstr("weight_map['model.norm.weight'] is not the name of a .safetensors file"))
        << name;
  }
  EXPECT_THAT(error("[]"), HasSubstr("weight_map is not an object"));
  EXPECT_THAT(error("{}"), HasSubstr("weight_map names 0 files, not 1 to 512"));
  EXPECT_THAT(error(R"({"a": "missing.safetensors"})"),
              StartsWith(Path("missing.safetensors") + ": cannot be opened"));
  EXPECT_THAT(error(R"({"lost": "a.safetensors"})"),
              HasSubstr("lists tensor 'lost' in a.safetensors, which does not contain it; fetch"));
  Write("b.safetensors", Weights().Build());
  EXPECT_THAT(error(R"({"x": "a.safetensors", "y": "b.safetensors"})"),
              StartsWith(Path("b.safetensors") +
                         ": tensor 'model.embed_tokens.weight' is in a.safetensors too"));
}

TEST_F(Folder, ExpertsAreAllThereAndAlike) {
  const std::string expert = "model.layers.0.mlp.experts.";
  Change("\"llama\"",
         R"("qwen3_moe", "num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 1,
            "norm_topk_prob": true)");
  const auto with = [&](const SafetensorsBuilder& weights) {
    Write("model.safetensors", weights.Build());
    return Error();
  };
  SafetensorsBuilder one;
  one.Add(expert + "1.up_proj.weight", "F32", {1, 2}, FloatBytes({3, 4}));
  EXPECT_THAT(
      with(one),
      HasSubstr("expert 0 or a lower-numbered one is missing from blk.0.ffn_up_exps.weight"));
  one.Add(expert + "0.up_proj.weight", "F32", {1, 2}, FloatBytes({1, 2}));
  EXPECT_EQ(with(one), "");
  EXPECT_THAT(Floats(Open(), "blk.0.ffn_up_exps.weight"), ElementsAre(1, 2, 3, 4));
  one.Add(expert + "2.up_proj.weight", "F32", {2, 1}, FloatBytes({1, 2}));
  EXPECT_THAT(with(one), HasSubstr("has another shape or dtype than that of the first expert"));
}

TEST_F(Folder, SettingsOfTheTokenizerAndOfGenerationAreKeys) {
  Write("generation_config.json", R"({"eos_token_id": [7, 3], "bos_token_id": 1, "top_k": 20,
        "temperature": 0.5, "top_p": 0.75, "repetition_penalty": 1.25})");
  Write("tokenizer_config.json", R"({"add_bos_token": true, "bos_token": "<b>",
        "eos_token": {"content": "<e>"}, "added_tokens_decoder":
        {"2": {"content": "<x>"}, "7": {"content": "<e>"}}, "chat_template":
        [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"},
         {"name": "rag", "template": "R"}]})");
  Change("1e-5", "1e-5, \"eos_token_id\": 5");
  const GgufFile file = Open();
  EXPECT_EQ(*file.GetUint("tokenizer.ggml.bos_token_id"), 1u);
  EXPECT_EQ(*file.GetUint("tokenizer.ggml.eos_token_id"), 7u);  // the tokenizer's comes first
  EXPECT_EQ(*file.GetUint("tokenizer.ggml.eot_token_id"), 5u);
  EXPECT_EQ(*file.GetUint("tokenizer.ggml.eom_token_id"), 3u);
  EXPECT_THAT(*file.GetInts("tokenizer.ggml.eos_token_ids"), ElementsAre(3, 5, 7));
  EXPECT_TRUE(*file.GetBool("tokenizer.ggml.add_bos_token"));
  EXPECT_FALSE(file.Has("tokenizer.ggml.add_eos_token"));
  EXPECT_EQ(*file.GetString("tokenizer.chat_template"), "D");
  EXPECT_EQ(*file.GetString("tokenizer.chat_template.tool_use"), "T");
  EXPECT_EQ(*file.GetFloat("general.sampling.top_k"), 20);
  EXPECT_EQ(*file.GetFloat("general.sampling.temp"), 0.5);
  EXPECT_EQ(*file.GetFloat("general.sampling.top_p"), 0.75);
  EXPECT_EQ(*file.GetFloat("general.sampling.penalty_repeat"), 1.25);
  Write("chat_template.jinja", "J");
  EXPECT_EQ(*Open().GetString("tokenizer.chat_template"), "J");
  EXPECT_FALSE(Open().Has("tokenizer.chat_template.tool_use"));
  Write("generation_config.json", R"({"eos_token_id": [7, -3]})");
  EXPECT_EQ(Error(),
            Path("generation_config.json") + ": eos_token_id has a number that is not a token id");
  Write("generation_config.json", "{}");
  Write("tokenizer_config.json", R"({"chat_template": 3})");
  EXPECT_THAT(Error(), StartsWith(Path("tokenizer_config.json") + ": chat_template is neither"));
  Write("tokenizer_config.json", R"({"chat_template": [{"name": "default"}]})");
  EXPECT_THAT(Error(), StartsWith(Path("tokenizer_config.json") + ": chat_template has an entry"));
}

// As transformers reads them: files stand before tokenizer_config.json, which stands before the
// processor's chat_template.json.
TEST_F(Folder, TheTemplateForToolsComesFromAFileOrFromNamedTemplates) {
  const auto templates = [&] {
    const GgufFile file = Open();
    const auto text = [&](const char* key) {
      return file.Has(key) ? std::string(*file.GetString(key)) : "";
    };
    return text("tokenizer.chat_template") + "|" + text("tokenizer.chat_template.tool_use");
  };
  Write("chat_template.json", R"({"chat_template": "P"})");
  EXPECT_EQ(templates(), "P|");
  Write("chat_template.json",
        R"({"chat_template": [{"name": "default", "template": "P"},
                              {"name": "tool_use", "template": "PT"}]})");
  EXPECT_EQ(templates(), "P|PT");
  Write("tokenizer_config.json", R"({"chat_template": "D"})");
  EXPECT_EQ(templates(), "D|");
  Write("tokenizer_config.json", R"({"chat_template": {"default": "D", "tool_use": "T"}})");
  EXPECT_EQ(templates(), "D|T");
  std::filesystem::create_directory(Path("additional_chat_templates"));
  Write("additional_chat_templates/rag.jinja", "R");
  EXPECT_EQ(templates(), "D|T");
  Write("additional_chat_templates/tool_use.jinja", "AT");
  EXPECT_EQ(templates(), "D|AT");
  Write("chat_template.jinja", "J");
  EXPECT_EQ(templates(), "J|AT");
  Write("tokenizer_config.json", R"({"chat_template": {"default": 3}})");
  EXPECT_THAT(Error(), StartsWith(Path("tokenizer_config.json") + ": chat_template has an entry"));
}

}  // namespace
}  // namespace baton
