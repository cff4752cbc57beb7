#include "router/request/token_check.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/router/request/machine_harness.h"

namespace baton {
namespace {

using internal::v1::OutputToken;

class TokenCheck : public testing::Test {
 protected:
  // The place of a choice that has the tokens "ab" and may have five, whose worker sends output
  // `next` next.
  TokenPlace At(size_t next) const {
    return {.log = log_, .next_index = next, .vocab_size = 29, .max_tokens = 5};
  }
  static std::string Fault(const OutputToken& token, const TokenPlace& place) {
    return FaultOf(token, place).value_or("");
  }

  const std::vector<OutputToken> log_{Token(0, 0), Token(1, 1)};
};

TEST_F(TokenCheck, TakesTheNextTokenAndEqualCopiesOfThoseThatItHas) {
  EXPECT_EQ(Fault(Token(2, 28), At(2)), "");
  EXPECT_EQ(Fault(LastToken(2, 26, v1::FINISH_REASON_STOP), At(2)), "");
  EXPECT_EQ(Fault(Token(0, 0), At(0)), "");
  EXPECT_EQ(Fault(Token(1, 1), At(1)), "");
}

TEST_F(TokenCheck, RefusesGapsAndRepetitions) {
  EXPECT_EQ(Fault(Token(3, 3), At(2)), "output index 3 where 2 was next (missing)");
  EXPECT_EQ(Fault(Token(1, 1), At(2)), "output index 1 where 2 was next (doubled)");
  EXPECT_EQ(Fault(Token(1, 1), At(0)), "output index 1 where 0 was next (missing)")
      << "the log has it, but this worker has not sent the one before";
}

TEST_F(TokenCheck, RefusesMoreLikelyTokensThanMayBeAskedForAndThoseOutsideTheVocabulary) {
  OutputToken token = Token(2, 3);
  for (uint32_t id = 0; id < 20; ++id) token.mutable_token()->add_top_logprobs()->set_token_id(id);
  EXPECT_EQ(Fault(token, At(2)), "");
  token.mutable_token()->mutable_top_logprobs(7)->set_token_id(29);
  EXPECT_EQ(Fault(token, At(2)), "a likely token outside the vocabulary");
  token.mutable_token()->mutable_top_logprobs(7)->set_token_id(7);
  token.mutable_token()->add_top_logprobs();
  EXPECT_EQ(Fault(token, At(2)), "21 likely tokens beside one, at most 20 may be asked for");
}

TEST_F(TokenCheck, RefusesASecondTokenOfAWorkerThatSendsOnlyOne) {
  TokenPlace place = At(1);
  place.complete = true;
  EXPECT_NE(Fault(Token(1, 1), place), "");
}

TEST_F(TokenCheck, RefusesCopiesThatAreNotEqual) {
  EXPECT_EQ(Fault(Token(1, 7), At(1)), "its copy of output 1 is token 7, the other worker's 1");
  EXPECT_NE(Fault(LastToken(1, 1, v1::FINISH_REASON_STOP), At(1)), "");
}

TEST_F(TokenCheck, ComparesLogprobsWhereBothCopiesHaveThem) {
  const auto with_logprob = [](float logprob) {
    OutputToken token = Token(0, 0);
    token.mutable_token()->set_logprob(logprob);
    return token;
  };
  const std::vector<OutputToken> log{with_logprob(-1)};
  const TokenPlace place{.log = log, .vocab_size = 29, .max_tokens = 5};
  EXPECT_EQ(Fault(with_logprob(-1), place), "");
  EXPECT_NE(Fault(with_logprob(-2), place), "");
  EXPECT_EQ(Fault(Token(0, 0), place), "");
}

TEST_F(TokenCheck, RefusesCopiesOfLastTokensWithOtherReasons) {
  const std::vector<OutputToken> log{LastToken(0, 0, v1::FINISH_REASON_STOP)};
  const TokenPlace place{.log = log, .ended = true, .vocab_size = 29, .max_tokens = 5};
  EXPECT_EQ(Fault(LastToken(0, 0, v1::FINISH_REASON_STOP), place), "");
  EXPECT_NE(Fault(LastToken(0, 0, v1::FINISH_REASON_LENGTH), place), "");
}

TEST_F(TokenCheck, RefusesTokensBehindTheLastUnlessTheWorkerCouldNotKnow) {
  TokenPlace place = At(2);
  place.ended = true;
  EXPECT_EQ(Fault(Token(2, 2), place), "output 2 after the last one");
  place.ended_by_stop_string = true;
  EXPECT_EQ(Fault(Token(2, 2), place), "");
}

TEST_F(TokenCheck, RefusesTokensThatCannotBe) {
  EXPECT_EQ(Fault(Token(2, 29), At(2)), "token id 29 outside the vocabulary");
  EXPECT_EQ(Fault(LastToken(2, 2, v1::FINISH_REASON_UNSPECIFIED), At(2)),
            "a last token without a finish reason");
}

TEST_F(TokenCheck, TheTokenThatReachesMaxTokensMustEndTheSequence) {
  TokenPlace place = At(2);
  place.max_tokens = 3;
  EXPECT_EQ(Fault(Token(2, 2), place), "it does not stop at max_tokens");
  EXPECT_EQ(Fault(LastToken(2, 2, v1::FINISH_REASON_LENGTH), place), "");
}

}  // namespace
}  // namespace baton
