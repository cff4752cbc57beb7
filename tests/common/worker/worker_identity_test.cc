#include "gtest/gtest.h"

#include "common/protocol/identity.h"
#include "common/rpc/limits.h"
#include "common/worker/convert.h"

namespace baton {
namespace {

internal::v1::ModelIdentity IdentityOf(const std::string& name) {
  const auto file = GgufFile::Open(BATON_TEST_DATA "/tiny/" + name + ".gguf");
  EXPECT_TRUE(file.ok()) << file.status();
  const auto config = ModelConfig::FromGguf(*file);
  EXPECT_TRUE(config.ok()) << config.status();
  return MakeIdentity(*file, *config);
}

TEST(WorkerIdentity, IsTheSameForOneFileAndDiffersForAnother) {
  const internal::v1::ModelIdentity identity = IdentityOf("tiny-llama-f32");
  EXPECT_EQ(identity.protocol_version(), kProtocolVersion);
  EXPECT_EQ(identity.architecture(), "llama");
  for (const std::string* digest :
       {&identity.weights_digest(), &identity.config_digest(), &identity.tokenizer_digest()}) {
    EXPECT_EQ(digest->size(), 32u);
  }
  EXPECT_TRUE(CheckSameIdentity(identity, IdentityOf("tiny-llama-f32")).ok());
  EXPECT_FALSE(CheckSameIdentity(identity, IdentityOf("tiny-llama-f16")).ok());
}

}  // namespace
}  // namespace baton
