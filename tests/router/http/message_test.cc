#include "router/http/message.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(HttpMessage, TellsTheValuesOfAHeaderInTheirOrder) {
  const HttpRequest request{
      .method = "GET", .path = "/", .headers = {{"a", "1"}, {"b", "2"}, {"a", "3"}}};
  EXPECT_THAT(request.HeaderValues("a"), ElementsAre("1", "3"));
  EXPECT_EQ(request.Header("a"), "1");
  EXPECT_EQ(request.Header("b"), "2");
  EXPECT_THAT(request.HeaderValues("c"), IsEmpty());
  EXPECT_EQ(request.Header("c"), "");
}

TEST(HttpMessage, AnAnswerInJsonSaysSo) {
  const HttpResponse answer = JsonResponse(404, "{}");
  EXPECT_EQ(answer.status, 404);
  EXPECT_EQ(answer.body, "{}");
  EXPECT_THAT(answer.headers, ElementsAre(HttpHeader{"Content-Type", "application/json"}));
}

}  // namespace
}  // namespace baton
