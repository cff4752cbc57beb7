// What both ends of a push compare: every part of it counts, in the order that the header says.
#include "common/handoff/kv_digest.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"

#include "baton/internal/v1/common.pb.h"
#include "common/base/hash.h"
#include "common/kv/layout.h"

namespace baton {
namespace {

using internal::v1::ModelIdentity;
using internal::v1::OutputToken;

// Every field is set.
OutputToken WholeToken() {
  OutputToken token;
  token.set_output_index(7);
  token.mutable_token()->set_token_id(42);
  token.mutable_token()->set_token("forty");
  token.mutable_token()->set_logprob(-0.5f);
  v1::TopLogprob* top = token.mutable_token()->add_top_logprobs();
  top->set_token_id(42);
  top->set_token("forty");
  top->set_logprob(-0.5f);
  top = token.mutable_token()->add_top_logprobs();
  top->set_token_id(3);
  top->set_logprob(-2);
  token.set_ends_sequence(true);
  token.set_finish_reason(v1::FINISH_REASON_LENGTH);
  token.set_choice(5);
  return token;
}

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
                     .crcs = crcs_,
                     .layer_begins = layer_begins_});
  }

  ModelIdentity identity_;
  std::vector<int32_t> token_ids_;
  PageCrcTable crcs_;
  OutputToken first_token_;
  int start_token_ = 16;
  int end_token_ = 40;
  std::vector<int> layer_begins_ = {0, 0, 0};
};

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

TEST_F(KvDigestTest, OfALayerThatBeginsLaterHasThePagesThatItCarries) {
  layer_begins_ = {0, 32, 16};
  const std::string digest = Digest();
  for (int layer = 0; layer < 3; ++layer) {
    for (int page = 1; page < 3; ++page) {
      crcs_.At(layer, page) ^= 1;
      EXPECT_EQ(Digest() != digest, layer != 1 || page == 2)
          << "layer " << layer << " page " << page;
      crcs_.At(layer, page) ^= 1;
    }
  }
  for (int& begin : layer_begins_) {
    begin = 48;
    EXPECT_NE(Digest(), digest);
    begin = begin == 48 ? 0 : begin;
    layer_begins_ = {0, 32, 16};
  }
  layer_begins_ = {};  // all begin with the sequence
  const std::string all = Digest();
  layer_begins_ = {0, 0, 0};
  EXPECT_EQ(Digest(), all);
}

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
  const internal::v1::OutputToken first = WholeToken();
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
  expected.UpdateInteger(uint32_t{kStart});
  const auto add_tokens = [&](int begin, int end) {
    for (int i = begin; i < end; ++i) {
      expected.UpdateInteger(static_cast<uint32_t>(token_ids[static_cast<size_t>(i)]));
    }
  };
  add_tokens(0, kStart);
  const std::vector<int> layer_begins = {0, 64, 0, 1200, 0};
  expected.UpdateInteger(uint32_t{kLayers});
  for (const int begin : layer_begins) expected.UpdateInteger(static_cast<uint32_t>(begin));
  for (int page = kStart / kKvPageTokens; page < KvPages(kTokens); ++page) {
    add_tokens(page * kKvPageTokens, std::min(page * kKvPageTokens + kKvPageTokens, kTokens));
    for (int layer = 0; layer < kLayers; ++layer) {
      if (layer == 1 && page < 4) continue;
      if (layer == 3 && page < 75) continue;
      expected.UpdateInteger(crcs.At(layer, page));
    }
  }
  expected.UpdateInteger(uint32_t{kTokens});
  expected.UpdateInteger(uint32_t{1});
  for (const uint32_t word : {7u, 42u}) expected.UpdateInteger(word);
  bytes("forty");
  for (const uint32_t word : {1u, 0xBF000000u, 2u}) expected.UpdateInteger(word);  // -0.5
  expected.UpdateInteger(uint32_t{42});
  bytes("forty");
  for (const uint32_t word : {0xBF000000u, 3u}) expected.UpdateInteger(word);
  bytes("");
  expected.UpdateInteger(0xC0000000u);  // -2
  for (const uint32_t word : {1u, 2u, 5u}) expected.UpdateInteger(word);
  EXPECT_EQ(ToHex(KvDigest({.identity = identity,
                            .token_ids = token_ids,
                            .start_token = kStart,
                            .end_token = kTokens,
                            .first_tokens = absl::MakeConstSpan(&first, 1),
                            .crcs = crcs,
                            .layer_begins = layer_begins})),
            ToHex(expected.Finish()));
}

