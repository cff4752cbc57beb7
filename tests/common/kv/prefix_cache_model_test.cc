// The prefix cache against a simple model of what it has to hold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/kv/layout.h"
#include "common/kv/prefix_cache.h"
#include "tests/common/kv/prefix_rows.h"

namespace baton {
namespace {

using Block = BlockPool::Block;

// Sequences that start, compute or receive rows, give blocks back and end, in a pool that is too
// small for what they leave; and what must then be held, told from what was entered.
class CacheModel {
 public:
  CacheModel(const std::vector<int>& windows, uint64_t seed, bool forgets)
      : layout_(LayoutOf(windows)),
        groups_(static_cast<size_t>(layout_.groups.count())),
        pool_(10 + 14 * layout_.groups.count()),
        cache_("model", layout_, pool_, forgets ? WeakHash : ChainHash),
        random_(seed),
        forgets_(forgets) {}

  void Step() {
    const uint64_t what = random_() % 8;
    if (sequences_.size() < 4 && what < 2) Start();
    if (!sequences_.empty()) {
      const size_t which = random_() % sequences_.size();
      if (what < 6) Advance(sequences_[which]);
      if (what == 6 || sequences_[which].done) End(which);
    }
    if (forgets_ && what == 7) cache_.Forget(Pick(0, pool_.total_blocks() - 1));
    DropEvicted();
    Probe();
    pool_.CheckInvariants();
    if (forgets_) return;
    CheckKept();
    if (what > 0) return;
    ASSERT_EQ(AnnouncedPages(cache_), ExpectedPages());
  }
  void Finish() {
    while (!sequences_.empty()) End(0);
    cache_.ForgetAll();
    pool_.CheckInvariants();
    ASSERT_EQ(pool_.kept_blocks(), 0);
    ASSERT_EQ(pool_.free_blocks(), pool_.total_blocks());
    ASSERT_THAT(AnnouncedPages(cache_), testing::IsEmpty());
  }
  int hits = 0;      // probes that found rows
  int replaced = 0;  // blocks
  int lost = 0;      // blocks of windows that were evicted while their anchor was held

 private:
  struct Sequence {
    std::string rows;
    std::vector<Block> blocks;  // [rows][groups]
    size_t entered = 0;
    int handed_off = 0;  // 0: computed here
    bool done = false;
  };
  // What a block holds, in one of its lives.
  struct Content {
    std::string rows;
    size_t group = 0;
    uint32_t generation = 0;
  };
  using Row = std::vector<int32_t>;  // [groups]

  static Hash128 WeakHash(const Hash128& parent, absl::string_view bytes) {
    return {.high = ChainHash(parent, bytes).high % 5, .low = 0};
  }
  int Pick(int least, int most) {
    return least + static_cast<int>(random_() % static_cast<uint64_t>(most - least + 1));
  }
  std::string RandomRows() {
    std::string rows;
    for (int length = Pick(1, 7); length > 0; --length) rows += Pick(0, 4) == 0 ? 'b' : 'a';
    return rows;
  }
  KvNeed RandomNeed(const std::string& rows) {
    const int tokens = static_cast<int>(rows.size()) * kRowTokens;
    switch (Pick(0, 2)) {
      case 0:
        return {.computes = true};
      case 1:
        return {.computes = true, .handed_off = tokens + Pick(1, 20)};
      default:
        return {.handed_off = tokens + Pick(1, 20)};
    }
  }

  void Start() {
    Sequence sequence;
    sequence.rows = RandomRows();
    const KvNeed need = RandomNeed(sequence.rows);
    if (!need.computes) sequence.handed_off = need.handed_off;
    const std::vector<int32_t> held = cache_.Find(TokensOf(sequence.rows), "", need);
    for (const int32_t id : held) {
      if (id == kNoBlock) {
        sequence.blocks.emplace_back();
      } else if (pool_.reference_count(id) > 0) {
        sequence.blocks.push_back(pool_.Share(id));
      } else {
        sequence.blocks.push_back(pool_.TryReserve(1)->TakeKept(id));
      }
    }
    sequence.entered = held.size() / groups_;
    sequences_.push_back(std::move(sequence));
  }

