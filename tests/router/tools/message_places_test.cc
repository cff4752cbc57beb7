#include "router/tools/message_places.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using Json = nlohmann::ordered_json;

constexpr ChatShape kKeeps;
constexpr ChatShape kRefuses{.later_system = LaterSystem::kRaises};
constexpr ChatShape kWithout{.has_system = false, .later_system = LaterSystem::kLost};

// Messages as "role:content", before and after.
std::vector<std::string> Placed(const ChatShape& shape, const std::vector<std::string>& messages) {
  Json json = Json::array();
  for (const std::string& message : messages) {
    const size_t colon = message.find(':');
    json.push_back({{"role", message.substr(0, colon)}, {"content", message.substr(colon + 1)}});
  }
  PlaceMessages(shape, json);
  std::vector<std::string> placed;
  for (const Json& message : json) {
    placed.push_back(absl::StrCat(message["role"].get<std::string>(), ":",
                                  message["content"].get<std::string>()));
  }
  return placed;
}

TEST(MessagePlaces, ThoseAtTheHeadAreOneMessage) {
  for (const ChatShape& shape : {kKeeps, kRefuses}) {
    EXPECT_THAT(Placed(shape, {"system:a", "developer:b", "system:c", "user:d"}),
                ElementsAre("system:a\n\nb\n\nc", "user:d"));
    EXPECT_THAT(Placed(shape, {"developer:a", "user:b"}), ElementsAre("system:a", "user:b"));
    EXPECT_THAT(Placed(shape, {"system:", "system:a"}), ElementsAre("system:a"));
  }
}

TEST(MessagePlaces, LaterOnesStayWhereTheTemplateKeepsThem) {
  EXPECT_THAT(
      Placed(kKeeps, {"system:a", "user:b", "developer:c", "assistant:d", "system:e", "system:f"}),
      ElementsAre("system:a", "user:b", "system:c", "assistant:d", "system:e", "system:f"));
}

TEST(MessagePlaces, TextIsAppendedToTheUsersMessageOrTheResultBefore) {
  for (const LaterSystem later : {LaterSystem::kRaises, LaterSystem::kLost, LaterSystem::kMoved}) {
    EXPECT_THAT(
        Placed({.later_system = later}, {"user:a", "system:b", "developer:c", "assistant:d",
                                         "tool:e", "tool:f", "system:g", "assistant:h"}),
        ElementsAre("user:a\n\nb\n\nc", "assistant:d", "tool:e", "tool:f\n\ng", "assistant:h"));
  }
  EXPECT_THAT(Placed(kRefuses, {"user:", "system:a"}), ElementsAre("user:a"));
  EXPECT_THAT(Placed(kRefuses, {"user:a", "system:"}), ElementsAre("user:a"));
}

TEST(MessagePlaces, BehindTheAssistantsItGoesBeforeTheNextMessage) {
  EXPECT_THAT(
      Placed(kRefuses, {"user:a", "assistant:b", "system:c", "system:d", "user:e", "assistant:f"}),
      ElementsAre("user:a", "assistant:b", "user:c\n\nd\n\ne", "assistant:f"));
  EXPECT_THAT(Placed(kRefuses, {"user:a", "assistant:b", "system:c", "tool:d"}),
              ElementsAre("user:a", "assistant:b", "tool:c\n\nd"));
}

// Also if a user's message follows later: an answer may stand behind the text already.
TEST(MessagePlaces, WhereNoMessageTakesTheTextItIsTheUsers) {
  EXPECT_THAT(Placed(kRefuses, {"user:a", "assistant:b", "system:c"}),
              ElementsAre("user:a", "assistant:b", "user:c"));
  EXPECT_THAT(Placed(kRefuses, {"user:a", "assistant:b", "system:c", "assistant:d", "user:e"}),
              ElementsAre("user:a", "assistant:b", "user:c", "assistant:d", "user:e"));
  EXPECT_THAT(Placed(kRefuses, {"assistant:a", "system:b"}), ElementsAre("assistant:a", "user:b"));
}

TEST(MessagePlaces, WithoutASystemTheHeadGoesBeforeTheFirstMessageOfTheUser) {
  EXPECT_THAT(Placed(kWithout, {"system:a", "developer:b", "user:c", "system:d", "assistant:e"}),
              ElementsAre("user:a\n\nb\n\nc\n\nd", "assistant:e"));
  EXPECT_THAT(Placed(kWithout, {"system:a", "assistant:b", "user:c"}),
              ElementsAre("user:a", "assistant:b", "user:c"));
  EXPECT_THAT(Placed(kWithout, {"system:a"}), ElementsAre("user:a"));
  EXPECT_THAT(Placed(kWithout, {"system:", "user:a"}), ElementsAre("user:a"));
}

TEST(MessagePlaces, MessagesOfTheUserInARowAreOneWhereTheTemplateRefusesThem) {
  const std::vector<std::string> chat = {"system:a", "user:b", "user:c", "assistant:d", "user:e"};
  EXPECT_THAT(Placed({.takes_turns = true}, chat),
              ElementsAre("system:a", "user:b\n\nc", "assistant:d", "user:e"));
  EXPECT_EQ(Placed(kRefuses, chat), chat);
  EXPECT_THAT(Placed({.later_system = LaterSystem::kRaises, .takes_turns = true},
                     {"user:a", "system:b", "user:c", "assistant:d", "system:e", "user:f"}),
              ElementsAre("user:a\n\nb\n\nc", "assistant:d", "user:e\n\nf"));
}

TEST(MessagePlaces, OtherFieldsOfMessagesStay) {
  Json messages = Json::parse(R"([{"role": "assistant", "content": "", "tool_calls": [1]},
      {"role": "tool", "content": "a", "tool_call_id": "1"}, {"role": "system", "content": "b"}])");
  PlaceMessages(kRefuses, messages);
  EXPECT_EQ(messages.dump(), R"([{"role":"assistant","content":"","tool_calls":[1]},)"
                             R"({"role":"tool","content":"a\n\nb","tool_call_id":"1"}])");
}

}  // namespace
}  // namespace baton
