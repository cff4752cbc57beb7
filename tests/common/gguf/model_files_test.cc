#include "common/gguf/model_files.h"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "common/base/hash.h"
#include "tests/support/temporary_folder.h"

namespace baton {
namespace {

std::string Sha256Of(const std::string& bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.Finish();
}

// The digest in pieces that are made in descending order, and how many there were.
std::pair<std::string, int> DigestInPieces(const ModelFiles& files) {
  int pieces = 0;
  const auto run = [&pieces](int count, absl::FunctionRef<void(int, int)> work) {
    pieces = count;
    for (int i = count; i-- > 0;) work(0, i);
  };
  const std::string digest = files.PiecewiseDigest(run, nullptr);
  return {digest, pieces};
}

TEST(ModelFiles, BytesOfFilesAndOfMemoryStayWhereTheyAreWhenItIsMoved) {
  const TemporaryFolder folder("model_files");
  ModelFiles files;
  const auto mapped = files.Open(folder.File("a", "mapped"), false);
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  const absl::Span<const uint8_t> added = files.Add("x/b", "memory!");
  const ModelFiles moved = std::move(files);
  EXPECT_EQ(std::string(mapped->begin(), mapped->end()), "mapped");
  EXPECT_EQ(std::string(added.begin(), added.end()), "memory!");
  EXPECT_EQ(moved.size_bytes(), 13u);
  moved.Release(*mapped);
  moved.Release(added);
  EXPECT_EQ(std::string(mapped->begin(), mapped->end()), "mapped") << "it is read again";
  EXPECT_FALSE(ModelFiles().Open(folder.path() + "/none", false).ok());
}

TEST(ModelFiles, TheDigestOfOneFileIsItsOwnAndOfSeveralThatOfTheirSortedList) {
  ModelFiles files;
  files.Add("x/b", "second");
  EXPECT_EQ(files.Digest(nullptr), Sha256Of("second"));
  files.Add("y/a", "first");
  std::vector<double> progress;
  EXPECT_EQ(files.Digest([&progress](double done) { progress.push_back(done); }),
            Sha256Of(absl::StrCat(ToHex(Sha256Of("first")), "  a\n", ToHex(Sha256Of("second")),
                                  "  b\n")));
  EXPECT_EQ(progress.back(), 1.0);
}

TEST(ModelFiles, ThePiecewiseDigestIsOverPiecesOf16MebibytesInTheOrderOfTheNames) {
  constexpr size_t kPieceBytes = size_t{16} << 20;
  const std::string large = std::string(kPieceBytes, 'x') + "rest";
  ModelFiles one;
  one.Add("b", large);
  Sha256 expected;
  expected.UpdateInteger<uint64_t>(large.size());
  expected.Update(Sha256Of(std::string(kPieceBytes, 'x')));
  expected.Update(Sha256Of("rest"));
  EXPECT_EQ(DigestInPieces(one), std::pair(expected.Finish(), 2));

  ModelFiles two;
  two.Add("x/b", "second");
  two.Add("y/a", "first");
  Sha256 of_both;
  for (const auto& [name, bytes] : {std::pair("a", "first"), std::pair("b", "second")}) {
    of_both.UpdateInteger<uint64_t>(1);
    of_both.Update(name);
    of_both.UpdateInteger<uint64_t>(std::strlen(bytes));
    of_both.Update(Sha256Of(bytes));
  }
  EXPECT_EQ(DigestInPieces(two), std::pair(of_both.Finish(), 2));
}

TEST(ModelFiles, TheSampleDigestReadsASmallModelWholeAndPartsOfALargeOne) {
  const auto digest = [](const std::string& bytes) {
    ModelFiles files;
    files.Add("a", bytes);
    return files.SampleDigest();
  };
  std::string small(200'000, 'x');
  const std::string of_small = digest(small);
  for (const size_t at : {size_t{0}, size_t{70'000}, small.size() - 1}) {
    small[at] = 'y';
    EXPECT_NE(digest(small), of_small) << at;
    small[at] = 'x';
  }
  EXPECT_NE(digest(small + "x"), of_small) << "the size counts";

  // In 33 MiB every second 64 KiB are read.
  constexpr size_t kSampleBytes = size_t{64} << 10;
  std::string large(size_t{33} << 20, 'x');
  const std::string of_large = digest(large);
  large[3 * kSampleBytes] = 'y';
  EXPECT_EQ(digest(large), of_large);
  large[4 * kSampleBytes] = 'y';
  EXPECT_NE(digest(large), of_large);

  ModelFiles one_way, other_way;
  for (const char* name : {"x/a", "x/b"}) one_way.Add(name, "same");
  for (const char* name : {"y/b", "y/a"}) other_way.Add(name, "same");
  EXPECT_EQ(one_way.SampleDigest(), other_way.SampleDigest());
}

}  // namespace
}  // namespace baton
