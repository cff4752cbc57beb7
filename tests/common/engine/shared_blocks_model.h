// Pool, prefix cache, retained prefixes and scheduler under random operations, against a plain
// model: what every token of every block stands for (its whole prefix, as a node of a tree), who
// uses which block, which prefixes are held, and what broken attempts left for the next.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/engine/scheduler.h"
#include "tests/common/engine/block_contents.h"
#include "tests/common/engine/left_prefixes.h"
#include "tests/common/engine/plain_cache.h"
#include "tests/common/engine/random_texts.h"
#include "tests/common/engine/test_sequences.h"

namespace baton {

// How often all runs met what they are to meet.
struct SharedBlocksFigures {
  int64_t cached_tokens = 0, preempted = 0, evicted = 0, failed = 0;
  int64_t broken = 0, pinned_tokens = 0, resumed_tokens = 0, resumed_in_a_block = 0;
};

class SharedBlocksModel {
 public:
  SharedBlocksModel(unsigned seed, bool collisions, SharedBlocksFigures& figures)
      : figures_(figures),
        random_(seed),
        collisions_(collisions),
        fails_(seed % 2 == 0),
        blocks_(8 + Random(16)),
        most_alive_(static_cast<size_t>(2 + Random(14))),
        pool_(blocks_),
        cache_("model", {.block_size = kModelBlockSize}, pool_, collisions ? WeakHash : ChainHash),
        ledger_(
            {.block_size = kModelBlockSize, .retained = {.lifetime = kLifetime, .max_prefixes = 3}},
            pool_, &cache_, steps_),
        sequences_(/*max_model_len=*/1 << 30, ledger_, steps_),
        scheduler_(/*max_num_seqs=*/1 + Random(6), sequences_, ledger_),
        contents_(pool_, kModelBlockSize),
        texts_(random_),
        plain_cache_(kModelBlockSize, tree_, pool_) {}

  void Run(int operations) {
    for (int i = 0; i < operations && !testing::Test::HasFatalFailure(); ++i) {
      Operate();
      Check();
    }
    quiet_ = true;
    idle_steps_ = 0;
    for (int i = 0; i < 3000 && !alive_.empty() && !testing::Test::HasFatalFailure(); ++i) {
      for (SequenceId id : Ids()) Serve(*sequences_.Find(id));
      Step();
      Check();
    }
    if (testing::Test::HasFatalFailure()) return;
    ASSERT_TRUE(alive_.empty()) << alive_.size() << " are stuck";
    ASSERT_EQ(pool_.used_blocks(), 0);
    ASSERT_EQ(pool_.reserved_blocks(), 0);
    // What is retained ends by time alone, and nothing but the prefix cache keeps blocks then.
    ledger_.ForgetExpired(now_ + kLifetime);
    ASSERT_EQ(ledger_.NextExpiry(), absl::InfiniteFuture());
    Check();
    // Blocks that continue a forgotten one are kept, though nobody finds them.
    if (!collisions_ && !has_failed_) {
      ASSERT_EQ(pool_.kept_blocks(), static_cast<int>(plain_cache_.size()));
    }
  }

 private:
  using Mode = SequenceRequest::Mode;
  using State = Sequence::State;
  using Node = PrefixTree::Node;

  static constexpr int kModelBlockSize = 32;
  static constexpr int kPage = 16;
  static constexpr absl::Duration kLifetime = absl::Seconds(20);
  static constexpr Node kGarbage = -1;             // nothing that anybody may read
  static constexpr Node kForeign = Node{1} << 40;  // added: computed under other numerics
  static constexpr Node kBroken = Node{1} << 41;   // added: computed wrongly

  struct Shadow {
    std::vector<Node> nodes;  // [token]
    bool foreign = false;
    int pinned_tokens = 0;    // found in the prefix cache at the opening
    int received_tokens = 0;  // they, and what came
    bool started = false;     // to be computed here
  };
  // Two bits: collisions everywhere.
  static Hash128 WeakHash(const Hash128& parent, absl::string_view bytes) {
    return {.high = 0, .low = ChainHash(parent, bytes).low & 3};
  }

