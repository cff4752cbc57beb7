#include "router/fleet/worker_info_check.h"

#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/rpc/limits.h"

namespace baton {
namespace {

using internal::v1::WorkerInfo;
using ::testing::HasSubstr;

WorkerInfo Honest() {
  WorkerInfo info;
  info.set_name("prefill-0");
  info.set_role(internal::v1::WORKER_ROLE_PREFILL);
  info.set_version("0.1.0");
  info.set_address("[::1]:50051");
  info.set_weights_type("Q4_1");
  info.mutable_identity()->set_protocol_version(kProtocolVersion);
  info.mutable_identity()->set_architecture("llama");
  info.mutable_identity()->set_weights_digest(std::string(32, '\0'));
  info.mutable_identity()->set_tokenizer_digest("digest");
  info.mutable_shape()->set_layers(2);
  info.mutable_shape()->set_kv_heads(1);
  info.mutable_shape()->set_head_dim(64);
  info.mutable_shape()->set_dtype("f16");
  info.mutable_shape()->set_block_size(16);
  return info;
}

std::string Why(const WorkerInfo& info) {
  return WhyNeverUsed({internal::v1::WORKER_ROLE_PREFILL, "p:1"}, info, "digest");
}

std::string WhyWith(const std::function<void(WorkerInfo&)>& forge) {
  WorkerInfo info = Honest();
  forge(info);
  return Why(info);
}

TEST(WorkerInfoCheck, AnHonestIntroductionIsTaken) {
  EXPECT_EQ(Why(Honest()), "");
  EXPECT_EQ(WhyWith([](WorkerInfo& info) { info.clear_address(); }), "")
      << "pushes go to where the router found it";
}

TEST(WorkerInfoCheck, TextsAreBoundedAndPrint) {
  const std::string giant(3 << 20, 'x');
  EXPECT_THAT(WhyWith([&](WorkerInfo& info) { info.set_name(giant); }), HasSubstr("name of more"));
  EXPECT_THAT(WhyWith([&](WorkerInfo& info) { info.set_version(giant); }),
              HasSubstr("version of more than 64 bytes"));
  EXPECT_THAT(WhyWith([&](WorkerInfo& info) { info.set_address(giant + ":1"); }),
              HasSubstr("address of more than 300 bytes"));
  EXPECT_THAT(WhyWith([&](WorkerInfo& info) { info.mutable_identity()->set_architecture(giant); }),
              HasSubstr("architecture of more"));
  EXPECT_THAT(
      WhyWith([&](WorkerInfo& info) { info.mutable_identity()->set_weights_digest(giant); }),
      HasSubstr("weights_digest of more"));
  EXPECT_THAT(
      WhyWith([&](WorkerInfo& info) { info.mutable_identity()->set_metadata_digest(giant); }),
      HasSubstr("metadata_digest of more"));
  EXPECT_THAT(WhyWith([&](WorkerInfo& info) { info.mutable_identity()->set_sample_digest(giant); }),
              HasSubstr("sample_digest of more"));
  EXPECT_THAT(WhyWith([&](WorkerInfo& info) { info.mutable_shape()->add_wire_dtypes(giant); }),
              HasSubstr("wire_dtype of more"));
  EXPECT_THAT(WhyWith([&](WorkerInfo& info) { info.mutable_shape()->set_dtype(giant); }),
              HasSubstr("dtype of more than 256 bytes"));
  EXPECT_THAT(WhyWith([](WorkerInfo& info) { info.mutable_shape()->set_dtype("f16\n"); }),
              HasSubstr("dtype with characters that do not print"));
  EXPECT_THAT(WhyWith([](WorkerInfo& info) { info.set_version("1\x1b]0;pwned\x07"); }),
              HasSubstr("version with characters that do not print"));
  EXPECT_THAT(WhyWith([](WorkerInfo& info) { info.set_name("a\nb"); }),
              HasSubstr("name with characters that do not print"));
}

TEST(WorkerInfoCheck, AnAddressThatNoPushCanGoToIsRefusedWithoutItsText) {
  for (const char* address : {"nowhere", "unix:/tmp/socket", "host:99999", "host:"}) {
    EXPECT_EQ(WhyWith([&](WorkerInfo& info) { info.set_address(address); }),
              "advertises an address that is not host:port")
        << address;
  }
}

TEST(WorkerInfoCheck, LittleIsKeptOfAWorkerThatIsNeverUsed) {
  const std::string giant(3 << 20, 'x');
  WorkerInfo info = Honest();
  info.set_name(giant);
  info.set_version(giant);
  info.set_address(giant);
  info.set_weights_type(giant);
  info.mutable_identity()->set_architecture(giant);
  info.mutable_identity()->set_weights_digest(giant);
  info.mutable_identity()->set_config_digest(giant);
  info.mutable_identity()->set_tokenizer_digest(giant);
  info.mutable_identity()->set_metadata_digest(giant);
  info.mutable_identity()->set_sample_digest(giant);
  info.mutable_shape()->set_numerics(giant);
  info.mutable_shape()->set_dtype(giant);
  info.mutable_shape()->add_wire_dtypes(giant);
  CutTexts(info);
  EXPECT_LT(info.SpaceUsedLong(), 8192u);
  for (int i = 0; i < 100'000; ++i) info.mutable_shape()->add_wire_dtypes("f16");
  CutTexts(info);
  EXPECT_LT(info.SpaceUsedLong(), 8192u);
}

}  // namespace
}  // namespace baton
