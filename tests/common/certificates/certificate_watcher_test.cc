#include "common/certificates/certificate_watcher.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/certificates.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TEST(MemoryFile, KeepsItsPathAndReplacesItsContentsAsAWhole) {
  MemoryFile file;
  ASSERT_TRUE(file.Replace(std::string(100000, 'a')).ok());
  const std::string path = file.path();
  std::ifstream open_before(path);
  ASSERT_TRUE(file.Replace("b").ok());
  EXPECT_EQ(file.path(), path);
  EXPECT_EQ(Contents(path), "b");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(open_before), {}), std::string(100000, 'a'))
      << "who reads goes on with what he began";
}

// A watcher that follows files which the test replaces.
class CertificateWatcherTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Write(first_);
    tls_.ca_file = WriteTestFile("watched-ca.pem", authority_.pem());
  }
  void Write(const TestCertificate& certificate) {
    tls_.cert_file = WriteTestFile("watched.pem", certificate.pem);
    tls_.key_file = WriteTestFile("watched.key", certificate.key_pem);
  }
  void WriteList(const std::string& text) { tls_.crl_file = WriteTestFile("watched.crl", text); }

  void Start() {
    auto watcher = CertificateWatcher::Start(tls_, absl::Milliseconds(2));
    ASSERT_TRUE(watcher.ok()) << watcher.status();
    watcher_ = *std::move(watcher);
  }
  std::string StartError() const {
    return std::string(CertificateWatcher::Start(tls_, absl::Milliseconds(2)).status().message());
  }
  void WaitFor(uint64_t CertificateWatcher::State::*count, uint64_t value) const {
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    while (watcher_->state().*count < value) {
      ASSERT_LT(absl::Now(), deadline);
      absl::SleepFor(absl::Milliseconds(1));
    }
  }
  bool Trusts(const TestCertificate& certificate) const {
    return watcher_->trust()->Check(certificate.pem).ok();
  }

  const TestAuthority authority_{"authority"};
  const TestCertificate first_ = authority_.IssueRole("decode/first");
  const TestCertificate second_ = authority_.IssueRole("decode/second");
  TlsFlags tls_;
  std::unique_ptr<CertificateWatcher> watcher_;
};
constexpr auto kReloads = &CertificateWatcher::State::reloads;
constexpr auto kFailedReloads = &CertificateWatcher::State::failed_reloads;

TEST_F(CertificateWatcherTest, APairIsGivenToGrpcInOneFileAndOnlyWhenItBelongsTogether) {
  Start();
  const std::string path = watcher_->identity_path();
  EXPECT_EQ(Contents(path), absl::StrCat(first_.key_pem, "\n", first_.pem));
  EXPECT_EQ(Contents(watcher_->roots_path()), authority_.pem());
  WriteTestFile("watched.pem", second_.pem);
  WaitFor(kFailedReloads, 1);
  EXPECT_EQ(Contents(path), absl::StrCat(first_.key_pem, "\n", first_.pem));
  Write(second_);
  WaitFor(kReloads, 1);
  EXPECT_EQ(Contents(path), absl::StrCat(second_.key_pem, "\n", second_.pem));
}

TEST_F(CertificateWatcherTest, OneForClientsOnlyIsRenewedWhoeverSignsIt) {
  tls_.for_clients_only = true;
  for (const std::string& ca_file : {tls_.ca_file, std::string()}) {
    tls_.ca_file = ca_file;
    Write(first_);
    Start();
    EXPECT_EQ(watcher_->roots_path().empty(), ca_file.empty());
    const TestCertificate renewed = TestAuthority("public").Issue({});
    Write(renewed);
    WaitFor(kReloads, 1);
    EXPECT_EQ(Contents(watcher_->identity_path()),
              absl::StrCat(renewed.key_pem, "\n", renewed.pem));
  }
}

TEST_F(CertificateWatcherTest, ARevocationListThatIsNotRightStopsTheStart) {
  const TestAuthority stranger("authority");  // by the same name
  const absl::Time now = absl::Now();
  const std::pair<std::string, std::string> lists[] = {
      {"no list", "contains no revocation list"},
      {authority_.Revoke({}).substr(0, 200), "broken revocation list"},
      {stranger.Revoke({}), "is not signed by an authority of --tls-ca"},
      {absl::StrCat(authority_.Revoke({}), TestAuthority("other").Revoke({})), "'CN = other'"},
      {authority_.Revoke({.until = now - absl::Seconds(1)}), "baton certs revoke"},
      {authority_.Revoke({.from = now + absl::Minutes(5)}), "is not valid before"},
      {authority_.Revoke({.only_changes = true}), "is not a whole one"}};
  for (const auto& [list, error] : lists) {
    WriteList(list);
    EXPECT_THAT(StartError(), AllOf(HasSubstr("--tls-crl " + tls_.crl_file), HasSubstr(error)));
  }
  tls_.crl_file = "/nowhere/ca.crl";
  EXPECT_THAT(StartError(), HasSubstr("--tls-crl /nowhere/ca.crl: No such file"));
}

