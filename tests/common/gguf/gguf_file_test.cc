#include "common/gguf/gguf_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/base/hash.h"
#include "common/gguf/quantisation.h"
#include "tests/common/gguf/opened_gguf.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/resident_memory.h"
#include "tests/support/temporary_folder.h"

namespace baton {
namespace {

using Part = GgufFile::Part;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(GgufFile, ReleasesWhatWasReadAndReadsItAgain) {
  constexpr int64_t kMib = int64_t{1} << 20;
  constexpr uint64_t kElements = 8 * uint64_t{kMib};
  GgufBuilder builder;
  builder.Tensor({.name = "t", .dims = {kElements}});
  builder.data = std::string(kElements * 4, 'x');
  const TemporaryFolder folder("gguf_file");
  const GgufFile file = Unwrap(GgufFile::Open(folder.File("large.gguf", builder.Build())));
  const GgufTensor& tensor = file.tensors()[0];
  const auto sum = [&] {
    uint64_t total = 0;
    for (const uint8_t byte : tensor.data) total += byte;
    return total;
  };
  const int64_t before = ProcessMemoryBytes("RssFile");
  EXPECT_EQ(sum(), kElements * 4 * 'x');
  EXPECT_GT(ProcessMemoryBytes("RssFile") - before, 30 * kMib);
  file.Release(tensor);
  EXPECT_LT(ProcessMemoryBytes("RssFile") - before, kMib);
  EXPECT_EQ(file.Digest().size(), 32u);
  EXPECT_LT(ProcessMemoryBytes("RssFile") - before, kMib);
  EXPECT_EQ(sum(), kElements * 4 * 'x');
}

TEST(GgufFile, ATensorTakesTheFilesMemoryNoLongerThanItIsHeld) {
  constexpr int64_t kMib = int64_t{1} << 20;
  constexpr uint64_t kElements = 8 * uint64_t{kMib};
  GgufBuilder builder;
  builder.Tensor({.name = "t.weight", .dims = {kElements / 2, 2}});
  builder.data = std::string(kElements * 4, 'x');
  const TemporaryFolder folder("gguf_held");
  const std::string path = folder.File("large.gguf", builder.Build());
  for (const Quantisation quantisation : {Quantisation::kNone, Quantisation::kQ8_0}) {
    const GgufFile file = GgufFile::Quantised(Unwrap(GgufFile::Open(path)), quantisation);
    const int64_t before = ProcessMemoryBytes("RssFile");
    uint64_t total = 0;
    {
      const HeldTensor held = file.Hold(file.tensors()[0]);
      for (const uint8_t byte : held->data) total += byte;
    }
    EXPECT_GT(total, 0u);
    EXPECT_LT(ProcessMemoryBytes("RssFile") - before, kMib);
  }
}

void ExpectOpenRefused(const std::string& path, absl::StatusCode code, const std::string& what) {
  const absl::Status status = GgufFile::Open(path).status();
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  EXPECT_THAT(std::string(status.message()), HasSubstr(what));
  EXPECT_EQ(status.message().find('\n'), absl::string_view::npos);
}

TEST(GgufFile, OpensEveryTinyModel) {
  int opened = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TinyPath(""))) {
    if (entry.path().extension() != ".gguf") continue;
    const absl::StatusOr<GgufFile> file = GgufFile::Open(entry.path().string());
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_FALSE(file->tensors().empty());
    EXPECT_EQ(file->size_bytes(), entry.file_size());
    ++opened;
  }
  EXPECT_EQ(opened, 15);
}

TEST(GgufFile, ReadsTheMetadataOfATinyModel) {
  const GgufFile file = OpenTiny("tiny-llama-f32.gguf");
  EXPECT_EQ(*file.GetString("general.architecture"), "llama");
  EXPECT_EQ(*file.GetUint("llama.block_count"), 3u);
  EXPECT_EQ(file.GetStrings("tokenizer.ggml.tokens")->size(), 320u);
  EXPECT_EQ(file.GetInts("tokenizer.ggml.token_type")->size(), 320u);
  EXPECT_GT(*file.GetFloat("llama.attention.layer_norm_rms_epsilon"), 0.0);
}

