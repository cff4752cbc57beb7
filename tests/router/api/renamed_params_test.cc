#include "router/api/renamed_params.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

constexpr RenamedParam kNewNames[] = {{"messages", "input"}, {"response_format", "text.format"}};

// The field of an error and its message, in the new words.
std::pair<std::string, std::string> Renamed(const std::string& param, const std::string& message) {
  const ApiError error =
      WithRenamedParam({.type = "", .param = param, .message = message}, kNewNames);
  return {error.param, error.message};
}

TEST(RenamedParams, AFieldIsRenamedInTheMessageTooAndCutBehindItsName) {
  for (const std::string param : {"messages", "messages[0].content", "messages.x"}) {
    EXPECT_EQ(Renamed(param, absl::StrCat(param, ": is missing")),
              std::pair(std::string("input"), std::string("input: is missing")));
  }
  EXPECT_EQ(Renamed("response_format.type", "response_format.type: must be text").first,
            "text.format");
}

TEST(RenamedParams, OtherFieldsKeepTheirNames) {
  for (const std::string param : {"top_p", "messages_of_mine", "message", ""}) {
    const std::string message = absl::StrCat(param, ": is odd");
    EXPECT_EQ(Renamed(param, message), std::pair(param, message));
  }
}

TEST(RenamedParams, AMessageThatDoesNotBeginWithTheFieldStays) {
  EXPECT_EQ(Renamed("messages", "there are no messages").second, "there are no messages");
}

}  // namespace
}  // namespace baton
