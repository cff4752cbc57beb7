#include "common/certificates/pem.h"

#include <openssl/pem.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/certificates.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PemTest : public ::testing::Test {
 protected:
  // Now, without the part of a second that certificates do not hold.
  static absl::Time Second() { return absl::FromUnixSeconds(absl::ToUnixSeconds(absl::Now())); }
  template <typename T>
  static std::string Error(const absl::StatusOr<T>& result) {
    return std::string(result.status().message());
  }

  const TestAuthority authority_{"authority"};
  const TestCertificate first_ = authority_.IssueRole("decode/first");
  const TestCertificate second_ = authority_.IssueRole("decode/second");
};

TEST_F(PemTest, CertificatesAreReadInTheirOrderAndWrittenAsTheyWere) {
  const auto read =
      ParseCertificates(absl::StrCat("# first\n", first_.pem, "between\n", second_.pem, "after\n"));
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), 2u);
  EXPECT_EQ(ToPem(*read->at(0)), first_.pem);
  EXPECT_EQ(ToPem(*read->at(1)), second_.pem);
}

TEST_F(PemTest, ABrokenPartIsNoEnd) {
  std::string broken = second_.pem;
  broken[broken.size() / 2] = '!';
  EXPECT_THAT(Error(ParseCertificates(absl::StrCat(first_.pem, broken))),
              HasSubstr("broken certificate, number 2"));
  EXPECT_THAT(Error(ParseCertificates(broken)), HasSubstr("broken certificate, number 1"));
  std::string broken_list = authority_.Revoke({});
  broken_list[broken_list.size() / 2] = '!';
  EXPECT_THAT(Error(ParseRevocationLists(absl::StrCat(authority_.Revoke({}), broken_list))),
              HasSubstr("broken revocation list, number 2"));
}

TEST_F(PemTest, WhatIsMissingIsNamed) {
  EXPECT_THAT(Error(ParseCertificates("")), HasSubstr("contains no certificate"));
  EXPECT_THAT(Error(ParseCertificates(first_.key_pem)), HasSubstr("BEGIN CERTIFICATE"));
  EXPECT_THAT(Error(ParseRevocationLists(first_.pem)), HasSubstr("contains no revocation list"));
  EXPECT_THAT(Error(ParsePrivateKey(first_.pem)), HasSubstr("unencrypted private key"));
}

TEST_F(PemTest, AKeyIsReadAndWritten) {
  const auto key = ParsePrivateKey(absl::StrCat(first_.pem, first_.key_pem));
  ASSERT_TRUE(key.ok()) << key.status();
  EXPECT_EQ(ToPem(**key), first_.key_pem);
}

TEST_F(PemTest, AnEncryptedKeyIsRefusedWithoutAskingForAPassword) {
  const auto key = ParsePrivateKey(first_.key_pem);
  const OpenSslBuffer text(BIO_new(BIO_s_mem()));
  char password[] = "secret";
  ASSERT_EQ(PEM_write_bio_PKCS8PrivateKey(text.get(), key->get(), EVP_aes_128_cbc(), password, 6,
                                          nullptr, nullptr),
            1);
  char* data = nullptr;
  const long size = BIO_get_mem_data(text.get(), &data);
  EXPECT_THAT(Error(ParsePrivateKey(std::string(data, static_cast<size_t>(size)))),
              HasSubstr("unencrypted private key"));
}

TEST_F(PemTest, TheLivesOfCertificatesAndListsAreRead) {
  const absl::Time from = Second() - absl::Hours(3), until = Second() + absl::Hours(30);
  const auto certificate = ParseCertificates(authority_.Issue({.from = from, .until = until}).pem);
  ASSERT_TRUE(certificate.ok()) << certificate.status();
  EXPECT_EQ(ValidFrom(*certificate->front()), from);
  EXPECT_EQ(ValidUntil(*certificate->front()), until);
  const auto list = ParseRevocationLists(authority_.Revoke({.from = from, .until = until}));
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(ValidFrom(*list->front()), from);
  EXPECT_EQ(ValidUntil(*list->front()), until);
}

TEST_F(PemTest, OnlyUrisAreReadOfTheAlternativeNames) {
  const auto uris = [&](const std::string& names) {
    return UrisOf(*ParseCertificates(authority_.Issue({.names = names}).pem)->front());
  };
  EXPECT_THAT(uris("DNS:a"), IsEmpty());
  EXPECT_THAT(uris("URI:spiffe://b/c,DNS:a,URI:https://d"),
              ElementsAre("spiffe://b/c", "https://d"));
}

}  // namespace
}  // namespace baton
