#include "router/api/named_event.h"

#include <string>

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(NamedEvent, IsCalledByItsType) {
  std::string out = "before\n\n";
  AppendNamedEvent({{"type", "ping"}}, out);
  AppendNamedEvent({{"type", "text.delta"}, {"delta", "a\nb"}}, out);
  EXPECT_EQ(out,
            "before\n\n"
            "event: ping\ndata: {\"type\":\"ping\"}\n\n"
            "event: text.delta\ndata: {\"type\":\"text.delta\",\"delta\":\"a\\nb\"}\n\n");
}

TEST(NamedEvent, BytesThatAreNoUtf8AreReplaced) {
  std::string out;
  AppendNamedEvent({{"type", "text"}, {"delta", "a\xff"}}, out);
  EXPECT_EQ(out, "event: text\ndata: {\"type\":\"text\",\"delta\":\"a\uFFFD\"}\n\n");
}

}  // namespace
}  // namespace baton
