// What both ends of a push compare: every part of it counts, in the order that the header says.
#include "common/rpc/kv_digest.h"

#include "gtest/gtest.h"

#include "common/base/hash.h"

namespace baton {
namespace {

using internal::v1::ModelIdentity;
using internal::v1::OutputToken;

class KvDigestTest : public ::testing::Test {
 protected:
  KvDigestTest() : crcs_(3, 40) {
    identity_.set_protocol_version(1);
    identity_.set_architecture("llama");
    identity_.set_weights_digest("weights");
    identity_.set_config_digest("config");
    identity_.set_tokenizer_digest("tokenizer");
    for (int i = 0; i < 40; ++i) token_ids_.push_back(1000 + i);
    for (int layer = 0; layer < 3; ++layer) {
      for (int page = 0; page < 3; ++page) {
        crcs_.At(layer, page) = static_cast<uint32_t>(77 + layer * 10 + page);
      }
    }
    first_token_.mutable_token()->set_token_id(3);
  }
  std::string Digest() const {
    return KvDigest({.identity = identity_,
                     .token_ids = token_ids_,
                     .start_token = start_token_,
                     .end_token = end_token_,
                     .first_tokens = absl::MakeConstSpan(&first_token_, 1),
                     .crcs = crcs_});
  }

  ModelIdentity identity_;
  std::vector<int32_t> token_ids_;
  PageCrcTable crcs_;
  OutputToken first_token_;
  int start_token_ = 16;
  int end_token_ = 40;
};

TEST_F(KvDigestTest, IsTheHashOfItsPartsInOrder) {
  Sha256 sha;
  const auto integer = [&sha](uint32_t value) { sha.UpdateInteger(value); };
  const auto bytes = [&](const std::string& value) {
    integer(static_cast<uint32_t>(value.size()));
    sha.Update(value);
  };
  integer(1);
  for (const char* part : {"weights", "llama", "config", "tokenizer"}) bytes(part);
  integer(40);
  for (uint32_t i = 0; i < 40; ++i) integer(1000 + i);
  integer(16);
  integer(1);
  bytes(first_token_.SerializeAsString());
  for (uint32_t layer = 0; layer < 3; ++layer) {
    for (uint32_t page = 1; page < 3; ++page) {
      integer(layer);
      integer(page);
      integer(77 + layer * 10 + page);
    }
  }
  EXPECT_EQ(ToHex(Digest()), ToHex(sha.Finish()));
}

TEST_F(KvDigestTest, ChangesWithEveryTokenAndEveryPage) {
  const std::string digest = Digest();
  for (int32_t& id : token_ids_) {
    ++id;
    EXPECT_NE(Digest(), digest);
    --id;
  }
  for (int layer = 0; layer < 3; ++layer) {
    for (int page = 1; page < 3; ++page) {
      crcs_.At(layer, page) ^= 1;
      EXPECT_NE(Digest(), digest) << "layer " << layer << " page " << page;
      crcs_.At(layer, page) ^= 1;
    }
  }
  crcs_.At(1, 0) ^= 1;  // before start_token: the receiver's own
  EXPECT_EQ(Digest(), digest);
}

}  // namespace
}  // namespace baton
