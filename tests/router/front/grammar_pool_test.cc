#include "router/front/grammar_pool.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <atomic>
#include <fstream>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"

#include "common/base/clock.h"
#include "common/grammar/compiled_grammar.h"
#include "common/grammar/grammar_vocabulary.h"
#include "common/rpc/status.h"
#include "tests/router/router_fixture.h"

namespace baton {
namespace {

GrammarSpec RegexSpec(const std::string& text) {
  GrammarSpec spec;
  spec.kind = GrammarKind::kRegex;
  spec.text = text;
  return spec;
}

// What became of a request for a grammar.
struct Outcome {
  absl::Notification told;
  GrammarCache::Result result = absl::UnknownError("not told");
};

class GrammarPoolTest : public RouterFixture {
 protected:
  GrammarPoolTest() {
    options_.grammars.program = BATON_GRAMMAR_COMPILER;
    options_.grammars.limits.wall_time = absl::Seconds(60);
  }

  void MakePool() {
    pool_ = std::make_unique<GrammarPool>(options_.grammars,
                                          SerializeVocabulary(LetterModel().tokenizer()),
                                          LetterModel().tokenizer_digest(), metrics_);
  }
  // A pool with one thread and a compiler that runs until it is told to end: `ending` is its last
  // line.
  void MakeGatedPool(const std::string& ending = "printf '\\0grammar'") {
    ASSERT_EQ(mkfifo(gate_.c_str(), 0600), 0);
    options_.grammars.program = folder_ + "/compiler";
    std::ofstream(options_.grammars.program)
        << "#!/bin/sh\necho run >> " << log_ << "\nread line < " << gate_ << "\n"
        << ending << "\n";
    ASSERT_EQ(chmod(options_.grammars.program.c_str(), 0700), 0);
    options_.grammars.threads = 1;
    MakePool();
  }
  // Waits until the next compilation runs, and lets it end.
  void LetOneEnd() {
    while (Runs() <= ended_) std::this_thread::yield();
    ++ended_;
    std::ofstream(gate_) << "end\n";
  }
  int Runs() const {
    std::ifstream log(log_);
    int runs = 0;
    for (std::string line; std::getline(log, line);) ++runs;
    return runs;
  }

