#include "common/protocol/identity.h"

#include <functional>

#include "absl/strings/str_cat.h"
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
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("first worker's model: " + IdentityText(ours)));
    EXPECT_THAT(std::string(status.message()), HasSubstr("the second's: " + IdentityText(theirs)));
  }
}

TEST(Shape, MustBePossibleAndNamesTheFieldThatIsNot) {
  internal::v1::KvShape good;
  good.set_layers(30);
  good.set_kv_heads(3);
  good.set_head_dim(64);
  good.set_block_size(32);
  good.set_dtype("f16");
  EXPECT_TRUE(ValidateShape(good, "shape").ok());
  using Shape = internal::v1::KvShape;
  const std::vector<std::pair<const char*, std::function<void(Shape&)>>> changes = {
      {"layers", [](Shape& s) { s.set_layers(0); }},
      {"layers", [](Shape& s) { s.set_layers(UINT32_MAX); }},
      {"kv_heads", [](Shape& s) { s.set_kv_heads(0); }},
      {"head_dim", [](Shape& s) { s.set_head_dim(1u << 20); }},
      {"block_size", [](Shape& s) { s.set_block_size(24); }},
      {"block_size", [](Shape& s) { s.set_block_size(0); }},
      {"dtype", [](Shape& s) { s.set_dtype("f17"); }},
      {"head_dim",
       [](Shape& s) {
         s.set_dtype("int4");
         s.set_head_dim(80);
       }},
      {"numerics", [](Shape& s) { s.set_numerics(std::string(1000, 'x')); }},
      {"wire_dtypes",
       [](Shape& s) {
         for (int i = 0; i < 9; ++i) s.add_wire_dtypes("f16");
       }},
      {"layer_states",
       [](Shape& s) { s.add_layer_states()->set_kind(internal::v1::LAYER_STATE_KIND_ROWS); }},
  };
  for (const auto& [field, change] : changes) {
    Shape shape = good;
    change(shape);
    const absl::Status status = ValidateShape(shape, "decode_shape");
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << shape.ShortDebugString();
    ASSERT_EQ(FieldViolations(status).size(), 1u) << status;
    EXPECT_EQ(FieldViolations(status)[0].field, absl::StrCat("decode_shape.", field));
  }
}

}  // namespace
}  // namespace baton
