#include "common/certificates/credentials.h"

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/net/channel.h"
#include "common/net/server.h"
#include "tests/common/net/test_service.h"
#include "tests/support/certificates.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

// Certificates that the openssl command makes for each run of the test.
class CredentialsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory = ::testing::TempDir() + "baton_credentials_test/";
    std::filesystem::create_directories(directory);
    MakeAuthority("ca");
    MakeAuthority("other");
    MakeCertificate("worker", "ca", "IP:127.0.0.1,DNS:localhost");
    MakeCertificate("named", "ca", "DNS:baton-worker");
    MakeCertificate("foreign", "other", "IP:127.0.0.1");
  }

  static void Run(const std::string& command) {
    ASSERT_EQ(std::system(absl::StrCat("cd ", directory, " && ", command, " 2>/dev/null").c_str()),
              0)
        << command;
  }
  static void MakeAuthority(const std::string& name) {
    Run(absl::Substitute(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=$0 "
        "-keyout $0.key -out $0.pem",
        name));
  }
  static void MakeCertificate(const std::string& name, const std::string& authority,
                              const std::string& names) {
    // A front may call what routers serve, and clients may call a front.
    Run(absl::Substitute(
        "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=$0 -keyout "
        "$0.key "
        "-out $0.csr && echo subjectAltName=$2,URI:spiffe://test/baton/front/$0 > $0.ext && "
        "openssl x509 -req -in $0.csr -days 2 "
        "-CA $1.pem -CAkey $1.key -CAcreateserial -extfile $0.ext -out $0.pem",
        name, authority, names));
  }

  static TlsFlags Tls(const std::string& name, const std::string& authority) {
    TlsFlags tls;
    tls.cert_file = directory + name + ".pem";
    tls.key_file = directory + name + ".key";
    tls.ca_file = directory + authority + ".pem";
    return tls;
  }

  void Serve(const TlsFlags& tls) {
    ServerFlags flags;
    flags.listen = "127.0.0.1:0";
    flags.tls = tls;
    auto server = ServerProcess::Create({.program = "test", .flags = flags}, metrics_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    ASSERT_TRUE(server_->Serve({&service_}).ok());
  }

  absl::Status Call(const TlsFlags& tls) { return Call(server_->listen_address(), tls); }
  static absl::Status Call(const std::string& address, const TlsFlags& tls) {
    const auto credentials = Credentials::Create(tls);
    if (!credentials.ok()) return credentials.status();
    const auto channel = MakeChannel(address, *credentials, ChannelPurpose::kClient);
    if (!channel.ok()) return channel.status();
    const auto stub = v1::GenerationService::NewStub(*channel);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    v1::TokenizeResponse response;
    return FromGrpcStatus(stub->Tokenize(&context, v1::TokenizeRequest(), &response));
  }

  static std::string directory;
  Metrics metrics_{"router"};
  TestService service_;
  std::unique_ptr<ServerProcess> server_;
};
std::string CredentialsTest::directory;

TEST_F(CredentialsTest, BothSidesShowACertificateOfTheAuthority) {
  Serve(Tls("worker", "ca"));
  EXPECT_TRUE(Call(Tls("worker", "ca")).ok()) << Call(Tls("worker", "ca"));
  EXPECT_TRUE(Call(Tls("named", "ca")).ok()) << "a client's name is not compared";
  EXPECT_EQ(Call(TlsFlags()).code(), absl::StatusCode::kUnavailable) << "plain text";
  EXPECT_EQ(Call(Tls("foreign", "ca")).code(), absl::StatusCode::kUnavailable)
      << "client signed by another";
  EXPECT_EQ(Call(Tls("worker", "other")).code(), absl::StatusCode::kUnavailable)
      << "server signed by another";
}

TEST_F(CredentialsTest, AClientNeedsNoCertificateWhereTheServerLeavesTheChoice) {
  TlsFlags bare, fooled;
  bare.ca_file = Tls("worker", "ca").ca_file;
  fooled.ca_file = Tls("worker", "other").ca_file;
  Serve(Tls("worker", "ca"));
  EXPECT_EQ(Call(bare).code(), absl::StatusCode::kUnavailable) << "it is required";
  server_.reset();
  TlsFlags choice = Tls("worker", "ca");
  choice.certificate_optional = true;
  Serve(choice);
  EXPECT_TRUE(Call(bare).ok()) << Call(bare);
  EXPECT_EQ(Call(fooled).code(), absl::StatusCode::kUnavailable) << "server signed by another";
  EXPECT_EQ(Call(Tls("foreign", "ca")).code(), absl::StatusCode::kUnavailable)
      << "a certificate that is shown is verified";
}

