// HTTP over TLS: who may connect, who a client is, and renewed certificates.
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <fstream>

#include "tests/common/net/test_sockets.h"
#include "tests/router/http/http_fixture.h"
#include "tests/support/certificates.h"

namespace baton {
namespace {

const TestAuthority& Fleet() {
  static const auto& authority = *new TestAuthority("fleet");
  return authority;
}
const TestAuthority& Clients() {
  static const auto& authority = *new TestAuthority("clients");
  return authority;
}

// A connection with TLS.
class TlsSocket {
 public:
  struct Settings {
    const TestCertificate* certificate = nullptr;  // null: none is shown
    std::string protocols{};                       // those of ALPN, each after its length
    int max_version = TLS1_3_VERSION;
  };

  TlsSocket(const std::string& address, const Settings& settings)
      : context_(SSL_CTX_new(TLS_client_method())),
        ssl_(nullptr),
        client_([this] { return Read(); }) {
    SSL_CTX_set_max_proto_version(context_, settings.max_version);
    if (settings.certificate != nullptr) {
      const std::string path =
          WriteTestFile("client.pem", settings.certificate->pem + settings.certificate->key_pem);
      EXPECT_EQ(SSL_CTX_use_certificate_chain_file(context_, path.c_str()), 1);
      EXPECT_EQ(SSL_CTX_use_PrivateKey_file(context_, path.c_str(), SSL_FILETYPE_PEM), 1);
    }
    ssl_ = SSL_new(context_);
    if (!settings.protocols.empty()) {
      SSL_set_alpn_protos(ssl_, reinterpret_cast<const unsigned char*>(settings.protocols.data()),
                          static_cast<unsigned>(settings.protocols.size()));
    }
    fd_ = ConnectTo(address);
    SSL_set_fd(ssl_, fd_);
    connected_ = SSL_connect(ssl_) == 1;
  }
  ~TlsSocket() {
    Close();
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }
  TlsSocket(const TlsSocket&) = delete;
  TlsSocket& operator=(const TlsSocket&) = delete;

  bool connected() const { return connected_; }
  bool Send(absl::string_view bytes) {
    return SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size())) ==
           static_cast<int>(bytes.size());
  }
  // The status of an answer to GET; 0: the connection is refused.
  int Get() { return connected_ && Send(kGet) ? client_.ReadAnswer().status : 0; }
  // Says that nothing more is sent.
  void HalfClose() {
    SSL_shutdown(ssl_);
    shutdown(fd_, SHUT_WR);
  }
  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }
  std::string protocol() const {
    const unsigned char* name = nullptr;
    unsigned size = 0;
    SSL_get0_alpn_selected(ssl_, &name, &size);
    return std::string(reinterpret_cast<const char*>(name), size);
  }
  std::string server_pem() const {
    X509* certificate = SSL_get0_peer_certificate(ssl_);
    return certificate == nullptr ? "" : ToPem(*certificate);
  }
  HttpTestClient* operator->() { return &client_; }

 private:
  std::string Read() {
    char buffer[4096];
    const int n = SSL_read(ssl_, buffer, sizeof(buffer));
    ERR_clear_error();
    return n > 0 ? std::string(buffer, static_cast<size_t>(n)) : "";
  }

  SSL_CTX* const context_;
  SSL* ssl_;
  int fd_ = -1;
  bool connected_ = false;
  HttpTestClient client_;
};

class HttpTlsTest : public HttpFixture {
 protected:
  struct Setup {
    bool certificate_optional = false;
    bool client_authority = false;
    bool for_clients_only = false;  // without --tls-ca, and without a role
    std::string revoked{};          // a list in PEM; empty: none
    Options options{};
  };

