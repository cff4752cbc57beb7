#include "common/protocol/identity.h"

#include <functional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/protocol/identity_text.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

TEST(Identity, NamesTheFieldThatDiffers) {
  using Identity = internal::v1::ModelIdentity;
  Identity ours;
  ours.set_protocol_version(1);
  ours.set_architecture("llama");
  EXPECT_TRUE(CheckSameIdentity(ours, ours).ok());
  const std::vector<std::pair<const char*, std::function<void(Identity&)>>> changes = {
      {"protocol_version", [](Identity& i) { i.set_protocol_version(2); }},
      {"architecture", [](Identity& i) { i.set_architecture("qwen2"); }},
      {"config_digest", [](Identity& i) { i.set_config_digest("x"); }},
      {"weights_digest", [](Identity& i) { i.set_weights_digest("x"); }},
      {"tokenizer_digest", [](Identity& i) { i.set_tokenizer_digest("x"); }},
  };
  for (const auto& [field, change] : changes) {
    Identity theirs = ours;
    change(theirs);
    const absl::Status status = CheckSameIdentity(ours, theirs);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(ErrorReason(status), kReasonModelMismatch);
    EXPECT_THAT(std::string(status.message()), HasSubstr(field));
    EXPECT_THAT(std::string(status.message()), HasSubstr("Here: " + IdentityText(ours)));
    EXPECT_THAT(std::string(status.message()), HasSubstr("there: " + IdentityText(theirs)));
  }
}

TEST(Shape, MustBePossible) {
  internal::v1::KvShape good;
  good.set_layers(30);
  good.set_kv_heads(3);
  good.set_head_dim(64);
  good.set_block_size(32);
  good.set_dtype("f16");
  EXPECT_TRUE(ValidateShape(good).ok());
  const std::vector<std::function<void(internal::v1::KvShape&)>> changes = {
      [](auto& s) { s.set_layers(0); },
      [](auto& s) { s.set_layers(UINT32_MAX); },
      [](auto& s) { s.set_kv_heads(0); },
      [](auto& s) { s.set_head_dim(1u << 20); },
      [](auto& s) { s.set_block_size(24); },
      [](auto& s) { s.set_block_size(0); },
      [](auto& s) { s.set_dtype("f17"); },
      [](auto& s) { s.set_numerics(std::string(1000, 'x')); },
  };
  for (const auto& change : changes) {
    internal::v1::KvShape shape = good;
    change(shape);
    EXPECT_EQ(ValidateShape(shape).code(), absl::StatusCode::kInvalidArgument)
        << shape.ShortDebugString();
  }
}

}  // namespace
}  // namespace baton