  // One row more, and sometimes the blocks that no later row sees are given back.
  void Advance(Sequence& sequence) {
    const size_t row = sequence.entered;
    if (row == sequence.rows.size()) {
      sequence.done = true;
      return;
    }
    const std::string rows = sequence.rows.substr(0, row + 1);
    while (sequence.blocks.size() < (row + 1) * groups_) {
      std::optional<Block> block = pool_.TryAllocate();
      if (!block.has_value()) {
        sequence.done = true;
        return;
      }
      sequence.blocks.push_back(*std::move(block));
    }
    DropEvicted();
    for (size_t group = 0; group < groups_; ++group) {
      Block& block = sequence.blocks[row * groups_ + group];
      const int first = layout_.groups.FirstHandedOff(static_cast<int>(group), sequence.handed_off);
      if (static_cast<int>(row) * kRowTokens >= first) {
        contents_[block.id()] = {rows, group, pool_.generation(block.id())};
      } else {
        contents_.erase(block.id());
      }
      if (group > 0 && Pick(0, 5) == 0) block = Block();
    }
    Enter(sequence, rows);
    ++sequence.entered;
    if (Pick(0, 1) == 0) return;
    const int position = static_cast<int>(row + 1) * kRowTokens;
    for (size_t group = 1; group < groups_; ++group) {
      const int seen = layout_.groups.FirstSeen(static_cast<int>(group), position) / kRowTokens;
      for (size_t before = 0; before < static_cast<size_t>(seen); ++before) {
        sequence.blocks[before * groups_ + group] = Block();
      }
    }
  }

  // Returns the ids in the row that begins there.
  std::vector<int32_t> IdsOf(const std::vector<Block>& blocks, size_t begin) const {
    std::vector<int32_t> ids;
    for (size_t group = 0; group < groups_; ++group) {
      const Block& block = blocks[begin + group];
      ids.push_back(block.empty() ? kNoBlock : block.id());
    }
    return ids;
  }

  void Enter(Sequence& sequence, const std::string& rows) {
    const size_t row = rows.size() - 1;
    const size_t begin = row * groups_;
    const auto before = rows_.find(rows.substr(0, row));
    const bool continues = row == 0 || (before != rows_.end() &&
                                        before->second[0] == sequence.blocks[begin - groups_].id());
    std::vector<bool> used(groups_);  // whether used blocks hold the same
    if (const auto same = rows_.find(rows); same != rows_.end()) {
      for (size_t group = 0; group < groups_; ++group) {
        const int32_t block = same->second[group];
        used[group] = block != kNoBlock && pool_.reference_count(block) > 0;
      }
    }
    const std::vector<int32_t> own = IdsOf(sequence.blocks, begin);
    const std::vector<PrefixCache::Replaced> gone =
        cache_.Insert(TokensOf(sequence.rows), "", sequence.blocks, row, sequence.handed_off);
    for (const auto& [group, block] : gone) {
      ASSERT_EQ(block.id(), own[static_cast<size_t>(group)]);
      ASSERT_NE(sequence.blocks[begin + static_cast<size_t>(group)].id(), block.id());
    }
    replaced += static_cast<int>(gone.size());
    if (forgets_ || !continues) return;
    const auto is_whole = [&](size_t group) {
      return contents_.count(sequence.blocks[begin + group].id()) > 0;
    };
    if (!is_whole(0)) return;
    Row& held = rows_.try_emplace(rows, groups_, kNoBlock).first->second;
    for (size_t group = 0; group < groups_; ++group) {
      const Block& block = sequence.blocks[begin + group];
      if (block.empty() || !is_whole(group)) continue;
      ASSERT_TRUE(!used[group] || block.id() == held[group]) << "used blocks take the place";
      held[group] = block.id();
    }
  }

  void End(size_t which) {
    std::vector<Block>& blocks = sequences_[which].blocks;
    while (!blocks.empty()) blocks.pop_back();
    sequences_.erase(sequences_.begin() + static_cast<std::ptrdiff_t>(which));
  }

  bool Holds(int32_t block, const std::string& rows, size_t group) const {
    const auto content = contents_.find(block);
    return content != contents_.end() && content->second.rows == rows &&
           content->second.group == group && content->second.generation == pool_.generation(block);
  }

  void DropEvicted() {
    for (auto row = rows_.begin(); row != rows_.end();) {
      for (size_t group = 1; group < groups_; ++group) {
        int32_t& block = row->second[group];
        if (block == kNoBlock || Holds(block, row->first, group)) continue;
        block = kNoBlock;
        ++lost;
      }
      row = Holds(row->second[0], row->first, 0) ? std::next(row) : rows_.erase(row);
    }
    for (const auto& [rows, blocks] : rows_) {
      ASSERT_TRUE(rows.size() == 1 || rows_.count(rows.substr(0, rows.size() - 1)) > 0)
          << "an anchor is evicted before the one that it continues";
    }
  }

