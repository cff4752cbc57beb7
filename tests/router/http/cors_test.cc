#include "router/http/cors.h"

#include "absl/strings/match.h"

#include "tests/router/http/http_fixture.h"

namespace baton {
namespace {

class CorsTest : public HttpFixture {};

constexpr char kAllowed[] = "Access-Control-Allow-Origin";

std::string From(absl::string_view origin, absl::string_view rest = "") {
  return absl::StrCat("GET /a HTTP/1.1\r\nHost: x\r\nOrigin: ", origin, "\r\n", rest, "\r\n");
}
constexpr char kPreflight[] =
    "OPTIONS /v1 HTTP/1.1\r\nHost: x\r\nOrigin: https://a.example\r\n"
    "Access-Control-Request-Method: POST\r\n"
    "Access-Control-Request-Headers: authorization, content-type\r\n\r\n";

TEST_F(CorsTest, AnAllowedOriginStandsInEveryAnswerAndInErrorsToo) {
  Start({.cors_origins = {"https://a.example", "https://b.example"}});
  AnswerAtOnce();
  HttpSocket client(server_->address());
  client.Send(From("https://b.example"));
  HttpAnswer answer = client->ReadAnswer();
  EXPECT_EQ(answer.headers["access-control-allow-origin"], "https://b.example");
  EXPECT_EQ(answer.headers["vary"], "Origin");
  client.Send(From("https://b.example", "Transfer-Encoding: gzip\r\n"));
  answer = client->ReadAnswer();
  EXPECT_EQ(answer.status, 501);
  EXPECT_EQ(answer.headers["access-control-allow-origin"], "https://b.example");
}

TEST_F(CorsTest, OtherOriginsAndNoneGetNoPermissionButTheAnswerVaries) {
  Start({.cors_origins = {"https://a.example"}});
  AnswerAtOnce();
  HttpSocket client(server_->address());
  for (const std::string& request : {From("https://evil.example"), std::string(kGet)}) {
    client.Send(request);
    const HttpAnswer answer = client->ReadAnswer();
    EXPECT_FALSE(answer.headers.contains("access-control-allow-origin"));
    EXPECT_TRUE(answer.headers.contains("vary"));
  }
}

TEST_F(CorsTest, ABrowsersQuestionIsAnsweredByTheServerWithoutAKey) {
  Start({.cors_origins = {"*"}});
  SetCheck([](const HttpRequest&) { return HttpResponse{.status = 401}; });
  HttpSocket client(server_->address());
  client.Send(kPreflight);
  HttpAnswer answer = client->ReadAnswer();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.headers["access-control-allow-origin"], "https://a.example");
  EXPECT_EQ(answer.headers["access-control-allow-methods"], "GET, POST, DELETE, OPTIONS");
  EXPECT_EQ(answer.headers["access-control-allow-headers"], "authorization, content-type");
  EXPECT_EQ(answer.headers["content-length"], "0");
  client.Send(From("https://a.example"));
  answer = client->ReadAnswer();
  EXPECT_EQ(answer.status, 401);
  EXPECT_EQ(answer.headers["access-control-allow-origin"], "https://a.example");
}

TEST_F(CorsTest, WithoutOriginsTheServerSaysNothingOfThem) {
  Start();
  AnswerAtOnce();
  HttpSocket client(server_->address());
  client.Send(kPreflight);
  const HttpAnswer answer = client->ReadAnswer();
  EXPECT_EQ(answer.body, "OPTIONS /v1  ");
  EXPECT_FALSE(answer.headers.contains("vary"));
  EXPECT_FALSE(answer.headers.contains("access-control-allow-origin"));
}

TEST_F(CorsTest, AStreamOfEventsHasThePermissionToo) {
  Start({.cors_origins = {"*"}});
  HttpSocket client(server_->address());
  client.Send(From("https://a.example"));
  const auto exchange = Next();
  exchange->BeginEvents({});
  EXPECT_EQ(client->ReadHead().headers["access-control-allow-origin"], "https://a.example");
}

TEST_F(CorsTest, ADisallowedOriginsQuestionGetsNoPermission) {
  const HttpRequest request{
      .method = "OPTIONS",
      .path = "/",
      .headers = {{"origin", "https://evil.example"}, {"access-control-request-method", "POST"}}};
  const auto answer = AnswerPreflight({"https://a.example"}, request);
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(answer->headers.empty());
  for (const HttpHeader& header : CorsHeaders({"https://a.example"}, request)) {
    EXPECT_NE(header.name, kAllowed);
  }
}

}  // namespace
}  // namespace baton
