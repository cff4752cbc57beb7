// Writes GGUF metadata for tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace baton {

// Keys keep the order of the calls. Bytes() is a GGUF 3 file without tensors.
class GgufBuilder {
 public:
  GgufBuilder& String(const std::string& key, const std::string& value) {
    Begin(key, kString);
    AppendString(value);
    return *this;
  }
  GgufBuilder& Uint32(const std::string& key, uint32_t value) {
    Begin(key, kUint32);
    Append(value, 4);
    return *this;
  }
  GgufBuilder& Bool(const std::string& key, bool value) {
    Begin(key, kBool);
    Append(value, 1);
    return *this;
  }
  GgufBuilder& Strings(const std::string& key, const std::vector<std::string>& values) {
    Begin(key, kArray);
    Append(kString, 4);
    Append(values.size(), 8);
    for (const std::string& value : values) AppendString(value);
    return *this;
  }
  GgufBuilder& Int32s(const std::string& key, const std::vector<int32_t>& values) {
    Begin(key, kArray);
    Append(kInt32, 4);
    Append(values.size(), 8);
    for (const int32_t value : values) Append(static_cast<uint32_t>(value), 4);
    return *this;
  }
  std::string Bytes() const {
    GgufBuilder header;
    header.Append(3, 4);
    header.Append(0, 8);
    header.Append(keys_, 8);
    return "GGUF" + header.bytes_ + bytes_;
  }

 private:
  enum ValueType : uint32_t { kUint32 = 4, kInt32 = 5, kBool = 7, kString = 8, kArray = 9 };

  void Begin(const std::string& key, ValueType type) {
    ++keys_;
    AppendString(key);
    Append(type, 4);
  }
  void AppendString(const std::string& value) {
    Append(value.size(), 8);
    bytes_ += value;
  }
  void Append(uint64_t value, int size) {  // little-endian
    for (int i = 0; i < size; ++i) bytes_.push_back(static_cast<char>(value >> (8 * i)));
  }

  uint64_t keys_ = 0;
  std::string bytes_;
};

}  // namespace baton
