#include "common/gguf/gguf_file.h"

#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "common/base/hash.h"
#include "common/base/status_macros.h"
#include "common/gguf/byte_reader.h"
#include "common/gguf/gguf_contents.h"
#include "common/gguf/gguf_rep.h"
#include "common/gguf/gguf_split.h"
#include "common/gguf/model_parts.h"

namespace baton {
namespace {

absl::string_view AsText(absl::Span<const uint8_t> bytes) {
  return absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

// Takes over how many rows the embedding has if part `number` of the split model has it.
void LookForEmbedding(absl::Span<const uint8_t> bytes, const std::string& path,
                      const GgufSplit& split, uint64_t number, GgufContents& model) {
  if (model.embedding_rows.has_value()) return;
  const absl::StatusOr<GgufContents> part = ParseGguf(bytes, path, GgufFile::Part::kTokenizer);
  if (!part.ok() || !CheckGgufPart(*part, path, split, number).ok()) return;
  model.embedding_rows = part->embedding_rows;
}

}  // namespace

uint64_t GgufTensor::size_bytes() const {
  const GgmlBlock block = *GgmlBlockOf(type);
  uint64_t bytes = dims[0] / block.elements * block.bytes;
  for (size_t i = 1; i < dims.size(); ++i) bytes *= dims[i];
  return bytes;
}

HeldTensor::HeldTensor(HeldTensor&& other) noexcept
    : file_(std::exchange(other.file_, nullptr)),
      tensor_(std::move(other.tensor_)),
      made_(std::move(other.made_)) {}

HeldTensor::~HeldTensor() {
  if (file_ != nullptr && made_ == nullptr) file_->Release(tensor_);
}

absl::StatusOr<const GgufValue*> GgufFile::Rep::Find(absl::string_view key, bool is_array,
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

absl::Status GgufFile::Rep::WrongValue(absl::string_view key, absl::string_view what) const {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": metadata key '", key, "' ", what,
                   "; convert the model again with a current converter"));
}

GgufFile::GgufFile(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
GgufFile::GgufFile(GgufFile&&) noexcept = default;
GgufFile& GgufFile::operator=(GgufFile&&) noexcept = default;
GgufFile::~GgufFile() = default;

absl::StatusOr<GgufFile> GgufFile::Open(const std::string& path, Part part) {
  auto rep = std::make_unique<Rep>();
  rep->path = path;
  const bool all = part != Part::kTokenizer;
  BATON_ASSIGN_OR_RETURN(const absl::Span<const uint8_t> bytes,
                         rep->files.Open(path, part == Part::kAll));
  BATON_ASSIGN_OR_RETURN(rep->contents, ParseGguf(bytes, path, part));
  BATON_ASSIGN_OR_RETURN(const std::optional<GgufSplit> split, ReadGgufSplit(rep->contents, path));
  if (split.has_value()) {
    BATON_RETURN_IF_ERROR(OpenParts(*split, part, *rep));
    if (all && rep->contents.tensors.size() != split->tensors) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": split.tensors.count is ", split->tensors, ", but the parts have ",
          rep->contents.tensors.size(), " tensors; fetch all parts of one model again"));
    }
  }
  rep->makers.resize(rep->contents.tensors.size());
  return GgufFile(std::move(rep));
}

absl::Status GgufFile::OpenParts(const GgufSplit& split, Part part, Rep& rep) {
  BATON_ASSIGN_OR_RETURN(const std::string first, GgufPartPath(rep.path, split, 0));
  if (split.number != 0) {
    return absl::InvalidArgumentError(absl::StrCat(rep.path, ": is part ", split.number + 1, " of ",
                                                   split.count, "; give the first one, ", first));
  }
  for (uint64_t number = 1; number < split.count; ++number) {
    BATON_ASSIGN_OR_RETURN(const std::string path, GgufPartPath(rep.path, split, number));
    const absl::StatusOr<absl::Span<const uint8_t>> bytes =
        rep.files.Open(path, part == Part::kAll);
    // The tokenizer is in the first part; the others are there for the digest, and one of them may
    // have the embedding.
    if (part == Part::kTokenizer) {
      if (bytes.ok()) LookForEmbedding(*bytes, path, split, number, rep.contents);
      continue;
    }
    if (!bytes.ok()) return bytes.status();
    BATON_ASSIGN_OR_RETURN(GgufContents contents, ParseGguf(*bytes, path, part));
    BATON_RETURN_IF_ERROR(CheckGgufPart(contents, path, split, number));
    BATON_RETURN_IF_ERROR(AddGgufPart(std::move(contents), path, rep.contents));
  }
  return absl::OkStatus();
}

absl::StatusOr<GgufFile> GgufFile::Parse(std::string bytes, const std::string& name, Part part) {
  auto rep = std::make_unique<Rep>();
  rep->path = name;
  const absl::Span<const uint8_t> data = rep->files.Add(name, std::move(bytes));
  BATON_ASSIGN_OR_RETURN(rep->contents, ParseGguf(data, name, part));
  if (part != Part::kTokenizer) {
    BATON_ASSIGN_OR_RETURN(const std::optional<GgufSplit> split,
                           ReadGgufSplit(rep->contents, name));
    if (split.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat(name,
                       ": is one part of a model split into several files, and the other parts are "
                       "missing; merge the parts with llama-gguf-split --merge"));
    }
  }
  rep->makers.resize(rep->contents.tensors.size());
  return GgufFile(std::move(rep));
}

