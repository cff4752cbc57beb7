#include "router/http/answer_text.h"

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(AnswerTextTest, AHeadSaysHowTheBodyEndsAndHowTheConnectionGoesOn) {
  const absl::Time date = absl::FromUnixSeconds(784111777);  // the example of RFC 9110
  const std::string begin = "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nA: b\r\n";
  const auto text = [&](bool http_1_1, bool keep_alive, std::optional<size_t> length) {
    return AnswerHeadText({.headers = {{"A", "b"}},
                           .http_1_1 = http_1_1,
                           .keep_alive = keep_alive,
                           .date = date,
                           .content_length = length});
  };
  EXPECT_EQ(text(true, true, 3), begin + "Content-Length: 3\r\n\r\n");
  EXPECT_EQ(text(true, false, 3), begin + "Content-Length: 3\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(text(true, true, std::nullopt), begin + "Transfer-Encoding: chunked\r\n\r\n");
  EXPECT_EQ(text(false, true, 3), begin + "Content-Length: 3\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(text(false, false, std::nullopt), begin + "Connection: close\r\n\r\n");
}

TEST(AnswerTextTest, AHeaderCannotMakeFurtherOnes) {
  const std::string text = AnswerHeadText(
      {.status = 299, .headers = {{"A", "b\r\nSet-Cookie: c"}}, .content_length = 0});
  EXPECT_NE(text.find("A: b  Set-Cookie: c\r\n"), std::string::npos);
}

TEST(AnswerTextTest, AChunkBeginsWithItsSizeInHexadecimal) { EXPECT_EQ(ChunkHead(26), "1a\r\n"); }

}  // namespace
}  // namespace baton
