#include "common/gguf/gguf_contents.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/base/checked_math.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/gguf/byte_reader.h"

namespace baton {
namespace {

constexpr uint64_t kMaxKeys = 65536;
constexpr uint64_t kMaxKeyBytes = 65535;
constexpr uint64_t kMaxTensorNameBytes = 64;
constexpr uint32_t kMaxDimensions = 4;
constexpr uint64_t kMinAlignment = 8;
constexpr uint64_t kMaxAlignment = 4096;
constexpr uint64_t kDefaultAlignment = 32;
constexpr char kFetchAgain[] = "the file is cut off or damaged, fetch it again";
constexpr char kConvertAgain[] = "convert the model again with a current converter";

// A tensor's entry in the list. `offset` counts bytes from the start of the data section.
struct TensorInfo {
  absl::string_view name;
  GgmlType type;
  std::vector<uint64_t> dims;
  uint64_t offset;
  uint64_t size;
};

class Parser {
 public:
  Parser(absl::Span<const uint8_t> bytes, const std::string& name)
      : bytes_(bytes), reader_(bytes), name_(name) {}

  absl::StatusOr<GgufContents> Parse(GgufFile::Part part) {
    BATON_RETURN_IF_ERROR(ParseHeader());
    for (uint64_t i = 0; i < key_count_; ++i) BATON_RETURN_IF_ERROR(ParseKeyValue(i));
    if (part == GgufFile::Part::kTokenizer) {
      LookForEmbedding();
      return std::move(contents_);
    }
    BATON_RETURN_IF_ERROR(ParseTensors());
    return std::move(contents_);
  }

 private:
  absl::Status Error(absl::string_view what, absl::string_view remedy) const {
    return absl::InvalidArgumentError(absl::StrCat(name_, ": ", what, "; ", remedy));
  }

  absl::Status ParseHeader();
  absl::Status CheckVersion(uint32_t version) const;
  absl::Status ParseKeyValue(uint64_t index);
  absl::Status ParseValue(absl::string_view key, GgufValue* value);
  absl::Status SkipStrings(absl::string_view key, uint64_t count);
  absl::Status CheckBools(absl::string_view key, const GgufValue& value) const;
  absl::StatusOr<uint64_t> Alignment() const;
  absl::Status ParseTensors();
  absl::Status ParseTensorInfo(uint64_t index, TensorInfo* info);
  // Reads the list of tensors up to the embedding. If the list is cut off or damaged, nothing is
  // known of the embedding.
  void LookForEmbedding();
  absl::Status SizeTensor(TensorInfo* info) const;
  absl::Status PlaceTensors(std::vector<TensorInfo> infos, uint64_t alignment);
  absl::Status CheckNoOverlap(const std::vector<TensorInfo>& infos) const;

