// Models that are split into several GGUF files, as llama-gguf-split writes them: each part has the
// keys split.no (from 0), split.count and split.tensors.count (of all parts), the first one all
// other metadata too, and the parts are named NAME-00001-of-0000N.gguf. Internal to common/gguf.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/gguf/gguf_contents.h"

namespace baton {

struct GgufSplit {
  static constexpr uint64_t kMaxParts = 512;

  uint64_t number;   // number of this part, from 0
  uint64_t count;    // number of parts, 2 to kMaxParts
  uint64_t tensors;  // number of tensors in all parts together

  bool operator==(const GgufSplit&) const = default;
};

// What a file says of the split that it is a part of; nothing for a model in one file. Errors begin
// with `name`, and are INVALID_ARGUMENT.
absl::StatusOr<std::optional<GgufSplit>> ReadGgufSplit(const GgufContents& contents,
                                                       const std::string& name);

// The path of part `number`, from 0, beside `path`, the path of the part that `split` is of.
// INVALID_ARGUMENT if that is not named as a part is.
absl::StatusOr<std::string> GgufPartPath(const std::string& path, const GgufSplit& split,
                                         uint64_t number);

// INVALID_ARGUMENT unless `part`, read from `path`, is part `number` of the split `first`.
absl::Status CheckGgufPart(const GgufContents& part, const std::string& path,
                           const GgufSplit& first, uint64_t number);

// Adds the tensors of a part that was read from `path` to those of the parts before it.
// INVALID_ARGUMENT if one is there already.
absl::Status AddGgufPart(GgufContents part, const std::string& path, GgufContents& model);

}  // namespace baton