absl::StatusOr<GgufFile> GgufFile::Assemble(ModelParts parts) {
  auto rep = std::make_unique<Rep>();
  rep->path = std::move(parts.path);
  rep->files = std::move(parts.files);
  rep->metadata = GgufHeader(parts.metadata, /*tensor_count=*/0);
  BATON_ASSIGN_OR_RETURN(
      rep->contents,
      ParseGguf(absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(rep->metadata.data()),
                                    rep->metadata.size()),
                rep->path, Part::kAll));
  std::vector<GgufTensor>& tensors = rep->contents.tensors;
  tensors.reserve(parts.tensors.size());  // the index points to the names
  for (ModelTensor& tensor : parts.tensors) {
    tensors.push_back({.name = std::move(tensor.name),
                       .type = tensor.type,
                       .dims = std::move(tensor.dims),
                       .data = tensor.data});
    BATON_CHECK(rep->contents.tensor_index.emplace(tensors.back().name, tensors.size() - 1).second,
                "a name for each tensor");
    BATON_CHECK(
        (tensor.maker.make == nullptr) == (tensor.data.size() == tensors.back().size_bytes()),
        "bytes or a maker");
    rep->makers.push_back(std::move(tensor.maker));
  }
  return GgufFile(std::move(rep));
}

const std::string& GgufFile::path() const { return rep_->path; }
uint64_t GgufFile::size_bytes() const { return rep_->files.size_bytes(); }
bool GgufFile::Has(absl::string_view key) const { return rep_->contents.metadata.contains(key); }

absl::StatusOr<uint64_t> GgufFile::GetUint(absl::string_view key) const {
  BATON_ASSIGN_OR_RETURN(const GgufValue* value, rep_->Find(key, false, IsInteger, "an integer"));
  const absl::int128 number = IntegerAt(*value, 0);
  if (number < 0) return rep_->WrongValue(key, "is negative");
  return static_cast<uint64_t>(number);
}

absl::StatusOr<int64_t> GgufFile::GetInt(absl::string_view key) const {
  BATON_ASSIGN_OR_RETURN(const GgufValue* value, rep_->Find(key, false, IsInteger, "an integer"));
  const absl::int128 number = IntegerAt(*value, 0);
  if (number > INT64_MAX) return rep_->WrongValue(key, "is above 2^63 - 1");
  return static_cast<int64_t>(number);
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

std::optional<uint64_t> GgufFile::VocabularyRows() const {
  if (const GgufTensor* embedding = FindTensor(kEmbeddingTensor); embedding != nullptr) {
    if (embedding->dims.size() == 2) return embedding->dims[1];
    return std::nullopt;
  }
  if (rep_->contents.embedding_rows.has_value()) return rep_->contents.embedding_rows;
  const absl::StatusOr<absl::string_view> architecture = GetString("general.architecture");
  if (!architecture.ok()) return std::nullopt;
  const absl::StatusOr<uint64_t> size = GetUint(absl::StrCat(*architecture, ".vocab_size"));
  return size.ok() ? std::optional(*size) : std::nullopt;
}

HeldTensor GgufFile::Hold(const GgufTensor& tensor) const {
  const auto index = static_cast<size_t>(&tensor - rep_->contents.tensors.data());
  BATON_CHECK(index < rep_->makers.size(), "a tensor of this file");
  const TensorMaker& maker = rep_->makers[index];
  HeldTensor held(*this, tensor);
  if (maker.make == nullptr) return held;
  const size_t bytes = tensor.size_bytes();
  held.made_ = std::make_unique_for_overwrite<uint8_t[]>(bytes);
  const absl::Span<uint8_t> out(held.made_.get(), bytes);
  maker.make(out);
  for (const absl::Span<const uint8_t> source : maker.sources) rep_->files.Release(source);
  held.tensor_.data = out;
  return held;
}

void GgufFile::Release(const GgufTensor& tensor) const { rep_->files.Release(tensor.data); }

std::string GgufFile::Digest(const std::function<void(double)>& progress) const {
  return rep_->files.Digest(progress);
}

std::string GgufFile::PiecewiseDigest(RunAll run,
                                      const std::function<void(double)>& progress) const {
  return rep_->files.PiecewiseDigest(run, progress);
}

std::string GgufFile::SampleDigest() const { return rep_->files.SampleDigest(); }

std::string GgufFile::TokenizerDigest() const { return rep_->DigestOfKeys("tokenizer."); }

std::string GgufFile::MetadataDigest() const {
  const absl::StatusOr<absl::string_view> architecture = GetString("general.architecture");
  return architecture.ok() ? rep_->DigestOfKeys(absl::StrCat(*architecture, ".")) : "";
}

std::string GgufFile::Rep::DigestOfKeys(absl::string_view prefix) const {
  Sha256 hash;
  // The keys are hashed in ascending order, whatever their order in the file. Each field of
  // variable length follows its length.
  for (const auto& [key, value] : contents.metadata) {
    if (!absl::StartsWith(key, prefix)) continue;
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
