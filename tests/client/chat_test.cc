#include "client/chat.h"

#include <sstream>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A chat that reads `input` and whose n-th answer is "answer n".
class ChatTest : public ::testing::Test {
 protected:
  void Talk(const std::string& input, const std::string& system = "") {
    std::istringstream in(input);
    StreamLines lines(in);
    testing::internal::CaptureStderr();
    Chat({}, system, [this](const v1::GenerateRequest& talk) -> std::optional<std::string> {
      asked_.push_back(talk);
      if (fail_) return std::nullopt;
      return "answer " + std::to_string(asked_.size());
    }).Run(lines);
    said_ = testing::internal::GetCapturedStderr();
  }
  // The messages of the n-th request, each as "role: content".
  std::vector<std::string> Messages(size_t n) const {
    std::vector<std::string> messages;
    for (const v1::ChatMessage& message : asked_[n].chat().messages()) {
      messages.push_back(message.role() + ": " + message.content());
    }
    return messages;
  }

  std::vector<v1::GenerateRequest> asked_;
  std::string said_;
  bool fail_ = false;
};

TEST_F(ChatTest, TheWholeTalkGoesWithEveryRequest) {
  Talk("one\n\ntwo\n", "be brief");
  ASSERT_EQ(asked_.size(), 2u);
  EXPECT_THAT(Messages(0), ElementsAre("system: be brief", "user: one"));
  EXPECT_THAT(Messages(1),
              ElementsAre("system: be brief", "user: one", "assistant: answer 1", "user: two"));
}

TEST_F(ChatTest, AnAnswerThatFailedIsNoPartOfTheTalk) {
  fail_ = true;
  Talk("one\ntwo\n");
  EXPECT_THAT(Messages(1), ElementsAre("user: two"));
}

TEST_F(ChatTest, ClearForgetsTheTalkButNotTheSystemMessage) {
  Talk("one\n/clear\ntwo\n", "be brief");
  EXPECT_THAT(Messages(1), ElementsAre("system: be brief", "user: two"));
}

TEST_F(ChatTest, ByeExitAndQuitEndIt) {
  for (const std::string word : {"/bye", "/exit", "/quit", "/exit "}) {
    asked_.clear();
    Talk("one\n" + word + "\ntwo\n");
    EXPECT_EQ(asked_.size(), 1u) << word;
  }
}

TEST_F(ChatTest, ALineThatBeginsWithASlashAndNoCommandIsAMessage) {
  Talk("/usr/bin is what?\n// a comment\n/ alone\n/\n");
  EXPECT_EQ(asked_.size(), 4u);
}

TEST_F(ChatTest, ThreeQuotesBeginAndEndAMessageOfSeveralLines) {
  Talk(
      "\"\"\"\nfirst\n\n/bye\n\"\"\"\n"
      "\"\"\"a\nb\"\"\"\n"
      "\"\"\"in one line\"\"\"\n"
      "say \"\"\"\n");
  ASSERT_EQ(asked_.size(), 4u);
  EXPECT_EQ(Messages(0).back(), "user: first\n\n/bye");
  EXPECT_EQ(Messages(1).back(), "user: a\nb");
  EXPECT_EQ(Messages(2).back(), "user: in one line");
  EXPECT_EQ(Messages(3).back(), "user: say \"\"\"");
}

TEST_F(ChatTest, ABlockThatNeverEndsIsNotSentAndSaysSo) {
  Talk("\"\"\"\nfirst\n");
  EXPECT_THAT(asked_, IsEmpty());
  EXPECT_THAT(said_, HasSubstr("is not sent"));
}

TEST_F(ChatTest, SystemSetsTheMessageFromNowOn) {
  Talk("one\n/system answer in French\ntwo\n/system\nthree\n");
  EXPECT_THAT(Messages(1), ElementsAre("system: answer in French", "user: one",
                                       "assistant: answer 1", "user: two"));
  EXPECT_EQ(Messages(2).front(), "user: one");
}

TEST_F(ChatTest, SetTakesTheNamesAndValuesOfTheFlags) {
  Talk("/set temperature 0.25\n/set stop a, b\n/set ignore-eos true\none\n/set\n");
  const v1::SamplingParams& sampling = asked_[0].sampling_params();
  EXPECT_EQ(sampling.temperature(), 0.25F);
  EXPECT_THAT(sampling.stop(), ElementsAre("a, b"));
  EXPECT_TRUE(sampling.ignore_eos());
  EXPECT_THAT(said_, HasSubstr("temperature 0.25, stop \"a, b\", ignore-eos true\n"));
}

TEST_F(ChatTest, WhatCannotBeSetIsSaidAndChangesNothing) {
  Talk("/set temperature hot\n/set temprature 1\n/set server other:1\n/set\none\n");
  EXPECT_EQ(asked_[0].sampling_params().ByteSizeLong(), 0u);
  EXPECT_THAT(said_, HasSubstr("--temperature: 'hot' is not a number from 0 to 100"));
  EXPECT_THAT(said_, HasSubstr("there is no setting 'temprature'; did you mean 'temperature'?"));
  EXPECT_THAT(said_,
              HasSubstr("there is no setting 'server'; valid names are max-tokens, min-tokens, "));
  EXPECT_THAT(said_, HasSubstr("nothing is set; the server's defaults hold"));
}

TEST_F(ChatTest, HelpNamesEveryCommandAndSetting) {
  for (const char* help : {"/help\n", "/?\n"}) {
    Talk(help);
    for (const char* word : {"/clear", "/system", "/set", "/bye", "/exit", "\"\"\"", "temperature",
                             "max-tokens", "frequency-penalty", "ignore-eos"}) {
      EXPECT_THAT(said_, HasSubstr(word));
    }
  }
}

TEST_F(ChatTest, WhatIsNoCommandOrNoTextIsSaidAndNotSent) {
  Talk("/forget\n/system \xff\nab\xff\n");
  EXPECT_THAT(asked_, IsEmpty());
  EXPECT_THAT(said_, HasSubstr("unknown command /forget; /help lists those there are"));
  EXPECT_THAT(said_, HasSubstr("/system: TEXT is not UTF-8: byte 1 is 0xff"));
  EXPECT_THAT(said_, HasSubstr("the message is not UTF-8: byte 3 is 0xff"));
}

}  // namespace
}  // namespace baton
