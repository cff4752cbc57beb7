#include "decode_worker/receive_checks.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/push_messages.h"

namespace baton {
namespace {

using internal::v1::KvDataHeader;
using internal::v1::PushCommit;
using internal::v1::PushOpen;
using ::testing::HasSubstr;

const KvLayout kCheckedLayout = {.layers = 2, .kv_heads = 1, .head_dim = 4, .block_size = 16};
constexpr int kCheckedTokens = 50;  // pages of 16, 16, 16 and 2

class ReceiveChecksTest : public ::testing::Test {
 protected:
  std::string OpenFault(const PushOpen& open) const {
    const absl::Status status = CheckOpen(config_, open).status();
    EXPECT_TRUE(status.ok() || absl::IsFailedPrecondition(status)) << status;
    return std::string(status.message());
  }
  // Both layers of the tokens.
  KvDataHeader Header(int first_token, int end_token) const {
    KvDataHeader header;
    *header.mutable_key() = config_.key;
    header.set_sequence_number(1);
    header.set_state_kind(internal::v1::LAYER_STATE_KIND_ROWS);
    header.set_layer_count(2);
    header.set_first_token(static_cast<uint32_t>(first_token));
    header.set_token_count(static_cast<uint32_t>(end_token - first_token));
    header.set_kv_head_count(1);
    for (int i = 0; i < 2 * KvPages(end_token - first_token); ++i) header.add_page_crc32c(7);
    return header;
  }
  std::string HeaderFault(const KvDataHeader& header) const {
    const CarriedTokens carried(config_.layout, kCheckedTokens);
    const size_t bytes = size_t{header.layer_count()} * header.token_count() * 16;
    const absl::Status status = CheckHeader(config_, wire_, carried, header, bytes);
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  }

