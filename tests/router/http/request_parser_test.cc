#include "router/http/request_parser.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using Found = RequestParser::Found;

constexpr RequestParser::Limits kLimits{.max_header_bytes = 1000, .max_body_bytes = 100};

// The status that a request is refused with; 0: it is whole; -1: more is needed. `piece` bytes
// come at a time.
int StatusOf(absl::string_view bytes, size_t piece = 1 << 20) {
  RequestParser parser(kLimits);
  std::string input;
  while (true) {
    const Found found = parser.Parse(input);
    if (found == Found::kRequest) return 0;
    if (found == Found::kError) return parser.refusal().status;
    if (found == Found::kHead) continue;
    if (bytes.empty()) return -1;
    input.append(bytes.data(), std::min(piece, bytes.size()));
    bytes.remove_prefix(std::min(piece, bytes.size()));
  }
}

std::string Get(absl::string_view headers) {
  return absl::StrCat("GET / HTTP/1.1\r\nHost: x\r\n", headers, "\r\n");
}
std::string Repeated(absl::string_view text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) absl::StrAppend(&all, text);
  return all;
}
std::string Chunked(absl::string_view body) {
  return absl::StrCat("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", body);
}

TEST(RequestParserTest, EachRequestGetsItsStatusHoweverItsBytesAreCut) {
  const struct {
    std::string request;
    int status;
  } cases[] = {
      {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 0},
      {"\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", 0},
      {"\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"\r\n\r\n\r", -1},    //
      {"\r\n\r\n\rG", 400},  //
      {"GET / HTTP/1.0\r\n\r\n", 0},
      {"GET / HTTP/1.2\r\nHost: x\r\n\r\n", 0},
      {"M-SEARCH! / HTTP/1.1\r\nHost: x\r\n\r\n", 0},
      {"GET / HTTP/1.1\r\n\r\n", 400},               // no host
      {Get("Host: x\r\n"), 400},                     // twice
      {"GET / HTTP/1.1\r\nHost: x/y\r\n\r\n", 400},  // no host either
      {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400},  //
      {"GET / HTTP/1.1\r\nHost:\r\n\r\n", 400},      //
      {"GET / HTTP/1.1\r\nHost: 127.0.0.1:80:evil\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", 400},
      {"GET http://y/ HTTP/1.1\r\nHost: x\r\n\r\n", 0},
      {"GET http://y/ HTTP/1.1\r\n\r\n", 400},
      {"GET http://y/ HTTP/1.1\r\nHost:\r\n\r\n", 400},
      {"GET http://a@b/ HTTP/1.1\r\nHost: b\r\n\r\n", 400},
      {Get("Origin: a\r\nOrigin: a\r\n"), 400},
      {Get("Content-Type: a\r\ncontent-type: b\r\n"), 400},
      {Get("Sec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site\r\n"), 400},
      {"GET  / HTTP/1.1\r\nHost: x\r\n\r\n", 400},       // two spaces
      {"GET / HTTP/1.1 \r\nHost: x\r\n\r\n", 400},       //
      {" GET / HTTP/1.1\r\nHost: x\r\n\r\n", 400},       //
      {"GET /\r\nHost: x\r\n\r\n", 400},                 // HTTP/0.9
      {"G(T / HTTP/1.1\r\nHost: x\r\n\r\n", 400},        // no token
      {"GET / HTTX/1.1\r\nHost: x\r\n\r\n", 400},        //
      {"GET / HTTP/11\r\nHost: x\r\n\r\n", 400},         //
      {"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505},        //
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},         // HTTP/2 without an agreement
      {"GET / HTTP/1.1\nHost: x\n\n", 400},              // bare line feeds
      {"GET / HTTP/1.1\r\nHost: x\rA: b\r\n\r\n", 400},  // a bare carriage return
      {Get("A: b\r\n c\r\n"), 400},                      // a folded line
      {Get("A: b\r\n\tc\r\n"), 400},                     //
      {"GET / HTTP/1.1\r\n Host: x\r\n\r\n", 400},       //
      {Get("A : b\r\n"), 400},                           // a space before the colon
      {Get("A\r\n"), 400},                               // no colon
      {Get(": b\r\n"), 400},                             // no name
      {Get("A: b\x01\r\n"), 400},                        // a control character
      {Get(absl::string_view("A: b\0\r\n", 7)), 400},    //
      {Get("A: b\x7f\r\n"), 400},                        //
      {Get("A: \xc3\xa9\tx\r\n"), 0},                    // obsolete text, a tab
      {Get("A:\r\n"), 0},                                // no value
      {Get("Content-Length: 0\r\n"), 0},                 //
      {Get("Content-Length: 2\r\n") + "ab", 0},          //
      {Get("Content-Length: 2\r\n") + "a", -1},          //
      {Get("Content-Length: +2\r\n") + "ab", 400},       //
      {Get("Content-Length: 2, 2\r\n") + "ab", 400},     //
      {Get("Content-Length: 0x2\r\n") + "ab", 400},      //
      {Get("Content-Length:\r\n"), 400},                 //
      {Get("Content-Length: 2\r\nContent-Length: 2\r\n") + "ab", 400},
      {Get("Content-Length: 101\r\n"), 413},
      {Get("Content-Length: 99999999999999999999999999\r\n"), 413},
      {Get("Content-Length: 2\r\nTransfer-Encoding: chunked\r\n"), 400},
      {Get("Transfer-Encoding: gzip\r\n"), 501},
      {Get("Transfer-Encoding: gzip, chunked\r\n"), 501},
      {Get("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 501},
      {Get("Transfer-Encoding: \x0b"
           "chunked\r\n"),
       400},
      {"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {Get("Expect: more\r\n"), 417},
      {Get("X: " + std::string(1000, 'a') + "\r\n"), 431},
      {Get(Repeated("a:\r\n", 127)), 0},  // with Host as many as there may be
      {Get(Repeated("a:\r\n", 128)), 431},
      {Chunked("0\r\n\r\n"), 0},
      {Chunked("3\r\nabc\r\n0\r\n\r\n"), 0},
      {Chunked("00003 ;a=\"b\"\r\nabc\r\n000\r\nA: b\r\n\r\n"), 0},
      {Chunked("3\r\nabc0\r\n\r\n"), 400},      // a chunk that is longer than its size
      {Chunked("3\r\nabc\n0\r\n\r\n"), 400},    //
      {Chunked("3\nabc\r\n0\r\n\r\n"), 400},    // bare line feeds
      {Chunked("0\r\n\n"), 400},                //
      {Chunked(" 3\r\nabc\r\n"), 400},          // blanks around the size
      {Chunked("\t3;a\r\nabc\r\n"), 400},       //
      {Chunked("3 \r\nabc\r\n"), 400},          //
      {Chunked("\r\nabc\r\n"), 400},            // no size
      {Chunked("-1\r\n"), 400},                 //
      {Chunked("0x3\r\nabc\r\n"), 400},         //
      {Chunked("3;\x01\r\nabc\r\n"), 400},      //
      {Chunked("10000000000000003\r\n"), 400},  // a size that overflows
      {Chunked("65\r\n"), 413},                 // one more than 100
      {Chunked("63\r\n" + std::string(99, 'a') + "\r\n2\r\n"), 413},
      {Chunked("64\r\n" + std::string(100, 'a') + "\r\n0\r\n\r\n"), 0},
      {Chunked("3;" + std::string(2000, 'a')), 400},
      {Chunked("0\r\nA: " + std::string(1000, 'b') + "\r\n\r\n"), 431},
      {Chunked("0\r\nA b\r\n\r\n"), 400},
  };
  for (const auto& [request, status] : cases) {
    EXPECT_EQ(StatusOf(request), status) << request;
    EXPECT_EQ(StatusOf(request, 1), status) << request;
    EXPECT_EQ(StatusOf(request, 3), status) << request;
  }
}

// RFC 9112, section 3.2.2. What decides by Host would else judge another name than a proxy did.
TEST(RequestParserTest, TheAuthorityOfTheTargetReplacesHost) {
  for (const char* head : {"GET http://evil.example:80/a HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
                           "GET http://evil.example:80/a HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n",
                           "GET http://evil.example:80/a HTTP/1.0\r\n\r\n"}) {
    RequestParser parser(kLimits);
    std::string input = head;
    ASSERT_EQ(parser.Parse(input), Found::kHead) << head;
    EXPECT_EQ(parser.request().HeaderValues("host"), std::vector<std::string>{"evil.example:80"})
        << head;
    EXPECT_EQ(parser.request().path, "/a");
  }
}

TEST(RequestParserTest, WhatFollowsARequestIsLeft) {
  for (const std::string& request :
       {Get("Content-Length: 2\r\n") + "ab", Chunked("2\r\nab\r\n0\r\nX: y\r\n\r\n")}) {
    RequestParser parser(kLimits);
    std::string input = request + "GET /next";
    EXPECT_EQ(parser.Parse(input), Found::kHead);
    EXPECT_EQ(parser.Parse(input), Found::kRequest);
    EXPECT_EQ(parser.body(), "ab");
    EXPECT_EQ(parser.body_bytes(), 2u);
    EXPECT_EQ(input, "GET /next");
  }
}

TEST(RequestParserTest, TheConnectionsOptionsDependOnTheVersion) {
  const struct {
    const char* head;
    bool http_1_1, keep_alive, expects;
  } cases[] = {
      {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", true, true, false},
      {"GET / HTTP/1.1\r\nHost: x\r\nConnection: a, CLOSE\r\n\r\n", true, false, false},
      {"GET / HTTP/1.0\r\n\r\n", false, false, false},
      {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", false, true, false},
      {"GET / HTTP/1.0\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n", false, false,
       false},
      {"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nExpect: 100-Continue\r\n\r\n", true, true,
       true},
      {"PUT / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\r\n", true, true, false},
      {"PUT / HTTP/1.0\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n", false, false, false},
  };
  for (const auto& [head, http_1_1, keep_alive, expects] : cases) {
    RequestParser parser(kLimits);
    std::string input = head;
    ASSERT_EQ(parser.Parse(input), Found::kHead) << head;
    EXPECT_EQ(parser.framing().http_1_1, http_1_1) << head;
    EXPECT_EQ(parser.framing().keep_alive, keep_alive) << head;
    EXPECT_EQ(parser.framing().expects_continue, expects) << head;
  }
}

}  // namespace
}  // namespace baton
