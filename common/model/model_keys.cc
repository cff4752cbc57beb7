#include "common/model/model_keys.h"

#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"

namespace baton {

ModelKeys::ModelKeys(const GgufFile& file, absl::string_view architecture)
    : file_(file), prefix_(absl::StrCat(architecture, ".")) {}

std::string ModelKeys::Key(absl::string_view name) const { return absl::StrCat(prefix_, name); }

bool ModelKeys::Has(absl::string_view name) const { return file_.Has(Key(name)); }

absl::StatusOr<int> ModelKeys::Count(absl::string_view name, int max) const {
  BATON_ASSIGN_OR_RETURN(const uint64_t value, file_.GetUint(Key(name)));
  if (value < 1 || value > static_cast<uint64_t>(max)) {
    return Invalid(name, absl::StrCat("is ", value, "; must be 1 to ", max));
  }
  return static_cast<int>(value);
}

absl::StatusOr<int> ModelKeys::CountOr(absl::string_view name, int max, int otherwise) const {
  return Has(name) ? Count(name, max) : otherwise;
}

absl::StatusOr<int> ModelKeys::CountOrNone(absl::string_view name, int max) const {
  if (!Has(name)) return 0;
  BATON_ASSIGN_OR_RETURN(const uint64_t value, file_.GetUint(Key(name)));
  return value == 0 ? 0 : Count(name, max);
}

absl::StatusOr<double> ModelKeys::Number(absl::string_view name) const {
  BATON_ASSIGN_OR_RETURN(const double value, file_.GetFloat(Key(name)));
  if (!(value > 0 && value < 1e30)) {
    return Invalid(name, absl::StrCat("is ", value, "; must be a positive number"));
  }
  return value;
}

absl::StatusOr<double> ModelKeys::NumberOr(absl::string_view name, double otherwise) const {
  return Has(name) ? Number(name) : otherwise;
}

absl::StatusOr<double> ModelKeys::NumberUnlessNone(absl::string_view name, double otherwise) const {
  if (!Has(name)) return otherwise;
  BATON_ASSIGN_OR_RETURN(const double value, file_.GetFloat(Key(name)));
  return value == 0 ? otherwise : Number(name);
}

absl::StatusOr<std::string> ModelKeys::StringOr(absl::string_view name,
                                                const char* otherwise) const {
  if (!Has(name)) return std::string(otherwise);
  BATON_ASSIGN_OR_RETURN(const absl::string_view value, file_.GetString(Key(name)));
  return std::string(value);
}

absl::Status ModelKeys::Invalid(absl::string_view name, absl::string_view why) const {
  return absl::InvalidArgumentError(absl::StrCat(file_.path(), ": ", Key(name), " ", why));
}

absl::Status ModelKeys::Unsupported(absl::string_view name, absl::string_view why) const {
  return absl::UnimplementedError(absl::StrCat(file_.path(), ": ", Key(name), " ", why));
}

}  // namespace baton