// A field that is missing here is one that the digest does not hash: both ends must hash it from
// the same kProtocolVersion on. First tokens are never guessed, which a receiver checks.
TEST(KvDigest, HashesEveryFieldThatATokenHas) {
  const auto fields = [](const google::protobuf::Descriptor* message) {
    std::vector<std::string> names;
    for (int i = 0; i < message->field_count(); ++i) names.push_back(message->field(i)->name());
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(fields(OutputToken::descriptor()),
            (Names{"output_index", "token", "ends_sequence", "finish_reason", "choice", "guessed",
                   "refused_guesses"}));
  EXPECT_EQ(fields(v1::TokenLogprob::descriptor()),
            (Names{"token_id", "token", "logprob", "top_logprobs"}));
  EXPECT_EQ(fields(v1::TopLogprob::descriptor()), (Names{"token_id", "token", "logprob"}));
}

TEST_F(KvDigestTest, ChangesWithEveryFieldOfAFirstToken) {
  first_token_ = WholeToken();
  std::set<std::string> digests = {Digest()};
  const std::vector<std::function<void(OutputToken&)>> changes = {
      [](OutputToken& t) { t.set_output_index(8); },
      [](OutputToken& t) { t.mutable_token()->set_token_id(43); },
      [](OutputToken& t) { t.mutable_token()->set_token("other"); },
      [](OutputToken& t) { t.mutable_token()->set_logprob(-0.25f); },
      [](OutputToken& t) { t.mutable_token()->clear_logprob(); },
      [](OutputToken& t) { t.mutable_token()->set_logprob(0); },
      [](OutputToken& t) { t.mutable_token()->mutable_top_logprobs()->RemoveLast(); },
      [](OutputToken& t) { t.mutable_token()->mutable_top_logprobs(1)->set_token_id(4); },
      [](OutputToken& t) { t.mutable_token()->mutable_top_logprobs(1)->set_token("x"); },
      [](OutputToken& t) { t.mutable_token()->mutable_top_logprobs(1)->set_logprob(-3); },
      [](OutputToken& t) { t.set_ends_sequence(false); },
      [](OutputToken& t) { t.set_finish_reason(v1::FINISH_REASON_STOP); },
      [](OutputToken& t) { t.set_choice(6); },
  };
  for (const auto& change : changes) {
    first_token_ = WholeToken();
    change(first_token_);
    EXPECT_TRUE(digests.insert(Digest()).second) << first_token_.ShortDebugString();
  }
}

// The format may change only together with kProtocolVersion.
TEST_F(KvDigestTest, HasTheValueThatItHadSinceProtocolVersion4) {
  first_token_ = WholeToken();
  EXPECT_EQ(ToHex(Digest()), "3e148e2db50a5ac8f6ca7ffee214cff4fd71e77ec484f9d524856d87c8610e16");
}

// However many checkpoints there were before, in whole pages.
TEST_F(KvDigestTest, OfAPushThatGoesOnIsTheDigestOfTheWhole) {
  for (const std::vector<int>& ends :
       {std::vector<int>{40}, {32, 40}, {32, 32, 40, 40}, {16, 32, 40}}) {
    KvDigester digester;
    for (const int end : ends) {
      const KvDigestInput input = {.identity = identity_,
                                   .token_ids = token_ids_,
                                   .start_token = start_token_,
                                   .end_token = end,
                                   .first_tokens = {},
                                   .crcs = crcs_};
      EXPECT_EQ(ToHex(digester.Digest(input)), ToHex(KvDigest(input))) << "end " << end;
    }
  }
}

}  // namespace
}  // namespace baton
