#include "router/front/client_identity.h"

#include <openssl/x509v3.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "grpc/grpc_security_constants.h"
#include "gtest/gtest.h"

#include "common/certificates/pem.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

// A connection with these properties.
class Connection final : public grpc::AuthContext {
 public:
  using Properties = std::map<std::string, std::string>;

  explicit Connection(Properties properties) : properties_(std::move(properties)) {}
  std::vector<grpc::string_ref> FindPropertyValues(const std::string& name) const override {
    const auto found = properties_.find(name);
    if (found == properties_.end()) return {};
    return {grpc::string_ref(found->second)};
  }
  bool IsPeerAuthenticated() const override { return false; }
  std::vector<grpc::string_ref> GetPeerIdentity() const override { return {}; }
  std::string GetPeerIdentityPropertyName() const override { return ""; }
  grpc::AuthPropertyIterator begin() const override { return NoProperty(); }
  grpc::AuthPropertyIterator end() const override { return NoProperty(); }
  void AddProperty(const std::string&, const grpc::string_ref&) override {}
  bool SetPeerIdentityPropertyName(const std::string&) override { return false; }

 private:
  struct NoProperty : grpc::AuthPropertyIterator {};

  const Properties properties_;
};

const Connection& OverSocket() {
  static const Connection kConnection(
      Connection::Properties{{GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME, "local"}});
  return kConnection;
}
Connection OverTls(const std::string& id) {
  return Connection(Connection::Properties{{GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME, "tls"},
                                           {GRPC_PEER_SPIFFE_ID_PROPERTY_NAME, id}});
}

// A certificate's DER form in base64. `names` are its alternative names, in OpenSSL's words.
std::string Header(const std::string& names) {
  const Certificate certificate(X509_new());
  const PrivateKey key(EVP_EC_gen("P-256"));
  X509_set_version(certificate.get(), X509_VERSION_3);
  X509_set_pubkey(certificate.get(), key.get());
  ASN1_TIME_set(X509_getm_notBefore(certificate.get()), 0);
  ASN1_TIME_set(X509_getm_notAfter(certificate.get()), 0);
  X509_EXTENSION* extension =
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, names.c_str());
  X509_add_ext(certificate.get(), extension, -1);
  X509_EXTENSION_free(extension);
  X509_sign(certificate.get(), key.get(), EVP_sha256());
  unsigned char* der = nullptr;
  const int size = i2d_X509(certificate.get(), &der);
  const std::string bytes(reinterpret_cast<const char*>(der), static_cast<size_t>(size));
  OPENSSL_free(der);
  return absl::Base64Escape(bytes);
}

absl::StatusOr<std::optional<Peer>> Client(const grpc::AuthContext& connection,
                                           const std::vector<std::string>& values) {
  CallHeaders headers{{"user-agent", "test"}};
  for (const std::string& value : values) headers.emplace(kClientCertificateHeader, value);
  return ClientBehindFront(connection, headers);
}

constexpr char kAlice[] = "spiffe://fleet.test/baton/client/alice";
const Peer kAlicePeer{.role = Role::kClient, .trust_domain = "fleet.test", .name = "alice"};

TEST(ClientIdentity, TheFrontsWordIsBelievedOnItsSocketAndByItsCertificate) {
  const std::string header = Header(std::string("DNS:a.test,URI:") + kAlice);
  for (const Connection& front : {OverSocket(), OverTls("spiffe://fleet.test/baton/front/front")}) {
    const auto client = Client(front, {header});
    ASSERT_TRUE(client.ok()) << client.status();
    ASSERT_TRUE(client->has_value());
    EXPECT_EQ(**client, kAlicePeer);
    const auto nobody = Client(front, {});
    ASSERT_TRUE(nobody.ok()) << nobody.status();
    EXPECT_FALSE(nobody->has_value());
  }
}

TEST(ClientIdentity, NobodyElsesWordIsBelieved) {
  const std::string header = Header(std::string("URI:") + kAlice);
  const Connection others[] = {
      Connection(Connection::Properties{}),
      Connection(Connection::Properties{{GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME, "insecure"}}),
      Connection(Connection::Properties{{GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME, "tls"}}),
      OverTls("spiffe://fleet.test/baton/client/front"),
      OverTls("spiffe://fleet.test/baton/operator/front"),
      OverTls("spiffe://fleet.test/other/front/front"),
  };
  for (const Connection& other : others) {
    const auto client = Client(other, {header});
    ASSERT_TRUE(client.ok()) << client.status();
    EXPECT_FALSE(client->has_value());
  }
}

TEST(ClientIdentity, ACertificateThatSaysNothingClearIsRefused) {
  const std::string good = Header(std::string("URI:") + kAlice);
  const auto refusal = [](const std::vector<std::string>& values) {
    const absl::Status status = Client(OverSocket(), values).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated);
    return std::string(status.message());
  };
  EXPECT_THAT(refusal({good, good}), HasSubstr("twice"));
  EXPECT_THAT(refusal({"%"}), HasSubstr("not base64"));
  EXPECT_THAT(refusal({""}), HasSubstr("not in DER"));
  EXPECT_THAT(refusal({absl::Base64Escape("no certificate")}), HasSubstr("not in DER"));
  std::string bytes;
  ASSERT_TRUE(absl::Base64Unescape(good, &bytes));
  EXPECT_THAT(refusal({absl::Base64Escape(bytes + "x")}), HasSubstr("not in DER"));
  EXPECT_THAT(refusal({Header("DNS:a.test")}), HasSubstr("no SPIFFE id"));
  EXPECT_THAT(refusal({Header(std::string("URI:") + kAlice + ",URI:" + kAlice)}),
              HasSubstr("more than one URI"));
  EXPECT_THAT(refusal({Header("URI:spiffe://fleet.test/baton/king/alice")}), HasSubstr("king"));
}

}  // namespace
}  // namespace baton
