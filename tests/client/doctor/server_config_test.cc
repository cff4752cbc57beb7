#include "client/doctor/server_config.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::ElementsAre;

TEST(ServerConfigOf, TellsARouterFromAWorker) {
  const ServerConfig router = ServerConfigOf(
      "r.toml",
      {{"prefill", {"a:1", "b:1"}}, {"decode", {"c:1"}}, {"http-listen", {"0.0.0.0:80"}}});
  EXPECT_TRUE(router.router);
  EXPECT_THAT(router.prefill, ElementsAre("a:1", "b:1"));
  EXPECT_THAT(router.decode, ElementsAre("c:1"));
  const ServerConfig worker = ServerConfigOf("w.toml", {{"model", {"m.gguf"}}});
  EXPECT_FALSE(worker.router);
  EXPECT_EQ(worker.model, "m.gguf");
  EXPECT_EQ(worker.device, "auto");
}

TEST(ServerConfigOf, HasEveryAddressThatIsOpened) {
  const ServerConfig config =
      ServerConfigOf("w.toml", {{"health-listen", {"127.0.0.1:2"}}, {"tls-cert", {"w.crt"}}});
  ASSERT_EQ(config.opened.size(), 2u);
  EXPECT_EQ(config.opened[0].address, "127.0.0.1:50051") << "the default";
  EXPECT_EQ(config.opened[1].flag, "--health-listen");
  EXPECT_EQ(config.tls.cert_file, "w.crt");
  EXPECT_TRUE(config.tls.enabled());
}

TEST(ServerConfigOf, KnowsACertificateForClientsOnly) {
  const ServerConfig config =
      ServerConfigOf("r.toml", {{"plain-workers", {"true"}}, {"tls-cert", {"r.crt"}}});
  EXPECT_TRUE(config.router);
  EXPECT_TRUE(config.tls.for_clients_only);
  EXPECT_FALSE(ServerConfigOf("r.toml", {{"decode", {"c:1"}}}).tls.for_clients_only);
}

TEST(ServerConfigOf, TakesTheCertificateOfBatonServeForOneForClientsOnly) {
  const ConfigValues serve = {{"http-listen", {"0.0.0.0:8443"}}, {"tls-cert", {"s.crt"}}};
  EXPECT_TRUE(ServerConfigOf("serve.toml", serve).tls.for_clients_only);
  for (const char* workers : {"prefill", "decode", "workers-file"}) {
    ConfigValues router = serve;
    router[workers] = {"w"};
    EXPECT_FALSE(ServerConfigOf("router.toml", router).tls.for_clients_only) << workers;
  }
  EXPECT_FALSE(ServerConfigOf("worker.toml", {{"tls-cert", {"w.crt"}}}).tls.for_clients_only);
}

TEST(ReadServerConfig, NamesAFileThatIsNotThere) {
  EXPECT_FALSE(ReadServerConfig("/nowhere.toml").ok());
}

}  // namespace
}  // namespace baton
