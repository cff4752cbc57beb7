#include "router/web/request_id.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

constexpr char kTrace[] = "0af7651916cd43dd8448eb211c80319c";
constexpr char kTraceParent[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

std::string IdOf(std::vector<HttpHeader> headers) {
  return RequestIdOf({.method = "GET", .path = "/", .headers = std::move(headers)});
}

TEST(RequestId, AClientsOwnIdComesFirstThenItsTrace) {
  EXPECT_EQ(IdOf({{"x-request-id", "mine"}, {"traceparent", kTraceParent}}), "mine");
  EXPECT_EQ(IdOf({{"traceparent", kTraceParent}}), kTrace);
}

TEST(RequestId, AnIdThatALogOrAHeaderCannotHoldIsReplaced) {
  for (const std::string& bad : {std::string("two words"), std::string("\x01"), std::string("é"),
                                 std::string(100000, 'a'), std::string()}) {
    const std::string id = IdOf({{"x-request-id", bad}});
    EXPECT_NE(id, bad);
    EXPECT_EQ(id.size(), 32u);
    EXPECT_NE(id, IdOf({{"x-request-id", bad}})) << "each request has its own";
  }
}

TEST(RequestId, IdsThatAreDrawnDiffer) {
  EXPECT_EQ(NewId().size(), 32u);
  EXPECT_NE(NewId(), NewId());
}

}  // namespace
}  // namespace baton
