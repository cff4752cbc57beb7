#include "client/doctor/model_check.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/client/doctor/find_finding.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kModelGibi = uint64_t{1} << 30;

// A model with 4 GiB of weights and 1 GiB of KV cache.
ModelNeeds FourAndOne(uint64_t free_gibi, int workers) {
  ModelNeeds needs{.device = "cpu", .workers = workers, .free_bytes = free_gibi * kModelGibi};
  needs.model.path = "m.gguf";
  needs.model.architecture = "llama";
  needs.model.weight_bytes = 4 * kModelGibi;
  needs.model.max_model_len = 8192;
  needs.model.kv = {{.type = KvType::kF16, .bytes_per_token = 1, .bytes = kModelGibi}};
  needs.model.tokenizer = "gpt2 (smollm)";
  needs.model.chat_template = true;
  return needs;
}

Verdict MemoryVerdict(const ModelNeeds& needs) {
  return FindFinding(ModelFindings(needs), "model.memory").verdict;
}

TEST(ModelFindings, OfAModelThatFitsAreAllOk) {
  for (const Finding& finding : ModelFindings(FourAndOne(10, 2))) {
    EXPECT_EQ(finding.verdict, Verdict::kOk) << finding.check << ": " << finding.found;
  }
}

TEST(ModelFindings, SayHowMuchMemoryIsMissing) {
  EXPECT_EQ(MemoryVerdict(FourAndOne(9, 2)), Verdict::kWarning) << "one of two workers fits";
  EXPECT_EQ(MemoryVerdict(FourAndOne(4, 1)), Verdict::kFailed) << "nothing is left for KV";
  EXPECT_EQ(MemoryVerdict(FourAndOne(0, 1)), Verdict::kSkipped) << "unknown";
  EXPECT_EQ(MemoryVerdict(FourAndOne(1, 0)), Verdict::kOk) << "its workers have theirs";
  const Finding failed = FindFinding(ModelFindings(FourAndOne(4, 1)), "model.memory");
  EXPECT_THAT(failed.found, HasSubstr("4.00 GiB for weights"));
  EXPECT_THAT(failed.remedy, HasSubstr("--quantize"));
}

TEST(ModelFindings, TellOfALimitOfAddressSpace) {
  ModelNeeds needs = FourAndOne(100, 1);
  needs.address_space = 2 * kModelGibi;
  const Finding memory = FindFinding(ModelFindings(needs), "model.memory");
  EXPECT_EQ(memory.verdict, Verdict::kFailed);
  EXPECT_THAT(memory.remedy, HasSubstr("ulimit -v"));
}

TEST(ModelFindings, OfOneThatIsNotServedSayWhyAndNothingElse) {
  ModelNeeds needs = FourAndOne(10, 2);
  needs.model.served = absl::InvalidArgumentError("m.gguf: is cut");
  const Findings findings = ModelFindings(needs);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].verdict, Verdict::kFailed);
  EXPECT_EQ(findings[0].found, "m.gguf: is cut");
}

TEST(ModelFindings, WarnOfAModelThatCannotChat) {
  ModelNeeds needs = FourAndOne(10, 2);
  needs.model.chat_template = false;
  EXPECT_EQ(FindFinding(ModelFindings(needs), "model.chat_template").verdict, Verdict::kWarning);
}

TEST(GatherModelNeeds, OfNoFileTellsThatItIsNotServed) {
  EXPECT_FALSE(GatherModelNeeds("/nowhere.gguf", 1).model.served.ok());
}

}  // namespace
}  // namespace baton