  ReceiveConfig config_ = MakeReceiverConfig(kCheckedLayout, kCheckedTokens);
  const KvWireFormat wire_{kCheckedLayout, KvType::kF16};
};

TEST_F(ReceiveChecksTest, AKeyIsTheSameInAllItsParts) {
  internal::v1::AttemptKey other = config_.key;
  EXPECT_TRUE(SameKey(config_.key, other));
  other.set_choice(1);
  EXPECT_FALSE(SameKey(config_.key, other));
  other = config_.key;
  other.set_attempt(3);
  EXPECT_FALSE(SameKey(config_.key, other));
  EXPECT_TRUE(SameSecret("abc", "abc"));
  EXPECT_FALSE(SameSecret("abc", "abd"));
  EXPECT_FALSE(SameSecret("abc", "abcd"));
}

TEST_F(ReceiveChecksTest, AnOpenFitsThisWorkersModelAndSequence) {
  const PushOpen open = MakeOpen(config_).open();
  const auto terms = CheckOpen(config_, open);
  ASSERT_TRUE(terms.ok()) << terms.status();
  EXPECT_EQ(terms->wire, KvType::kF16);
  EXPECT_TRUE(CheckIdentity(config_, open).ok());
  PushOpen other = open;
  other.mutable_identity()->set_architecture("qwen2");
  EXPECT_EQ(CheckIdentity(config_, other).code(), absl::StatusCode::kFailedPrecondition);
  other = open;
  other.mutable_shape()->set_kv_heads(2);
  EXPECT_THAT(OpenFault(other), HasSubstr("shape.layers, kv_heads or head_dim differ"));
  other = open;
  other.set_wire_dtype("bf16");
  EXPECT_EQ(OpenFault(other), "push open: wire_dtype is bf16, this worker takes f16");
  other = open;
  other.mutable_shape()->set_block_size(24);
  EXPECT_THAT(OpenFault(other), HasSubstr("block_size is not a multiple of 16"));
  other = open;
  other.set_token_count(49);
  EXPECT_THAT(OpenFault(other), HasSubstr("token_count differs"));
  other = open;
  other.set_page_hashes(0, open.page_hashes(0) + 1);
  EXPECT_THAT(OpenFault(other), HasSubstr("page_hashes differ"));
}

TEST_F(ReceiveChecksTest, AHeaderIsAboutWholePagesOfThisSequence) {
  EXPECT_EQ(HeaderFault(Header(0, 50)), "");
  EXPECT_EQ(HeaderFault(Header(32, 50)), "") << "the last page is shorter";
  EXPECT_THAT(HeaderFault(Header(0, 24)), HasSubstr("not whole pages"));
  EXPECT_THAT(HeaderFault(Header(8, 16)), HasSubstr("not whole pages"));
  EXPECT_THAT(HeaderFault(Header(48, 64)), HasSubstr("tokens out of range"));
  KvDataHeader header = Header(0, 16);
  header.set_first_layer(1);
  EXPECT_THAT(HeaderFault(header), HasSubstr("layers out of range"));
  header = Header(0, 16);
  header.set_first_token(0xFFFFFFF0u);  // its end would be 0
  EXPECT_THAT(HeaderFault(header), HasSubstr("tokens out of range"));
  header = Header(0, 16);
  header.add_page_crc32c(7);
  EXPECT_THAT(HeaderFault(header), HasSubstr("page_crc32c is not one for each"));
  header = Header(0, 16);
  header.set_sequence_number(0);
  EXPECT_THAT(HeaderFault(header), HasSubstr("sequence_number is 0"));
  header = Header(0, 16);
  header.mutable_key()->set_attempt(9);
  EXPECT_THAT(HeaderFault(header), HasSubstr("key of another attempt"));
  header = Header(0, 16);
  header.set_kv_head_count(2);
  EXPECT_THAT(HeaderFault(header), HasSubstr("kv heads are not all"));
  const CarriedTokens carried(config_.layout, kCheckedTokens);
  EXPECT_THAT(std::string(CheckHeader(config_, wire_, carried, Header(0, 16), 511).message()),
              HasSubstr("payload size differs"));
}

TEST_F(ReceiveChecksTest, ACheckpointIsAtAPagesOrTheSequencesEndBehindTheLast) {
  const auto check = [this](int checkpointed, uint32_t end) {
    internal::v1::PushCheckpoint checkpoint;
    checkpoint.set_end_token(end);
    return CheckCheckpoint(config_, checkpointed, checkpoint).ok();
  };
  EXPECT_TRUE(check(0, 16));
  EXPECT_TRUE(check(16, 50));
  EXPECT_FALSE(check(16, 16));
  EXPECT_FALSE(check(0, 20));
  EXPECT_FALSE(check(0, 64));
}

TEST_F(ReceiveChecksTest, FirstTokensAreOneForEachChoiceAndOneGoesOn) {
  config_.choices = 2;
  PushCommit commit;
  for (uint32_t choice = 0; choice < 2; ++choice) {
    commit.add_first_tokens()->set_choice(choice);
    commit.mutable_first_tokens(static_cast<int>(choice))->set_ends_sequence(choice == 0);
  }
  EXPECT_TRUE(CheckFirstTokens(config_, commit).ok());
  const auto fault = [this](PushCommit changed) {
    return std::string(CheckFirstTokens(config_, changed).message());
  };
  PushCommit other = commit;
  other.mutable_first_tokens()->RemoveLast();
  EXPECT_THAT(fault(other), HasSubstr("not one for each choice"));
  other = commit;
  other.mutable_first_tokens(1)->set_choice(0);
  EXPECT_THAT(fault(other), HasSubstr("choice is another's"));
  other = commit;
  other.mutable_first_tokens(1)->set_output_index(1);
  EXPECT_THAT(fault(other), HasSubstr("output_index is not the next"));
  other = commit;
  other.mutable_first_tokens(0)->mutable_token()->set_token_id(100);
  EXPECT_THAT(fault(other), HasSubstr("outside the vocabulary"));
  other = commit;
  other.mutable_first_tokens(1)->set_ends_sequence(true);
  EXPECT_THAT(fault(other), HasSubstr("nothing to decode"));
}

}  // namespace
}  // namespace baton