  Outcome& Ask(const GrammarSpec& spec, const std::string& tenant = "",
               absl::Duration time = absl::Hours(1)) {
    return AskOf({.spec = spec,
                  .tenant = tenant,
                  .deadline = SteadyNow() + time,
                  .cancelled = [] { return false; },
                  .done = nullptr});
  }
  Outcome& AskOf(GrammarPool::Ask ask) {
    Outcome& outcome = *outcomes_.emplace_back(std::make_unique<Outcome>());
    ask.done = [&outcome](GrammarCache::Result result) {
      outcome.result = std::move(result);
      outcome.told.Notify();
    };
    pool_->Get(std::move(ask));
    return outcome;
  }
  // Asks for one that is cancelled once `left` is set.
  Outcome& AskUntil(const GrammarSpec& spec, const std::atomic<bool>& left) {
    return AskOf({.spec = spec,
                  .tenant = "",
                  .deadline = SteadyNow() + absl::Hours(1),
                  .cancelled = [&left] { return left.load(); },
                  .done = nullptr});
  }
  // Whether one runs or is to be reaped.
  static bool ProcessIsLeft() {
    siginfo_t about;
    return waitid(P_ALL, 0, &about, WEXITED | WNOHANG | WNOWAIT) == 0;
  }
  static const GrammarCache::Result& ResultOf(Outcome& outcome) {
    outcome.told.WaitForNotification();
    return outcome.result;
  }
  const std::string folder_ = [] {
    std::string name = testing::TempDir() + "/grammar_pool_XXXXXX";
    return std::string(mkdtemp(name.data()));
  }();
  const std::string gate_ = folder_ + "/gate";
  const std::string log_ = folder_ + "/log";
  int ended_ = 0;  // compilations
  std::vector<std::unique_ptr<Outcome>> outcomes_;
  std::unique_ptr<GrammarPool> pool_;
};

TEST_F(GrammarPoolTest, AGrammarIsCompiledOnceAndThenShared) {
  MakePool();
  const GrammarCache::Result first = ResultOf(Ask(RegexSpec("[a-c]+")));
  ASSERT_TRUE(first.ok()) << first.status();
  const auto vocabulary = GrammarVocabulary::Parse(SerializeVocabulary(LetterModel().tokenizer()));
  EXPECT_TRUE(CompiledGrammar::Parse(**first, **vocabulary).ok());
  EXPECT_EQ(*ResultOf(Ask(RegexSpec("[a-c]+"))), *first);
  EXPECT_EQ(Metric("baton_router_grammar_compilations_total", "compiled"), 1);
  EXPECT_EQ(Metric("baton_router_grammar_cache_hits_total"), 1);
  EXPECT_EQ(Metric("baton_router_grammar_compilation_seconds_count"), 1);
}

TEST_F(GrammarPoolTest, WhatCannotBeCompiledIsRememberedToo) {
  MakePool();
  for (int i = 0; i < 3; ++i) {
    const GrammarCache::Result refused = ResultOf(Ask(RegexSpec("(")));
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument) << refused.status();
  }
  EXPECT_EQ(Metric("baton_router_grammar_compilations_total", "refused"), 1);
  EXPECT_EQ(Metric("baton_router_grammar_cache_hits_total"), 2);
}

TEST_F(GrammarPoolTest, ThoseWhoAskAtOnceShareOneCompilation) {
  MakeGatedPool();
  Outcome& first = Ask(RegexSpec("a"), "t");
  Outcome& second = Ask(RegexSpec("a"), "t");
  Outcome& third = Ask(RegexSpec("a"), "t");
  LetOneEnd();
  EXPECT_EQ(**ResultOf(first), "grammar");
  EXPECT_EQ(*ResultOf(second), *first.result);
  EXPECT_EQ(*ResultOf(third), *first.result);
  EXPECT_EQ(Runs(), 1);
}

TEST_F(GrammarPoolTest, ATenantDoesNotHaveWhatWasCompiledForAnother) {
  MakeGatedPool();
  Outcome& one = Ask(RegexSpec("a"), "t");
  LetOneEnd();
  ASSERT_TRUE(ResultOf(one).ok());
  Outcome& other = Ask(RegexSpec("a"), "u");
  LetOneEnd();
  ASSERT_TRUE(ResultOf(other).ok());
  EXPECT_EQ(Runs(), 2);
}

TEST_F(GrammarPoolTest, PlacesToWaitAreBoundedAndATenantHasHalfOfThem) {
  options_.grammars.places = 4;
  MakeGatedPool();
  Ask(RegexSpec("a"), "t");
  Ask(RegexSpec("b"), "t");
  const GrammarCache::Result third = ResultOf(Ask(RegexSpec("c"), "t"));
  EXPECT_EQ(third.status().code(), absl::StatusCode::kResourceExhausted) << third.status();
  EXPECT_TRUE(RetryDelay(third.status()).has_value());
  Ask(RegexSpec("a"), "u");
  Ask(RegexSpec("a"), "v");
  EXPECT_EQ(ResultOf(Ask(RegexSpec("a"), "w")).status().code(),
            absl::StatusCode::kResourceExhausted);
  for (int i = 0; i < 4; ++i) LetOneEnd();
  for (auto& outcome : outcomes_) ResultOf(*outcome);
  EXPECT_EQ(Runs(), 4);
}

TEST_F(GrammarPoolTest, TenantsTakeTurns) {
  MakeGatedPool();
  Outcome& running = Ask(RegexSpec("a"), "t");
  Outcome& second = Ask(RegexSpec("b"), "t");
  Outcome& others = Ask(RegexSpec("a"), "u");
  LetOneEnd();
  ResultOf(running);
  LetOneEnd();
  ResultOf(others);
  EXPECT_FALSE(second.told.HasBeenNotified());
  LetOneEnd();
  ResultOf(second);
}

TEST_F(GrammarPoolTest, WhoIsLateOrHasLeftIsToldAndNothingIsCompiledForThem) {
  MakeGatedPool();
  Outcome& running = Ask(RegexSpec("a"));
  Outcome& late = Ask(RegexSpec("b"), "", absl::ZeroDuration());
  Outcome& gone = AskOf({.spec = RegexSpec("c"),
                         .tenant = "",
                         .deadline = SteadyNow() + absl::Hours(1),
                         .cancelled = [] { return true; },
                         .done = nullptr});
  LetOneEnd();
  EXPECT_TRUE(ResultOf(running).ok());
  EXPECT_EQ(ResultOf(late).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(ResultOf(gone).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(Runs(), 1);
}

// None of their compilers would ever end; and the pool has one thread.
TEST_F(GrammarPoolTest, ACompilationEndsWithTheLastOfThoseWhoWaitForIt) {
  MakeGatedPool();
  std::atomic<bool> first_left = false, second_left = false;
  Outcome& first = AskUntil(RegexSpec("a"), first_left);
  Outcome& second = AskUntil(RegexSpec("a"), second_left);
  Outcome& third = Ask(RegexSpec("b"));
  while (Runs() < 1) std::this_thread::yield();
  first_left = true;
  EXPECT_EQ(ResultOf(first).status().code(), absl::StatusCode::kCancelled);
  EXPECT_FALSE(second.told.HasBeenNotified());
  EXPECT_EQ(Runs(), 1);
  second_left = true;
  EXPECT_EQ(ResultOf(second).status().code(), absl::StatusCode::kCancelled);
  while (Runs() < 2) std::this_thread::yield();
  std::ofstream(gate_) << "end\n";
  EXPECT_TRUE(ResultOf(third).ok());
  EXPECT_FALSE(ProcessIsLeft());
  EXPECT_EQ(Metric("baton_router_grammar_compilations_total", "cancelled"), 1);
  EXPECT_EQ(Metric("baton_router_grammars_waiting"), 0);
}

TEST_F(GrammarPoolTest, ACompilationEndsWhenTheTimeOfThoseWhoWaitForItIsUp) {
  MakeGatedPool();
  Outcome& late = Ask(RegexSpec("a"), "", absl::Milliseconds(50));
  EXPECT_EQ(ResultOf(late).status().code(), absl::StatusCode::kDeadlineExceeded);
  while (ProcessIsLeft()) std::this_thread::yield();
}

// The first one's answer comes before its compiler's end, and with it somebody else asks.
TEST_F(GrammarPoolTest, WhoAsksForAGrammarWhoseCompilerIsBeingEndedHasItCompiledAgain) {
  MakeGatedPool();
  std::atomic<bool> left = false;
  absl::Notification asked;
  Outcome* second = nullptr;
  pool_->Get({.spec = RegexSpec("a"),
              .tenant = "",
              .deadline = SteadyNow() + absl::Hours(1),
              .cancelled = [&left] { return left.load(); },
              .done =
                  [&](const GrammarCache::Result& result) {
                    EXPECT_EQ(result.status().code(), absl::StatusCode::kCancelled);
                    second = &Ask(RegexSpec("a"));
                    asked.Notify();
                  }});
  while (Runs() < 1) std::this_thread::yield();
  left = true;
  asked.WaitForNotification();
  while (Runs() < 2) std::this_thread::yield();
  std::ofstream(gate_) << "end\n";
  EXPECT_EQ(**ResultOf(*second), "grammar");
}

TEST_F(GrammarPoolTest, ItsEndTellsThoseWhoWaitAtOnce) {
  MakeGatedPool();
  Outcome& running = Ask(RegexSpec("a"));
  Outcome& waiting = Ask(RegexSpec("b"));
  while (Runs() == 0) std::this_thread::yield();
  pool_->Stop();
  EXPECT_EQ(ErrorReason(ResultOf(running).status()), kReasonDraining);
  EXPECT_EQ(ErrorReason(ResultOf(waiting).status()), kReasonDraining);
  EXPECT_EQ(ErrorReason(ResultOf(Ask(RegexSpec("c"))).status()), kReasonDraining);
  pool_.reset();
  EXPECT_FALSE(ProcessIsLeft());
}

TEST_F(GrammarPoolTest, WhatABrokenProgramDidNotCompileIsTriedAgain) {
  MakeGatedPool("exit 1");
  for (int i = 0; i < 2; ++i) {
    Outcome& failed = Ask(RegexSpec("a"));
    LetOneEnd();
    EXPECT_EQ(ResultOf(failed).status().code(), absl::StatusCode::kInternal);
  }
  EXPECT_EQ(Runs(), 2);
  EXPECT_EQ(Metric("baton_router_grammar_compilations_total", "failed"), 2);
}

TEST_F(GrammarPoolTest, WithoutAProgramAGrammarIsRefusedWithTheRemedy) {
  options_.grammars.program = folder_ + "/none";
  testing::internal::CaptureStderr();
  MakePool();
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("--grammar-compiler"), std::string::npos) << log;
  for (int i = 0; i < 2; ++i) {
    const absl::Status refused = ResultOf(Ask(RegexSpec("a"))).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
    EXPECT_NE(refused.message().find("--grammar-compiler"), std::string::npos) << refused;
  }
}

}  // namespace
}  // namespace baton