TEST(GgufFile, TensorsHaveTheirShapesAndBytes) {
  const GgufFile file = OpenTiny("tiny-llama-q4_1.gguf");
  const GgufTensor* query = file.FindTensor("blk.0.attn_q.weight");
  ASSERT_NE(query, nullptr);
  EXPECT_EQ(query->type, GgmlType::kQ4_1);
  ASSERT_EQ(query->dims.size(), 2u);
  EXPECT_EQ(query->data.size(), query->dims[0] / 32 * 20 * query->dims[1]);
  EXPECT_EQ(file.FindTensor("blk.99.attn_q.weight"), nullptr);
  for (const GgufTensor& tensor : file.tensors()) EXPECT_EQ(file.FindTensor(tensor.name), &tensor);
}

TEST(GgufFile, DataOfEachTensorIsItsOwn) {
  GgufBuilder builder;
  builder.version = 2;
  builder.Tensor({.name = "second", .dims = {8}, .offset = 64});
  builder.Tensor({.name = "first", .dims = {4, 2}, .type = 1, .offset = 0});
  builder.data = std::string(64, 'a') + std::string(32, 'b');
  const GgufFile file = ParseGood(builder);
  ASSERT_EQ(file.tensors().size(), 2u);
  EXPECT_EQ(file.tensors()[0].name, "second");  // tensors have the order of the file
  EXPECT_THAT(file.tensors()[1].dims, ElementsAre(4, 2));
  const auto text = [&](const char* name) {
    const absl::Span<const uint8_t> data = file.FindTensor(name)->data;
    return std::string(data.begin(), data.end());
  };
  EXPECT_EQ(text("first"), std::string(16, 'a'));
  EXPECT_EQ(text("second"), std::string(32, 'b'));
}

TEST(GgufFile, EveryTypeOfGgmlCanBeSized) {
  for (const uint32_t type : {0,  1,  2,  3,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17,
                              18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 34, 35, 39}) {
    GgufBuilder builder;
    builder.Tensor({.name = "a", .dims = {256}, .type = type});
    builder.data = std::string(256 * 8, 'd');
    const GgufFile file = ParseGood(builder);
    EXPECT_FALSE(file.FindTensor("a")->data.empty()) << type;
  }
}

TEST(GgufFile, IntegersOfEveryWidthAreReadWhereTheyFit) {
  const GgufFile file = ParseGood(GgufBuilder()
                                      .Scalar<uint8_t>("u8", 0, 200)
                                      .Scalar<int8_t>("i8", 1, 100)
                                      .Scalar<uint16_t>("u16", 2, 60000)
                                      .Scalar<int16_t>("i16", 3, 30000)
                                      .Scalar<uint32_t>("u32", 4, 4000000000u)
                                      .Scalar<int32_t>("i32", 5, 2000000000)
                                      .Scalar<uint64_t>("u64", 10, UINT64_MAX)
                                      .Scalar<int64_t>("i64", 11, INT64_MAX)
                                      .Scalar<int8_t>("minus", 1, -1)
                                      .Scalar<int64_t>("least", 11, INT64_MIN));
  EXPECT_EQ(*file.GetUint("u8"), 200u);
  EXPECT_EQ(*file.GetUint("i8"), 100u);
  EXPECT_EQ(*file.GetUint("u16"), 60000u);
  EXPECT_EQ(*file.GetUint("i16"), 30000u);
  EXPECT_EQ(*file.GetUint("u32"), 4000000000u);
  EXPECT_EQ(*file.GetUint("i32"), 2000000000u);
  EXPECT_EQ(*file.GetUint("u64"), UINT64_MAX);
  EXPECT_EQ(*file.GetUint("i64"), uint64_t{INT64_MAX});
  EXPECT_EQ(*file.GetInt("u16"), 60000);
  EXPECT_LT(*file.GetInt("minus"), 0);
  EXPECT_THAT(std::string(file.GetInt("u64").status().message()), HasSubstr("is above 2^63 - 1"));
  EXPECT_THAT(std::string(file.GetUint("minus").status().message()), HasSubstr("is negative"));
  EXPECT_FALSE(file.GetUint("least").ok());
}

