// Reads the keys "<architecture>.<name>" of a model file, and checks each value.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "common/gguf/gguf_file.h"

namespace baton {

// Errors are INVALID_ARGUMENT, which names file and key, and NOT_FOUND for a key that is missing.
class ModelKeys {
 public:
  // Borrows the file.
  ModelKeys(const GgufFile& file, absl::string_view architecture);

  const GgufFile& file() const { return file_; }
  bool Has(absl::string_view name) const;

  // The value of a key that is a count in [1, max]. Converters of models whose layers differ write
  // an array with a value for each layer: it counts as one number if all its values are equal, else
  // it is UNIMPLEMENTED.
  absl::StatusOr<int> Count(absl::string_view name, int max) const;
  absl::StatusOr<int> CountOr(absl::string_view name, int max, int otherwise) const;
  // Like Count, but a key that is missing is 0, and 0 is a count.
  absl::StatusOr<int> CountOrNone(absl::string_view name, int max) const;

  // The value of a key that is a positive, finite number.
  absl::StatusOr<double> Number(absl::string_view name) const;
  absl::StatusOr<double> NumberOr(absl::string_view name, double otherwise) const;
  // Like NumberOr, but 0 means `otherwise` too.
  absl::StatusOr<double> NumberUnlessNone(absl::string_view name, double otherwise) const;

  absl::StatusOr<std::string> StringOr(absl::string_view name, const char* otherwise) const;

  absl::Status Invalid(absl::string_view name, absl::string_view why) const;
  // UNIMPLEMENTED.
  absl::Status Unsupported(absl::string_view name, absl::string_view why) const;
  std::string Key(absl::string_view name) const;
  // Whether the value means that there is none: 0 or false, of each layer if it is an array.
  bool IsNone(absl::string_view name) const;

 private:
  // The value of a key that is a count, or an array as above.
  absl::StatusOr<uint64_t> Uint(absl::string_view name) const;

  const GgufFile& file_;
  const std::string prefix_;
};

}  // namespace baton
