#include "router/front/read_expected_model.h"

#include "common/base/log.h"
#include "common/gguf/quantisation.h"

namespace baton {

ExpectedModel ReadExpectedModel(const GgufFile& file, const std::string& tokenizer_digest,
                                const std::string& name) {
  ExpectedModel expected{.tokenizer_digest = tokenizer_digest, .name = name};
  const auto architecture = file.GetString("general.architecture");
  if (architecture.ok()) expected.architecture = LogSafe(*architecture);
  expected.metadata_digest = file.MetadataDigest();
  if (file.tensors().empty()) return expected;
  const std::string sample = file.SampleDigest();
  for (const auto& [text, quantisation] : Quantisations()) {
    expected.sample_digests.push_back(QuantisedDigest(sample, quantisation));
  }
  return expected;
}

}  // namespace baton
