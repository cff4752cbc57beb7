#include "client/serve/metrics_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

#include "common/net/metrics.h"
#include "common/net/metrics_server.h"

namespace baton {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(MetricsPage, HasEachFamilyOnceWithTheSamplesOfAllParts) {
  const std::string page = MergeMetrics({{"router",
                                          "# HELP a_total Help, once.\n"
                                          "# TYPE a_total counter\n"
                                          "a_total{x=\"{ }\"} 1\n"
                                          "# HELP h Times.\n"
                                          "# TYPE h histogram\n"
                                          "h_bucket{le=\"+Inf\"} 2\n"
                                          "h_count 2\n"},
                                         {"prefill-0", std::nullopt},
                                         {"decode-0",
                                          "# HELP b Only here.\n"
                                          "# TYPE b gauge\n"
                                          "b 3\n"
                                          "# HELP a_total Help, once.\n"
                                          "# TYPE a_total counter\n"
                                          "a_total{} 4\n"}});
  EXPECT_EQ(page,
            "# HELP baton_part_up Whether the part gave its metrics.\n"
            "# TYPE baton_part_up gauge\n"
            "baton_part_up{part=\"router\"} 1\n"
            "baton_part_up{part=\"prefill-0\"} 0\n"
            "baton_part_up{part=\"decode-0\"} 1\n"
            "# HELP a_total Help, once.\n"
            "# TYPE a_total counter\n"
            "a_total{part=\"router\",x=\"{ }\"} 1\n"
            "a_total{part=\"decode-0\",} 4\n"
            "# HELP h Times.\n"
            "# TYPE h histogram\n"
            "h_bucket{part=\"router\",le=\"+Inf\"} 2\n"
            "h_count{part=\"router\"} 2\n"
            "# HELP b Only here.\n"
            "# TYPE b gauge\n"
            "b{part=\"decode-0\"} 3\n");
}

// The address of a bound socket on loopback.
std::string AddressOf(int fd) {
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
}

TEST(MetricsPage, APartThatDoesNotAnswerIsNotUpAndTheOthersAreThere) {
  const Metrics metrics("decode");
  const auto server = MetricsServer::Start("127.0.0.1:0", [&] { return metrics.Scrape(); });
  ASSERT_TRUE(server.ok()) << server.status();
  const int silent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in loopback{};
  loopback.sin_family = AF_INET;
  loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(silent, reinterpret_cast<sockaddr*>(&loopback), sizeof(loopback)), 0);
  const std::string nobody = AddressOf(silent);
  std::string page = ScrapeParts({{"prefill-0", nobody}, {"decode-0", (*server)->address()}});
  EXPECT_THAT(page, HasSubstr("baton_part_up{part=\"prefill-0\"} 0\n")) << "nobody listens";
  ASSERT_EQ(listen(silent, 8), 0);
  page = ScrapeParts({{"prefill-0", nobody}, {"decode-0", (*server)->address()}});
  EXPECT_THAT(page, HasSubstr("baton_part_up{part=\"prefill-0\"} 0\n")) << "nobody answers";
  EXPECT_THAT(page, HasSubstr("baton_part_up{part=\"decode-0\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("\nbaton_build_info{part=\"decode-0\",version="));
  EXPECT_THAT(page, Not(HasSubstr("_info{part=\"prefill-0\"")));
  close(silent);
}

}  // namespace
}  // namespace baton
