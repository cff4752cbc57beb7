#include "tests/support/requantise.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "common/base/float_types.h"
#include "tests/support/ggml_blocks.h"
#include "tests/support/gguf_builder.h"

namespace baton {
namespace {

// Appends the Q8_0 block of `values` [32].
void AppendQ8Block(const float* values, std::string& bytes) {
  float largest = 0;
  for (int i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(values[i]));
  BlockContents block;
  block.scale = F16ToF32(F32ToF16(largest / 127.0f));
  for (size_t i = 0; i < 32 && block.scale > 0; ++i) {
    block.codes[i] = std::clamp(static_cast<int>(std::lround(values[i] / block.scale)), -127, 127);
  }
  bytes += EncodeBlock(GgmlType::kQ8_0, block);
}

void AppendBf16(const float* values, std::string& bytes) {
  for (int i = 0; i < 32; ++i) {
    const uint16_t bits = F32ToBf16(values[i]);
    bytes.append(reinterpret_cast<const char*>(&bits), sizeof(bits));
  }
}

}  // namespace

GgufFile Requantise(const GgufFile& file, GgmlType type) {
  BATON_CHECK(type == GgmlType::kBf16 || type == GgmlType::kQ8_0, "the type must be BF16 or Q8_0");
  constexpr uint32_t kFloat32 = 6;
  GgufBuilder builder;
  builder.Text("general.architecture", "llama");
  for (const char* name : {"block_count", "embedding_length", "feed_forward_length",
                           "context_length", "attention.head_count", "attention.head_count_kv"}) {
    const std::string key = absl::StrCat("llama.", name);
    builder.Uint32(key, static_cast<uint32_t>(*file.GetUint(key)));
  }
  for (const char* name : {"attention.layer_norm_rms_epsilon", "rope.freq_base"}) {
    const std::string key = absl::StrCat("llama.", name);
    builder.Scalar(key, kFloat32, static_cast<float>(*file.GetFloat(key)));
  }
  for (const GgufTensor& tensor : file.tensors()) {
    const std::string old(tensor.data.begin(), tensor.data.end());
    if (tensor.dims.size() == 1) {
      builder.TensorWithData(tensor.name, tensor.dims, static_cast<uint32_t>(tensor.type), old);
      continue;
    }
    std::string bytes;
    const std::vector<float> values = DequantiseBlocks(tensor.type, tensor.data);
    for (size_t i = 0; i < values.size(); i += 32) {
      type == GgmlType::kBf16 ? AppendBf16(&values[i], bytes) : AppendQ8Block(&values[i], bytes);
    }
    builder.TensorWithData(tensor.name, tensor.dims, static_cast<uint32_t>(type), bytes);
  }
  auto made = GgufFile::Parse(builder.Build(), "requantised.gguf");
  BATON_CHECK(made.ok(), "the written file must be valid");
  return *std::move(made);
}

}  // namespace baton
