#include "common/engine/engine_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace baton {
namespace {

using testing::StartsWith;

ModelConfig SmallModelConfig() {
  ModelConfig config;
  config.context_length = 100;
  config.vocab_size = 50;
  config.head_dim = 48;
  return config;
}

// The error of the default options after this change.
std::string OptionsFault(const std::function<void(EngineOptions&)>& change) {
  EngineOptions options;
  change(options);
  const absl::Status status = CheckEngineOptions(options, SmallModelConfig());
  EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(EngineOptions, ABlockHasWholePages) {
  EXPECT_TRUE(CheckBlockSize(16).ok());
  EXPECT_TRUE(CheckBlockSize(48).ok());
  for (const int size : {0, -16, 8, 24}) {
    EXPECT_EQ(CheckBlockSize(size).message(),
              "--block-size: must be a multiple of 16, not " + std::to_string(size));
  }
}

TEST(EngineOptions, Int4NeedsHeadsOfWholeGroups) {
  EXPECT_TRUE(CheckHeadDim("--f", KvType::kInt4, 64).ok());
  EXPECT_TRUE(CheckHeadDim("--f", KvType::kInt8, 48).ok());
  const absl::Status status = CheckHeadDim("--f", KvType::kInt4, 48);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              StartsWith("--f: int4 needs a head dimension that is a multiple of 32"));
}

TEST(EngineOptions, AValueOutOfItsRangeIsNamedByItsFlag) {
  EXPECT_EQ(OptionsFault([](EngineOptions&) {}), "");
  EXPECT_THAT(OptionsFault([](auto& options) { options.block_size = 8; }),
              StartsWith("--block-size: "));
  EXPECT_THAT(OptionsFault([](auto& options) { options.max_num_seqs = 0; }),
              StartsWith("--max-num-seqs: "));
  EXPECT_THAT(OptionsFault([](auto& options) { options.max_waiting = 0; }),
              StartsWith("max_waiting: "));
  EXPECT_EQ(OptionsFault([](auto& options) { options.max_num_batched_tokens = 64; }), "");
  EXPECT_THAT(OptionsFault([](auto& options) { options.max_num_batched_tokens = 63; }),
              StartsWith("--max-num-batched-tokens: must be at least 64, not 63"));
  EXPECT_THAT(OptionsFault([](auto& options) { options.kv_dtype = KvType::kInt4; }),
              StartsWith("--kv-cache-dtype: int4"));
  EXPECT_EQ(OptionsFault([](auto& options) { options.max_model_len = 100; }), "");
  EXPECT_THAT(OptionsFault([](auto& options) { options.max_model_len = 101; }),
              StartsWith("--max-model-len: must be in [1, 100], "));
}

TEST(EngineOptions, EndTokensAreInTheVocabulary) {
  EXPECT_EQ(OptionsFault([](auto& options) { options.end_of_generation_ids = {0, 49}; }), "");
  for (const int32_t id : {-1, 50}) {
    EXPECT_THAT(OptionsFault([id](auto& options) {
                  options.end_of_generation_ids = {3, id};
                }),
                StartsWith("tokenizer: end token " + std::to_string(id) + " is outside"));
  }
}

}  // namespace
}  // namespace baton
