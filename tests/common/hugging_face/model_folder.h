// A Hugging Face folder of a test.
#pragma once

#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"

#include "common/gguf/gguf_file.h"
#include "common/hugging_face/open_model_file.h"
#include "tests/support/safetensors_builder.h"
#include "tests/support/temporary_folder.h"

namespace baton {

// A folder of one layer, as far as its reader looks.
class ModelFolder : public ::testing::Test {
 protected:
  static constexpr char kConfig[] =
      R"({"model_type": "llama", "hidden_size": 4, "intermediate_size": 2, "num_hidden_layers": 1,
        "num_attention_heads": 1, "max_position_embeddings": 16, "vocab_size": 2,
        "rms_norm_eps": 1e-5})";

  ModelFolder() {
    Write("config.json", kConfig);
    Write("tokenizer.json", R"({"version": "1.0"})");
    Write("model.safetensors", Weights().Build());
  }
  static SafetensorsBuilder Weights() {
    SafetensorsBuilder weights;
    weights.Add("model.embed_tokens.weight", "F32", {2, 4}, FloatBytes({1, 2, 3, 4, 5, 6, 7, 8}));
    weights.Add("model.norm.weight", "F32", {4}, FloatBytes({1, 1, 1, 1}));
    weights.Add("model.layers.0.self_attn.q_proj.weight", "F32", {4, 1},
                FloatBytes({10, 11, 12, 13}));
    return weights;
  }
  // By rename, because the file of before may still be mapped.
  void Write(const std::string& name, const std::string& content) {
    std::filesystem::rename(folder_.File("new", content), Path(name));
  }
  void Remove(const std::string& name) { std::filesystem::remove(Path(name)); }
  // Writes config.json with `from` replaced.
  void Change(const std::string& from, const std::string& to) {
    const std::string config = absl::StrReplaceAll(kConfig, {{from, to}});
    ASSERT_NE(config, kConfig);
    Write("config.json", config);
  }
  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }
  std::string Error(GgufFile::Part part = GgufFile::Part::kAll) const {
    return std::string(OpenModelFile(folder_.path(), part).status().message());
  }
  GgufFile Open() const {
    auto file = OpenModelFile(folder_.path() + "//");
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  }

  TemporaryFolder folder_{"open_model_file"};
};

// The elements of a tensor of float32.
inline std::vector<float> Floats(const GgufFile& file, const char* name) {
  const HeldTensor held = file.Hold(*file.FindTensor(name));
  std::vector<float> values(held->data.size() / sizeof(float));
  std::memcpy(values.data(), held->data.data(), held->data.size());
  return values;
}

}  // namespace baton
