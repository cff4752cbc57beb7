// The model that a router serves, as far as its own file shows it.
#pragma once

#include <string>
#include <vector>

#include "baton/internal/v1/common.pb.h"

namespace baton {

// Facts that the identities of workers are compared with. Open data. ReadExpectedModel
// (router/front) makes it of a file.
struct ExpectedModel {
  std::string tokenizer_digest;
  std::string name{};             // the name that clients know the model by, for log lines
  std::string architecture{};     // general.architecture; empty: not compared
  std::string metadata_digest{};  // GgufFile::MetadataDigest; empty: not compared
  // QuantisedDigest of GgufFile::SampleDigest, one for each value of --quantize. Empty: not
  // compared, because the file has no weights.
  std::vector<std::string> sample_digests{};
};

// Returns why a worker with this identity serves another model: the first difference, with both
// values. Empty if there is no difference. The tokenizer is not compared. `weights_type`: the
// worker's, such as "Q8_0".
std::string WhyAnotherModel(const ExpectedModel& expected,
                            const internal::v1::ModelIdentity& identity,
                            const std::string& weights_type);

}  // namespace baton
