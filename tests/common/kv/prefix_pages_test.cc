#include "common/kv/prefix_pages.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <vector>

namespace baton {
namespace {

// What a reader makes of the changes.
struct Reader {
  PrefixPages::Position position;
  std::set<uint64_t> pages;
  int lists = 0;

  // False when it knows all.
  bool ReadOnce(const PrefixPages& from, size_t most) {
    const PrefixPages::Changes changes = from.Read(position, most);
    EXPECT_LE(changes.added.size() + changes.removed.size(), most);
    if (changes.full) pages.clear();
    lists += changes.full;
    for (const uint64_t page : changes.added) pages.insert(page);
    for (const uint64_t page : changes.removed) pages.erase(page);
    return changes.more;
  }
  void ReadAll(const PrefixPages& from, size_t most) {
    while (ReadOnce(from, most)) {
    }
  }
};

TEST(PrefixPages, ANewReaderLearnsThatNothingIsHeld) {
  PrefixPages pages;
  PrefixPages::Position position;
  EXPECT_TRUE(pages.Read(position, 10).full);
  EXPECT_TRUE(pages.Read(position, 10).empty());
}

TEST(PrefixPages, APageIsHeldUntilTheLastBlockWithItIsGone) {
  PrefixPages pages;
  Reader reader;
  for (int i = 0; i < 3; ++i) pages.Add(7);
  for (int i = 0; i < 2; ++i) pages.Remove(7);
  pages.Publish();
  reader.ReadAll(pages, 10);
  EXPECT_EQ(reader.pages, std::set<uint64_t>{7});
  pages.Remove(7);
  pages.Publish();
  reader.ReadAll(pages, 10);
  EXPECT_EQ(reader.pages, std::set<uint64_t>{});
}

TEST(PrefixPages, NothingIsSeenBeforeItIsPublishedUnlessItIsMuch) {
  PrefixPages pages;
  Reader reader;
  pages.Add(1);
  reader.ReadAll(pages, 10);
  EXPECT_TRUE(reader.pages.empty());
  for (uint64_t page = 2; page <= PrefixPages::kMostUnpublished; ++page) pages.Add(page);
  reader.ReadAll(pages, 1000);
  EXPECT_EQ(reader.pages.size(), PrefixPages::kMostUnpublished);
}

TEST(PrefixPages, ReadersOfAnyPaceEndWithWhatIsHeld) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    PrefixPages pages;
    std::map<uint64_t, int> held;
    std::vector<Reader> readers(5);
    const unsigned names = 50 + random() % 400;
    for (int step = 0; step < 3000; ++step) {
      const uint64_t page = random() % names;
      if (held[page] > 0 && random() % 2 == 0) {
        --held[page];
        pages.Remove(page);
      } else {
        ++held[page];
        pages.Add(page);
      }
      if (random() % 4 == 0) pages.Publish();
      for (size_t i = 0; i < readers.size(); ++i) {
        if (random() % (i * i * 30 + 1) == 0) readers[i].ReadOnce(pages, 1 + random() % 40);
      }
    }
    pages.Publish();
    std::set<uint64_t> expected;
    for (const auto& [page, count] : held) {
      if (count > 0) expected.insert(page);
    }
    for (Reader& reader : readers) {
      reader.ReadAll(pages, 1 + random() % 40);
      EXPECT_EQ(reader.pages, expected) << "seed " << seed;
      EXPECT_EQ(reader.lists, 1);
    }
  }
}

TEST(PrefixPages, AReaderThatFellBehindGetsTheListAgain) {
  PrefixPages pages;
  Reader reader;
  reader.ReadAll(pages, 10);
  for (uint64_t page = 0; page < PrefixPages::kLogChanges; ++page) pages.Add(page);
  for (uint64_t page = 0; page < 10; ++page) pages.Remove(page);
  pages.Publish();
  reader.ReadAll(pages, 1000);
  EXPECT_EQ(reader.lists, 2);
  EXPECT_EQ(reader.pages.size(), PrefixPages::kLogChanges - 10);
  EXPECT_EQ(*reader.pages.begin(), 10u);
}

}  // namespace
}  // namespace baton
