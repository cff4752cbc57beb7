// A builder of GGUF files in memory, well-formed or with chosen faults.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace baton {

// A string of bytes to which numbers and strings are appended in little-endian form.
class GgufBytes {
 public:
  template <typename T>
  GgufBytes& Number(T value) {
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    bytes_.append(raw, sizeof(T));
    return *this;
  }
  GgufBytes& U32(uint32_t value) { return Number(value); }
  GgufBytes& U64(uint64_t value) { return Number(value); }
  GgufBytes& String(const std::string& text) {
    U64(text.size());
    bytes_ += text;
    return *this;
  }
  GgufBytes& Raw(const std::string& raw) {
    bytes_ += raw;
    return *this;
  }
  const std::string& str() const { return bytes_; }

 private:
  std::string bytes_;
};

struct GgufBuilder {
  struct TensorEntry {
    std::string name;
    std::vector<uint64_t> dims;
    uint32_t type = 0;  // F32
    uint64_t offset = 0;
    std::optional<uint32_t> dimension_count = std::nullopt;  // unset: the true number
  };

  std::string magic = "GGUF";
  uint32_t version = 3;
  std::optional<uint64_t> tensor_count;  // unset: the true number
  std::optional<uint64_t> key_count;     // unset: the true number
  std::vector<std::string> entries;      // the bytes of each key, its type number and its payload
  std::vector<TensorEntry> tensors;
  uint64_t alignment = 32;  // bytes at whose multiples the data section and its tensors begin
  std::string data;

  // Adds a key. `payload` is the bytes after the type number.
  GgufBuilder& Key(const std::string& key, uint32_t type, const std::string& payload) {
    entries.push_back(GgufBytes().String(key).U32(type).Raw(payload).str());
    return *this;
  }
  template <typename T>
  GgufBuilder& Scalar(const std::string& key, uint32_t type, T value) {
    return Key(key, type, GgufBytes().Number(value).str());
  }
  GgufBuilder& Text(const std::string& key, const std::string& value) {
    return Key(key, 8, GgufBytes().String(value).str());
  }
  GgufBuilder& Texts(const std::string& key, const std::vector<std::string>& values) {
    GgufBytes payload;
    payload.U32(8).U64(values.size());
    for (const std::string& value : values) payload.String(value);
    return Key(key, 9, payload.str());
  }
  template <typename T>
  GgufBuilder& Array(const std::string& key, uint32_t type, const std::vector<T>& values) {
    GgufBytes payload;
    payload.U32(type).U64(values.size());
    for (const T value : values) payload.Number(value);
    return Key(key, 9, payload.str());
  }
  GgufBuilder& Uint32(const std::string& key, uint32_t value) { return Scalar(key, 4, value); }
  GgufBuilder& Bool(const std::string& key, bool value) { return Scalar(key, 7, value); }
  GgufBuilder& Int32s(const std::string& key, const std::vector<int32_t>& values) {
    return Array(key, 5, values);
  }
  GgufBuilder& Tensor(TensorEntry tensor) {
    tensors.push_back(std::move(tensor));
    return *this;
  }
  // Adds a tensor with its bytes, at the next aligned place of the data section.
  GgufBuilder& TensorWithData(const std::string& name, std::vector<uint64_t> dims, uint32_t type,
                              const std::string& bytes) {
    data.resize((data.size() + alignment - 1) / alignment * alignment);
    tensors.push_back({.name = name, .dims = std::move(dims), .type = type, .offset = data.size()});
    data += bytes;
    return *this;
  }

  std::string Build() const {
    GgufBytes bytes;
    bytes.Raw(magic).U32(version);
    bytes.U64(tensor_count.value_or(tensors.size())).U64(key_count.value_or(entries.size()));
    for (const std::string& entry : entries) bytes.Raw(entry);
    for (const TensorEntry& tensor : tensors) {
      bytes.String(tensor.name);
      bytes.U32(tensor.dimension_count.value_or(static_cast<uint32_t>(tensor.dims.size())));
      for (const uint64_t dim : tensor.dims) bytes.U64(dim);
      bytes.U32(tensor.type).U64(tensor.offset);
    }
    if (!tensors.empty()) {
      bytes.Raw(std::string((alignment - bytes.str().size() % alignment) % alignment, '\0'));
    }
    return bytes.Raw(data).str();
  }
};

}  // namespace baton
