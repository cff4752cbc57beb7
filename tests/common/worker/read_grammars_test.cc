#include "common/worker/read_grammars.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/common/grammar/smollm2_grammars.h"

namespace baton {
namespace {

// Counts how often each of its grammars is read; each is named by the only text that it allows.
class Library {
 public:
  explicit Library(const ReadGrammars::Limits& limits) : kept_(limits) {}

  ReadGrammars::Result Get(const std::string& text) {
    return kept_.Get(text, [&]() -> ReadGrammars::Result {
      ++reads_[text];
      return **CompiledFor(ChoiceOf({text}));
    });
  }
  void Read(const std::string& text) { EXPECT_TRUE(Get(text).ok()) << text; }
  int reads(const std::string& text) { return reads_[text]; }
  ReadGrammars& kept() { return kept_; }

 private:
  ReadGrammars kept_;
  std::map<std::string, int> reads_;
};

TEST(ReadGrammarsTest, AGrammarIsReadOnceAndThenFound) {
  Library library({});
  for (int i = 0; i < 3; ++i) {
    const ReadGrammars::Result found = library.Get("yes");
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_TRUE(Allows(*found, "yes"));
    EXPECT_FALSE(Allows(*found, "no"));
  }
  EXPECT_TRUE(Allows(*library.Get("no"), "no"));
  EXPECT_EQ(library.reads("yes"), 1);
  EXPECT_EQ(library.kept().stats().queries, 4u);
  EXPECT_EQ(library.kept().stats().hits, 2u);
}

TEST(ReadGrammarsTest, NoMoreAreKeptThanMayBeAndTheOneUsedLongestAgoGoesFirst) {
  Library library({.count = 2});
  library.Read("a");
  library.Read("b");
  library.Read("a");
  library.Read("c");
  library.Read("a");
  EXPECT_EQ(library.reads("a"), 1);
  library.Read("b");
  EXPECT_EQ(library.reads("b"), 2);
}

TEST(ReadGrammarsTest, TheMemoryOfWhatIsKeptIsBounded) {
  Library all({});
  all.Read("a");
  const size_t bytes_of_a = all.kept().stats().bytes;
  ASSERT_GT(bytes_of_a, 1000u);
  all.Read("b");
  all.Read("c");
  const size_t bytes = all.kept().stats().bytes;
  Library library({.bytes = bytes - 1});
  for (const char* text : {"a", "b", "c"}) library.Read(text);
  EXPECT_EQ(library.kept().stats().bytes, bytes - bytes_of_a);
  library.Read("c");
  library.Read("b");
  EXPECT_EQ(library.reads("b") + library.reads("c"), 2);
  library.Read("a");
  EXPECT_EQ(library.reads("a"), 2);
  Library small({.bytes = bytes_of_a - 1});
  EXPECT_TRUE(Allows(*small.Get("a"), "a")) << "it is given, though it is not kept";
  EXPECT_EQ(small.kept().stats().bytes, 0u);
}

TEST(ReadGrammarsTest, WhatIsNotKeptAnyMoreLivesOnWhereItIsUsed) {
  Library library({.count = 1});
  const ReadGrammars::Result first = library.Get("first");
  auto state = StateAfter(*library.Get("second"), "sec");
  ASSERT_TRUE(state.ok()) << state.status();
  library.Read("third");
  EXPECT_TRUE(Allows(*first, "first"));
  EXPECT_TRUE(state->Replay(TokensOf("ond")).ok());
  EXPECT_TRUE(state->IsComplete());
}

TEST(ReadGrammarsTest, AFailureIsNotKept) {
  ReadGrammars kept({});
  const auto fails = []() -> ReadGrammars::Result { return absl::DataLossError("damaged"); };
  EXPECT_EQ(kept.Get("key", fails).status(), absl::DataLossError("damaged"));
  EXPECT_TRUE(kept.Get("key", [] { return **CompiledFor(ChoiceOf({"a"})); }).ok());
  EXPECT_EQ(kept.stats().hits, 0u);
}

// Five ask for one grammar; the first of them reads it only once all have asked.
TEST(ReadGrammarsTest, ThoseWhoAskAtOnceGetWhatOneOfThemReads) {
  for (const bool succeeds : {true, false}) {
    ReadGrammars kept({.bytes = 1});  // so that nobody finds it among those that are kept
    std::atomic<int> reads = 0;
    const auto read = [&]() -> ReadGrammars::Result {
      ++reads;
      while (kept.stats().queries < 5) std::this_thread::yield();
      if (!succeeds) return absl::DataLossError("damaged");
      return **CompiledFor(ChoiceOf({"a"}));
    };
    std::vector<std::thread> threads;
    std::atomic<int> told = 0;
    for (int i = 0; i < 5; ++i) {
      threads.emplace_back([&] {
        const ReadGrammars::Result result = kept.Get("key", read);
        if (result.ok() == succeeds && (!succeeds || Allows(*result, "a"))) ++told;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(told, 5);
    EXPECT_EQ(reads, 1);
    EXPECT_EQ(kept.stats().hits, 4u);
  }
}

TEST(ReadGrammarsTest, OneGrammarIsReadWhileAnotherIs) {
  ReadGrammars kept({});
  const auto read_a = [&]() -> ReadGrammars::Result {
    const auto read_b = [] { return ReadGrammars::Result(**CompiledFor(ChoiceOf({"b"}))); };
    std::thread other([&] { EXPECT_TRUE(kept.Get("b", read_b).ok()); });
    other.join();
    return **CompiledFor(ChoiceOf({"a"}));
  };
  EXPECT_TRUE(kept.Get("a", read_a).ok());
}

}  // namespace
}  // namespace baton
