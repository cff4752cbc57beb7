#include "common/gguf/gguf_file.h"

#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/gguf/byte_reader.h"
#include "common/gguf/gguf_contents.h"
#include "common/gguf/mapped_file.h"

namespace baton {
namespace {

absl::string_view AsText(absl::Span<const uint8_t> bytes) {
  return absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace

struct GgufFile::Rep {
  std::string path;
  std::optional<MappedFile> map;    // set by Open
  std::string memory;               // the bytes that Parse got
  absl::Span<const uint8_t> bytes;  // the bytes of either
  GgufContents contents;

  // The value of `key`. It must be an array or not, as `is_array` says, and of a type that `accept`
  // takes. `wanted` names the type that is expected in errors.
  absl::StatusOr<const GgufValue*> Find(absl::string_view key, bool is_array,
                                        bool (*accept)(GgufValueType),
                                        absl::string_view wanted) const {
    const auto found = contents.metadata.find(key);
    if (found == contents.metadata.end()) {
      return absl::NotFoundError(
          absl::StrCat(path, ": metadata key '", key,
                       "' is missing; convert the model again with a current converter"));
    }
    const GgufValue& value = found->second;
    if (value.is_array != is_array || !accept(value.type)) {
      return WrongValue(key, absl::StrCat("is of type ", GgufValueTypeName(value), ", not ",
                                          is_array ? "array of " : "", wanted));
    }
    return &value;
  }

  absl::Status WrongValue(absl::string_view key, absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": metadata key '", key, "' ", what,
                     "; convert the model again with a current converter"));
  }
};

GgufFile::GgufFile(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
GgufFile::GgufFile(GgufFile&&) noexcept = default;
GgufFile& GgufFile::operator=(GgufFile&&) noexcept = default;
GgufFile::~GgufFile() = default;

absl::StatusOr<GgufFile> GgufFile::Open(const std::string& path, Part part) {
  BATON_ASSIGN_OR_RETURN(MappedFile map,
                         MappedFile::Open(path, /*will_read_all=*/part == Part::kAll));
  auto rep = std::make_unique<Rep>();
  rep->path = path;
  rep->bytes = map.bytes();
  rep->map.emplace(std::move(map));
  BATON_ASSIGN_OR_RETURN(rep->contents, ParseGguf(rep->bytes, path, part));
  return GgufFile(std::move(rep));
}

absl::StatusOr<GgufFile> GgufFile::Parse(std::string bytes, const std::string& name, Part part) {
  auto rep = std::make_unique<Rep>();
  rep->path = name;
  rep->memory = std::move(bytes);
  rep->bytes =
      absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(rep->memory.data()), rep->memory.size());
  BATON_ASSIGN_OR_RETURN(rep->contents, ParseGguf(rep->bytes, name, part));
  return GgufFile(std::move(rep));
}

const std::string& GgufFile::path() const { return rep_->path; }
uint64_t GgufFile::size_bytes() const { return rep_->bytes.size(); }
bool GgufFile::Has(absl::string_view key) const { return rep_->contents.metadata.contains(key); }

absl::StatusOr<uint64_t> GgufFile::GetUint(absl::string_view key) const {
  BATON_ASSIGN_OR_RETURN(const GgufValue* value, rep_->Find(key, false, IsInteger, "an integer"));
  const absl::int128 number = IntegerAt(*value, 0);
  if (number < 0) return rep_->WrongValue(key, "is negative");
  return static_cast<uint64_t>(number);
}

absl::StatusOr<double> GgufFile::GetFloat(absl::string_view key) const {
  BATON_ASSIGN_OR_RETURN(const GgufValue* value, rep_->Find(key, false, IsFloat, "a float"));
  return FloatAt(*value, 0);
}

absl::StatusOr<bool> GgufFile::GetBool(absl::string_view key) const {
  BATON_ASSIGN_OR_RETURN(
      const GgufValue* value,
      rep_->Find(
          key, false, [](GgufValueType t) { return t == GgufValueType::kBool; }, "a bool"));
  return value->payload[0] != 0;
}

absl::StatusOr<absl::string_view> GgufFile::GetString(absl::string_view key) const {
  BATON_ASSIGN_OR_RETURN(
      const GgufValue* value,
      rep_->Find(
          key, false, [](GgufValueType t) { return t == GgufValueType::kString; }, "a string"));
  return AsText(value->payload.subspan(sizeof(uint64_t)));
}

absl::StatusOr<std::vector<absl::string_view>> GgufFile::GetStrings(absl::string_view key) const {
  BATON_ASSIGN_OR_RETURN(
      const GgufValue* value,
      rep_->Find(
          key, true, [](GgufValueType t) { return t == GgufValueType::kString; }, "strings"));
  std::vector<absl::string_view> strings(value->count);
  ByteReader reader(value->payload);
  for (absl::string_view& text : strings) {
    if (!reader.ReadString(&text)) return rep_->WrongValue(key, "changed while it was read");
  }
  return strings;
}

absl::StatusOr<std::vector<int64_t>> GgufFile::GetInts(absl::string_view key) const {
  BATON_ASSIGN_OR_RETURN(const GgufValue* value, rep_->Find(key, true, IsInteger, "integers"));
  std::vector<int64_t> numbers(value->count);
  for (uint64_t i = 0; i < value->count; ++i) {
    const absl::int128 number = IntegerAt(*value, i);
    if (number > std::numeric_limits<int64_t>::max()) {
      return rep_->WrongValue(key, absl::StrCat("has an integer beyond 2^63 at position ", i));
    }
    numbers[i] = static_cast<int64_t>(number);
  }
  return numbers;
}

absl::StatusOr<std::vector<float>> GgufFile::GetFloats(absl::string_view key) const {
  BATON_ASSIGN_OR_RETURN(const GgufValue* value, rep_->Find(key, true, IsFloat, "floats"));
  std::vector<float> numbers(value->count);
  for (uint64_t i = 0; i < value->count; ++i) {
    numbers[i] = static_cast<float>(FloatAt(*value, i));
  }
  return numbers;
}

absl::StatusOr<std::vector<bool>> GgufFile::GetBools(absl::string_view key) const {
  BATON_ASSIGN_OR_RETURN(
      const GgufValue* value,
      rep_->Find(
          key, true, [](GgufValueType t) { return t == GgufValueType::kBool; }, "bools"));
  return std::vector<bool>(value->payload.begin(), value->payload.end());
}

absl::Span<const GgufTensor> GgufFile::tensors() const { return rep_->contents.tensors; }

const GgufTensor* GgufFile::FindTensor(absl::string_view name) const {
  const auto found = rep_->contents.tensor_index.find(name);
  return found == rep_->contents.tensor_index.end() ? nullptr
                                                    : &rep_->contents.tensors[found->second];
}

void GgufFile::Release(const GgufTensor& tensor) const {
  if (rep_->map.has_value()) rep_->map->Release(tensor.data);
}

std::string GgufFile::Digest(const std::function<void(double)>& progress) const {
  constexpr size_t kPieceBytes = size_t{8} << 20;
  Sha256 hash;
  for (size_t at = 0; at < rep_->bytes.size(); at += kPieceBytes) {
    const absl::Span<const uint8_t> piece = rep_->bytes.subspan(at, kPieceBytes);
    hash.Update(AsText(piece));
    if (rep_->map.has_value()) rep_->map->Release(piece);
    if (progress != nullptr) {
      progress(static_cast<double>(at + piece.size()) / static_cast<double>(rep_->bytes.size()));
    }
  }
  return hash.Finish();
}

std::string GgufFile::TokenizerDigest() const {
  Sha256 hash;
  // The keys are hashed in ascending order, whatever their order in the file. Each field of
  // variable length follows its length.
  for (const auto& [key, value] : rep_->contents.metadata) {
    if (!absl::StartsWith(key, "tokenizer.")) continue;
    hash.UpdateInteger<uint64_t>(key.size());
    hash.Update(key);
    hash.UpdateInteger(static_cast<uint32_t>(value.type));
    hash.UpdateInteger<uint8_t>(value.is_array ? 1 : 0);
    hash.UpdateInteger(value.count);
    hash.UpdateInteger<uint64_t>(value.payload.size());
    hash.Update(AsText(value.payload));
  }
  return hash.Finish();
}

}  // namespace baton
