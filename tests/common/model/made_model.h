// Model files made of metadata and one embedding, for tests of what a file's keys mean.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/model/config.h"
#include "tests/support/gguf_builder.h"

namespace baton {

// A file of an architecture with its required keys: 4 heads of 16 dimensions, 8 tokens. Keys that
// are added have the architecture's prefix put in front.
class MadeModel {
 public:
  explicit MadeModel(const std::string& architecture = "llama", int layers = 2)
      : prefix_(architecture + ".") {
    builder_.Text("general.architecture", architecture);
    Uint("block_count", static_cast<uint32_t>(layers));
    Uint("embedding_length", 64);
    Uint("feed_forward_length", 128);
    Uint("context_length", 512);
    Uint("attention.head_count", 4);
    Float("attention.layer_norm_rms_epsilon", 1e-5f);
    builder_.TensorWithData("token_embd.weight", {64, 8}, 0, std::string(64 * 8 * 4, '\0'));
  }

  MadeModel& Uint(const std::string& key, uint32_t value) {
    builder_.Uint32(prefix_ + key, value);
    return *this;
  }
  // An array, which takes the place of a value that the key has.
  MadeModel& Uints(const std::string& key, const std::vector<uint32_t>& values) {
    const std::string named = GgufBytes().String(prefix_ + key).str();
    std::erase_if(builder_.entries,
                  [&named](const std::string& entry) { return entry.starts_with(named); });
    builder_.Array(prefix_ + key, 4, values);
    return *this;
  }
  MadeModel& Float(const std::string& key, float value) {
    builder_.Scalar(prefix_ + key, 6, value);
    return *this;
  }
  MadeModel& Text(const std::string& key, const std::string& value) {
    builder_.Text(prefix_ + key, value);
    return *this;
  }
  MadeModel& Bools(const std::string& key, const std::vector<uint8_t>& values) {
    builder_.Array(prefix_ + key, 7, values);
    return *this;
  }
  // Adds a vector of ones.
  MadeModel& Vector(const std::string& name, int size) {
    std::string bytes;
    for (int i = 0; i < size; ++i) bytes += std::string("\0\0\x80\x3f", 4);
    builder_.TensorWithData(name, {static_cast<uint64_t>(size)}, 0, bytes);
    return *this;
  }

  absl::StatusOr<ModelConfig> Read(int max_model_len = 0) const {
    const auto file = GgufFile::Parse(builder_.Build(), "made.gguf");
    if (!file.ok()) return file.status();
    return ModelConfig::FromGguf(*file, max_model_len);
  }

 private:
  const std::string prefix_;
  GgufBuilder builder_;
};

}  // namespace baton
