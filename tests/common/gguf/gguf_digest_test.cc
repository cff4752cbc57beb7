// The digests of a GGUF file: of its tokenizer, of all of it, and in pieces.
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/base/hash.h"
#include "common/gguf/gguf_file.h"
#include "tests/common/gguf/opened_gguf.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/temporary_folder.h"

namespace baton {
namespace {

TEST(GgufFile, TokenizerDigestDependsOnTheTokenizerAlone) {
  const auto digest = [](const GgufBuilder& builder) {
    return ParseGood(builder).TokenizerDigest();
  };
  const GgufBuilder base = GgufBuilder()
                               .Texts("tokenizer.ggml.tokens", {"a", "bc"})
                               .Text("tokenizer.ggml.model", "gpt2");
  EXPECT_EQ(digest(base), digest(GgufBuilder()
                                     .Text("general.name", "other")
                                     .Text("tokenizer.ggml.model", "gpt2")
                                     .Texts("tokenizer.ggml.tokens", {"a", "bc"})));
  EXPECT_NE(digest(base), digest(GgufBuilder()
                                     .Texts("tokenizer.ggml.tokens", {"ab", "c"})
                                     .Text("tokenizer.ggml.model", "gpt2")));
  EXPECT_NE(digest(base), digest(GgufBuilder(base).Scalar<uint8_t>("tokenizer.add_bos", 7, 0)));
  EXPECT_NE(digest(GgufBuilder().Scalar<uint8_t>("tokenizer.a", 0, 1)),
            digest(GgufBuilder().Scalar<int8_t>("tokenizer.a", 1, 1)));
  EXPECT_EQ(OpenTiny("tiny-llama-f32.gguf").TokenizerDigest(),
            OpenTiny("tiny-llama-q4_0.gguf").TokenizerDigest());
}

TEST(GgufFile, MetadataDigestDependsOnTheArchitecturesKeysAlone) {
  const auto digest = [](const GgufBuilder& builder) {
    return ParseGood(builder).MetadataDigest();
  };
  const GgufBuilder base = GgufBuilder()
                               .Text("general.architecture", "llama")
                               .Uint32("llama.context_length", 4096)
                               .Uint32("llama.block_count", 2);
  EXPECT_EQ(digest(base), digest(GgufBuilder()
                                     .Text("general.architecture", "llama")
                                     .Text("general.name", "other")
                                     .Text("tokenizer.ggml.model", "gpt2")
                                     .Uint32("llamas.block_count", 9)
                                     .Uint32("llama.block_count", 2)
                                     .Uint32("llama.context_length", 4096)));
  EXPECT_NE(digest(base), digest(GgufBuilder()
                                     .Text("general.architecture", "llama")
                                     .Uint32("llama.context_length", 8192)
                                     .Uint32("llama.block_count", 2)));
  EXPECT_EQ(digest(GgufBuilder().Uint32("llama.block_count", 2)), "") << "no architecture";
  EXPECT_EQ(OpenTiny("tiny-llama-f32.gguf").MetadataDigest(),
            OpenTiny("tiny-llama-q4_0.gguf").MetadataDigest());
  EXPECT_NE(OpenTiny("tiny-llama-f32.gguf").SampleDigest(),
            OpenTiny("tiny-llama-q4_0.gguf").SampleDigest());
}

TEST(GgufFile, DigestIsOverTheWholeFile) {
  std::string bytes = GgufBuilder().Text("k", "v").Build();
  Sha256 hash;
  hash.Update(bytes);
  const GgufFile file = Unwrap(GgufFile::Parse(bytes, "good.gguf"));
  EXPECT_EQ(file.Digest(), hash.Finish());
  bytes.back() = 'w';
  EXPECT_NE(Unwrap(GgufFile::Parse(bytes, "good.gguf")).Digest(), file.Digest());
}

// Runs the calls one after the other; in another order and on other threads the digest is the same.
void RunInOrder(int count, absl::FunctionRef<void(int, int)> work) {
  for (int i = 0; i < count; ++i) work(0, i);
}
void RunBackwardsOnTwoThreads(int count, absl::FunctionRef<void(int, int)> work) {
  std::thread other([&] {
    for (int i = count - 1; i >= 0; i -= 2) work(1, i);
  });
  for (int i = count - 2; i >= 0; i -= 2) work(0, i);
  other.join();
}

TEST(GgufFile, PiecewiseDigestIsOverEveryByteAndTheSameOnAnyThreads) {
  constexpr size_t kPiece = size_t{16} << 20;
  constexpr uint64_t kElements = 10 * (uint64_t{1} << 20);
  GgufBuilder builder;
  builder.Tensor({.name = "t", .dims = {kElements}});
  builder.data = std::string(kElements * 4, 'x');
  std::string bytes = builder.Build();
  ASSERT_GT(bytes.size(), 2 * kPiece);
  const TemporaryFolder folder("gguf_file");
  const GgufFile file = Unwrap(GgufFile::Open(folder.File("large.gguf", bytes)));
  Sha256 hash;
  hash.UpdateInteger<uint64_t>(bytes.size());
  for (size_t at = 0; at < bytes.size(); at += kPiece) {
    Sha256 piece;
    piece.Update(absl::string_view(bytes).substr(at, kPiece));
    hash.Update(piece.Finish());
  }
  const std::string expected = hash.Finish();
  std::vector<double> progress;
  EXPECT_EQ(file.PiecewiseDigest(RunInOrder, [&](double done) { progress.push_back(done); }),
            expected);
  EXPECT_THAT(progress, testing::SizeIs(3));
  EXPECT_EQ(progress.back(), 1);
  EXPECT_EQ(file.PiecewiseDigest(RunBackwardsOnTwoThreads), expected);
  for (const size_t at : {2 * kPiece - 1, 2 * kPiece, bytes.size() - 1}) {
    bytes[at] ^= 1;
    EXPECT_NE(Unwrap(GgufFile::Parse(bytes, "large.gguf")).PiecewiseDigest(RunInOrder), expected)
        << at;
    bytes[at] ^= 1;
  }
}

}  // namespace
}  // namespace baton
