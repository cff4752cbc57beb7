#include "common/base/prefix_hash.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace baton {
namespace {

TEST(PrefixHash, ALinkDependsOnAllThatIsBeforeIt) {
  const std::vector<int32_t> page(kPrefixPageTokens, 7), other(kPrefixPageTokens, 8);
  const auto second = [](const std::string& identity, const std::vector<int32_t>& first_page,
                         const std::vector<int32_t>& second_page, const std::string& salt) {
    return PrefixLink(PrefixLink(PrefixRoot(identity), first_page, salt), second_page, "");
  };
  std::set<Hash128> links;
  for (const std::string identity : {"a", "b"}) {
    for (const std::string salt : {"", "s", "t"}) {
      for (const auto& first_page : {page, other}) {
        for (const auto& second_page : {page, other}) {
          links.insert(second(identity, first_page, second_page, salt));
        }
      }
    }
  }
  EXPECT_EQ(links.size(), 2u * 3 * 2 * 2);
  EXPECT_EQ(second("a", page, other, "s"), second("a", page, other, "s"));
}

TEST(PrefixHash, TheNameOfAPageIsWhatOtherVersionsOfTheProgramMakeOfIt) {
  std::vector<int32_t> page(kPrefixPageTokens);
  for (size_t i = 0; i < page.size(); ++i) page[i] = static_cast<int32_t>(i);
  const Hash128 first = PrefixLink(PrefixRoot(PrefixIdentity("w", "c", "cpu/f16")), page, "salt");
  EXPECT_EQ(PrefixLink(first, page, "").high, 1562988726019492084u);
  EXPECT_EQ(PrefixWindowPage(1562988726019492084u, 1024), 8601874315984812827u);
}

TEST(PrefixHash, APageHasANameForEachWindowThatTellsItFromOtherPages) {
  std::set<uint64_t> names;
  for (uint64_t page = 0; page < 4; ++page) {
    names.insert(page);
    for (int window = 1; window < 5; ++window) names.insert(PrefixWindowPage(page, window));
  }
  EXPECT_EQ(names.size(), 4u * 5);
}

}  // namespace
}  // namespace baton
