#include "router/front/read_expected_model.h"

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/gguf/quantisation.h"
#include "tests/common/gguf/opened_gguf.h"
#include "tests/support/gguf_builder.h"

namespace baton {
namespace {

using internal::v1::ModelIdentity;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// The identity of a worker that serves `file`, as far as routers compare it.
ModelIdentity IdentityOf(const GgufFile& file, Quantisation quantisation = Quantisation::kNone) {
  ModelIdentity identity;
  identity.set_architecture(std::string(*file.GetString("general.architecture")));
  identity.set_metadata_digest(file.MetadataDigest());
  identity.set_sample_digest(QuantisedDigest(file.SampleDigest(), quantisation));
  return identity;
}

GgufFile Metadata(const std::string& architecture, uint32_t context) {
  const std::string bytes = GgufBuilder()
                                .Text("general.architecture", architecture)
                                .Uint32(architecture + ".context_length", context)
                                .Build();
  return Unwrap(GgufFile::Parse(bytes, "m.gguf", GgufFile::Part::kTokenizer));
}

TEST(ReadExpectedModel, WorkersOfTheRoutersFileServeItsModelWhateverTheyQuantiseItTo) {
  const GgufFile file = OpenTiny("tiny-llama-f16.gguf");
  const ExpectedModel expected = ReadExpectedModel(file, "t", "tiny");
  EXPECT_EQ(expected.tokenizer_digest, "t");
  for (const auto& [text, quantisation] : Quantisations()) {
    EXPECT_EQ(WhyAnotherModel(expected, IdentityOf(file, quantisation), "F16"), "") << text;
  }
}

TEST(ReadExpectedModel, TheFirstDifferenceIsNamedWithBothValues) {
  const GgufFile file = OpenTiny("tiny-llama-f16.gguf");
  const ExpectedModel expected = ReadExpectedModel(file, "t", "tiny");
  EXPECT_THAT(
      WhyAnotherModel(expected, IdentityOf(OpenTiny("tiny-llama-q8_0.gguf")), "Q8_0"),
      AllOf(HasSubstr("serves another model than the router's 'tiny': file of weights is Q8_0 "),
            HasSubstr("... there and "), HasSubstr("... here")));
  ModelIdentity other = IdentityOf(file);
  other.set_metadata_digest(std::string(32, 'm'));
  EXPECT_THAT(WhyAnotherModel(expected, other, "F16"),
              HasSubstr("configuration is 6d6d6d6d6d6d... there and "));
  other.set_architecture("qwen3");
  EXPECT_THAT(WhyAnotherModel(expected, other, "F16"),
              HasSubstr("architecture is qwen3 there and llama here"));
}

TEST(ReadExpectedModel, AFileWithoutWeightsTellsArchitectureAndContextLength) {
  const ExpectedModel expected = ReadExpectedModel(Metadata("llama", 4096), "t", "m");
  EXPECT_THAT(expected.sample_digests, IsEmpty());
  ModelIdentity identity = IdentityOf(Metadata("llama", 4096));
  identity.set_sample_digest("any");
  EXPECT_EQ(WhyAnotherModel(expected, identity, ""), "");
  EXPECT_THAT(WhyAnotherModel(expected, IdentityOf(Metadata("llama", 8192)), ""),
              HasSubstr("configuration"));
  EXPECT_THAT(WhyAnotherModel(expected, IdentityOf(Metadata("qwen3", 4096)), ""),
              HasSubstr("architecture"));
}

TEST(ReadExpectedModel, WhatAWorkerOfAnEarlierVersionDoesNotSendIsNotCompared) {
  const ExpectedModel expected = ReadExpectedModel(OpenTiny("tiny-llama-f16.gguf"), "t", "tiny");
  EXPECT_THAT(expected.sample_digests, SizeIs(Quantisations().size()));
  ModelIdentity old;
  old.set_architecture("llama");
  EXPECT_EQ(WhyAnotherModel(expected, old, ""), "");
  old.clear_architecture();
  EXPECT_THAT(WhyAnotherModel(expected, old, ""), HasSubstr("architecture is  there"));
}

}  // namespace
}  // namespace baton
