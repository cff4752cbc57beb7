// A tokenizer of a file that is not trusted, and any text: an error, or ids that decode to the
// text.
//
// The input is the text of the messages; its first bytes make a small vocabulary and choose the
// pre-tokenizer.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "common/tokenizer/tokenizer.h"
#include "common/tokenizer/utf8_stream.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/gguf_builder.h"

namespace baton {
namespace {

const Tokenizer& SmolLm() {
  static const std::unique_ptr<Tokenizer> kTokenizer = [] {
    auto file =
        GgufFile::Open(BATON_TEST_DATA "/tokenizer/smollm2-vocab.gguf", GgufFile::Part::kTokenizer);
    BATON_CHECK(file.ok(), "the vocabulary is there");
    auto tokenizer = Tokenizer::Load(*file);
    BATON_CHECK(tokenizer.ok(), "it is one");
    return *std::move(tokenizer);
  }();
  return *kTokenizer;
}

void CheckText(const Tokenizer& tokenizer, const std::string& text) {
  const auto ids = tokenizer.Encode(text, {.add_special_tokens = false});
  if (ids.ok()) {
    std::string bytes;
    for (const int32_t id : *ids) {
      BATON_CHECK(id >= 0 && id < tokenizer.vocab_size(), "an id of the vocabulary");
      absl::StrAppend(&bytes, tokenizer.TokenBytes(id));
    }
    BATON_CHECK(bytes == text, "the tokens are the text");
    BATON_CHECK(tokenizer.Decode(*ids, false) == ReplaceInvalidUtf8(text), "and decode to it");
  }
  const std::vector<TextPiece> pieces = {{.text = text, .trusted = false}};
  const auto untrusted = tokenizer.Encode(absl::MakeConstSpan(pieces), false);
  if (!untrusted.ok()) return;
  for (const int32_t id : *untrusted) {
    BATON_CHECK(!tokenizer.IsSpecial(id), "no text of a message is a control token");
  }
}

void Run(FuzzInput input) {
  constexpr const char* kPreTokenizers[] = {"gpt-2", "smollm", "llama-bpe", "qwen2", "other"};
  GgufBuilder builder;
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  builder.Text("general.architecture", "llama")
      .Text("tokenizer.ggml.model", "gpt2")
      .Text("tokenizer.ggml.pre", kPreTokenizers[input.Below(5)]);
  for (int count = input.Below(32); count > 0; --count) {
    types.push_back(input.Below(8));
    tokens.push_back(input.Bytes(static_cast<size_t>(input.Below(4))));
  }
  std::vector<std::string> merges;
  for (int count = input.Below(4); count > 0; --count) merges.push_back(input.Bytes(3));
  builder.Texts("tokenizer.ggml.tokens", tokens)
      .Int32s("tokenizer.ggml.token_type", types)
      .Texts("tokenizer.ggml.merges", merges);
  const auto file = GgufFile::Parse(builder.Build(), "fuzz.gguf", GgufFile::Part::kTokenizer);
  BATON_CHECK(file.ok(), "the builder's files are valid");
  const std::string text = input.Bytes(SIZE_MAX);
  if (const auto small = Tokenizer::Load(*file); small.ok()) {
    (void)(*small)->Encode(text, {.parse_special = true, .lossy = true});
  }
  CheckText(SmolLm(), text);
}

}  // namespace
}  // namespace baton

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  baton::Run(baton::FuzzInput(data, size));
  return 0;
}