  void Probe() {
    const std::string rows = RandomRows();
    const KvNeed need = RandomNeed(rows);
    const std::vector<int32_t> found = cache_.Find(TokensOf(rows), "", need);
    hits += found.empty() ? 0 : 1;
    ASSERT_EQ(found.size() % groups_, 0u);
    const int end = static_cast<int>(found.size() / groups_) * kRowTokens;
    for (size_t index = 0; index < found.size(); ++index) {
      const size_t row = index / groups_, group = index % groups_;
      const int first = layout_.groups.FirstNeeded(static_cast<int>(group), need, end);
      const bool is_read = group == 0 || static_cast<int>(row + 1) * kRowTokens > first;
      ASSERT_EQ(found[index] != kNoBlock, is_read);
      ASSERT_TRUE(!is_read || Holds(found[index], rows.substr(0, row + 1), group));
    }
    if (forgets_) return;
    ASSERT_EQ(found.size() / groups_, LongestThatServes(rows, need));
  }

  size_t LongestThatServes(const std::string& rows, const KvNeed& need) const {
    size_t longest = 0;
    for (size_t end = 1; end <= rows.size() && rows_.count(rows.substr(0, end)) > 0; ++end) {
      bool serves = true;
      for (size_t row = 0; row < end; ++row) {
        const Row& held = rows_.at(rows.substr(0, row + 1));
        for (size_t group = 1; group < groups_; ++group) {
          const int first = layout_.groups.FirstNeeded(static_cast<int>(group), need,
                                                       static_cast<int>(end) * kRowTokens);
          const bool is_read = static_cast<int>(row + 1) * kRowTokens > first;
          serves = serves && (!is_read || held[group] != kNoBlock);
        }
      }
      if (serves) longest = end;
    }
    return longest;
  }

  // Each held block that nobody uses is kept, and no other.
  void CheckKept() const {
    int kept = 0;
    for (const auto& [rows, blocks] : rows_) {
      for (const int32_t block : blocks) {
        kept += block != kNoBlock && pool_.reference_count(block) == 0 ? 1 : 0;
      }
    }
    ASSERT_EQ(pool_.kept_blocks(), kept);
  }

  std::set<uint64_t> ExpectedPages() const {
    std::map<int, std::vector<size_t>> kinds;  // groups by window
    for (size_t group = 0; group < groups_; ++group) {
      kinds[layout_.groups.window(static_cast<int>(group))].push_back(group);
    }
    std::set<uint64_t> pages;
    for (const auto& [rows, blocks] : rows_) {
      for (const auto& [window, groups] : kinds) {
        bool holds = true;
        for (const size_t group : groups) holds = holds && blocks[group] != kNoBlock;
        const bool keeps_most = groups[0] == 0;
        if (holds) pages.merge(PagesOf(rows, keeps_most ? std::nullopt : std::optional(window)));
      }
    }
    return pages;
  }

  const KvLayout layout_;
  const size_t groups_;
  BlockPool pool_;
  PrefixCache cache_;
  std::mt19937_64 random_;
  const bool forgets_;
  std::vector<Sequence> sequences_;
  std::map<int32_t, Content> contents_;  // by block
  std::map<std::string, Row> rows_;      // what is held, by the rows up to its end
};

const std::vector<std::vector<int>>& Models() {
  static const std::vector<std::vector<int>> models = {{},         {0, 40},  {0, 40, 40, 100},
                                                       {0, 0, 33}, {90, 20}, {50}};
  return models;
}

TEST(PrefixCacheModel, FindsTheLongestPrefixThatServesAndNothingElse) {
  int hits = 0, replaced = 0, lost = 0;
  for (const std::vector<int>& windows : Models()) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      CacheModel model(windows, seed, false);
      for (int step = 0; step < 400; ++step) {
        model.Step();
        ASSERT_FALSE(testing::Test::HasFatalFailure()) << "seed " << seed << " step " << step;
      }
      model.Finish();
      hits += model.hits;
      replaced += model.replaced;
      lost += model.lost;
    }
  }
  EXPECT_GT(hits, 2000);
  EXPECT_GT(replaced, 100);
  EXPECT_GT(lost, 200);
}

TEST(PrefixCacheModel, ServesOnlyWhatIsTrueWhereHashesCollideAndBlocksAreForgotten) {
  int hits = 0;
  for (const std::vector<int>& windows : Models()) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      CacheModel model(windows, seed, true);
      for (int step = 0; step < 400; ++step) {
        model.Step();
        ASSERT_FALSE(testing::Test::HasFatalFailure()) << "seed " << seed << " step " << step;
      }
      model.Finish();
      hits += model.hits;
    }
  }
  EXPECT_GT(hits, 1000);
}

}  // namespace
}  // namespace baton
