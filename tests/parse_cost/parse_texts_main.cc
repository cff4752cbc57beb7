// Parses one text from outside: parse_texts KIND COUNT, a text of that kind with so many parts. Ends
// with an error where the parser refuses it.
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"

#include "common/flags/toml_text.h"
#include "common/grammar/schema_text.h"
#include "common/hugging_face/json_text.h"
#include "common/hugging_face/safetensors.h"
#include "common/tokenizer/tokenizer.h"
#include "router/api/json_fields.h"
#include "router/api/token_pieces.h"
#include "router/tenants/keys_file.h"
#include "tests/support/gguf_builder.h"

namespace baton {
namespace {

// `part(i)` of each i below `count`, with commas between them.
std::string Listed(int count, const std::function<std::string(int)>& part) {
  std::string text;
  for (int i = 0; i < count; ++i) absl::StrAppend(&text, i > 0 ? "," : "", part(i));
  return text;
}

std::string Same(int count, const std::string& part) {
  return Listed(count, [&part](int) { return part; });
}

std::string Numbered(int count, const std::string& value) {
  return Listed(count, [&value](int i) { return absl::StrCat("\"k", i, "\":", value); });
}

absl::Status ReadBody(const std::string& body) { return ParseJsonBody(body).status(); }
absl::Status ReadSchema(const std::string& schema) { return ParseSchemaText(schema).status(); }

absl::Status ReadSettings(const std::string& text) {
  const JsonFileLimits limits = {.bytes = size_t{32} << 20, .values = 1 << 20};
  return ParseJsonObject(text, "tokenizer_config.json", limits).status();
}

// Tensors of one float each.
absl::Status ReadSafetensors(int count) {
  const std::string header = absl::StrCat(
      "{",
      Listed(count,
             [](int i) {
               return absl::StrFormat(
                   R"("layers.%d.weight":{"dtype":"F32","shape":[1],"data_offsets":[%d,%d]})", i,
                   4 * i, 4 * i + 4);
             }),
      "}");
  const std::string file = GgufBytes().U64(header.size()).Raw(header).str() +
                           std::string(4 * static_cast<size_t>(count), '\0');
  const auto* const bytes = reinterpret_cast<const uint8_t*>(file.data());
  return ParseSafetensors(absl::MakeConstSpan(bytes, file.size()), "f.safetensors").status();
}

absl::Status ReadTokenizer(int count) {
  // A vocabulary of bytes has a token of one.
  const std::string vocabulary = absl::StrCat(
      "\"t\":0,", Listed(count, [](int i) { return absl::StrCat("\"t", i, "\":", i + 1); }));
  const std::string json = absl::StrCat(
      R"({"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"decoder":{"type":"ByteLevel"},)",
      R"("added_tokens":[],"model":{"type":"BPE","merges":[],"vocab":{)", vocabulary, "}}}");
  const auto file = GgufFile::Parse(GgufBuilder().Text("tokenizer.huggingface.json", json).Build(),
                                    "tokenizer.json", GgufFile::Part::kTokenizer);
  return file.ok() ? Tokenizer::Load(*file).status() : file.status();
}

// A text of which each byte begins or ends what looks like a special token of `count` bytes.
absl::Status FindLiterals(int count) {
  constexpr int kRepeats = 100;
  const std::string run(static_cast<size_t>(count), 'b');
  const std::string json = absl::StrCat(
      R"({"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},)",
      R"("decoder":{"type":"ByteLevel"},"added_tokens":[{"id":2,"content":")", run,
      R"(c","special":true},{"id":3,"content":"c)", run,
      R"(","special":true}],"model":{"type":"BPE","merges":[],"vocab":{"b":0,"c":1}}})");
  const auto file = GgufFile::Parse(GgufBuilder().Text("tokenizer.huggingface.json", json).Build(),
                                    "tokenizer.json", GgufFile::Part::kTokenizer);
  if (!file.ok()) return file.status();
  const auto tokenizer = Tokenizer::Load(*file);
  if (!tokenizer.ok()) return tokenizer.status();
  const std::string text(static_cast<size_t>(count) * kRepeats, 'b');
  return (*tokenizer)->Encode(text, {.parse_special = true}).status();
}

absl::Status ReadKeys(int count) {
  std::string text = "[tenants.\"a\"]\n";
  for (int i = 0; i < count; ++i) {
    absl::StrAppendFormat(&text, "[[keys]]\ntenant = \"a\"\nsha256 = \"%064x\"\n", i);
  }
  return ParseKeysFile("keys.toml", text).status();
}

absl::Status ReadToml(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) absl::StrAppend(&text, "key-", i, " = ['a', \"b\", 1.5, true]\n");
  return ParseToml("config.toml", text).status();
}

// A whole answer of so many tokens.
absl::Status CutAnswer(int count) {
  google::protobuf::RepeatedPtrField<v1::TokenLogprob> tokens;
  std::string text;
  for (int i = 0; i < count; ++i) {
    tokens.Add()->set_token("abc ");
    text += "abc ";
  }
  TokenPieces pieces;
  pieces.Add(text, tokens);
  int cut = 0;
  while (pieces.Next(/*last=*/true).has_value()) ++cut;
  return cut == count ? absl::OkStatus() : absl::InternalError("an answer is cut at its tokens");
}

using Parse = std::function<absl::Status(int count)>;

const std::map<std::string, Parse>& Kinds() {
  static const auto* const kinds = new std::map<std::string, Parse>{
      {"body_objects", [](int n) { return ReadBody("{\"x\":[" + Same(n, "{}") + "]}"); }},
      {"body_arrays", [](int n) { return ReadBody("{\"x\":[" + Same(n, "[]") + "]}"); }},
      {"body_members", [](int n) { return ReadBody("{\"x\":[" + Same(n, "{\"k\":0}") + "]}"); }},
      {"body_keys", [](int n) { return ReadBody("{" + Numbered(n, "0") + "}"); }},
      {"body_strings", [](int n) { return ReadBody("{\"x\":[" + Same(n, "\"y\"") + "]}"); }},
      {"schema_objects", [](int n) { return ReadSchema("{\"enum\":[" + Same(n, "{}") + "]}"); }},
      {"schema_keys",
       [](int n) { return ReadSchema("{\"properties\":{" + Numbered(n, "{}") + "}}"); }},
      {"settings_objects", [](int n) { return ReadSettings("{\"x\":[" + Same(n, "{}") + "]}"); }},
      {"settings_keys", [](int n) { return ReadSettings("{" + Numbered(n, "{}") + "}"); }},
      {"safetensors", ReadSafetensors},
      {"tokenizer", ReadTokenizer},
      {"literals", FindLiterals},
      {"answer_tokens", CutAnswer},
      {"keys_file", ReadKeys},
      {"toml", ReadToml},
  };
  return *kinds;
}

int Main(int argc, char** argv) {
  const auto kind = argc == 3 ? Kinds().find(argv[1]) : Kinds().end();
  if (kind == Kinds().end()) {
    std::cerr << "usage: parse_texts KIND COUNT\n";
    return 2;
  }
  const absl::Status status = kind->second(std::atoi(argv[2]));
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) { return baton::Main(argc, argv); }