  // Adds the sequence's to the references of each block.
  static void CountReferences(const Sequence& sequence, std::vector<int>& references) {
    ASSERT_EQ(sequence.blocks.held.size(), sequence.blocks.table.size());
    for (size_t i = 0; i < sequence.blocks.held.size(); ++i) {
      const int32_t block = sequence.blocks.held[i].id();
      ASSERT_EQ(block, sequence.blocks.table[i]);
      ++references[static_cast<size_t>(block)];
    }
    for (const BlockPool::Block& block : sequence.blocks.replaced) {
      ++references[static_cast<size_t>(block.id())];
    }
  }

  int Random(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }
  bool Chance(int of) { return Random(of) == 0; }
  std::vector<SequenceId> Ids() const { return {alive_.begin(), alive_.end()}; }

  void Operate() {
    switch (Random(10)) {
      case 0:
        if (alive_.size() < most_alive_) {
          Add(Chance(2) ? std::string(1, static_cast<char>('a' + Random(6))) : "");
        }
        break;
      case 1:
        CheckFind();
        break;
      case 2:
        for (SequenceId id : Ids()) {
          if (sequences_.Find(id) != nullptr && Chance(3)) Serve(*sequences_.Find(id));
        }
        break;
      default:
        Step();
    }
  }

  void Add(const std::string& resume_key) {
    SequenceRequest request;
    const int most = blocks_ * kModelBlockSize;
    request.mode = static_cast<Mode>(Random(3));
    if (!resume_key.empty()) request.mode = Chance(3) ? Mode::kLocal : Mode::kReceive;
    request.token_ids = texts_.Tokens(1 + Random(std::min(most - 1, 150)));
    request.resume_key = resume_key;
    if (const std::vector<int32_t> left = left_.TokensFor(resume_key); !left.empty()) {
      request.token_ids = texts_.TokensAfter(left, static_cast<size_t>(most) - 1);
    }
    request.prompt_length = static_cast<int>(request.token_ids.size());
    request.sampling.max_tokens = 1 + Random(std::min(most - request.prompt_length + 1, 150));
    request.cache_salt = Chance(4) || request.resume_key == "a" ? "salt" : "";
    if (request.resume_key > "a") request.cache_salt = "";
    request.isolate = Chance(30);
    shadows_[next_id_] = {tree_.NodesOf(request.token_ids, request.cache_salt)};
    alive_.insert(next_id_);
    sequences_.Add(next_id_++, TestSequences::Trust(std::move(request)));
  }

  // What the worlds outside asks of one sequence.
  void Serve(Sequence& sequence) {
    if (sequence.state() == State::kReserved) {
      Open(sequence);
    } else if (sequence.state() == State::kReceiving && !quiet_ && Chance(2)) {
      Receive(sequence);
      if (Chance(2)) return Break(sequence);
    } else if (sequence.state() == State::kReceiving) {
      Commit(sequence);
    } else if (sequence.state() == State::kHeld || (!quiet_ && Chance(100))) {
      Remove(sequence);
      return;
    }
    sequence.paused = !quiet_ && Chance(5);
  }

  // What is held stands for its tokens, under its numerics, and was left by its own request or is
  // in the prefix cache.
  void Open(Sequence& sequence) {
    Shadow& shadow = shadows_.at(sequence.id);
    shadow.foreign = Chance(4);
    const std::vector<int32_t> found =
        shadow.foreign
            ? std::vector<int32_t>()
            : cache_.Find(sequence.tokens.ids, sequence.request.cache_salt, {.computes = true});
    const int shared = static_cast<int>(found.size()) * kModelBlockSize;
    sequences_.OpenReceive(sequence, shadow.foreign ? "foreign" : "");
    const int held = sequence.kv.cached_tokens;
    ASSERT_EQ(held % kPage, 0);
    ASSERT_LT(held, sequence.tokens.count());
    ASSERT_GE(held, shared);
    ASSERT_TRUE(std::equal(found.begin(), found.end(), sequence.blocks.table.begin()));
    for (int token = 0; token < held; ++token) {
      ASSERT_EQ(contents_.At(sequence, token), NodeAt(shadow, token))
          << "holds the KV of other tokens";
    }
    ASSERT_EQ(sequence.blocks.reservation.count(),
              ledger_.BlocksToStart(sequence) - static_cast<int>(sequence.blocks.held.size()))
        << "nothing is reserved for what is shared";
    figures_.pinned_tokens += shared;
    shadow.pinned_tokens = shared;
    if (held > shared) CheckLeft(sequence, shadow, held);
    left_.Drop(sequence.request.resume_key);
    shadow.received_tokens = held;
    for (int token = held; token < sequence.tokens.count(); ++token) {
      contents_.At(sequence, token) = kGarbage;
    }
  }

