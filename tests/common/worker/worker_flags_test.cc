#include "common/worker/worker_flags.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/net/metrics.h"
#include "common/worker/banner.h"
#include "common/worker/worker_metrics.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

absl::Status Parse(WorkerFlags& worker, std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "worker");
  FlagSet flags("worker", "A worker.");
  AddWorkerFlags(flags, worker);
  if (const absl::Status status = flags.Parse(static_cast<int>(arguments.size()), arguments.data());
      !status.ok()) {
    return status;
  }
  return ValidateWorkerFlags(worker);
}

TEST(WorkerFlags, AreReadAndChecked) {
  WorkerFlags worker;
  const absl::Status status =
      Parse(worker, {"--model=/m.gguf", "--max-model-len=4K", "--kv-cache-memory-bytes=2GiB",
                     "--device=cuda:1", "--cpu-set=0-1", "--listen=127.0.0.1:0"});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(worker.runtime.engine.max_model_len, 4096);
  EXPECT_EQ(worker.runtime.memory.kv_cache_memory_bytes, uint64_t{2} << 30);
}

TEST(WorkerFlags, TheCacheHasTheTypeThatIsNamed) {
  const std::pair<const char*, KvType> types[] = {
      {"auto", KvType::kF16},  {"f16", KvType::kF16},     {"bf16", KvType::kBf16},
      {"f32", KvType::kF32},   {"int8", KvType::kInt8},   {"fp8", KvType::kFp8},
      {"int4", KvType::kInt4}, {"fp8_e4m3", KvType::kFp8}};
  for (const auto& [name, type] : types) {
    WorkerFlags worker;
    const std::string flag = absl::StrCat("--kv-cache-dtype=", name);
    ASSERT_TRUE(Parse(worker, {"--model=m", flag.c_str()}).ok()) << name;
    EXPECT_EQ(worker.runtime.engine.kv_dtype, type) << name;
  }
}

TEST(WorkerFlags, TokensAreGuessedInTheModeThatIsNamed) {
  const std::pair<const char*, SpeculationMode> modes[] = {{"auto", SpeculationMode::kAuto},
                                                           {"ngram", SpeculationMode::kNgram},
                                                           {"none", SpeculationMode::kNone}};
  WorkerFlags worker;
  ASSERT_TRUE(Parse(worker, {"--model=m"}).ok());
  EXPECT_EQ(worker.runtime.engine.speculation, SpeculationMode::kAuto);
  for (const auto& [name, mode] : modes) {
    const std::string flag = absl::StrCat("--speculative=", name);
    ASSERT_TRUE(Parse(worker, {"--model=m", flag.c_str()}).ok()) << name;
    EXPECT_EQ(worker.runtime.engine.speculation, mode) << name;
  }
  EXPECT_THAT(Parse(worker, {"--model=m", "--speculative=often"}).message(),
              HasSubstr("--speculative"));
}

TEST(WorkerFlags, ADraftModelIsNamedWhereOneIsAskedForAndMayGuess) {
  WorkerFlags worker;
  EXPECT_THAT(Parse(worker, {"--model=m", "--speculative=draft"}).message(),
              HasSubstr("--speculative=draft needs --draft-model"));
  ASSERT_TRUE(Parse(worker, {"--model=m", "--speculative=draft", "--draft-model=d"}).ok());
  EXPECT_EQ(worker.runtime.engine.speculation, SpeculationMode::kDraft);
  EXPECT_EQ(worker.runtime.draft_model, "d");
  EXPECT_THAT(Parse(worker, {"--model=m", "--speculative=none", "--draft-model=d"}).message(),
              HasSubstr("--draft-model: is not used with --speculative=none"));
}

