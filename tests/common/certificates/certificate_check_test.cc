#include "common/certificates/certificate_check.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"

#include "common/access/access_table.h"
#include "common/net/channel.h"
#include "tests/common/net/test_service.h"
#include "tests/support/certificates.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

// Servers of each role, and what a channel with a purpose says when it reaches them.
class CertificateCheckTest : public ::testing::Test {
 protected:
  absl::Status Call(const TestCertificate& server_certificate, ChannelPurpose purpose) {
    return Call(server_certificate, purpose, Own());
  }
  absl::Status Call(const TestCertificate& server_certificate, ChannelPurpose purpose,
                    const Credentials& own) {
    grpc::SslServerCredentialsOptions options;
    options.pem_key_cert_pairs = {{server_certificate.key_pem, server_certificate.pem}};
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(options), &port);
    builder.RegisterService(&service_);
    const auto server = builder.BuildAndStart();
    const auto channel = MakeChannel(absl::StrCat("127.0.0.1:", port), own, purpose);
    const auto stub = v1::GenerationService::NewStub(*channel);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    v1::TokenizeResponse response;
    return FromGrpcStatus(stub->Tokenize(&context, v1::TokenizeRequest(), &response));
  }

  // `server_name`: as --tls-server-name.
  static Credentials MakeOwn(const std::string& server_name) {
    const TestCertificate own = kAuthority.IssueRole("router/own");
    TlsFlags tls;
    tls.cert_file = WriteTestFile("own.pem", own.pem);
    tls.key_file = WriteTestFile("own.key", own.key_pem);
    tls.ca_file = WriteTestFile("authority.pem", kAuthority.pem());
    tls.crl_file = WriteTestFile("list.pem", kAuthority.Revoke({.revoked = {Stolen()}}));
    tls.server_name = server_name;
    return *Credentials::Create(tls);
  }
  static const Credentials& Own() {
    static const Credentials* const kCredentials = new Credentials(MakeOwn(""));
    return *kCredentials;
  }

  // A decode worker's, which was revoked.
  static const TestCertificate& Stolen() {
    static const TestCertificate* const kStolen =
        new TestCertificate(kAuthority.IssueRole("decode/stolen"));
    return *kStolen;
  }

  static const TestAuthority kAuthority;
  TestService service_;
};
const TestAuthority CertificateCheckTest::kAuthority{"authority"};

TEST_F(CertificateCheckTest, AChannelReachesOnlyServersOfItsPurposesRole) {
  for (const ChannelPurpose purpose : {ChannelPurpose::kClient, ChannelPurpose::kPrefill,
                                       ChannelPurpose::kDecode, ChannelPurpose::kBulk}) {
    for (const Role role : kAllRoles) {
      const bool client = purpose == ChannelPurpose::kClient;
      const bool right = client ? role == Role::kRouter || role == Role::kFront
                         : purpose == ChannelPurpose::kPrefill ? role == Role::kPrefill
                                                               : role == Role::kDecode;
      const absl::Status status =
          Call(kAuthority.IssueRole(absl::StrCat(RoleName(role), "/a")), purpose);
      EXPECT_EQ(status.code(), right ? absl::StatusCode::kOk : absl::StatusCode::kUnavailable)
          << static_cast<int>(purpose) << " " << RoleName(role) << " " << status;
      if (!right) {
        EXPECT_THAT(std::string(status.message()),
                    HasSubstr(absl::StrCat("the server has the role ", RoleName(role))));
      }
    }
  }
}

TEST_F(CertificateCheckTest, AServerWithoutARoleOrAtAnotherAddressIsNotReached) {
  const absl::Status nameless = Call(kAuthority.Issue({}), ChannelPurpose::kDecode);
  EXPECT_EQ(nameless.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(nameless.message()), HasSubstr("has no valid role"));
  const std::string decode = "URI:spiffe://test/baton/decode/a";
  EXPECT_FALSE(Call(kAuthority.Issue({.names = absl::StrCat(decode, ",", decode, "b")}),
                    ChannelPurpose::kDecode)
                   .ok());
  EXPECT_FALSE(Call(TestAuthority("authority").IssueRole("decode/a"), ChannelPurpose::kDecode).ok())
      << "signed by another authority of the same name";
}