TEST(GgufFile, ScalarsOfTheOtherTypesAreRead) {
  const GgufFile file = ParseGood(GgufBuilder()
                                      .Scalar<float>("f32", 6, 0.5f)
                                      .Scalar<double>("f64", 12, 1e-300)
                                      .Scalar<uint8_t>("yes", 7, 1)
                                      .Scalar<uint8_t>("no", 7, 0)
                                      .Text("text", std::string("a\0b\xff", 4))
                                      .Text("nothing", ""));
  EXPECT_EQ(*file.GetFloat("f32"), 0.5);
  EXPECT_EQ(*file.GetFloat("f64"), 1e-300);
  EXPECT_TRUE(*file.GetBool("yes"));
  EXPECT_FALSE(*file.GetBool("no"));
  EXPECT_EQ(*file.GetString("text"), absl::string_view("a\0b\xff", 4));
  EXPECT_EQ(*file.GetString("nothing"), "");
  EXPECT_TRUE(file.Has("no"));
  EXPECT_FALSE(file.Has("n"));
}

TEST(GgufFile, ArraysAreRead) {
  const GgufFile file = ParseGood(GgufBuilder()
                                      .Texts("texts", {"", "a", std::string(1000, 'b')})
                                      .Texts("no texts", {})
                                      .Array<int32_t>("i32", 5, {-1, INT32_MIN, 7})
                                      .Array<uint64_t>("u64", 10, {0, INT64_MAX})
                                      .Array<uint64_t>("too large", 10, {1, UINT64_MAX})
                                      .Array<uint8_t>("bools", 7, {1, 0, 1})
                                      .Array<float>("f32", 6, {0.25f, -1.0f})
                                      .Array<double>("f64", 12, {0.1}));
  EXPECT_THAT(*file.GetStrings("texts"), ElementsAre("", "a", std::string(1000, 'b')));
  EXPECT_THAT(*file.GetStrings("no texts"), IsEmpty());
  EXPECT_THAT(*file.GetInts("i32"), ElementsAre(-1, INT32_MIN, 7));
  EXPECT_THAT(*file.GetInts("u64"), ElementsAre(0, INT64_MAX));
  EXPECT_THAT(std::string(file.GetInts("too large").status().message()), HasSubstr("position 1"));
  EXPECT_THAT(*file.GetBools("bools"), ElementsAre(true, false, true));
  EXPECT_FALSE(file.GetBools("i32").ok());
  EXPECT_FALSE(file.GetInts("bools").ok());
  EXPECT_THAT(*file.GetFloats("f32"), ElementsAre(0.25f, -1.0f));
  EXPECT_THAT(*file.GetFloats("f64"), ElementsAre(0.1f));
}

TEST(GgufFile, AMissingKeyAndAWrongTypeAreNamed) {
  const GgufFile file = ParseGood(GgufBuilder().Text("text", "t").Texts("texts", {"t"}));
  EXPECT_EQ(file.GetUint("llama.block_count").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(file.GetUint("llama.block_count").status().message()),
              HasSubstr("good.gguf: metadata key 'llama.block_count' is missing"));
  EXPECT_EQ(file.GetUint("text").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(file.GetUint("text").status().message()),
              HasSubstr("'text' is of type string, not an integer"));
  EXPECT_THAT(std::string(file.GetString("texts").status().message()),
              HasSubstr("'texts' is of type array of string, not a string"));
  EXPECT_THAT(std::string(file.GetInts("texts").status().message()),
              HasSubstr("not array of integers"));
  EXPECT_FALSE(file.GetStrings("text").ok());
  EXPECT_FALSE(file.GetFloat("text").ok());
  EXPECT_FALSE(file.GetBool("text").ok());
  EXPECT_FALSE(file.GetFloats("texts").ok());
}

TEST(GgufFile, ViewsStayValidWhenItIsMoved) {
  // Small enough for the inline buffer of a std::string, whose bytes would move with the file.
  GgufFile file = ParseGood(GgufBuilder().Text("k", "v"));
  const absl::string_view value = *file.GetString("k");
  GgufFile moved = std::move(file);
  EXPECT_EQ(value, "v");
  GgufFile mapped = OpenTiny("tiny-llama-f16.gguf");
  const absl::string_view architecture = *mapped.GetString("general.architecture");
  moved = std::move(mapped);
  EXPECT_EQ(architecture, "llama");
  EXPECT_EQ(moved.GetString("general.architecture")->data(), architecture.data());
}

