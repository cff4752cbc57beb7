#include "common/model/model_keys.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"

namespace baton {

ModelKeys::ModelKeys(const GgufFile& file, absl::string_view architecture)
    : file_(file), prefix_(absl::StrCat(architecture, ".")) {}

std::string ModelKeys::Key(absl::string_view name) const { return absl::StrCat(prefix_, name); }

bool ModelKeys::Has(absl::string_view name) const { return file_.Has(Key(name)); }

absl::StatusOr<uint64_t> ModelKeys::Uint(absl::string_view name) const {
  const absl::StatusOr<std::vector<int64_t>> values = file_.GetInts(Key(name));
  if (!values.ok()) return file_.GetUint(Key(name));
  BATON_ASSIGN_OR_RETURN(const uint64_t layers, file_.GetUint(Key("block_count")));
  if (values->empty() || values->size() != layers) {
    return Invalid(name,
                   absl::StrCat("has ", values->size(), " values; there are ", layers, " layers"));
  }
  const int64_t first = values->front();
  const auto other = std::find_if(values->begin(), values->end(),
                                  [first](int64_t value) { return value != first; });
  if (other != values->end()) {
    return Unsupported(
        name, absl::StrCat("differs among layers: it is ", first, " in layer 0 and ", *other,
                           " in layer ", other - values->begin(),
                           "; served are models whose layers are of one size, so choose another "
                           "model: to convert this one again changes nothing"));
  }
  if (first < 0) return Invalid(name, absl::StrCat("is ", first, " in each layer; it is a count"));
  return static_cast<uint64_t>(first);
}

bool ModelKeys::IsNone(absl::string_view name) const {
  const absl::StatusOr<uint64_t> count = Uint(name);
  const absl::StatusOr<double> number = file_.GetFloat(Key(name));
  const absl::StatusOr<bool> flag = file_.GetBool(Key(name));
  return (count.ok() && *count == 0) || (number.ok() && *number == 0) || (flag.ok() && !*flag);
}

absl::StatusOr<int> ModelKeys::Count(absl::string_view name, int max) const {
  BATON_ASSIGN_OR_RETURN(const uint64_t value, Uint(name));
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
  BATON_ASSIGN_OR_RETURN(const uint64_t value, Uint(name));
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