TEST(WorkerFlags, ABadOneIsNamed) {
  const struct {
    std::vector<const char*> arguments;
    const char* flag;
  } cases[] = {
      {{}, "--model"},
      {{"--model=m", "--model-sha256=abc"}, "--model-sha256"},
      {{"--model=m", "--quantize=q5_0"}, "--quantize"},
      {{"--model=m", "--device=tpu"}, "--device"},
      {{"--model=m", "--device=cuda:x"}, "--device"},
      {{"--model=m", "--block-size=24"}, "--block-size"},
      {{"--model=m", "--cpu-isa=sse"}, "--cpu-isa"},
      {{"--model=m", "--cpu-set=3-1"}, "--cpu-set"},
      {{"--model=m", "--cpu-set=0,,1"}, "--cpu-set"},
      {{"--model=m", "--kv-cache-dtype=int3"}, "--kv-cache-dtype"},
      {{"--model=m", "--num-kv-blocks=4", "--kv-cache-memory-bytes=1k"}, "--num-kv-blocks"},
      {{"--model=m", "--gpu-memory-utilization=0"}, "--gpu-memory-utilization"},
      {{"--model=m", "--gpu-memory-utilization=1.5"}, "--gpu-memory-utilization"},
      {{"--model=m", "--kv-connections=17"}, "--kv-connections"},
      {{"--model=m", "--kv-copy-threads=65"}, "--kv-copy-threads"},
      {{"--model=m", "--kv-wire-dtype=fp4"}, "--kv-wire-dtype"},
      {{"--model=m", "--kv-wire-dtype=f32", "--strict-kv-dtype"}, "--kv-wire-dtype"},
      {{"--model=m", "--listen=0.0.0.0:1"}, "--insecure"}};
  for (const auto& c : cases) {
    WorkerFlags worker;
    EXPECT_THAT(std::string(Parse(worker, c.arguments).message()), HasSubstr(c.flag));
  }
}

TEST(CopyHelpers, AreFewOfTheCpusUnlessTheFlagCountsTheThreads) {
  EXPECT_EQ(CopyHelpers(0, 2), 0) << "a small machine has better uses for its CPUs";
  EXPECT_EQ(CopyHelpers(0, 4), 1);
  EXPECT_EQ(CopyHelpers(0, 16), 4);
  EXPECT_EQ(CopyHelpers(0, 128), 4);
  EXPECT_EQ(CopyHelpers(1, 128), 0) << "the push's own thread alone";
  EXPECT_EQ(CopyHelpers(8, 2), 7);
}

TEST(Banner, SaysBlocksAsTokens) {
  const std::string text = Banner({.version = "0.1.0",
                                   .role = "decode",
                                   .model = "SmolLM2",
                                   .weights = "Q4_1",
                                   .kv_dtype = "f16",
                                   .kv_memory = "16.4 MB; int8 8.7 MB, int4 4.6 MB",
                                   .device = "cpu avx2, 2 threads",
                                   .kv_blocks = 128,
                                   .block_size = 32,
                                   .max_model_len = 2048,
                                   .address = "127.0.0.1:50052"});
  EXPECT_THAT(text, HasSubstr("128 blocks = 4096 tokens (f16), 2 sequences of full length\n"
                              "           16.4 MB; int8 8.7 MB, int4 4.6 MB"));
  EXPECT_THAT(text, HasSubstr("127.0.0.1:50052"));
  EXPECT_THAT(text, HasSubstr("device   cpu avx2, 2 threads\n"));
  EXPECT_THAT(text, testing::Not(HasSubstr("draft")));
  BannerInfo drafting;
  drafting.draft = DraftMemoryText({.weight_bytes = 94'400'000, .cache_bytes = 12'000'000});
  EXPECT_THAT(Banner(drafting), HasSubstr("\n  draft    weights 94.4 MB, KV cache 12.0 MB\n"));
}

TEST(Banner, AModelsNameCannotForgeALine) {
  BannerInfo hostile;
  hostile.model = "m\x1b[2J\n  device   cuda";
  EXPECT_THAT(Banner(hostile), HasSubstr("model    m\\u001b[2J\\u000a  device   cuda ("));
}

}  // namespace
}  // namespace baton
