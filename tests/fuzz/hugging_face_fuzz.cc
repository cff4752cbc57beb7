// The readers of a Hugging Face folder as a fuzz target: any config.json and any safetensors file
// give an error or a model whose tensors can all be made. The input is the config, a zero byte, and
// the file.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "common/base/status_macros.h"
#include "common/gguf/gguf_file.h"
#include "common/gguf/model_parts.h"
#include "common/gguf/quantisation.h"
#include "common/hugging_face/config_translation.h"
#include "common/hugging_face/safetensors.h"
#include "common/hugging_face/tensor_translation.h"

namespace {

constexpr baton::JsonFileLimits kLimits = {.bytes = 1 << 20, .values = 1 << 12};

void MakeEverything(const baton::GgufFile& file) {
  volatile uint64_t sum = 0;  // volatile, so that no read is optimised away
  for (const baton::GgufTensor& tensor : file.tensors()) {
    const baton::HeldTensor held = file.Hold(tensor);
    if (held->data.size() != tensor.size_bytes()) __builtin_trap();
    for (const uint8_t byte : held->data) sum = sum + byte;
  }
  if (file.TokenizerDigest().size() != 32) __builtin_trap();
}

absl::Status ReadFolder(absl::string_view config_text, std::string weights) {
  BATON_ASSIGN_OR_RETURN(const nlohmann::json json,
                         baton::ParseJsonObject(config_text, "config.json", kLimits));
  BATON_ASSIGN_OR_RETURN(baton::TranslatedConfig translated,
                         baton::TranslateConfig(baton::JsonFileFields(json, "config.json")));
  baton::ModelParts parts;
  parts.path = "fuzz";
  const absl::Span<const uint8_t> bytes = parts.files.Add("w.safetensors", std::move(weights));
  BATON_ASSIGN_OR_RETURN(std::vector<baton::SafeTensor> tensors,
                         baton::ParseSafetensors(bytes, "w.safetensors"));
  baton::FolderTensors folder;
  for (baton::SafeTensor& tensor : tensors) {
    const std::string name = tensor.name;
    folder[name] = {std::move(tensor), "w.safetensors"};
  }
  BATON_ASSIGN_OR_RETURN(parts.tensors,
                         baton::TranslateTensors(folder, *translated.type, translated.keys,
                                                 {.folder = "fuzz",
                                                  .tied = translated.tied,
                                                  .multimodal = translated.multimodal,
                                                  .scaled_e4m3 = translated.scaled_e4m3}));
  parts.metadata = std::move(translated.keys.metadata);
  BATON_ASSIGN_OR_RETURN(baton::GgufFile file, baton::GgufFile::Assemble(std::move(parts)));
  MakeEverything(file);
  MakeEverything(baton::GgufFile::Quantised(std::move(file), baton::Quantisation::kQ4_0));
  return absl::OkStatus();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  (void)baton::ParseSafetensors(absl::MakeConstSpan(data, size), "fuzz.safetensors");
  const size_t zero = std::min(input.find('\0'), input.size());
  (void)ReadFolder(input.substr(0, zero), input.substr(std::min(zero + 1, input.size())));
  return 0;
}