  // One that is computed here may go on with what a broken attempt received, too.
  void NoteStart(const Sequence& sequence) {
    Shadow& shadow = shadows_.at(sequence.id);
    if (sequence.state() != State::kRunning || std::exchange(shadow.started, true)) return;
    if (!sequence.kv.vouched) CheckLeft(sequence, shadow, sequence.kv.cached_tokens);
    left_.Drop(sequence.request.resume_key);
  }

  void CheckLeft(const Sequence& sequence, const Shadow& shadow, int held) {
    left_.CheckTaken(sequence.request.resume_key, sequence.tokens.ids, held, shadow.foreign, now_);
    figures_.resumed_tokens += held;
    if (held % kModelBlockSize != 0) ++figures_.resumed_in_a_block;
  }

  // Some pages more, and a part of one that nobody may use.
  void Receive(Sequence& sequence) {
    Shadow& shadow = shadows_.at(sequence.id);
    const int pages = (sequence.tokens.count() - shadow.received_tokens) / kPage;
    const int end = shadow.received_tokens + Random(pages + 1) * kPage;
    contents_.Write(sequence, shadow.nodes, shadow.received_tokens, end,
                    shadow.foreign ? kForeign : 0);
    shadow.received_tokens = end;
  }

  void Break(Sequence& sequence) {
    ++figures_.broken;
    const Shadow& shadow = shadows_.at(sequence.id);
    const auto begin = sequence.tokens.ids.begin();
    if (!sequence.request.resume_key.empty()) {
      left_.Leave(sequence.request.resume_key,
                  {{begin, begin + shadow.received_tokens}, shadow.foreign, now_ + kLifetime});
    }
    ledger_.Retain(sequence, shadow.received_tokens, now_);
    const std::string resume_key = sequence.request.resume_key;
    Remove(sequence);
    if (!Chance(4)) Add(resume_key);
  }

  Node NodeAt(const Shadow& shadow, int token) const {
    return shadow.nodes[static_cast<size_t>(token)] + (shadow.foreign ? kForeign : 0);
  }

  void Commit(Sequence& sequence) {
    Shadow& shadow = shadows_.at(sequence.id);
    contents_.Write(sequence, shadow.nodes, shadow.received_tokens, sequence.tokens.count(),
                    shadow.foreign ? kForeign : 0);
    sequences_.Commit(sequence, {Random(2)});
    left_.Drop(sequence.request.resume_key);
    shadow.nodes.push_back(tree_.Child(shadow.nodes.back(), sequence.tokens.ids.back()));
    if (!shadow.foreign) Enter(sequence, shadow.pinned_tokens);
  }

  void Remove(Sequence& sequence) {
    alive_.erase(sequence.id);
    shadows_.erase(sequence.id);
    sequences_.Remove(sequence);
  }

  void Step() {
    now_ += absl::Milliseconds(Random(100));
    ledger_.ForgetExpired(now_);
    const Schedule schedule = scheduler_.Next(64 + Random(100));
    for (Sequence* sequence : schedule.preempted) {
      shadows_.at(sequence->id).foreign = false;
      shadows_.at(sequence->id).started = false;
    }
    for (SequenceId id : alive_) NoteStart(*sequences_.Find(id));
    figures_.preempted += static_cast<int64_t>(schedule.preempted.size());
    idle_steps_ = schedule.batch.empty() && schedule.preempted.empty() ? idle_steps_ + 1 : 0;
    if (quiet_) {
      ASSERT_LT(idle_steps_, 100) << alive_.size() << " are stuck";
    }
    std::set<SequenceId> broken;
    for (const ScheduledTokens& scheduled : schedule.batch) {
      const Sequence& sequence = *scheduled.sequence;
      const Shadow& shadow = shadows_.at(sequence.id);
      const Node mark = shadow.foreign ? kForeign : 0;
      ASSERT_EQ(scheduled.first_token, sequence.kv.computed_tokens);
      ASSERT_TRUE(scheduled.produces_token || scheduled.end_token() % kChunkTokens == 0);
      for (int token = 0; token < scheduled.first_token; ++token) {
        ASSERT_EQ(contents_.At(sequence, token), shadow.nodes[static_cast<size_t>(token)] + mark)
            << "reads the KV of other tokens";
      }
      const bool fails = scheduled.produces_token && !quiet_ && fails_ && Chance(40);
      if (fails) broken.insert(sequence.id);
      contents_.Write(sequence, shadow.nodes, scheduled.first_token, scheduled.end_token(),
                      fails ? kBroken : mark);
    }
    for (const ScheduledTokens& scheduled : schedule.batch) {
      if (scheduled.first_token == scheduled.sequence->kv.cached_tokens) {
        figures_.cached_tokens += scheduled.first_token;
      }
      Apply(scheduled, broken.contains(scheduled.sequence->id));
    }
  }

