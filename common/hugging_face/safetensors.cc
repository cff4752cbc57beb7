#include "common/hugging_face/safetensors.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/base/checked_math.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/hugging_face/json_text.h"

namespace baton {
namespace {

constexpr size_t kMaxHeaderTensors = 65536;
constexpr size_t kMaxNameBytes = 256;
constexpr size_t kMaxDimensions = 4;
constexpr JsonFileLimits kHeaderLimits = {.bytes = size_t{32} << 20, .values = 1 << 20, .depth = 4};
constexpr char kFetchAgain[] = "; the file is cut off or damaged, fetch it again";

struct DtypeFacts {
  const char* name;
  SafeType type;
  uint64_t bytes;
};
constexpr DtypeFacts kDtypes[] = {
    {"BF16", SafeType::kBf16, 2},     {"F16", SafeType::kF16, 2},
    {"F32", SafeType::kF32, 4},       {"F8_E4M3", SafeType::kF8E4m3, 1},
    {"F64", SafeType::kOther, 8},     {"F8_E5M2", SafeType::kOther, 1},
    {"F8_E8M0", SafeType::kOther, 1}, {"I64", SafeType::kOther, 8},
    {"I32", SafeType::kOther, 4},     {"I16", SafeType::kOther, 2},
    {"I8", SafeType::kOther, 1},      {"U64", SafeType::kOther, 8},
    {"U32", SafeType::kOther, 4},     {"U16", SafeType::kOther, 2},
    {"U8", SafeType::kU8, 1},         {"BOOL", SafeType::kOther, 1}};

const DtypeFacts* FindDtype(const std::string& name) {
  for (const DtypeFacts& facts : kDtypes) {
    if (name == facts.name) return &facts;
  }
  return nullptr;
}

// Reads a whole number; false if it is none that JSON gives exactly.
bool ReadWhole(const nlohmann::json& value, uint64_t* number) {
  if (!value.is_number_unsigned()) return false;
  *number = value.get<uint64_t>();
  return true;
}

// Reads one entry of the header. `data` is what follows the header.
absl::StatusOr<SafeTensor> ReadTensor(const std::string& tensor_name, const nlohmann::json& entry,
                                      absl::Span<const uint8_t> data, const std::string& name) {
  const auto error = [&](const auto&... what) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": tensor '", LogSafe(tensor_name), "' ", what..., kFetchAgain));
  };
  if (tensor_name.empty() || tensor_name.size() > kMaxNameBytes) {
    return error("has a name of ", tensor_name.size(), " bytes, not 1 to ", kMaxNameBytes);
  }
  if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string() ||
      !entry.contains("shape") || !entry["shape"].is_array() || !entry.contains("data_offsets") ||
      !entry["data_offsets"].is_array()) {
    return error("has no dtype, shape or data_offsets");
  }
  SafeTensor tensor;
  tensor.name = tensor_name;
  tensor.dtype = entry["dtype"].get<std::string>();
  const DtypeFacts* dtype = FindDtype(tensor.dtype);
  if (dtype == nullptr) return error("has dtype '", LogSafe(tensor.dtype), "', which is not known");
  tensor.type = dtype->type;
  if (entry["shape"].size() > kMaxDimensions) {
    return error("has ", entry["shape"].size(), " dimensions, more than ", kMaxDimensions);
  }
  uint64_t size = dtype->bytes;
  for (const nlohmann::json& dimension : entry["shape"]) {
    uint64_t length = 0;
    if (!ReadWhole(dimension, &length) || length == 0 || !CheckedMultiply(size, length, &size)) {
      return error("must have a shape of whole numbers above 0 whose product fits into 64 bits");
    }
    tensor.shape.push_back(length);
  }
  const nlohmann::json& offsets = entry["data_offsets"];
  uint64_t begin = 0;
  uint64_t end = 0;
  if (offsets.size() != 2 || !ReadWhole(offsets[0], &begin) || !ReadWhole(offsets[1], &end) ||
      begin > end || end > data.size()) {
    return error("has data_offsets outside the ", data.size(), " bytes of data");
  }
  if (end - begin != size) {
    return error("has ", end - begin, " bytes, but its dtype and shape require ", size);
  }
  tensor.data = data.subspan(begin, size);
  return tensor;
}

// Tensors must fill the data, so that none overlaps another and no byte is hidden.
absl::Status CheckTensorsFill(const std::vector<SafeTensor>& tensors,
                              absl::Span<const uint8_t> data, const std::string& name) {
  std::vector<const SafeTensor*> by_place;
  by_place.reserve(tensors.size());
  for (const SafeTensor& tensor : tensors) by_place.push_back(&tensor);
  std::sort(by_place.begin(), by_place.end(), [](const SafeTensor* a, const SafeTensor* b) {
    return a->data.data() < b->data.data();
  });
  const uint8_t* end = data.data();
  for (const SafeTensor* tensor : by_place) {
    if (tensor->data.data() != end) {
      return absl::InvalidArgumentError(absl::StrCat(
          name, ": tensor '", LogSafe(tensor->name), "' ",
          tensor->data.data() < end ? "overlaps the one before it" : "begins after a gap",
          kFetchAgain));
    }
    end = tensor->data.data() + tensor->data.size();
  }
  if (end == data.data() + data.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": has bytes after its last tensor", kFetchAgain));
}

}  // namespace

uint64_t SafeTypeBytes(SafeType type) {
  if (type == SafeType::kF8E4m3 || type == SafeType::kU8) return 1;
  return type == SafeType::kF32 ? 4 : 2;
}

uint64_t SafeTensor::elements() const {
  uint64_t elements = 1;
  for (const uint64_t length : shape) elements *= length;
  return elements;
}

absl::StatusOr<std::vector<SafeTensor>> ParseSafetensors(absl::Span<const uint8_t> bytes,
                                                         const std::string& name) {
  uint64_t header_bytes = 0;
  if (bytes.size() < sizeof(header_bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": is too short to hold the length of its header", kFetchAgain));
  }
  std::memcpy(&header_bytes, bytes.data(), sizeof(header_bytes));
  bytes.remove_prefix(sizeof(header_bytes));
  if (header_bytes > bytes.size() || header_bytes > kHeaderLimits.bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": states a header length of ", header_bytes,
        " bytes, which is more than the rest of the file or the limit of ", kHeaderLimits.bytes,
        "; it is not a safetensors file, or it is cut off; fetch it again"));
  }
  const absl::string_view text(reinterpret_cast<const char*>(bytes.data()), header_bytes);
  BATON_ASSIGN_OR_RETURN(const nlohmann::json header, ParseJsonObject(text, name, kHeaderLimits));
  if (header.size() > kMaxHeaderTensors) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": has more than ", kMaxHeaderTensors, " tensors", kFetchAgain));
  }
  const absl::Span<const uint8_t> data = bytes.subspan(header_bytes);
  std::vector<SafeTensor> tensors;
  for (const auto& [tensor_name, entry] : header.items()) {
    if (tensor_name == "__metadata__") continue;
    BATON_ASSIGN_OR_RETURN(SafeTensor tensor, ReadTensor(tensor_name, entry, data, name));
    tensors.push_back(std::move(tensor));
  }
  BATON_RETURN_IF_ERROR(CheckTensorsFill(tensors, data, name));
  return tensors;
}

}  // namespace baton
