#include "common/flags/flag.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "common/base/log.h"

namespace baton {
namespace {

std::vector<std::string> SplitEach(const std::vector<std::string>& texts) {
  std::vector<std::string> values;
  for (const std::string& text : texts) {
    for (absl::string_view part : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
      values.emplace_back(absl::StripAsciiWhitespace(part));
    }
  }
  return values;
}

}  // namespace

Flag::Flag(std::string name, FlagValue value) : name_(std::move(name)), value_(std::move(value)) {}

absl::Status Flag::Take(const FlagTexts& texts) {
  if (texts.values.empty()) return absl::OkStatus();
  std::vector<std::string> values = texts.values;
  if (value_.clear != nullptr) {
    if (value_.split_at_commas) values = SplitEach(values);
    value_.clear();
  } else if (values.size() > 1 && !texts.where.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", name_, texts.where, " takes one value, not an array"));
  } else {
    values = {values.back()};
  }
  for (const std::string& value : values) {
    if (const absl::Status status = value_.set(value); !status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", name_, texts.where, ": '", LogSafe(value), "' ", status.message()));
    }
  }
  given_ = std::move(values);
  where_ = texts.where;
  return absl::OkStatus();
}

std::string Flag::Label() const { return absl::StrCat("--", name_, where_); }

}  // namespace baton
