// A tokenizer of a file that is not trusted, and any text: an error, or ids that decode to the
// text.
//
// The input is the text of the messages; its first bytes make a small vocabulary and choose the
// pre-tokenizer. It is a tokenizer.json too, up to a zero byte, and a text behind that.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

#include "common/base/check.h"
#include "common/tokenizer/tokenizer.h"
#include "common/tokenizer/utf8_stream.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/gguf_builder.h"

namespace baton {
namespace {

std::unique_ptr<Tokenizer> Opened(const std::string& name) {
  auto file = GgufFile::Open(BATON_TEST_DATA "/tokenizer/" + name, GgufFile::Part::kTokenizer);
  BATON_CHECK(file.ok(), "the vocabulary is there");
  auto tokenizer = Tokenizer::Load(*file);
  BATON_CHECK(tokenizer.ok(), "the file must have a tokenizer");
  return *std::move(tokenizer);
}

const Tokenizer& SmolLm() {
  static const std::unique_ptr<Tokenizer> kTokenizer = Opened("smollm2-vocab.gguf");
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

// Text that continues another comes back, but for U+2581, which is a space.
void CheckLlama(const std::string& text) {
  static const std::unique_ptr<Tokenizer> kLlama = Opened("llama-spm-vocab.gguf");
  const auto ids = kLlama->Encode(text, {.add_special_tokens = false, .continues = true});
  BATON_CHECK(ids.ok(), "each byte has a piece");
  std::string bytes;
  for (const int32_t id : *ids) {
    BATON_CHECK(!kLlama->IsSpecial(id), "no text of a message is a control token");
    absl::StrAppend(&bytes, kLlama->TokenBytes(id));
  }
  BATON_CHECK(bytes == absl::StrReplaceAll(text, {{"\u2581", " "}}), "the tokens are the text");
}

// A tokenizer.json of two forms, with words of the input at places where it has text.
std::string SmallJson(FuzzInput& input) {
  constexpr const char* kForms[] = {
      R"({"normalizer":{"type":"NFC"},"pre_tokenizer":{"type":"Sequence","pretokenizers":[)"
      R"({"type":"Split","pattern":{"Regex":"@"},"behavior":"Isolated"},)"
      R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]},)"
      R"("added_tokens":[{"id":3,"content":"@","special":true,"rstrip":true}],)"
      R"("model":{"type":"BPE","vocab":{"a":0,"b":1,"@":2},"merges":["@"]}})",
      R"({"normalizer":{"type":"Prepend","prepend":"\u2581"},)"
      R"("added_tokens":[{"id":3,"content":"@","single_word":true,"lstrip":true}],)"
      R"("model":{"type":"BPE","byte_fallback":true,"unk_token":"a",)"
      R"("vocab":{"a":0,"<0x62>":1,"@":2},"merges":[["a","@"]]}})"};
  std::string json;
  for (const char byte : std::string(kForms[input.Below(2)])) {
    if (byte == '@') {
      json += input.Bytes(static_cast<size_t>(input.Below(12)));
    } else {
      json.push_back(byte);
    }
  }
  return json;
}

// Any bytes are a tokenizer.json: an error, or a tokenizer whose ids are those of its vocabulary.
void CheckJson(absl::string_view json, const std::string& text) {
  GgufBuilder builder;
  builder.Text("general.architecture", "llama")
      .Text("tokenizer.huggingface.json", std::string(json));
  const auto file = GgufFile::Parse(builder.Build(), "fuzz.gguf", GgufFile::Part::kTokenizer);
  BATON_CHECK(file.ok(), "the builder's files are valid");
  const auto tokenizer = Tokenizer::Load(*file);
  if (!tokenizer.ok()) {
    BATON_CHECK(!tokenizer.status().message().empty(), "an error says what is wrong");
    return;
  }
  const auto ids = (*tokenizer)->Encode(text, {.parse_special = true, .lossy = true});
  if (!ids.ok()) return;
  for (const int32_t id : *ids) {
    BATON_CHECK(id >= 0 && id < (*tokenizer)->vocab_size(), "an id of the vocabulary");
    (void)(*tokenizer)->TokenBytes(id);
  }
  (void)(*tokenizer)->Decode(*ids, false);
}

void Run(FuzzInput input) {
  constexpr const char* kPreTokenizers[] = {"gpt-2", "smollm", "llama-bpe",  "qwen2",
                                            "other", "tekken", "deepseek-v3"};
  GgufBuilder builder;
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::vector<float> scores;
  const int model = input.Below(3);
  builder.Text("general.architecture", "llama")
      .Text("tokenizer.ggml.model", model == 0 ? "gpt2" : "llama")
      .Text("tokenizer.ggml.pre", kPreTokenizers[input.Below(7)]);
  if (model == 2) builder.Text("tokenizer.huggingface.json", SmallJson(input));
  for (int count = input.Below(32); count > 0; --count) {
    types.push_back(input.Below(8));
    tokens.push_back(types.back() == 6 ? "<0x" + input.Bytes(2) + ">"
                                       : input.Bytes(static_cast<size_t>(input.Below(4))));
    scores.push_back(static_cast<float>(input.Below(8)));
  }
  std::vector<std::string> merges;
  for (int count = input.Below(4); count > 0; --count) merges.push_back(input.Bytes(3));
  builder.Texts("tokenizer.ggml.tokens", tokens)
      .Int32s("tokenizer.ggml.token_type", types)
      .Array("tokenizer.ggml.scores", 6, scores)
      .Texts("tokenizer.ggml.merges", merges);
  const auto file = GgufFile::Parse(builder.Build(), "fuzz.gguf", GgufFile::Part::kTokenizer);
  BATON_CHECK(file.ok(), "the builder's files are valid");
  const std::string text = input.Bytes(SIZE_MAX);
  if (const auto small = Tokenizer::Load(*file); small.ok()) {
    (void)(*small)->Encode(text, {.parse_special = true, .lossy = true});
  }
  CheckText(SmolLm(), text);
  CheckLlama(text);
}

}  // namespace
}  // namespace baton

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  baton::Run(baton::FuzzInput(data, size));
  const std::string input(reinterpret_cast<const char*>(data), size);
  const std::pair<std::string, std::string> parts = absl::StrSplit(input, absl::MaxSplits('\0', 1));
  baton::CheckJson(parts.first, parts.second);
  return 0;
}
