#include "tests/support/rewritten_model.h"

#include <fstream>
#include <iterator>

#include "common/base/check.h"
#include "common/gguf/gguf_contents.h"
#include "tests/support/ggml_blocks.h"
#include "tests/support/gguf_builder.h"

namespace baton {
namespace {

absl::Span<const uint8_t> BytesOf(const std::string& bytes) {
  return {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
}

// The bytes that stand behind the type of a key.
std::string PayloadOf(const GgufValue& value) {
  GgufBytes payload;
  if (value.is_array) payload.U32(static_cast<uint32_t>(value.type)).U64(value.count);
  return payload.Raw({value.payload.begin(), value.payload.end()}).str();
}

}  // namespace

GgufFile RewrittenModel(const std::string& path, const std::function<void(WrittenTensor&)>& edit) {
  std::ifstream in(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  const auto contents = ParseGguf(BytesOf(bytes), path, GgufFile::Part::kAll);
  BATON_CHECK(contents.ok(), "the model file must be valid");
  GgufBuilder builder;
  for (const auto& [key, value] : contents->metadata) {
    const auto type = value.is_array ? GgufValueType::kArray : value.type;
    builder.Key(std::string(key), static_cast<uint32_t>(type), PayloadOf(value));
  }
  for (const GgufTensor& tensor : contents->tensors) {
    WrittenTensor written{.name = tensor.name,
                          .dims = tensor.dims,
                          .type = tensor.type,
                          .bytes = {tensor.data.begin(), tensor.data.end()}};
    edit(written);
    builder.TensorWithData(written.name, written.dims, static_cast<uint32_t>(written.type),
                           written.bytes);
  }
  auto made = GgufFile::Parse(builder.Build(), path);
  BATON_CHECK(made.ok(), "the model file must be valid");
  return *std::move(made);
}

GgufFile Retyped(const std::string& path, GgmlType type) {
  BATON_CHECK(IsFloatType(type), "a type of floats");
  return RewrittenModel(path, [type](WrittenTensor& tensor) {
    if (!IsFloatType(tensor.type)) return;
    const std::vector<float> values = DequantiseBlocks(tensor.type, BytesOf(tensor.bytes));
    std::string bytes;
    for (const float value : values) bytes += EncodeFloat(type, value);
    if (DequantiseBlocks(type, BytesOf(bytes)) != values) return;
    tensor.type = type;
    tensor.bytes = bytes;
  });
}

}  // namespace baton