  void StartTls(const Setup& setup) {
    const TestCertificate own =
        setup.for_clients_only ? Fleet().Issue({}) : Fleet().IssueRole("router/r");
    flags_ = {};
    flags_.cert_file = WriteTestFile("cert.pem", own.pem);
    flags_.key_file = WriteTestFile("key.pem", own.key_pem);
    flags_.for_clients_only = setup.for_clients_only;
    if (!setup.for_clients_only) flags_.ca_file = WriteTestFile("ca.pem", Fleet().pem());
    flags_.certificate_optional = setup.certificate_optional;
    if (setup.client_authority) flags_.client_ca_file = WriteTestFile("c.pem", Clients().pem());
    if (!setup.revoked.empty()) flags_.crl_file = WriteTestFile("crl.pem", setup.revoked);
    auto credentials = Credentials::Create(flags_, absl::Milliseconds(5));
    ASSERT_TRUE(credentials.ok()) << credentials.status();
    credentials_.emplace(*std::move(credentials));
    auto server = HttpServer::Listen("--http-listen", "127.0.0.1:0", *credentials_,
                                     setup.certificate_optional, setup.options);
    ASSERT_TRUE(server.ok()) << server.status();
    Start(*std::move(server));
  }
  int StatusFor(const TestCertificate& certificate) {
    return TlsSocket(server_->address(), {.certificate = &certificate}).Get();
  }

  TlsFlags flags_;
  std::optional<Credentials> credentials_;
};

TEST_F(HttpTlsTest, AClientIsWhoItsCertificateSays) {
  StartTls({});
  const TestCertificate alice = Fleet().IssueRole("client/alice");
  TlsSocket client(server_->address(), {.certificate = &alice});
  ASSERT_TRUE(client.Send(kGet));
  const auto exchange = Next();
  EXPECT_TRUE(exchange->request().client.encrypted);
  const Peer expected{.role = Role::kClient, .trust_domain = "test", .name = "alice"};
  EXPECT_EQ(exchange->request().client.certificate, expected);
  exchange->Respond({.body = "answer"});
  EXPECT_EQ(client->ReadAnswer().body, "answer");
}

TEST_F(HttpTlsTest, WhoShowsNoCertificateIsRefusedUnlessItIsOptional) {
  StartTls({});
  AnswerAtOnce();
  EXPECT_EQ(TlsSocket(server_->address(), {}).Get(), 0);
  StartTls({.certificate_optional = true});
  TlsSocket client(server_->address(), {});
  EXPECT_EQ(client.Get(), 200);
}

TEST_F(HttpTlsTest, ACertificateThatDoesNotCountIsRefusedAlsoWhereItIsOptional) {
  StartTls({.certificate_optional = true});
  AnswerAtOnce();
  EXPECT_EQ(StatusFor(Clients().IssueRole("client/alice")), 0) << "of another authority";
  EXPECT_EQ(StatusFor(Fleet().Issue({})), 0) << "without an id";
  EXPECT_EQ(StatusFor(Fleet().IssueRole("decode/d")), 0) << "has nothing to call";
  EXPECT_EQ(StatusFor(Fleet().Issue({.names = "URI:spiffe://other/baton/client/a"})), 0);
  EXPECT_EQ(StatusFor(Fleet().Issue({.names = "URI:spiffe://test/baton/client/a",
                                     .until = absl::Now() - absl::Minutes(1)})),
            0);
  EXPECT_EQ(StatusFor(Fleet().IssueRole("client/alice")), 200);
  EXPECT_EQ(StatusFor(Fleet().IssueRole("operator/o")), 200);
  EXPECT_EQ(StatusFor(Fleet().IssueRole("front/f")), 200);
}

TEST_F(HttpTlsTest, TheClientsAuthorityVouchesForClientsOnlyWhoNeedNoId) {
  StartTls({.client_authority = true});
  const TestCertificate alice = Clients().Issue({.common_name = "alice"});
  TlsSocket client(server_->address(), {.certificate = &alice});
  ASSERT_TRUE(client.Send(kGet));
  const Peer expected{.role = Role::kClient, .trust_domain = "", .name = "CN=alice"};
  EXPECT_EQ(Next()->request().client.certificate, expected);
  AnswerAtOnce();
  EXPECT_EQ(StatusFor(Clients().IssueRole("client/b")), 200);
  EXPECT_EQ(StatusFor(Clients().IssueRole("operator/o")), 0);
  EXPECT_EQ(StatusFor(Fleet().IssueRole("operator/o")), 200);
}

