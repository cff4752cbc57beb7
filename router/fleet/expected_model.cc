#include "router/fleet/expected_model.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"

#include "common/base/hash.h"
#include "common/base/log.h"

namespace baton {
namespace {

std::string ShortHex(const std::string& digest) {
  return absl::StrCat(ToHex(digest.substr(0, 6)), "...");
}

struct Difference {
  std::string field, theirs, ours;
};

std::optional<Difference> FirstDifference(const ExpectedModel& expected,
                                          const internal::v1::ModelIdentity& identity,
                                          const std::string& weights_type) {
  if (!expected.architecture.empty() && identity.architecture() != expected.architecture) {
    return Difference{"architecture", LogSafe(identity.architecture()), expected.architecture};
  }
  // Workers of earlier versions do not send these two.
  const std::string& metadata = identity.metadata_digest();
  if (!metadata.empty() && !expected.metadata_digest.empty() &&
      metadata != expected.metadata_digest) {
    return Difference{"configuration", ShortHex(metadata), ShortHex(expected.metadata_digest)};
  }
  const std::vector<std::string>& samples = expected.sample_digests;
  const std::string& sample = identity.sample_digest();
  if (!sample.empty() && !samples.empty() &&
      std::find(samples.begin(), samples.end(), sample) == samples.end()) {
    return Difference{
        "file of weights",
        absl::StrCat(LogSafe(weights_type), weights_type.empty() ? "" : " ", ShortHex(sample)),
        ShortHex(samples.front())};
  }
  return std::nullopt;
}

}  // namespace

std::string WhyAnotherModel(const ExpectedModel& expected,
                            const internal::v1::ModelIdentity& identity,
                            const std::string& weights_type) {
  const std::optional<Difference> difference = FirstDifference(expected, identity, weights_type);
  if (!difference.has_value()) return "";
  return absl::StrCat("serves another model than the router's '", LogSafe(expected.name),
                      "': ", difference->field, " is ", difference->theirs, " there and ",
                      difference->ours, " here");
}

}  // namespace baton
