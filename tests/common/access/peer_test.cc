#include "common/access/peer.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

TEST(Peer, IsReadFromTheIdThatItIsWrittenAs) {
  for (const Role role : kAllRoles) {
    for (const char* name : {"a", "prefill-0", "zone_1/Node.2/0", "..."}) {
      const Peer peer{.role = role, .trust_domain = "my-cluster.example_1.org", .name = name};
      const absl::StatusOr<std::string> id = PeerId(peer);
      ASSERT_TRUE(id.ok()) << id.status();
      EXPECT_EQ(
          *id, absl::StrCat("spiffe://my-cluster.example_1.org/baton/", RoleName(role), "/", name));
      const absl::StatusOr<Peer> read = ParsePeer(*id);
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(*read, peer);
    }
  }
}

TEST(Peer, RefusesAnIdThatIsNoneAndNamesThePart) {
  const struct {
    std::string id;
    const char* why;
  } kCases[] = {
      {"", "does not begin with spiffe://"},
      {"https://d/baton/client/a", "does not begin with spiffe://"},
      {"SPIFFE://d/baton/client/a", "does not begin with spiffe://"},
      {" spiffe://d/baton/client/a", "does not begin with spiffe://"},
      {"spiffe:///baton/client/a", "the trust domain '' is empty"},
      {"spiffe://D/baton/client/a", "the trust domain 'D' may have only"},
      {"spiffe://d:1/baton/client/a", "the trust domain 'd:1' may have only"},
      {"spiffe://u@d/baton/client/a", "the trust domain 'u@d' may have only"},
      {absl::StrCat("spiffe://", std::string(256, 'd'), "/baton/client/a"), "more than 255 bytes"},
      {"spiffe://d", "does not begin with /baton/"},
      {"spiffe://d/other/client/a", "does not begin with /baton/"},
      {"spiffe://d//baton/client/a", "does not begin with /baton/"},
      {"spiffe://d/baton", "the role is missing"},
      {"spiffe://d/baton/",
       "the role '' is not one of client, router, prefill, decode, front, "
       "operator"},
      {"spiffe://d/baton/Router/a", "the role 'Router' is not one of"},
      {"spiffe://d/baton/router%2f/a", "the role 'router%2f' is not one of"},
      {"spiffe://d/baton/router", "the name is missing"},
      {"spiffe://d/baton/router/", "the name '' is empty"},
      {"spiffe://d/baton/router/a/", "the name 'a/' is empty or has an empty part"},
      {"spiffe://d/baton/router/a//b", "the name 'a//b' is empty or has an empty part"},
      {"spiffe://d/baton/router/a/../b", "must not have '.' or '..'"},
      {"spiffe://d/baton/router/.", "must not have '.' or '..'"},
      {"spiffe://d/baton/router/a%41", "the name 'a%41' may have only"},
      {"spiffe://d/baton/router/a?b", "the name 'a?b' may have only"},
      {"spiffe://d/baton/router/a#b", "the name 'a#b' may have only"},
      {"spiffe://d/baton/router/\xc3\xa4", "may have only"},
      {std::string("spiffe://d/baton/router/a\0b", 27), "may have only"},
      {absl::StrCat("spiffe://d/baton/router/", std::string(2048, 'a')), "more than 2048 bytes"}};
  for (const auto& c : kCases) {
    const absl::StatusOr<Peer> peer = ParsePeer(c.id);
    ASSERT_FALSE(peer.ok()) << c.id;
    EXPECT_EQ(peer.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(peer.status().message()), HasSubstr(c.why));
    EXPECT_THAT(std::string(peer.status().message()), HasSubstr("/baton/<role>/<name>"));
    EXPECT_LT(peer.status().message().size(), 800u) << "an id from outside is not quoted in full";
  }
}

TEST(Peer, IsWrittenOnlyIfItWouldBeReadBackTheSame) {
  for (const Peer& peer :
       {Peer{Role::kRouter, "", "a"}, Peer{Role::kRouter, "d/baton/operator", "a"},
        Peer{Role::kRouter, "d", ""}, Peer{Role::kRouter, "d", "/a"},
        Peer{Role::kRouter, "d", "a b"}, Peer{Role::kRouter, "d", std::string(2048, 'a')}}) {
    EXPECT_FALSE(PeerId(peer).ok()) << peer.trust_domain << " " << peer.name;
  }
}

}  // namespace
}  // namespace baton