  const absl::Span<const uint8_t> bytes_;
  ByteReader reader_;
  const std::string& name_;
  uint64_t tensor_count_ = 0;
  uint64_t key_count_ = 0;
  GgufContents contents_;
};

absl::Status Parser::CheckVersion(uint32_t version) const {
  if (version == 2 || version == 3) return absl::OkStatus();
  if (version == 1) return Error("GGUF version 1 is not supported (2 and 3 are)", kConvertAgain);
  // The first versions of either byte order fit in 16 bits, so a zero low half means the other
  // order.
  if (version != 0 && (version & 0xffffu) == 0) {
    return Error("is a big-endian GGUF file", "use the little-endian file of this model");
  }
  return Error(absl::StrCat("GGUF version ", version, " is not supported (2 and 3 are)"),
               kConvertAgain);
}

absl::Status Parser::ParseHeader() {
  const size_t magic_bytes = std::min<size_t>(bytes_.size(), 4);
  if (magic_bytes == 0) return Error("is empty", "fetch the file again");
  if (std::memcmp(bytes_.data(), "GGUF", magic_bytes) != 0) {
    return Error("is not a GGUF file (it does not begin with 'GGUF')",
                 "give the path of a .gguf model file");
  }
  uint32_t version = 0;
  const bool versioned = reader_.Skip(4) && reader_.Read(&version);
  if (versioned) BATON_RETURN_IF_ERROR(CheckVersion(version));
  if (!versioned || !reader_.Read(&tensor_count_) || !reader_.Read(&key_count_)) {
    return Error("ends inside its header", kFetchAgain);
  }
  if (key_count_ > kMaxKeys) {
    return Error(
        absl::StrCat("gives a count of ", key_count_, " metadata keys, more than ", kMaxKeys),
        kFetchAgain);
  }
  return absl::OkStatus();
}

absl::Status Parser::ParseKeyValue(uint64_t index) {
  absl::string_view key;
  if (!reader_.ReadString(&key)) {
    return Error(absl::StrCat("ends inside metadata key ", index + 1, " of ", key_count_),
                 kFetchAgain);
  }
  if (key.empty() || key.size() > kMaxKeyBytes) {
    return Error(absl::StrCat("metadata key ", index + 1, " is ", key.size(),
                              " bytes long, not 1 to ", kMaxKeyBytes),
                 kFetchAgain);
  }
  GgufValue value{};
  BATON_RETURN_IF_ERROR(ParseValue(key, &value));
  if (!contents_.metadata.emplace(key, value).second) {
    return Error(absl::StrCat("metadata key '", LogSafe(key), "' appears twice"), kConvertAgain);
  }
  return absl::OkStatus();
}

absl::Status Parser::ParseValue(absl::string_view key, GgufValue* value) {
  const auto error = [&](absl::string_view what) {
    return Error(absl::StrCat("metadata key '", LogSafe(key), "' ", what), kFetchAgain);
  };
  uint32_t type = 0;
  if (!reader_.Read(&type)) return error("has no value: the file ends");
  value->is_array = type == static_cast<uint32_t>(GgufValueType::kArray);
  value->count = 1;
  if (value->is_array && (!reader_.Read(&type) || !reader_.Read(&value->count))) {
    return error("is an array without elements: the file ends");
  }
  if (value->is_array && type == static_cast<uint32_t>(GgufValueType::kArray)) {
    return error("is an array of arrays, which is not supported");
  }
  const std::optional<GgufValueType> known = ToGgufValueType(type);
  if (!known.has_value()) return error(absl::StrCat("has unknown type ", type));
  value->type = *known;

  const size_t start = reader_.position();
  uint64_t bytes = 0;
  if (value->type == GgufValueType::kString) {
    BATON_RETURN_IF_ERROR(SkipStrings(key, value->count));
  } else if (!CheckedMultiply<uint64_t>(value->count, GgufValueSize(value->type), &bytes) ||
             !reader_.Skip(bytes)) {
    return error(absl::StrCat("(", GgufValueTypeName(*value), ") has a count of ", value->count,
                              " elements, more than the file contains"));
  }
  value->payload = reader_.Since(start);
  return CheckBools(key, *value);
}

absl::Status Parser::SkipStrings(absl::string_view key, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    absl::string_view text;
    if (!reader_.ReadString(&text)) {
      return Error(absl::StrCat("metadata key '", LogSafe(key), "': the file ends inside string ",
                                i + 1, " of ", count),
                   kFetchAgain);
    }
  }
  return absl::OkStatus();
}

absl::Status Parser::CheckBools(absl::string_view key, const GgufValue& value) const {
  if (value.type != GgufValueType::kBool) return absl::OkStatus();
  for (const uint8_t byte : value.payload) {
    if (byte > 1) {
      return Error(absl::StrCat("metadata key '", LogSafe(key), "' is a bool of value ", byte),
                   kFetchAgain);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> Parser::Alignment() const {
  const auto found = contents_.metadata.find("general.alignment");
  if (found == contents_.metadata.end()) return kDefaultAlignment;
  const GgufValue& value = found->second;
  if (value.is_array || !IsInteger(value.type)) {
    return Error(
        absl::StrCat("general.alignment is of type ", GgufValueTypeName(value), ", not an integer"),
        kConvertAgain);
  }
  const absl::int128 alignment = IntegerAt(value, 0);
  if (alignment < kMinAlignment || alignment > kMaxAlignment ||
      (alignment & (alignment - 1)) != 0) {
    return Error(absl::StrCat("general.alignment is not a power of two from ", kMinAlignment,
                              " to ", kMaxAlignment),
                 kConvertAgain);
  }
  return static_cast<uint64_t>(alignment);
}

absl::Status Parser::ParseTensors() {
  BATON_ASSIGN_OR_RETURN(const uint64_t alignment, Alignment());
  if (tensor_count_ > kMaxGgufTensors) {
    return Error(
        absl::StrCat("gives a count of ", tensor_count_, " tensors, more than ", kMaxGgufTensors),
        kFetchAgain);
  }
  std::vector<TensorInfo> infos;
  for (uint64_t i = 0; i < tensor_count_; ++i) {
    TensorInfo info{};
    BATON_RETURN_IF_ERROR(ParseTensorInfo(i, &info));
    if (!contents_.tensor_index.emplace(info.name, infos.size()).second) {
      return Error(absl::StrCat("tensor '", LogSafe(info.name), "' appears twice"), kConvertAgain);
    }
    if (info.offset % alignment != 0) {
      return Error(absl::StrCat("tensor '", LogSafe(info.name), "' begins at offset ", info.offset,
                                ", not a multiple of the alignment ", alignment),
                   kFetchAgain);
    }
    infos.push_back(std::move(info));
  }
  BATON_RETURN_IF_ERROR(CheckNoOverlap(infos));
  return PlaceTensors(std::move(infos), alignment);
}

absl::Status Parser::ParseTensorInfo(uint64_t index, TensorInfo* info) {
  if (!reader_.ReadString(&info->name)) {
    return Error(absl::StrCat("ends inside the name of tensor ", index + 1, " of ", tensor_count_),
                 kFetchAgain);
  }
  if (info->name.empty() || info->name.size() > kMaxTensorNameBytes) {
    return Error(absl::StrCat("the name of tensor ", index + 1, " is ", info->name.size(),
                              " bytes long, not 1 to ", kMaxTensorNameBytes),
                 kFetchAgain);
  }
  const auto error = [&](absl::string_view what) {
    return Error(absl::StrCat("tensor '", LogSafe(info->name), "' ", what), kFetchAgain);
  };
  uint32_t dimension_count = 0;
  if (!reader_.Read(&dimension_count)) return error("has no dimensions: the file ends");
  if (dimension_count < 1 || dimension_count > kMaxDimensions) {
    return error(absl::StrCat("has ", dimension_count, " dimensions, not 1 to ", kMaxDimensions));
  }
  info->dims.resize(dimension_count);
  for (uint64_t& dim : info->dims) {
    if (!reader_.Read(&dim)) return error("has too few dimensions: the file ends");
    if (dim == 0) return error("has a dimension of 0");
  }
  uint32_t type = 0;
  if (!reader_.Read(&type) || !reader_.Read(&info->offset)) {
    return error("has no type and offset: the file ends");
  }
  info->type = static_cast<GgmlType>(type);
  return SizeTensor(info);
}

void Parser::LookForEmbedding() {
  for (uint64_t i = 0; i < std::min(tensor_count_, kMaxGgufTensors); ++i) {
    TensorInfo info{};
    if (!ParseTensorInfo(i, &info).ok()) return;
    if (info.name != kEmbeddingTensor) continue;
    if (info.dims.size() == 2) contents_.embedding_rows = info.dims[1];
    return;
  }
}

absl::Status Parser::SizeTensor(TensorInfo* info) const {
  const auto error = [&](absl::string_view what, absl::string_view remedy) {
    return Error(absl::StrCat("tensor '", LogSafe(info->name), "' ", what), remedy);
  };
  const std::optional<GgmlBlock> block = GgmlBlockOf(info->type);
  if (!block.has_value()) {
    return error(absl::StrCat("has tensor type number ", static_cast<uint32_t>(info->type),
                              ", which is not known"),
                 "use a model in F32, F16, BF16, Q8_0, Q4_0 or Q4_1");
  }
  if (info->dims[0] % block->elements != 0) {
    return error(absl::StrCat("has rows of ", info->dims[0], " values, not a multiple of ",
                              GgmlTypeName(info->type), "'s block of ", block->elements),
                 kConvertAgain);
  }
  uint64_t size = 0;
  bool fits = CheckedMultiply<uint64_t>(info->dims[0] / block->elements, block->bytes, &size);
  for (size_t i = 1; fits && i < info->dims.size(); ++i) {
    fits = CheckedMultiply(size, info->dims[i], &size);
  }
  if (!fits) return error("has dimensions whose product does not fit in 64 bits", kFetchAgain);
  info->size = size;
  return absl::OkStatus();
}

absl::Status Parser::CheckNoOverlap(const std::vector<TensorInfo>& infos) const {
  std::vector<const TensorInfo*> by_offset;
  by_offset.reserve(infos.size());
  for (const TensorInfo& info : infos) by_offset.push_back(&info);
  std::sort(by_offset.begin(), by_offset.end(),
            [](const TensorInfo* a, const TensorInfo* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < by_offset.size(); ++i) {
    if (by_offset[i]->offset - by_offset[i - 1]->offset < by_offset[i - 1]->size) {
      return Error(absl::StrCat("tensors '", LogSafe(by_offset[i - 1]->name), "' and '",
                                LogSafe(by_offset[i]->name), "' overlap"),
                   kFetchAgain);
    }
  }
  return absl::OkStatus();
}

absl::Status Parser::PlaceTensors(std::vector<TensorInfo> infos, uint64_t alignment) {
  // The sum cannot wrap, because the position is inside the file.
  const uint64_t data_start = (reader_.position() + alignment - 1) / alignment * alignment;
  contents_.tensors.reserve(infos.size());
  for (TensorInfo& info : infos) {
    uint64_t begin = 0;
    uint64_t end = 0;
    if (!CheckedAdd(data_start, info.offset, &begin) || !CheckedAdd(begin, info.size, &end) ||
        end > bytes_.size()) {
      return Error(
          absl::StrCat("tensor '", LogSafe(info.name), "' needs ", info.size, " bytes at offset ",
                       info.offset, " of the data, beyond the end of the file (", bytes_.size(),
                       " bytes)"),
          kFetchAgain);
    }
    contents_.tensors.push_back({.name = std::string(info.name),
                                 .type = info.type,
                                 .dims = std::move(info.dims),
                                 .data = bytes_.subspan(begin, info.size)});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GgufContents> ParseGguf(absl::Span<const uint8_t> bytes, const std::string& name,
                                       GgufFile::Part part) {
  return Parser(bytes, name).Parse(part);
}

}  // namespace baton