// The certificate of a server that has no role, signed by itself.
class CredentialsForClientsTest : public CredentialsTest {
 protected:
  void SetUp() override {
    Run("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "
        "/CN=plain -addext subjectAltName=IP:127.0.0.1 -keyout plain.key -out plain.pem");
    server_tls_ = Tls("plain", "plain");
    server_tls_.ca_file.clear();
    server_tls_.for_clients_only = true;
    client_tls_.ca_file = directory + "plain.pem";
  }

  // The client's flags with a certificate.
  TlsFlags With(const TestCertificate& certificate) const {
    TlsFlags tls = client_tls_;
    tls.cert_file = WriteTestFile("shown.pem", certificate.pem);
    tls.key_file = WriteTestFile("shown.key", certificate.key_pem);
    return tls;
  }

  TlsFlags server_tls_, client_tls_;
};

TEST_F(CredentialsForClientsTest, WithoutAnAuthorityNoCertificateIsAskedFor) {
  server_tls_.certificate_optional = true;
  Serve(server_tls_);
  EXPECT_TRUE(Call(client_tls_).ok()) << Call(client_tls_);
  const TlsFlags shown = With(TestAuthority("strangers").IssueRole("client/a"));
  EXPECT_TRUE(Call(shown).ok()) << "nothing is shown: " << Call(shown);
  EXPECT_EQ(Call(TlsFlags()).code(), absl::StatusCode::kUnavailable) << "plain text";
}

