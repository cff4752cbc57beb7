#include "common/net/server_flags.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(ServerFlags, BeyondLoopbackNeedsCertificatesOrInsecure) {
  ServerFlags flags;
  EXPECT_TRUE(ValidateServerFlags(flags).ok());
  flags.listen = "0.0.0.0:50051";
  EXPECT_THAT(Message(ValidateServerFlags(flags)), HasSubstr("--listen 0.0.0.0:50051"));
  EXPECT_THAT(Message(ValidateServerFlags(flags)), HasSubstr("--insecure"));
  flags.tls.insecure = true;
  EXPECT_TRUE(ValidateServerFlags(flags).ok());
}

TEST(ServerFlags, ProbesBeyondLoopbackMustBeAskedFor) {
  for (std::string ServerFlags::*listen :
       {&ServerFlags::health_listen, &ServerFlags::metrics_listen}) {
    ServerFlags flags;
    flags.*listen = "127.0.0.1:50052";
    EXPECT_TRUE(ValidateServerFlags(flags).ok());
    flags.*listen = "0.0.0.0:50052";
    EXPECT_THAT(Message(ValidateServerFlags(flags)), HasSubstr("-listen 0.0.0.0:50052"));
    EXPECT_THAT(Message(ValidateServerFlags(flags)), HasSubstr("--insecure-probes"));
    flags.insecure_probes = true;
    EXPECT_TRUE(ValidateServerFlags(flags).ok());
    flags.listen = "0.0.0.0:50051";
    EXPECT_THAT(Message(ValidateServerFlags(flags)), HasSubstr("--listen 0.0.0.0:50051"))
        << "a port for requests is another matter";
    flags.insecure_probes = false;
    flags.tls.insecure = true;
    EXPECT_TRUE(ValidateServerFlags(flags).ok()) << "--insecure allows it everywhere";
  }
}

TEST(ServerFlags, CertificatesMustBeThereTogether) {
  ServerFlags flags;
  flags.tls.cert_file = "/nonexistent.pem";
  EXPECT_THAT(Message(ValidateServerFlags(flags)), HasSubstr("--tls-cert /nonexistent.pem"));
  flags.tls.cert_file.clear();
  flags.tls.ca_file = "/nonexistent.pem";
  EXPECT_THAT(Message(ValidateServerFlags(flags)), HasSubstr("--tls-cert is missing"));
}

}  // namespace
}  // namespace baton
