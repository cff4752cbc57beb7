#include "common/net/refused_connections.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

TEST(RefusedConnections, AreCountedByPortAndReason) {
  Metrics metrics("router");
  const auto grpc = RefusedConnectionsCounter("grpc", metrics);
  const auto http = RefusedConnectionsCounter("http", metrics);
  int count = 0;
  for (const auto reason : {Acceptor::Refusal::kRate, Acceptor::Refusal::kRoom,
                            Acceptor::Refusal::kMemory, Acceptor::Refusal::kDescriptors}) {
    ++count;
    for (int i = 0; i < count; ++i) grpc(reason);
  }
  http(Acceptor::Refusal::kRoom);
  const std::string text = metrics.Scrape();
  const auto sample = [](const char* port, const char* reason, int value) {
    return absl::StrCat("baton_refused_connections_total{port=\"", port, "\",reason=\"", reason,
                        "\",model_name=\"\",role=\"router\"} ", value, "\n");
  };
  EXPECT_THAT(text, HasSubstr(sample("grpc", "rate", 1)));
  EXPECT_THAT(text, HasSubstr(sample("grpc", "room", 2)));
  EXPECT_THAT(text, HasSubstr(sample("grpc", "memory", 3)));
  EXPECT_THAT(text, HasSubstr(sample("grpc", "descriptors", 4)));
  EXPECT_THAT(text, HasSubstr(sample("http", "room", 1)));
  EXPECT_THAT(text, HasSubstr(sample("http", "rate", 0)));
}

}  // namespace
}  // namespace baton
