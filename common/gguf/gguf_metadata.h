// Metadata in the form that a GGUF file holds it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace baton {

// The metadata of a file, encoded. Each method but the last two adds one key with its value.
class GgufMetadata {
 public:
  void Text(const std::string& key, const std::string& value);
  void Uint32(const std::string& key, uint32_t value);
  void Float32(const std::string& key, float value);
  void Bool(const std::string& key, bool value);
  void Texts(const std::string& key, const std::vector<std::string>& values);
  void Int32s(const std::string& key, const std::vector<int32_t>& values);
  void Bools(const std::string& key, const std::vector<bool>& values);

  uint64_t count() const { return count_; }  // number of keys
  const std::string& bytes() const { return bytes_; }

 private:
  void Begin(const std::string& key, uint32_t type);
  void BeginArray(const std::string& key, uint32_t type, size_t count);

  uint64_t count_ = 0;
  std::string bytes_;
};

// The bytes of a file of version 3 up to its list of tensors, of which it says that there are
// `tensor_count`.
std::string GgufHeader(const GgufMetadata& metadata, uint64_t tensor_count);

// Appends a string as the format has it: its 64-bit length, then its bytes.
void AppendGgufString(std::string& out, const std::string& text);

}  // namespace baton
