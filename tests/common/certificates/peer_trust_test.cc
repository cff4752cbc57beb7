#include "common/certificates/peer_trust.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/certificates.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

std::vector<RevocationList> ListsIn(const std::string& pem) {
  auto lists = ParseRevocationLists(pem);
  EXPECT_TRUE(lists.ok()) << lists.status();
  return std::move(lists).value_or(std::vector<RevocationList>());
}

TEST(PeerTrust, RefusesTheCertificatesOfTheLastListsAndNoOthers) {
  const TestAuthority authority("authority");
  const TestCertificate first = authority.IssueRole("decode/first");
  const TestCertificate second = authority.IssueRole("decode/second");
  PeerTrust trust;
  EXPECT_TRUE(trust.Check(first.pem).ok()) << "nothing is revoked";
  trust.SetRevoked(ListsIn(authority.Revoke({.revoked = {first}})));
  EXPECT_EQ(trust.Check(first.pem).code(), absl::StatusCode::kUnauthenticated);
  EXPECT_TRUE(trust.Check(second.pem).ok());
  EXPECT_FALSE(trust.Check(absl::StrCat(second.pem, first.pem)).ok()) << "one of a chain";
  trust.SetRevoked(ListsIn(authority.Revoke({.revoked = {second}})));
  EXPECT_TRUE(trust.Check(first.pem).ok());
  EXPECT_FALSE(trust.Check(second.pem).ok());
}

TEST(PeerTrust, RefusesWhatIsNoCertificateOnceThereAreLists) {
  const TestAuthority authority("authority");
  PeerTrust trust;
  trust.SetRevoked(ListsIn(authority.Revoke({})));
  EXPECT_FALSE(trust.Check("no certificate").ok());
  EXPECT_TRUE(trust.Check("").ok()) << "a peer without a certificate";
}

TEST(PeerTrust, RefusesPeersOfAnotherTrustDomain) {
  const Peer ours = {.role = Role::kDecode, .trust_domain = "a.org", .name = "d-0"};
  const Peer foreign = {.role = Role::kDecode, .trust_domain = "b.org", .name = "d-0"};
  PeerTrust trust;
  EXPECT_TRUE(trust.CheckDomain(foreign).ok()) << "there is no trust domain yet";
  trust.SetTrustDomain("a.org");
  EXPECT_TRUE(trust.CheckDomain(ours).ok());
  EXPECT_TRUE(trust.CheckDomain(Peer()).ok()) << "a client without an id";
  const absl::Status refused = trust.CheckDomain(foreign);
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("'b.org', but this process belongs to 'a.org'"));
  trust.SetTrustDomain("");
  EXPECT_TRUE(trust.CheckDomain(foreign).ok());
}

}  // namespace
}  // namespace baton
