// The inside of a GgufFile. Internal to common/gguf; everybody else uses gguf_file.h.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "common/gguf/gguf_contents.h"
#include "common/gguf/gguf_file.h"
#include "common/gguf/gguf_value.h"
#include "common/gguf/model_files.h"
#include "common/gguf/model_parts.h"

namespace baton {

struct GgufFile::Rep {
  std::string path;
  ModelFiles files;
  std::string metadata;             // the bytes of an assembled model's keys
  GgufContents contents;            // points into the files or `metadata`
  std::vector<TensorMaker> makers;  // one for each of contents.tensors

  // The value of `key`. It must be an array or not, as `is_array` says, and of a type that `accept`
  // takes. `wanted` names the type that is expected in errors.
  absl::StatusOr<const GgufValue*> Find(absl::string_view key, bool is_array,
                                        bool (*accept)(GgufValueType),
                                        absl::string_view wanted) const;
  absl::Status WrongValue(absl::string_view key, absl::string_view what) const;
  // SHA-256 over the keys that begin with `prefix`, and their values.
  std::string DigestOfKeys(absl::string_view prefix) const;
};

}  // namespace baton
