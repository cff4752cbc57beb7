#include "common/rpc/kv_digest.h"

#include <gtest/gtest.h>

#include <numeric>

#include "baton/internal/v1/common.pb.h"
#include "common/base/hash.h"
#include "common/kv/layout.h"

namespace baton {
namespace {

// Word by word as the protocol says it, over more than one buffer's worth of words.
TEST(KvDigest, IsTheSha256ThatTheProtocolSpellsOut) {
  constexpr int kLayers = 5;
  constexpr int kTokens = 1500;
  constexpr int kStart = 32;
  internal::v1::ModelIdentity identity;
  identity.set_protocol_version(3);
  identity.set_weights_digest("weights");
  identity.set_architecture("llama");
  std::vector<int32_t> token_ids(kTokens);
  std::iota(token_ids.begin(), token_ids.end(), 100000);
  internal::v1::OutputToken first;
  first.set_output_index(7);
  PageCrcTable crcs(kLayers, kTokens);
  for (int layer = 0; layer < kLayers; ++layer) {
    for (int page = 0; page < crcs.pages(); ++page) {
      crcs.At(layer, page) = 0xABCD0000u + static_cast<uint32_t>(layer * 1000 + page);
    }
  }

  Sha256 expected;
  const auto bytes = [&](const std::string& text) {
    expected.UpdateInteger(static_cast<uint32_t>(text.size()));
    expected.Update(text);
  };
  expected.UpdateInteger(uint32_t{3});
  bytes("weights");
  bytes("llama");
  bytes("");
  bytes("");
  expected.UpdateInteger(uint32_t{kTokens});
  for (const int32_t id : token_ids) expected.UpdateInteger(static_cast<uint32_t>(id));
  expected.UpdateInteger(uint32_t{kStart});
  expected.UpdateInteger(uint32_t{1});
  bytes(first.SerializeAsString());
  for (int layer = 0; layer < kLayers; ++layer) {
    for (int page = kStart / kKvPageTokens; page < KvPages(kTokens); ++page) {
      expected.UpdateInteger(static_cast<uint32_t>(layer));
      expected.UpdateInteger(static_cast<uint32_t>(page));
      expected.UpdateInteger(crcs.At(layer, page));
    }
  }
  EXPECT_EQ(ToHex(KvDigest({.identity = identity,
                            .token_ids = token_ids,
                            .start_token = kStart,
                            .end_token = kTokens,
                            .first_tokens = absl::MakeConstSpan(&first, 1),
                            .crcs = crcs})),
            ToHex(expected.Finish()));
}

}  // namespace
}  // namespace baton
