#include "common/base/hash.h"

#include <cstdint>
#include <set>
#include <string>

#include "gtest/gtest.h"

namespace baton {
namespace {

std::string Sha256Hex(absl::string_view bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return ToHex(hash.Finish());
}

TEST(Sha256, GivesTheVectorsOfFips180) {
  EXPECT_EQ(Sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(Sha256Hex(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, TakesItsInputInAnyPieces) {
  Sha256 hash;
  hash.Update("a");
  hash.Update("");
  hash.Update("bc");
  EXPECT_EQ(ToHex(hash.Finish()), Sha256Hex("abc"));
}

TEST(Sha256, CloneGoesOnByItself) {
  Sha256 hash;
  hash.Update("ab");
  Sha256 clone = hash;
  hash.Update("c");
  clone.Update("d");
  EXPECT_EQ(ToHex(hash.Finish()), Sha256Hex("abc"));
  EXPECT_EQ(ToHex(clone.Finish()), Sha256Hex("abd"));
}

TEST(Sha256, TakesIntegersAsLittleEndianBytesOfTheirWidth) {
  Sha256 hash;
  hash.UpdateInteger<uint32_t>(0x04030201u);
  hash.UpdateInteger<int16_t>(-2);
  hash.UpdateInteger<uint64_t>(0x8000000000000005u);
  EXPECT_EQ(ToHex(hash.Finish()),
            Sha256Hex(absl::string_view("\x01\x02\x03\x04\xfe\xff\x05\0\0\0\0\0\0\x80", 14)));
}

TEST(ChainHash, DependsOnEveryBitOfTheParent) {
  for (const char* bytes : {"", "page",
                            "a page that is rather longer than the hash's short cases are, "
                            "so that another of its branches is taken in this round"}) {
    const Hash128 parent{.high = 0x0123456789abcdefu, .low = 0xfedcba9876543210u};
    std::set<Hash128> seen = {ChainHash(parent, bytes)};
    for (int bit = 0; bit < 64; ++bit) {
      seen.insert(
          ChainHash({.high = parent.high ^ (uint64_t{1} << bit), .low = parent.low}, bytes));
      seen.insert(
          ChainHash({.high = parent.high, .low = parent.low ^ (uint64_t{1} << bit)}, bytes));
    }
    EXPECT_EQ(seen.size(), 129u) << bytes;
  }
}

TEST(ChainHash, DependsOnEveryBitAndTheNumberOfBytes) {
  std::string bytes(64, '\0');
  std::set<Hash128> seen;
  for (size_t size = 0; size <= bytes.size(); ++size) {
    seen.insert(ChainHash({}, absl::string_view(bytes).substr(0, size)));
  }
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string changed = bytes;
    changed[bit / 8] = static_cast<char>(1 << (bit % 8));
    seen.insert(ChainHash({}, changed));
  }
  EXPECT_EQ(seen.size(), 65u + 512u);
}

TEST(ChainHash, IsTheSameInEveryBuild) {
  // Processes of different builds compare these hashes, so a new library must not change them.
  EXPECT_EQ(ChainHash({.high = 1, .low = 2}, "page"),
            (Hash128{.high = 8206537463408085336u, .low = 5051260669921858871u}));
}

TEST(ToHex, WritesLowerCaseOfAnyByte) {
  EXPECT_EQ(ToHex(absl::string_view("\0\x7f\xff", 3)), "007fff");
}

}  // namespace
}  // namespace baton
