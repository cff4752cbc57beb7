#include "common/gguf/gguf_split.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/base/log.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

constexpr char kSplitAgain[] = "split the model again with llama-gguf-split";
constexpr char kFetchParts[] = "fetch all parts of one model again";

// The value of a key, which is to be an integer from `min` to `max`.
absl::StatusOr<uint64_t> SplitNumber(const GgufContents& contents, const std::string& name,
                                     absl::string_view key, uint64_t min, uint64_t max) {
  const auto found = contents.metadata.find(key);
  if (found == contents.metadata.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": metadata key '", key, "' is missing; ", kSplitAgain));
  }
  const GgufValue& value = found->second;
  if (value.is_array || !IsInteger(value.type) || IntegerAt(value, 0) < min ||
      IntegerAt(value, 0) > max) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": metadata key '", key,
                                                   "' is not an integer from ", min, " to ", max,
                                                   "; ", kSplitAgain));
  }
  return static_cast<uint64_t>(IntegerAt(value, 0));
}

// How the path of a part ends.
std::string PartEnding(uint64_t number, uint64_t count) {
  return absl::StrFormat("-%05d-of-%05d.gguf", number + 1, count);
}

}  // namespace

absl::StatusOr<std::optional<GgufSplit>> ReadGgufSplit(const GgufContents& contents,
                                                       const std::string& name) {
  if (!contents.metadata.contains("split.count")) return std::nullopt;
  BATON_ASSIGN_OR_RETURN(const uint64_t count,
                         SplitNumber(contents, name, "split.count", 0, GgufSplit::kMaxParts));
  if (count <= 1) return std::nullopt;
  BATON_ASSIGN_OR_RETURN(const uint64_t number,
                         SplitNumber(contents, name, "split.no", 0, count - 1));
  BATON_ASSIGN_OR_RETURN(const uint64_t tensors,
                         SplitNumber(contents, name, "split.tensors.count", 0, kMaxGgufTensors));
  return GgufSplit{.number = number, .count = count, .tensors = tensors};
}

absl::StatusOr<std::string> GgufPartPath(const std::string& path, const GgufSplit& split,
                                         uint64_t number) {
  const std::string ending = PartEnding(split.number, split.count);
  if (!absl::EndsWith(path, ending)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is part ", split.number + 1,
                                                   " of a model split into ", split.count,
                                                   " files, and its name does not end in '", ending,
                                                   "'; rename the parts to their original names, "
                                                   "or merge them with llama-gguf-split --merge"));
  }
  return absl::StrCat(path.substr(0, path.size() - ending.size()), PartEnding(number, split.count));
}

absl::Status CheckGgufPart(const GgufContents& part, const std::string& path,
                           const GgufSplit& first, uint64_t number) {
  BATON_ASSIGN_OR_RETURN(const std::optional<GgufSplit> split, ReadGgufSplit(part, path));
  const GgufSplit expected = {.number = number, .count = first.count, .tensors = first.tensors};
  if (split == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": its metadata keys 'split.*' should describe part ", number + 1, " of ", first.count,
      " with ", first.tensors, " tensors in all parts together, but do not; ", kFetchParts));
}

absl::Status AddGgufPart(GgufContents part, const std::string& path, GgufContents& model) {
  for (GgufTensor& tensor : part.tensors) {
    if (model.tensor_index.contains(tensor.name)) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": tensor '", LogSafe(tensor.name),
                                                     "' is in an earlier part too; ", kFetchParts));
    }
    // The key in the index is the name in the file, which stays where it is.
    model.tensor_index.emplace(part.tensor_index.find(tensor.name)->first, model.tensors.size());
    model.tensors.push_back(std::move(tensor));
  }
  return absl::OkStatus();
}

}  // namespace baton