TEST(GgufFile, TokenizerPartReadsAFileWithoutItsTensors) {
  std::ifstream whole(TinyPath("tiny-llama-q8_0.gguf"), std::ios::binary);
  std::string bytes(20000, '\0');
  whole.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  const TemporaryFolder folder("gguf_file");
  const std::string path = folder.File("cut.gguf", bytes);
  EXPECT_FALSE(GgufFile::Open(path).ok());
  const GgufFile file = Unwrap(GgufFile::Open(path, Part::kTokenizer));
  EXPECT_EQ(file.GetStrings("tokenizer.ggml.tokens")->size(), 320u);
  EXPECT_THAT(file.tensors(), IsEmpty());
  EXPECT_EQ(file.TokenizerDigest(), OpenTiny("tiny-llama-q8_0.gguf").TokenizerDigest());
}

TEST(GgufFile, VocabularyRowsAreTheEmbeddingsElseWhatTheKeySays) {
  const GgufBuilder key =
      GgufBuilder().Text("general.architecture", "llama").Uint32("llama.vocab_size", 9);
  GgufBuilder both = key;
  both.TensorWithData("other", {8}, 0, std::string(32, 'x'));
  both.TensorWithData("token_embd.weight", {8, 5}, 0, std::string(160, 'x'));
  for (const Part part : {Part::kAll, Part::kTokenizer}) {
    EXPECT_EQ(Unwrap(GgufFile::Parse(both.Build(), "m.gguf", part)).VocabularyRows(), 5u);
    EXPECT_EQ(Unwrap(GgufFile::Parse(key.Build(), "m.gguf", part)).VocabularyRows(), 9u);
    EXPECT_EQ(Unwrap(GgufFile::Parse(GgufBuilder().Build(), "m.gguf", part)).VocabularyRows(),
              std::nullopt);
  }
  // A list of tensors that is cut off before the embedding's entry, inside it, and behind it.
  const std::string whole = both.Build();
  const size_t entry = whole.find("token_embd.weight");
  for (const auto& [size, rows] :
       {std::pair(entry, 9u), std::pair(entry + 30, 9u), std::pair(entry + 17 + 32, 5u)}) {
    const GgufFile cut = Unwrap(GgufFile::Parse(whole.substr(0, size), "m.gguf", Part::kTokenizer));
    EXPECT_EQ(cut.VocabularyRows(), rows) << size - entry;
    EXPECT_THAT(cut.tensors(), IsEmpty());
  }
}

TEST(GgufFile, PathsThatAreNoModelAreRefusedInOneLine) {
  const TemporaryFolder folder("gguf_file");
  ExpectOpenRefused(folder.path() + "/missing.gguf", absl::StatusCode::kNotFound, "check the path");
  ExpectOpenRefused(folder.path(), absl::StatusCode::kInvalidArgument, "is a directory");
  ExpectOpenRefused(folder.File("empty", ""), absl::StatusCode::kInvalidArgument, "is empty");
  ExpectOpenRefused(folder.File("four", "GGUF"), absl::StatusCode::kInvalidArgument,
                    "ends inside its header");
  ExpectOpenRefused(folder.File("text", "hello, world"), absl::StatusCode::kInvalidArgument,
                    "is not a GGUF file");
  ExpectOpenRefused("/dev/null", absl::StatusCode::kInvalidArgument, "is not a regular file");
  const std::string pipe = folder.path() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  ExpectOpenRefused(pipe, absl::StatusCode::kInvalidArgument, "is not a regular file");
}

TEST(GgufFile, AFileReplacedByRenameKeepsItsOldContent) {
  const TemporaryFolder folder("gguf_file");
  const std::string path = folder.File("model.gguf", GgufBuilder().Text("k", "old").Build());
  const GgufFile file = Unwrap(GgufFile::Open(path));
  std::filesystem::rename(folder.File("new", GgufBuilder().Text("k", "new").Build()), path);
  EXPECT_EQ(*file.GetString("k"), "old");
  EXPECT_EQ(*Unwrap(GgufFile::Open(path)).GetString("k"), "new");
}

TEST(GgufFile, RealModelHasItsTensorsAndDigest) {
  const char* path = std::getenv("BATON_TEST_MODEL");
  if (path == nullptr) GTEST_SKIP() << "BATON_TEST_MODEL is not set";
  const absl::StatusOr<GgufFile> file = GgufFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->tensors().size(), 272u);
  EXPECT_EQ(file->GetStrings("tokenizer.ggml.tokens")->size(), 49152u);
  EXPECT_EQ(ToHex(file->Digest()),
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53");
}

}  // namespace
}  // namespace baton