TEST_F(CertificateWatcherTest, EachAuthorityInUseMayHaveAList) {
  const TestAuthority clients("clients");
  tls_.client_ca_file = WriteTestFile("watched-clients.pem", clients.pem());
  const TestCertificate client = clients.IssueRole("client/a");
  WriteList(absl::StrCat(authority_.Revoke({.revoked = {second_}}),
                         clients.Revoke({.revoked = {client}})));
  Start();
  EXPECT_TRUE(Trusts(first_));
  EXPECT_FALSE(Trusts(second_));
  EXPECT_FALSE(Trusts(client));
  EXPECT_TRUE(Trusts(clients.IssueRole("client/a")));
  EXPECT_FALSE(Trusts({.pem = absl::StrCat(first_.pem, second_.pem), .key_pem = ""}))
      << "a chain with a revoked authority";
}

TEST_F(CertificateWatcherTest, TheLastGoodListStaysUntilTheNextGoodOne) {
  const absl::Time end = absl::FromUnixSeconds(absl::ToUnixSeconds(absl::Now())) + absl::Hours(1);
  WriteList(authority_.Revoke({.revoked = {second_}, .until = end}));
  Start();
  EXPECT_EQ(watcher_->state().lists_end, end);
  uint64_t failed = 0;
  for (const std::string& bad : {std::string("no list"), TestAuthority("other").Revoke({}),
                                 authority_.Revoke({.until = absl::Now() - absl::Seconds(1)})}) {
    WriteList(bad);
    WaitFor(kFailedReloads, ++failed);
  }
  unlink(tls_.crl_file.c_str());
  WaitFor(kFailedReloads, ++failed);
  EXPECT_FALSE(Trusts(second_));
  EXPECT_EQ(watcher_->state().lists_end, end);

  const TestCertificate third = authority_.IssueRole("decode/third");
  EXPECT_TRUE(Trusts(third));
  WriteList(authority_.Revoke({.revoked = {third, second_}}));
  WaitFor(kReloads, 1);
  EXPECT_FALSE(Trusts(third));
  EXPECT_FALSE(Trusts(second_));
  WriteList(authority_.Revoke({}));
  WaitFor(kReloads, 2);
  EXPECT_TRUE(Trusts(third));
}

TEST_F(CertificateWatcherTest, NeitherCertificatesNorListsWaitForTheOther) {
  WriteList(authority_.Revoke({}));
  Start();
  WriteTestFile("watched.pem", second_.pem);  // without its key
  WaitFor(kFailedReloads, 1);
  WriteList(authority_.Revoke({.revoked = {first_}}));
  WaitFor(kReloads, 1);
  EXPECT_FALSE(Trusts(first_));
  WriteList("no list");
  WaitFor(kFailedReloads, 2);
  Write(second_);
  WaitFor(kReloads, 2);
  EXPECT_EQ(Contents(watcher_->identity_path()), absl::StrCat(second_.key_pem, "\n", second_.pem));
}

TEST_F(CertificateWatcherTest, ARenewedKeyThatOthersMayReadIsALineOfTheLog) {
  Start();
  chmod(tls_.key_file.c_str(), 0644);
  ::testing::internal::CaptureStderr();
  std::ofstream(tls_.key_file) << second_.key_pem;  // the mode stays
  std::ofstream(tls_.cert_file) << second_.pem;
  WaitFor(kReloads, 1);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr(absl::StrCat("--tls-key ", tls_.key_file, ": mode 0644: everybody")));
}

TEST_F(CertificateWatcherTest, AListThatGetsOldIsTold) {
  WriteList(authority_.Revoke({.revoked = {second_}, .until = absl::Now() + absl::Seconds(1)}));
  ::testing::internal::CaptureStderr();
  Start();
  while (absl::Now() <= watcher_->state().lists_end) absl::SleepFor(absl::Milliseconds(1));
  // Between the two reloads the watcher looks at the list, too.
  Write(second_);
  WaitFor(kReloads, 1);
  Write(first_);
  WaitFor(kReloads, 2);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("stays in use; get a new one"));
  EXPECT_FALSE(Trusts(second_));
}

}  // namespace
}  // namespace baton
