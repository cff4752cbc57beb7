#include "common/gguf/gguf_metadata.h"

#include <cstring>

#include "common/gguf/gguf_value.h"

namespace baton {
namespace {

constexpr uint32_t kVersion = 3;

// Numbers of the format are little-endian, as this machine's are.
template <class Number>
void AppendNumberTo(std::string& out, Number value) {
  char raw[sizeof(value)];
  std::memcpy(raw, &value, sizeof(value));
  out.append(raw, sizeof(raw));
}

constexpr uint32_t NumberOf(GgufValueType type) { return static_cast<uint32_t>(type); }

}  // namespace

void AppendGgufString(std::string& out, const std::string& text) {
  AppendNumberTo<uint64_t>(out, text.size());
  out += text;
}

void GgufMetadata::Begin(const std::string& key, uint32_t type) {
  ++count_;
  AppendGgufString(bytes_, key);
  AppendNumberTo(bytes_, type);
}

void GgufMetadata::BeginArray(const std::string& key, uint32_t type, size_t count) {
  Begin(key, NumberOf(GgufValueType::kArray));
  AppendNumberTo(bytes_, type);
  AppendNumberTo<uint64_t>(bytes_, count);
}

void GgufMetadata::Text(const std::string& key, const std::string& value) {
  Begin(key, NumberOf(GgufValueType::kString));
  AppendGgufString(bytes_, value);
}

void GgufMetadata::Uint32(const std::string& key, uint32_t value) {
  Begin(key, NumberOf(GgufValueType::kUint32));
  AppendNumberTo(bytes_, value);
}

void GgufMetadata::Float32(const std::string& key, float value) {
  Begin(key, NumberOf(GgufValueType::kFloat32));
  AppendNumberTo(bytes_, value);
}

void GgufMetadata::Bool(const std::string& key, bool value) {
  Begin(key, NumberOf(GgufValueType::kBool));
  AppendNumberTo<uint8_t>(bytes_, value ? 1 : 0);
}

void GgufMetadata::Texts(const std::string& key, const std::vector<std::string>& values) {
  BeginArray(key, NumberOf(GgufValueType::kString), values.size());
  for (const std::string& value : values) AppendGgufString(bytes_, value);
}

void GgufMetadata::Int32s(const std::string& key, const std::vector<int32_t>& values) {
  BeginArray(key, NumberOf(GgufValueType::kInt32), values.size());
  for (const int32_t value : values) AppendNumberTo(bytes_, value);
}

void GgufMetadata::Bools(const std::string& key, const std::vector<bool>& values) {
  BeginArray(key, NumberOf(GgufValueType::kBool), values.size());
  for (const bool value : values) AppendNumberTo<uint8_t>(bytes_, value ? 1 : 0);
}

std::string GgufHeader(const GgufMetadata& metadata, uint64_t tensor_count) {
  std::string header = "GGUF";
  AppendNumberTo(header, kVersion);
  AppendNumberTo(header, tensor_count);
  AppendNumberTo(header, metadata.count());
  return header + metadata.bytes();
}

}  // namespace baton