TEST_F(CertificateCheckTest, AClientAloneReachesAServerWithoutAnIdByItsName) {
  const TestCertificate plain =
      kAuthority.Issue({.names = "DNS:baton.test,URI:https://baton.test"});
  EXPECT_TRUE(Call(plain, ChannelPurpose::kClient).ok());
  EXPECT_TRUE(Call(plain, ChannelPurpose::kClient, MakeOwn("baton.test")).ok());
  EXPECT_FALSE(Call(plain, ChannelPurpose::kClient, MakeOwn("other.test")).ok());
  EXPECT_FALSE(Call(TestAuthority("authority").Issue({}), ChannelPurpose::kClient).ok())
      << "signed by another authority of the same name";
  EXPECT_FALSE(Call(kAuthority.Issue({.key_usage = "clientAuth"}), ChannelPurpose::kClient).ok());
  for (const ChannelPurpose purpose :
       {ChannelPurpose::kPrefill, ChannelPurpose::kDecode, ChannelPurpose::kBulk}) {
    EXPECT_THAT(std::string(Call(plain, purpose).message()), HasSubstr("has no valid role"));
  }
}

TEST_F(CertificateCheckTest, AClientReachesNoServerWithTheIdOfAnother) {
  for (const char* names :
       {"URI:spiffe://test/baton/decode/a", "URI:SPIFFE://test/baton/decode/a",
        "URI:spiffe://test/baton/router/a,URI:spiffe://test/baton/router/b",
        "URI:spiffe://test/baton/router/a,URI:https://baton.test", "URI:spiffe://test/other"}) {
    EXPECT_EQ(Call(kAuthority.Issue({.names = names}), ChannelPurpose::kClient).code(),
              absl::StatusCode::kUnavailable)
        << names;
  }
}

TEST_F(CertificateCheckTest, ARevokedServerIsNotReached) {
  const absl::Status status = Call(Stolen(), ChannelPurpose::kDecode);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("was revoked"));
}

TEST_F(CertificateCheckTest, AServerOfAnotherTrustDomainIsNotReached) {
  const absl::Status status = Call(kAuthority.Issue({.names = "URI:spiffe://other/baton/decode/a"}),
                                   ChannelPurpose::kDecode);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("'other', but this process belongs to 'test'"));
}

// A worker's server, to which only the roles connect that have something to call there.
TEST_F(CertificateCheckTest, ARoleThatHasNothingToCallOnAWorkerDoesNotConnect) {
  const auto tls_of = [](const std::string& id) {
    const TestCertificate own = kAuthority.IssueRole(id);
    TlsFlags tls;
    tls.cert_file = WriteTestFile("caller.pem", own.pem);
    tls.key_file = WriteTestFile("caller.key", own.key_pem);
    tls.ca_file = WriteTestFile("authority.pem", kAuthority.pem());
    return tls;
  };
  const auto worker =
      Credentials::Create(tls_of("decode/a"), absl::Milliseconds(250), kWhoCallsWorkers);
  ASSERT_TRUE(worker.ok()) << worker.status();
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", worker->ForServer(), &port);
  builder.RegisterService(&service_);
  const auto server = builder.BuildAndStart();
  for (const Role role : kAllRoles) {
    const auto caller = Credentials::Create(tls_of(absl::StrCat(RoleName(role), "/a")));
    ASSERT_TRUE(caller.ok()) << caller.status();
    const auto stub = v1::GenerationService::NewStub(
        *MakeChannel(absl::StrCat("127.0.0.1:", port), *caller, ChannelPurpose::kDecode));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    v1::TokenizeResponse response;
    const grpc::Status status = stub->Tokenize(&context, v1::TokenizeRequest(), &response);
    EXPECT_EQ(status.error_code(),
              kWhoCallsWorkers.Has(role) ? grpc::StatusCode::OK : grpc::StatusCode::UNAVAILABLE)
        << RoleName(role) << " " << status.error_message();
  }
}

}  // namespace
}  // namespace baton
