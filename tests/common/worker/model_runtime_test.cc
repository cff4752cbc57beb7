#include "common/worker/model_runtime.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

#include "common/backend/cpu/machine/cpu_set.h"
#include "common/backend/cpu/product/weight_packing.h"
#include "common/base/clock.h"
#include "common/base/free_memory.h"
#include "common/base/hash.h"
#include "common/gguf/gguf_file.h"
#include "tests/common/engine/test_sequences.h"
#include "tests/support/resident_memory.h"

namespace baton {
namespace {

using testing::AllOf;
using testing::HasSubstr;

ModelRuntimeOptions TinyOptions() {
  ModelRuntimeOptions options;
  options.model = std::string(BATON_TEST_DATA) + "/tiny/tiny-llama-q4_1.gguf";
  options.backend.device = "cpu";
  options.backend.threads = 1;
  options.memory.num_kv_blocks = 20;
  return options;
}

std::vector<OutputToken> Generate(Engine& engine, SequenceRequest request) {
  std::vector<OutputToken> tokens;
  request.on_event = [&](const SequenceEvent& event) {
    if (const auto* produced = std::get_if<TokenProduced>(&event)) {
      tokens.push_back(produced->token);
    }
  };
  EXPECT_TRUE(engine.Submit(engine.NextId(), TestSequences::Trust(std::move(request))).ok());
  while (engine.Step()) {
  }
  return tokens;
}

TEST(ModelRuntime, RunsATinyModelFromItsFile) {
  EXPECT_TRUE(CheckModel(TinyOptions()).ok());
  const auto runtime = LoadModelRuntime(TinyOptions());
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  EXPECT_EQ((*runtime)->name, "tiny random llama");
  EXPECT_EQ((*runtime)->weights_digest.size(), 32u);
  EXPECT_EQ((*runtime)->tokenizer_digest.size(), 32u);
  Engine& engine = *(*runtime)->engine;
  EXPECT_EQ(engine.options().num_kv_blocks, 20);
  EXPECT_EQ(engine.options().max_model_len, 512);
  EXPECT_EQ(engine.options().end_of_generation_ids, (*runtime)->tokenizer->end_of_generation_ids());
  SequenceRequest request;
  request.token_ids = *(*runtime)->tokenizer->Encode("hello", {});
  request.prompt_length = static_cast<int>(request.token_ids.size());
  request.sampling = {.temperature = 0, .max_tokens = 5, .ignore_eos = true};
  EXPECT_EQ(Generate(engine, request).size(), 5u);
}

TEST(ModelRuntime, SizesTheCacheByBlocksByBytesOrByDefault) {
  const KvLayout layout{
      .layers = 2, .kv_heads = 1, .head_dim = 64, .block_size = 32, .dtype = KvType::kF16};
  ASSERT_EQ(layout.block_bytes(), 16384u);
  constexpr uint64_t kGibibyte = uint64_t{1} << 30;
  MemoryOptions options;
  EXPECT_EQ(*KvBlockCount(options, layout, layout.BlocksFor(1000), 100 * kGibibyte), 65536);
  EXPECT_EQ(*KvBlockCount(options, layout, layout.BlocksFor(1000), 0), 65536)
      << "free memory unknown";
  EXPECT_EQ(*KvBlockCount(options, layout, 100000, 100 * kGibibyte), 200000);
  EXPECT_EQ(*KvBlockCount(options, layout, layout.BlocksFor(1000), kGibibyte), 16384)
      << "a quarter of what is free";
  options.kv_cache_memory_bytes = 16384 * 7 + 100;
  EXPECT_EQ(*KvBlockCount(options, layout, layout.BlocksFor(1000), kGibibyte), 7);
  options.kv_cache_memory_bytes = 16384;
  EXPECT_THAT(
      std::string(
          KvBlockCount(options, layout, layout.BlocksFor(1000), kGibibyte).status().message()),
      HasSubstr("--kv-cache-memory-bytes"));
  KvLayout bytes = layout;
  for (const KvType dtype : {KvType::kInt8, KvType::kFp8}) {
    bytes.dtype = dtype;  // a head has 64 + 4 bytes instead of 128
    options.kv_cache_memory_bytes = 16384 * 1000;
    EXPECT_EQ(*KvBlockCount(options, bytes, bytes.BlocksFor(1000), kGibibyte), 1882);
  }
  bytes.dtype = KvType::kInt4;  // 36 bytes
  EXPECT_EQ(*KvBlockCount(options, bytes, bytes.BlocksFor(1000), kGibibyte), 3555);
  options = {};
  options.num_kv_blocks = 3;
  EXPECT_EQ(*KvBlockCount(options, layout, layout.BlocksFor(1000), kGibibyte), 3);
}

TEST(ModelRuntime, ErrorsNameFlagOrFile) {
  const auto message = [](const std::function<void(ModelRuntimeOptions&)>& spoil) {
    ModelRuntimeOptions options = TinyOptions();
    spoil(options);
    const std::string refused(LoadModelRuntime(options).status().message());
    // CheckModel does not look for the device.
    const std::string checked(CheckModel(options).message());
    EXPECT_EQ(checked, options.backend.device == "cpu" ? refused : "");
    return refused;
  };
  using Options = ModelRuntimeOptions;
  EXPECT_THAT(message([](Options& o) { o.model = ""; }), HasSubstr("--model"));
  EXPECT_THAT(message([](Options& o) { o.model = "/nowhere.gguf"; }), HasSubstr("/nowhere.gguf"));
  EXPECT_THAT(message([](Options& o) { o.memory.kv_cache_memory_bytes = 1; }),
              HasSubstr("give one"));
  EXPECT_THAT(message([](Options& o) { o.engine.block_size = 20; }), HasSubstr("--block-size"));
  EXPECT_THAT(message([](Options& o) { o.engine.kv_dtype = KvType::kInt4; }),
              AllOf(HasSubstr("--kv-cache-dtype: int4"), HasSubstr("multiple of 32")));
  EXPECT_THAT(message([](Options& o) { o.backend.device = "tpu"; }), HasSubstr("--device"));
  EXPECT_THAT(message([](Options& o) { o.engine.max_model_len = 9999; }),
              HasSubstr("--max-model-len"));
}

TEST(ModelRuntime, RunsADraftModelWhoseCacheTakesItsPartOfTheMemory) {
  ModelRuntimeOptions options = TinyOptions();
  options.draft_model = std::string(BATON_TEST_DATA) + "/tiny/tiny-mha-untied.gguf";
  options.engine.speculation = SpeculationMode::kDraft;
  options.memory = {.kv_cache_memory_bytes = 400'000};
  EXPECT_TRUE(CheckModel(options).ok()) << CheckModel(options);
  const auto runtime = LoadModelRuntime(options);
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  Engine& engine = *(*runtime)->engine;
  const KvCache& cache = engine.cache();
  const KvCache& draft = *engine.draft_cache();
  EXPECT_EQ(cache.block_count(), draft.block_count());
  const size_t of_a_block = cache.layout().block_bytes() + draft.layout().block_bytes();
  EXPECT_EQ(static_cast<size_t>(cache.block_count()), 400'000 / of_a_block);
  EXPECT_GT((*runtime)->draft_weight_bytes, 0u);
  SequenceRequest request;
  request.token_ids = {5, 6, 7};
  request.prompt_length = 3;
  request.sampling = {.temperature = 0, .max_tokens = 20, .ignore_eos = true};
  EXPECT_EQ(Generate(engine, request).size(), 20u);
  EXPECT_GT(engine.Stats().accepted_guesses + engine.Stats().refused_guesses, 0u);
}

TEST(ModelRuntime, RefusesADraftModelOfAnotherVocabularyByItsFlagAndFile) {
  const std::string tiny = std::string(BATON_TEST_DATA) + "/tiny/";
  std::ostringstream bytes;
  bytes << std::ifstream(tiny + "tiny-mha-untied.gguf", std::ios::binary).rdbuf();
  const std::string other = testing::TempDir() + "other_vocabulary.gguf";
  std::ofstream(other, std::ios::binary)
      << absl::StrReplaceAll(bytes.str(), {{"<|reserved_300|>", "<|RESERVED_300|>"}});
  ModelRuntimeOptions options = TinyOptions();
  const auto refused = [&](const std::string& path) {
    options.draft_model = path;
    const absl::Status status = LoadModelRuntime(options).status();
    EXPECT_EQ(status, CheckModel(options));
    EXPECT_THAT(
        std::string(status.message()),
        AllOf(HasSubstr("--draft-model: " + options.draft_model), HasSubstr("leave the flag out")));
    return std::string(status.message());
  };
  EXPECT_THAT(
      refused(other),
      AllOf(HasSubstr(
                "has a vocabulary of 320 tokens that differs from the main model's, which has 320"),
            HasSubstr("differs")));
  EXPECT_THAT(refused(tiny + "nowhere.gguf"), HasSubstr("nowhere.gguf"));
  options.engine.kv_dtype = KvType::kInt4;
  options.model = tiny + "tiny-wide-q4_k.gguf";
  EXPECT_THAT(refused(tiny + "tiny-mha-untied.gguf"), HasSubstr("int4 needs a head dimension"));
}

TEST(ModelRuntime, RefusesAFileOfAnotherSha256AndNamesBoth) {
  ModelRuntimeOptions options = TinyOptions();
  const std::string actual = ToHex(GgufFile::Open(options.model)->Digest());
  const std::string identity = (*LoadModelRuntime(options))->weights_digest;
  std::vector<double> progress;
  options.progress = [&](double done) { progress.push_back(done); };
  options.model_sha256 = absl::AsciiStrToUpper(actual);
  const auto runtime = LoadModelRuntime(options);
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  EXPECT_EQ((*runtime)->weights_digest, identity) << "with the check or without it";
  EXPECT_TRUE(std::is_sorted(progress.begin(), progress.end()));
  options.model_sha256 = std::string(64, '0');
  for (const absl::Status& status : {LoadModelRuntime(options).status(), CheckModel(options)}) {
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(options.model), HasSubstr("SHA-256 " + actual),
                      HasSubstr("not " + options.model_sha256)));
  }
}

TEST(ModelRuntime, QuantisedWeightsAreOtherWeightsAndTakeLess) {
  ModelRuntimeOptions options = TinyOptions();
  options.model = std::string(BATON_TEST_DATA) + "/tiny/tiny-llama-f32.gguf";
  const auto plain = LoadModelRuntime(options);
  options.quantisation = Quantisation::kQ8_0;
  // The SHA-256 is that of the file, whatever is made of its weights.
  options.model_sha256 = ToHex(GgufFile::Open(options.model)->Digest());
  const auto quantised = LoadModelRuntime(options);
  ASSERT_TRUE(quantised.ok()) << quantised.status();
  EXPECT_EQ((*plain)->weights_type, "F32");
  EXPECT_EQ((*quantised)->weights_type, "Q8_0");
  EXPECT_NE((*quantised)->weights_digest, (*plain)->weights_digest);
  EXPECT_EQ((*quantised)->tokenizer_digest, (*plain)->tokenizer_digest);
}

TEST(ModelRuntime, TellsWhatItsTimeWasSpentOn) {
  const auto runtime = LoadModelRuntime(TinyOptions());
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  EXPECT_THAT((*runtime)->times.Text(), testing::MatchesRegex("[0-9]+[.][0-9] s.*"));
}

TEST(ModelRuntime, LeavesTheThreadThatLoadsOnItsCpus) {
  const std::vector<int> cpus = UsableCpus();
  for (const std::string& set : {absl::StrCat(cpus.back()), absl::StrJoin(cpus, ",")}) {
    ModelRuntimeOptions options = TinyOptions();
    options.backend.cpu_set = set;
    options.backend.threads = 0;
    const auto runtime = LoadModelRuntime(options);
    ASSERT_TRUE(runtime.ok()) << runtime.status();
    EXPECT_EQ(UsableCpus(), cpus) << "threads that it starts would share one CPU";
  }
}

TEST(FreeMemory, IsKnownOnThisMachine) { EXPECT_GT(FreeMemoryBytes(), uint64_t{1} << 20); }

// The bytes of the file's matrices after repacking.
int64_t RepackedBytes(const std::string& path) {
  const auto file = GgufFile::Open(path);
  size_t bytes = 0;
  for (const GgufTensor& tensor : file->tensors()) {
    if (tensor.dims.size() != 2) continue;
    bytes += PackedGroupBytes(tensor.type, tensor.dims[0]) * ((tensor.dims[1] + 15) / 16);
  }
  return static_cast<int64_t>(bytes);
}

TEST(ModelRuntime, HoldsTheRepackedWeightsAndNotTheFileToo) {
  const char* path = std::getenv("BATON_TEST_MODEL");
  if (path == nullptr || *path == '\0') GTEST_SKIP() << "BATON_TEST_MODEL is not set";
  constexpr int64_t kMebibyte = int64_t{1} << 20;
  const int64_t weights = RepackedBytes(path);
  const int64_t before = ProcessMemoryBytes("VmRSS");
  ResetPeakMemory();
  ModelRuntimeOptions options;
  options.model = path;
  options.backend.device = "cpu";
  const auto start = SteadyNow();
  const auto runtime = LoadModelRuntime(options);
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  const int64_t peak = ProcessMemoryBytes("VmHWM") - before;
  const int64_t resident = ProcessMemoryBytes("VmRSS") - before;
  std::printf("weights %ld MiB, resident %ld MiB, peak while loading %ld MiB, %ld ms\n",
              weights / kMebibyte, resident / kMebibyte, peak / kMebibyte,
              static_cast<long>(absl::ToInt64Milliseconds(SteadyNow() - start)));
  // The KV cache (1 GiB) is not resident before it is used.
  EXPECT_LT(resident, weights + 100 * kMebibyte);
  EXPECT_LT(peak, weights + 100 * kMebibyte);
}

// The real model answers. Its file is too large for the repository and is named by
// BATON_TEST_MODEL.
TEST(ModelRuntime, TheRealModelKnowsTheCapitalOfFrance) {
  const char* path = std::getenv("BATON_TEST_MODEL");
  if (path == nullptr || *path == '\0') GTEST_SKIP() << "BATON_TEST_MODEL is not set";
  ModelRuntimeOptions options;
  options.model = path;
  options.backend.device = "cpu";
  const auto runtime = LoadModelRuntime(options);
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  SequenceRequest request;
  request.token_ids = *(*runtime)->tokenizer->Encode(
      "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n",
      {.add_special_tokens = false, .parse_special = true});
  request.prompt_length = static_cast<int>(request.token_ids.size());
  request.sampling = {.temperature = 0, .max_tokens = 40};
  std::vector<int32_t> ids;
  const std::vector<OutputToken> tokens = Generate(*(*runtime)->engine, request);
  for (const OutputToken& token : tokens) ids.push_back(token.token_id);
  const std::string answer = (*runtime)->tokenizer->Decode(ids, true);
  EXPECT_THAT(answer, HasSubstr("Paris"));
  EXPECT_EQ(tokens.back().finish_reason, FinishReason::kStop) << answer;
}

}  // namespace
}  // namespace baton
