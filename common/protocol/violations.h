// Violations of a request's fields, as they are found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "common/rpc/status.h"

namespace baton {

// A collector of violations in the fields below one path.
class Violations {
 public:
  explicit Violations(absl::string_view path) : path_(path) {}

  void Add(absl::string_view field, std::string description) {
    const std::string name = path_.empty() ? std::string(field) : absl::StrCat(path_, ".", field);
    list_.push_back({name, std::move(description)});
  }
  // `good` must be a comparison that is true for good values only, so that NaN fails it.
  void Require(bool good, absl::string_view field, absl::string_view rule, double value) {
    if (!good) Add(field, absl::StrCat("must be ", rule, ", is ", value));
  }
  void AtMost(size_t count, size_t max, absl::string_view field, absl::string_view unit) {
    if (count > max)
      Add(field, absl::StrCat("has ", count, " ", unit, ", at most ", max, " are allowed"));
  }
  void Unsupported(bool set, absl::string_view field) {
    if (set) Add(field, "is not supported; leave it out");
  }
  void TokenId(uint32_t id, uint32_t vocab_size, absl::string_view field) {
    if (vocab_size > 0 && id >= vocab_size) {
      Add(field, absl::StrCat("token id ", id, " is outside the vocabulary of ", vocab_size));
    }
  }
  std::vector<FieldViolation> Take() { return std::move(list_); }

 private:
  const std::string path_;
  std::vector<FieldViolation> list_;
};

}  // namespace baton
