#include "client/doctor/port_check.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/base/address.h"
#include "tests/client/doctor/find_finding.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

// A port of loopback that this process listens on as long as the object lives.
class TakenPort {
 public:
  TakenPort() : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(fd_, 1), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    address_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  }
  ~TakenPort() { close(fd_); }
  const std::string& address() const { return address_; }

 private:
  int fd_;
  std::string address_;
};

TEST(PortFinding, OfATakenPortSaysWhoHasIt) {
  const TakenPort taken;
  const PortFacts facts = GatherPortFacts("a.toml", "--listen", taken.address());
  EXPECT_EQ(facts.holder.pid, getpid());
  const Finding finding = PortFinding(facts);
  EXPECT_EQ(finding.verdict, Verdict::kFailed);
  EXPECT_THAT(finding.found, HasSubstr(absl::StrCat("(process ", getpid(), ")")));
  EXPECT_THAT(finding.subject, HasSubstr("a.toml --listen 127.0.0.1:"));
}

TEST(PortFinding, OfADefaultThatIsTakenIsAWarning) {
  const TakenPort taken;
  PortFacts facts = GatherPortFacts("baton serve", "--listen", taken.address());
  facts.chosen = false;
  EXPECT_EQ(PortFinding(facts).verdict, Verdict::kWarning);
}

TEST(PortFinding, OfAPortThatBatonHasIsOk) {
  const PortFacts facts = {.listen = absl::UnavailableError("in use"),
                           .holder = {.pid = 7, .program = "baton-router"}};
  EXPECT_TRUE(HeldByBaton(facts));
  EXPECT_EQ(PortFinding(facts).verdict, Verdict::kOk);
  EXPECT_THAT(PortFinding(facts).found, HasSubstr("baton-router (process 7)"));
}

TEST(PortFinding, OfAFreePortIsOkAndOfAForeignAddressFails) {
  EXPECT_EQ(PortFinding(GatherPortFacts("a", "--listen", "127.0.0.1:0")).verdict, Verdict::kOk);
  const Finding foreign = PortFinding(GatherPortFacts("a", "--listen", "192.0.2.1:50051"));
  EXPECT_EQ(foreign.verdict, Verdict::kFailed);
  EXPECT_THAT(foreign.found, HasSubstr("no such address"));
}

}  // namespace
}  // namespace baton