TEST_F(HttpTlsTest, WithoutAnAuthorityNoCertificateIsAskedFor) {
  StartTls({.certificate_optional = true, .for_clients_only = true});
  const TestCertificate alice = Clients().IssueRole("client/alice");
  for (const TestCertificate* certificate :
       {&alice, static_cast<const TestCertificate*>(nullptr)}) {
    TlsSocket client(server_->address(), {.certificate = certificate});
    ASSERT_TRUE(client.Send(kGet));
    const auto exchange = Next();
    EXPECT_TRUE(exchange->request().client.encrypted);
    EXPECT_EQ(exchange->request().client.certificate, std::nullopt);
    exchange->Respond({.body = "answer"});
    EXPECT_EQ(client->ReadAnswer().body, "answer");
  }
}

TEST_F(HttpTlsTest, TheClientsAuthorityAloneVerifiesWhatIsShown) {
  StartTls({.client_authority = true, .for_clients_only = true});
  AnswerAtOnce();
  EXPECT_EQ(StatusFor(Clients().IssueRole("client/b")), 200);
  EXPECT_EQ(StatusFor(Clients().Issue({.common_name = "alice"})), 200);
  EXPECT_EQ(StatusFor(Clients().IssueRole("operator/o")), 0);
  EXPECT_EQ(StatusFor(Fleet().IssueRole("client/a")), 0) << "of another authority";
  EXPECT_EQ(TlsSocket(server_->address(), {}).Get(), 0) << "it is required";
}

TEST_F(HttpTlsTest, ARevokedCertificateIsRefusedAlsoOnAConnectionThatWasMadeBefore) {
  const TestCertificate alice = Fleet().IssueRole("client/alice");
  StartTls({.revoked = Fleet().Revoke({})});
  AnswerAtOnce();
  TlsSocket client(server_->address(), {.certificate = &alice});
  EXPECT_EQ(client.Get(), 200);
  const uint64_t before = credentials_->changes();
  std::ofstream(flags_.crl_file) << Fleet().Revoke({.revoked = {alice}});
  ASSERT_TRUE(Eventually([&] { return credentials_->changes() > before; }));
  EXPECT_EQ(client.Get(), 401);
  EXPECT_TRUE(client->AtEnd());
  EXPECT_EQ(StatusFor(alice), 0);
  EXPECT_EQ(StatusFor(Fleet().IssueRole("client/bob")), 200);
}

TEST_F(HttpTlsTest, NewConnectionsGetRenewedCertificatesAndOldOnesGoOn) {
  StartTls({.certificate_optional = true});
  AnswerAtOnce();
  TlsSocket old(server_->address(), {});
  EXPECT_EQ(old.Get(), 200);
  const TestCertificate renewed = Fleet().IssueRole("router/r");
  std::ofstream(flags_.cert_file) << renewed.pem;
  std::ofstream(flags_.key_file) << renewed.key_pem;
  ASSERT_TRUE(Eventually([this] { return credentials_->changes() > 0; }));
  TlsSocket fresh(server_->address(), {});
  EXPECT_EQ(fresh.server_pem(), renewed.pem);
  EXPECT_NE(old.server_pem(), renewed.pem);
  EXPECT_EQ(fresh.Get(), 200);
  EXPECT_EQ(old.Get(), 200);
}

TEST_F(HttpTlsTest, RenewedCertificatesThatAreNotTakenLeaveTheOldOnesAndAreToldOfOnce) {
  StartTls({.certificate_optional = true});
  AnswerAtOnce();
  const std::string before = TlsSocket(server_->address(), {}).server_pem();
  const TestCertificate renewed = Fleet().IssueRole("router/r");
  std::ofstream(flags_.cert_file) << renewed.pem;
  std::ofstream(flags_.key_file) << renewed.key_pem;
  while (credentials_->changes() == 0) absl::SleepFor(absl::Milliseconds(1));
  std::ofstream(credentials_->identity_path()) << "damaged since then";
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) {
    TlsSocket fresh(server_->address(), {});
    EXPECT_EQ(fresh.server_pem(), before);
    EXPECT_EQ(fresh.Get(), 200);
  }
  const std::string log = testing::internal::GetCapturedStderr();
  const size_t told = log.find("not taken for HTTP");
  ASSERT_NE(told, std::string::npos) << log;
  EXPECT_EQ(log.find("not taken for HTTP", told + 1), std::string::npos) << log;
}

