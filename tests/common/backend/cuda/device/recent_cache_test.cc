#include "common/backend/cuda/device/recent_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <utility>
#include <vector>

namespace baton {
namespace {

TEST(RecentCache, HoldsTheMostRecentlyUsedAndNoMore) {
  constexpr size_t kCapacity = 5;
  RecentCache<int, std::unique_ptr<int>> cache(kCapacity);
  std::vector<int> model;  // keys, the most recently used first
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    const int key = static_cast<int>(random() % 9);
    const auto place = std::find(model.begin(), model.end(), key);
    std::unique_ptr<int>* found = cache.Find(key);
    ASSERT_EQ(found != nullptr, place != model.end());
    if (found != nullptr) {
      ASSERT_EQ(**found, key * 10);
      model.erase(place);
    } else {
      ASSERT_EQ(*cache.Insert(key, std::make_unique<int>(key * 10)), key * 10);
      if (model.size() == kCapacity) model.pop_back();
    }
    model.insert(model.begin(), key);
    ASSERT_EQ(cache.size(), model.size());
  }
}

}  // namespace
}  // namespace baton
