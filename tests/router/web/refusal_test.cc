#include "router/web/refusal.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <nlohmann/json.hpp>

#include "common/rpc/status.h"
#include "router/api/api_error.h"

namespace baton {
namespace {

using ::testing::Contains;
using Json = nlohmann::ordered_json;

TEST(Refusal, NamesTheFieldInTheWordsOfItsApi) {
  const absl::Status status = InvalidField("chat.messages[0].content", "is missing");
  EXPECT_EQ(ErrorOf(Api::kOpenAi, status).param, "messages[0].content");
  EXPECT_EQ(ErrorOf(Api::kResponses, status).param, "input");
  EXPECT_EQ(ErrorOf(Api::kResponses, status).message, "input: is missing");
  EXPECT_EQ(ErrorOf(Api::kAnthropic, status).param, "messages");
  EXPECT_EQ(ErrorOf(Api::kAnthropic, InvalidField("sampling_params.stop", "is too long")).param,
            "stop_sequences");
}

TEST(Refusal, NamesTheFieldOfTheBodyAsTheClientSentIt) {
  const absl::Status status = InvalidParam("messages[3].content[1].type", "is missing");
  for (const Api api : {Api::kOpenAi, Api::kResponses, Api::kAnthropic}) {
    EXPECT_EQ(ErrorOf(api, status).message, "messages[3].content[1].type: is missing");
  }
}

TEST(Refusal, HasTheEnvelopeOfItsApiAndTheRequestsId) {
  const absl::Status status = absl::UnavailableError("no worker is ready");
  for (const Api api : {Api::kOpenAi, Api::kResponses, Api::kAnthropic}) {
    const HttpResponse refusal = Refusal(api, ErrorOf(api, status), "q7");
    EXPECT_EQ(refusal.status, 503);
    EXPECT_THAT(refusal.headers, Contains(HttpHeader{kRequestIdHeader, "q7"}));
    const Json body = Json::parse(refusal.body);
    EXPECT_EQ(body["error"]["message"], "no worker is ready");
    if (api == Api::kAnthropic) {
      EXPECT_EQ(body["type"], "error");
      EXPECT_EQ(body["request_id"], "q7");
    } else {
      EXPECT_EQ(body.size(), 1u);
      EXPECT_TRUE(body["error"].contains("code"));
    }
  }
}

}  // namespace
}  // namespace baton