TEST_F(HttpTlsTest, OnlyHttp11IsAgreedOn) {
  StartTls({.certificate_optional = true});
  AnswerAtOnce();
  TlsSocket both(server_->address(), {.protocols = "\x02h2\x08http/1.1"});
  EXPECT_EQ(both.protocol(), "http/1.1");
  EXPECT_EQ(both.Get(), 200);
  EXPECT_FALSE(TlsSocket(server_->address(), {.protocols = "\x02h2"}).connected());
}

TEST_F(HttpTlsTest, Tls12IsTheOldestThatIsSpoken) {
  StartTls({.certificate_optional = true});
  AnswerAtOnce();
  EXPECT_EQ(TlsSocket(server_->address(), {.max_version = TLS1_2_VERSION}).Get(), 200);
  EXPECT_FALSE(TlsSocket(server_->address(), {.max_version = TLS1_1_VERSION}).connected());
}

TEST_F(HttpTlsTest, PlainTextGetsNoAnswer) {
  StartTls({});
  HttpSocket plain(server_->address());
  plain.Send(kGet);
  EXPECT_EQ(plain->ReadAnswer().status, 0);
}

TEST_F(HttpTlsTest, AHandshakeThatDoesNotEndIsClosed) {
  EXPECT_LE(Options().handshake_timeout, absl::Seconds(5));
  StartTls({.options = {.handshake_timeout = absl::Milliseconds(20),
                        .header_timeout = absl::InfiniteDuration()}});
  for (const absl::string_view said : {"", kBeginOfHandshake}) {
    TestSocket client;
    ASSERT_TRUE(client.Connect(server_->address()) && client.Send(said));
    EXPECT_TRUE(client.IsClosed()) << "after " << said.size() << " bytes";
  }
}

TEST_F(HttpTlsTest, LongAnswersAndBodiesComeWhole) {
  StartTls({.certificate_optional = true});
  TlsSocket client(server_->address(), {});
  const std::string body(3'000'000, 'b');
  ASSERT_TRUE(client.Send(absl::StrCat(
      "POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: ", body.size(), "\r\n\r\n", body)));
  const auto exchange = Next();
  EXPECT_EQ(body_.bytes, body);
  exchange->Respond({.body = body});
  EXPECT_EQ(client->ReadAnswer().body, body);
}

TEST_F(HttpTlsTest, LeavingIsToldFromSendingNoMore) {
  StartTls({.certificate_optional = true, .options = {.ping_interval = absl::Milliseconds(1)}});
  for (const bool says_so : {true, false}) {
    TlsSocket stays(server_->address(), {});
    ASSERT_TRUE(stays.Send(kGet));
    auto exchange = Next();
    Learned gone;
    exchange->OnGone(gone.Teller());
    if (says_so) stays.HalfClose();
    exchange->BeginEvents({});
    HttpAnswer head = stays->ReadHead();
    while (head.status == 100) head = stays->ReadHead();  // it was seen before the events began
    for (int i = 0; i < 3; ++i) EXPECT_EQ(stays->ReadChunk(), ": \n\n");
    EXPECT_FALSE(gone.told());
    if (says_so) {
      exchange->EndEvents();
      continue;
    }
    stays.Close();
    EXPECT_TRUE(gone.Wait());
  }
  TlsSocket leaves(server_->address(), {});
  ASSERT_TRUE(leaves.Send(kGet));
  const auto exchange = Next();
  Learned gone;
  exchange->OnGone(gone.Teller());
  leaves.Close();
  EXPECT_TRUE(gone.Wait());
}

}  // namespace
}  // namespace baton