TEST_F(CredentialsForClientsTest, ARenewedCertificateIsShownWithoutARestart) {
  server_tls_.certificate_optional = true;
  Serve(server_tls_);
  EXPECT_TRUE(Call(client_tls_).ok());
  const TestAuthority other("other");
  const TestCertificate renewed = other.Issue({});
  std::ofstream(server_tls_.key_file) << renewed.key_pem;
  std::ofstream(server_tls_.cert_file) << renewed.pem;
  client_tls_.ca_file = WriteTestFile("other.pem", other.pem());
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (!Call(client_tls_).ok() && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_TRUE(Call(client_tls_).ok());
}

TEST_F(CredentialsForClientsTest, TheClientsAuthorityAloneVerifiesWhatIsShown) {
  const TestAuthority clients("clients");
  server_tls_.client_ca_file = WriteTestFile("clients.pem", clients.pem());
  for (const bool optional : {false, true}) {
    SCOPED_TRACE(optional ? "optional" : "required");
    server_.reset();
    server_tls_.certificate_optional = optional;
    Serve(server_tls_);
    EXPECT_EQ(Call(client_tls_).ok(), optional);
    EXPECT_TRUE(Call(With(clients.IssueRole("client/a"))).ok());
    EXPECT_TRUE(Call(With(clients.Issue({.common_name = "a"}))).ok());
    EXPECT_FALSE(Call(With(clients.IssueRole("operator/a"))).ok());
    EXPECT_FALSE(Call(With(TestAuthority("clients").IssueRole("client/a"))).ok());
  }
}

TEST_F(CredentialsForClientsTest, ErrorsNameTheFlagsThatAreNeededHere) {
  server_tls_.server_name = "a";
  EXPECT_THAT(std::string(Credentials::Create(server_tls_).status().message()),
              HasSubstr("--tls-server-name has no effect"));
  TlsFlags none;
  none.for_clients_only = true;
  EXPECT_EQ(Credentials::Create(none)->CheckAddress("--listen", "0.0.0.0:1").message(),
            "--listen 0.0.0.0:1 is beyond loopback and needs protection: give --tls-cert and "
            "--tls-key, or --insecure for plain text");
  none.client_ca_file = "clients.pem";
  EXPECT_EQ(Credentials::Create(none).status().message(),
            "--tls-client-ca has no effect without --tls-cert and --tls-key; add them, or leave "
            "out --tls-client-ca");
}

TEST_F(CredentialsTest, TheServersNameMustMatch) {
  Serve(Tls("named", "ca"));
  EXPECT_EQ(Call(Tls("worker", "ca")).code(), absl::StatusCode::kUnavailable);
  TlsFlags tls = Tls("worker", "ca");
  tls.server_name = "baton-worker";
  EXPECT_TRUE(Call(tls).ok()) << Call(tls);
  tls.server_name = "another";
  EXPECT_EQ(Call(tls).code(), absl::StatusCode::kUnavailable);
}

TEST_F(CredentialsTest, FilesThatDoNotBelongTogetherAreNamed) {
  const auto message = [](const TlsFlags& tls) {
    return std::string(Credentials::Create(tls).status().message());
  };
  TlsFlags tls = Tls("worker", "ca");
  tls.key_file = directory + "named.key";
  EXPECT_THAT(message(tls), HasSubstr("is not the key of --tls-cert"));
  tls = Tls("worker", "ca");
  tls.ca_file = tls.key_file;
  EXPECT_THAT(message(tls), HasSubstr("--tls-ca"));
  tls = Tls("worker", "ca");
  tls.key_file = tls.cert_file;
  EXPECT_THAT(message(tls), HasSubstr("contains no key"));
  tls = Tls("worker", "ca");
  tls.insecure = true;
  EXPECT_THAT(message(tls), HasSubstr("--insecure contradicts"));
}

TEST_F(CredentialsTest, AnExpiredCertificateIsNamed) {
  Run("openssl x509 -req -in worker.csr -days -1 -CA ca.pem -CAkey ca.key -CAcreateserial -out "
      "old.pem && "
      "cp worker.key old.key");
  EXPECT_THAT(std::string(Credentials::Create(Tls("old", "ca")).status().message()),
              HasSubstr("has expired"));
}

TEST_F(CredentialsTest, AChainLeadsFromTheLeafUpwards) {
  MakeAuthority("upper");
  Run("printf 'basicConstraints=critical,CA:TRUE\n' > ca.ext && openssl req -new -key ca.key -subj "
      "/CN=ca -out ca.csr && openssl x509 -req -in ca.csr -days 1 -CA upper.pem -CAkey upper.key "
      "-CAcreateserial -extfile ca.ext -out between.pem && cat worker.pem between.pem > chain.pem "
      "&& "
      "cat worker.pem other.pem > astray.pem && cp worker.key chain.key && cp worker.key "
      "astray.key");
  const TlsFlags chain = Tls("chain", "upper");
  const auto facts = CheckCertificates(chain, *ReadCertificateFiles(chain), absl::Now());
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_TRUE(facts->signed_by_root);
  EXPECT_LT(facts->chain_ends, absl::Now() + absl::Hours(25)) << "the first of the chain to end";
  EXPECT_FALSE(CheckCertificates(Tls("chain", "other"),
                                 *ReadCertificateFiles(Tls("chain", "other")), absl::Now())
                   ->signed_by_root);
  EXPECT_THAT(std::string(Credentials::Create(Tls("astray", "ca")).status().message()),
              HasSubstr("certificate 2 has not issued certificate 1"));
}

// A server and its client that read their certificates from the folder live/, and what they get.
class RotationTest : public CredentialsTest {
 protected:
  static constexpr absl::Duration kPoll = absl::Milliseconds(10);

  void SetUp() override {
    for (const char* name : {"first", "second"}) {
      MakeCertificate(name, "ca", "IP:127.0.0.1");
    }
    Run("openssl x509 -req -in first.csr -days -1 -CA ca.pem -CAkey ca.key -CAcreateserial "
        "-extfile first.ext -out expired.pem && cp first.key expired.key && "
        "cat ca.pem other.pem > both.pem && rm -rf live && mkdir live");
    Put("ca.pem", "ca.pem");
    Put("first.pem", "live.pem");
    Put("first.key", "live.key");
    auto credentials = Credentials::Create(Live(), kPoll);
    ASSERT_TRUE(credentials.ok()) << credentials.status();
    credentials_.emplace(*std::move(credentials));
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", credentials_->ForServer(), &port);
    builder.RegisterService(&service_);
    grpc_server_ = builder.BuildAndStart();
    address_ = absl::StrCat("127.0.0.1:", port);
  }

  static TlsFlags Live() {
    TlsFlags live;
    live.cert_file = directory + "live/live.pem";
    live.key_file = directory + "live/live.key";
    live.ca_file = directory + "live/ca.pem";
    return live;
  }
  // Replaces a file of live/ in one step.
  static void Put(const std::string& from, const std::string& to) {
    std::filesystem::copy_file(directory + from, directory + "live/new",
                               std::filesystem::copy_options::overwrite_existing);
    std::filesystem::rename(directory + "live/new", directory + "live/" + to);
  }
  // Replaces the files of live/ in the order that the letters say: c(ertificate), k(ey) and
  // a(uthorities).
  static void Rotate(const std::string& name, const std::string& authorities,
                     const std::string& order) {
    for (const char file : order) {
      if (file == 'c') Put(name + ".pem", "live.pem");
      if (file == 'k') Put(name + ".key", "live.key");
      if (file == 'a') Put(authorities, "ca.pem");
    }
  }

  // The common name of the certificate that the server shows on a new connection, to a client that
  // shows its own; an error is what the call ended with.
  absl::StatusOr<std::string> NameShown() const { return NameShown(address_, *credentials_); }
  static absl::StatusOr<std::string> NameShown(const std::string& address,
                                               const Credentials& credentials) {
    const auto channel = MakeChannel(address, credentials, ChannelPurpose::kClient);
    if (!channel.ok()) return channel.status();
    const auto stub = v1::GenerationService::NewStub(*channel);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    v1::TokenizeResponse response;
    const absl::Status status =
        FromGrpcStatus(stub->Tokenize(&context, v1::TokenizeRequest(), &response));
    if (!status.ok()) return status;
    const auto names = context.auth_context()->FindPropertyValues(GRPC_X509_CN_PROPERTY_NAME);
    return std::string(names.front().data(), names.front().size());
  }
  template <typename Condition>
  static void WaitFor(const char* what, const Condition& condition) {
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    while (!condition()) {
      ASSERT_LT(absl::Now(), deadline) << what;
      absl::SleepFor(absl::Milliseconds(1));
    }
  }
  void WaitUntilShown(const std::string& name) const {
    WaitFor(name.c_str(), [&] { return NameShown().value_or("") == name; });
  }
  void WaitForReloads(uint64_t count) const {
    WaitFor("reloads", [&] { return credentials_->certificates().reloads >= count; });
  }
  void WaitForFailedReloads(uint64_t count) const {
    WaitFor("failed reloads", [&] { return credentials_->certificates().failed_reloads >= count; });
  }

  std::optional<Credentials> credentials_;
  std::unique_ptr<grpc::Server> grpc_server_;
  std::string address_;
};

TEST_F(RotationTest, RenewedFilesAreTakenWithoutARestart) {
  EXPECT_EQ(NameShown().value_or("none"), "first");
  EXPECT_EQ(Call(address_, Tls("foreign", "other")).code(), absl::StatusCode::kUnavailable);
  Rotate("second", "both.pem", "cka");
  WaitUntilShown("second");
  TlsFlags foreign = Tls("foreign", "other");
  foreign.ca_file = Tls("worker", "ca").ca_file;
  WaitFor("the other authority's clients", [&] { return Call(address_, foreign).ok(); });
}

TEST_F(RotationTest, ACertificateWithoutItsKeyIsNotShown) {
  // gRPC looks at files each second. When the witness, whose files gRPC looks at as often, has
  // shown two new certificates one after the other, gRPC has looked at the server's in between.
  Run("rm -rf witness && mkdir witness && cp ca.pem worker.pem worker.key witness/");
  TlsFlags tls;
  tls.cert_file = directory + "witness/worker.pem";
  tls.key_file = directory + "witness/worker.key";
  tls.ca_file = directory + "witness/ca.pem";
  const auto witness = Credentials::Create(tls, kPoll);
  ASSERT_TRUE(witness.ok()) << witness.status();
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", witness->ForServer(), &port);
  builder.RegisterService(&service_);
  const auto server = builder.BuildAndStart();
  const std::string address = absl::StrCat("127.0.0.1:", port);

  Put("second.pem", "live.pem");
  for (const std::string name : {"first", "second"}) {
    Run(absl::Substitute("cp $0.pem witness/worker.pem && cp $0.key witness/worker.key", name));
    WaitFor("the witness", [&] {
      const absl::StatusOr<std::string> own = NameShown();
      EXPECT_EQ(own.value_or(std::string(own.status().message())), "first");
      return NameShown(address, *witness).value_or("") == name || HasFailure();
    });
  }
  WaitForFailedReloads(1);
  Put("second.key", "live.key");
  WaitUntilShown("second");
}

TEST_F(RotationTest, TwentyRotationsInEveryOrderFailNoCall) {
  std::atomic<bool> done = false;
  std::atomic<int> calls = 0;
  std::vector<absl::Status> failures;  // the thread's own until it is joined
  std::thread load([&] {
    for (; !done; ++calls) {
      if (const auto shown = NameShown(); !shown.ok()) failures.push_back(shown.status());
    }
  });
  const char* const orders[] = {"cka", "cak", "kca", "kac", "ack", "akc"};
  uint64_t failed = 0;
  for (int i = 0; i < 20; ++i) {
    const std::string order = orders[i % 6], name = i % 2 == 0 ? "second" : "first";
    if (i % 4 == 1) {
      Rotate("expired", "ca.pem", order);
      WaitForFailedReloads(++failed);
    }
    if (i % 4 == 2) {  // a key of another pair
      Put("worker.key", "live.key");
      WaitForFailedReloads(++failed);
    }
    const uint64_t reloads = credentials_->certificates().reloads;
    // Unlike what the watcher may have seen halfway in the turn before, so that it is news.
    Rotate(name, i % 2 == 0 ? "both.pem" : "ca.pem", order);
    WaitForReloads(reloads + 1);
    failed = credentials_->certificates().failed_reloads;
  }
  WaitUntilShown("first");
  done = true;
  load.join();
  EXPECT_GT(calls, 20);
  EXPECT_TRUE(failures.empty()) << failures.size() << " of " << calls
                                << " calls failed: " << failures.front();
}

TEST_F(RotationTest, FilesThatAreNotRightAreCountedAndTheFormerStay) {
  const absl::Time ends = credentials_->certificates().facts.chain_ends;
  EXPECT_GT(ends, absl::Now() + absl::Hours(47));
  uint64_t failed = 0;
  Rotate("expired", "ca.pem", "ck");
  WaitForFailedReloads(++failed);
  std::filesystem::remove(directory + "live/live.key");
  WaitForFailedReloads(++failed);
  std::ofstream(directory + "live/live.key") << "no key";
  WaitForFailedReloads(++failed);
  Rotate("second", "other.pem", "cka");  // its own certificate would not be signed by the authority
  WaitForFailedReloads(++failed);
  EXPECT_EQ(credentials_->certificates().reloads, 0u);
  EXPECT_EQ(credentials_->certificates().facts.chain_ends, ends);
  EXPECT_EQ(NameShown().value_or("none"), "first");
  Rotate("second", "ca.pem", "a");
  WaitForReloads(1);
}

TEST_F(RotationTest, MetricsTellWhenCertificatesEndAndWhichWereRefused) {
  ServerFlags flags;
  flags.listen = "127.0.0.1:0";
  flags.tls = Tls("worker", "ca");
  const auto server = ServerProcess::Create({.program = "test", .flags = flags}, metrics_);
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string page = metrics_.Scrape();
  for (const char* file : {"tls-cert", "tls-ca"}) {
    const std::string sample = absl::StrCat("file=\"", file, "\"");
    EXPECT_THAT(page, HasSubstr(sample));
  }
  EXPECT_THAT(page, HasSubstr("baton_tls_certificate_expiry_seconds"));
  EXPECT_THAT(page, HasSubstr("baton_tls_reloads_total"));
  EXPECT_THAT(page, HasSubstr("baton_tls_failed_reloads_total"));
}

TEST(Credentials, PlainTextStaysOnLoopback) {
  const Credentials loopback = Credentials::Loopback();
  EXPECT_TRUE(MakeChannel("127.0.0.1:1", loopback, ChannelPurpose::kBulk).ok());
  EXPECT_EQ(MakeChannel("10.0.0.1:1", loopback, ChannelPurpose::kBulk).status().code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(MakeChannel("dns:///prefill:50051", loopback, ChannelPurpose::kDecode).status().code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_FALSE(MakeChannel("127.0.0.1:0", loopback, ChannelPurpose::kDecode).ok());
  TlsFlags insecure;
  insecure.insecure = true;
  EXPECT_TRUE(
      MakeChannel("10.0.0.1:1", *Credentials::Create(insecure), ChannelPurpose::kBulk).ok());
}

}  // namespace
}  // namespace baton