  void Apply(const ScheduledTokens& scheduled, bool fails) {
    Sequence& sequence = *scheduled.sequence;
    Shadow& shadow = shadows_.at(sequence.id);
    sequences_.MarkComputed(sequence, scheduled.end_token());
    if (!shadow.foreign && sequence.kv.vouched) Enter(sequence, scheduled.first_token);
    if (!scheduled.produces_token) return;
    if (fails) {
      has_failed_ = true;
      ++figures_.failed;
      ledger_.ForgetBlocks(sequence);
      for (size_t end = kModelBlockSize; end <= shadow.nodes.size(); end += kModelBlockSize) {
        plain_cache_.Forget(shadow.nodes[end - 1],
                            sequence.blocks.table[end / kModelBlockSize - 1]);
      }
    }
    if (sequence.request.mode == Mode::kPrefillOnly) return sequences_.Hold(sequence);
    if (fails) return Remove(sequence);
    const auto token = static_cast<int32_t>(shadow.nodes.back() % 2);
    sequence.tokens.ids.push_back(token);
    shadow.nodes.push_back(tree_.Child(shadow.nodes.back(), token));
    if (sequence.output_count() >= sequence.request.sampling.max_tokens) Remove(sequence);
  }

  void Enter(const Sequence& sequence, int first_token) {
    plain_cache_.Enter(shadows_.at(sequence.id).nodes, sequence.blocks.table, first_token,
                       sequence.kv.computed_tokens);
  }

  void CheckFind() {
    const std::vector<int32_t> tokens = texts_.Tokens(1 + Random(200));
    const std::string salt = Chance(4) ? "salt" : "";
    const std::vector<Node> nodes = tree_.NodesOf(tokens, salt);
    const std::vector<int32_t> found = cache_.Find(tokens, salt, {.computes = true});
    ASSERT_TRUE(found.size() * kModelBlockSize < tokens.size()) << "the last token is cached";
    for (size_t i = 0; i < found.size() * kModelBlockSize; ++i) {
      ASSERT_EQ(contents_.At(found[i / kModelBlockSize], static_cast<int>(i % kModelBlockSize)),
                nodes[i])
          << "finds the KV of other tokens";
    }
    if (!collisions_) {
      ASSERT_EQ(found, plain_cache_.Find(nodes));
    }
  }

  void Check() {
    pool_.CheckInvariants();
    std::vector<int> references(static_cast<size_t>(blocks_));
    for (SequenceId id : alive_) CountReferences(*sequences_.Find(id), references);
    for (int32_t block = 0; block < blocks_; ++block) {
      ASSERT_EQ(pool_.reference_count(block), references[static_cast<size_t>(block)]) << block;
    }
    figures_.evicted += plain_cache_.DropEvicted();
    if (!collisions_) plain_cache_.CheckThatPrefixesAreEvictedLast();
  }

  SharedBlocksFigures& figures_;
  std::mt19937 random_;
  const bool collisions_;
  const bool fails_;
  const int blocks_;
  const size_t most_alive_;
  BlockPool pool_;
  PrefixCache cache_;
  StepsInFlight steps_;
  BlockLedger ledger_;
  SequenceTable sequences_;
  Scheduler scheduler_;
  BlockContents contents_;
  RandomTexts texts_;
  PrefixTree tree_;
  PlainCache plain_cache_;  // with collisions the real one holds less, which is not modelled
  std::map<SequenceId, Shadow> shadows_;
  std::set<SequenceId> alive_;
  SequenceId next_id_ = 1;
  LeftPrefixes left_;
  absl::Time now_;
  int idle_steps_ = 0;
  bool quiet_ = false, has_failed_ = false;
};

}  // namespace baton
