#include "common/tokenizer/json_pipeline.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::StartsWith;

absl::StatusOr<JsonPipeline> PipelineOf(const char* json) {
  return ReadJsonPipeline(nlohmann::json::parse(json));
}

std::string PipelineFault(const char* json) {
  return std::string(PipelineOf(json).status().message());
}

TEST(JsonPipeline, StepsOfASequenceFollowEachOther) {
  const auto pipeline = PipelineOf(
      R"({"normalizer": {"type": "NFC"},
          "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"String": "a.b"}, "behavior": "MergedWithNext",
             "invert": true},
            {"type": "Digits", "individual_digits": true},
            {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]},
          "decoder": {"type": "ByteLevel"}})");
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  EXPECT_TRUE(pipeline->normal_form_c);
  EXPECT_TRUE(pipeline->byte_level);
  ASSERT_EQ(pipeline->rules.size(), 2u);
  EXPECT_EQ(pipeline->rules[0].behavior, SplitRule::Behavior::kMergedWithNext);
  EXPECT_TRUE(pipeline->rules[0].invert);
  EXPECT_NE(pipeline->rules[0].expression, "a.b") << "a text is no expression";
  EXPECT_EQ(pipeline->rules[1].expression, R"(\p{N})");
  EXPECT_FALSE(pipeline->rules[1].invert);
}

TEST(JsonPipeline, MetaspacesSchemeSaysWhereASpaceIsPutInFront) {
  using Prefix = CharacterEncoder::Prefix;
  for (const auto& [scheme, prefix] :
       {std::pair("first", Prefix::kFirst), std::pair("always", Prefix::kMissing),
        std::pair("never", Prefix::kNone)}) {
    nlohmann::json json = {{"pre_tokenizer",
                            {{"type", "Metaspace"},
                             {"replacement", "▁"},
                             {"split", false},
                             {"prepend_scheme", scheme}}}};
    json["decoder"] = json["pre_tokenizer"];
    const auto pipeline = ReadJsonPipeline(json);
    ASSERT_TRUE(pipeline.ok()) << pipeline.status();
    EXPECT_EQ(pipeline->prefix, prefix);
    EXPECT_TRUE(pipeline->replace_spaces);
    EXPECT_EQ(pipeline->strips_first_space, prefix != Prefix::kNone);
  }
}

TEST(JsonPipeline, ATemplateHasBosBeforeTheTextAndEosBehindIt) {
  const auto pipeline = PipelineOf(
      R"({"post_processor": {"type": "TemplateProcessing",
          "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}},
                     {"SpecialToken": {"id": "</s>"}}],
          "special_tokens": {"<s>": {"ids": [6]}, "</s>": {"ids": [7]}}}})");
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  EXPECT_EQ(pipeline->bos_id, 6);
  EXPECT_EQ(pipeline->eos_id, 7);
  EXPECT_FALSE(PipelineOf("{}")->bos_id.has_value());
}

TEST(JsonPipeline, APartThatIsNotSupportedIsNamedWithItsPath) {
  EXPECT_EQ(PipelineFault(R"({"normalizer": {"type": "Sequence", "normalizers": [
                            {"type": "NFC"}, {"type": "Lowercase"}]}})"),
            "normalizer.normalizers[1]: the normalizer \"Lowercase\" is not supported");
  EXPECT_THAT(PipelineFault(R"({"pre_tokenizer": {"type": "ByteLevel"}})"),
              StartsWith("pre_tokenizer: add_prefix_space"));
  EXPECT_THAT(PipelineFault(R"({"decoder": {"type": "ByteLevel"}})"),
              StartsWith("decoder: the decoder \"ByteLevel\" with these settings"));
  EXPECT_THAT(PipelineFault(R"({"normalizer": {"type": "Prepend", "prepend": "▁"},
                "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}})"),
              StartsWith("pre_tokenizer: ByteLevel with U+2581 for spaces"));
  EXPECT_THAT(PipelineFault(R"({"post_processor": {"type": "TemplateProcessing", "single": []}})"),
              StartsWith("post_processor.single: a template without the text"));
  EXPECT_EQ(PipelineOf(R"({"normalizer": {}})").status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace baton
