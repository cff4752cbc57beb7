// The GGUF reader as a fuzz target: any bytes give an error or a file that can be read completely.
// The unit tests call it too, with damaged models.
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/gguf/gguf_file.h"

namespace {

void ReadEverything(const baton::GgufFile& file) {
  volatile uint64_t sum = 0;  // volatile, so that no read is optimised away
  for (const baton::GgufTensor& tensor : file.tensors()) {
    if (file.FindTensor(tensor.name) != &tensor) __builtin_trap();
    for (const uint8_t byte : tensor.data) sum = sum + byte;
  }
  for (const char* key :
       {"general.architecture", "general.alignment", "llama.block_count", "llama.rope.freq_base",
        "tokenizer.ggml.tokens", "tokenizer.ggml.merges", "tokenizer.ggml.token_type",
        "tokenizer.ggml.scores", "tokenizer.ggml.add_bos_token", "tokenizer.chat_template"}) {
    (void)file.GetUint(key);
    (void)file.GetFloat(key);
    (void)file.GetBool(key);
    if (const auto text = file.GetString(key); text.ok()) {
      for (const char c : *text) sum = sum + static_cast<unsigned char>(c);
    }
    if (const auto texts = file.GetStrings(key); texts.ok()) {
      for (const absl::string_view text : *texts) {
        for (const char c : text) sum = sum + static_cast<unsigned char>(c);
      }
    }
    (void)file.GetInts(key);
    (void)file.GetFloats(key);
    (void)file.GetBools(key);
  }
  if (file.TokenizerDigest().size() != 32) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using Part = baton::GgufFile::Part;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  bool parsed[2] = {false, false};
  for (const Part part : {Part::kAll, Part::kTokenizer}) {
    const absl::StatusOr<baton::GgufFile> file = baton::GgufFile::Parse(bytes, "fuzz.gguf", part);
    parsed[part == Part::kTokenizer] = file.ok();
    if (file.ok()) ReadEverything(*file);
  }
  if (parsed[0] && !parsed[1]) __builtin_trap();  // Part::kTokenizer demands less
  return 0;
}
