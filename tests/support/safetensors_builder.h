// A builder of safetensors files in memory, well-formed or with a chosen header.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace baton {

// A file of this header and this data.
inline std::string SafetensorsFile(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  char raw[sizeof(length)];
  std::memcpy(raw, &length, sizeof(length));
  return std::string(raw, sizeof(raw)) + header + data;
}

struct SafetensorsBuilder {
  // Adds a tensor; its shape is outermost first.
  SafetensorsBuilder& Add(const std::string& name, const std::string& dtype,
                          const std::vector<uint64_t>& shape, const std::string& bytes) {
    entries.push_back(absl::StrCat("\"", name, "\":{\"dtype\":\"", dtype, "\",\"shape\":[",
                                   absl::StrJoin(shape, ","), "],\"data_offsets\":[", data.size(),
                                   ",", data.size() + bytes.size(), "]}"));
    data += bytes;
    return *this;
  }
  std::string Build() const {
    return SafetensorsFile(absl::StrCat("{", absl::StrJoin(entries, ","), "}"), data);
  }

  std::vector<std::string> entries;
  std::string data;
};

// The bytes of floats.
inline std::string FloatBytes(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

}  // namespace baton
