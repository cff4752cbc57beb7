// Random life of two engines on small pools: sequences of every mode, of one choice and of several,
// hand-offs between the engines that break and are tried again, pauses, stop tokens, guesses, and
// releases and stops of a choice at any moment. Whoever is not released gets exactly the tokens of
// an undisturbed run, which guesses nothing and knows each step's tokens before the next, and at
// rest nothing is held.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/common/engine/engine_harness.h"

namespace baton {
namespace {

using Mode = SequenceRequest::Mode;

struct SimulatedModel {
  std::string name;
  std::string path;  // see EngineHarness::Options
  int pages = 0;     // pages of a small pool, all groups of layers together
  unsigned most_prompt_tokens = 0;
};

const SimulatedModel kTinyLlama = {"TinyLlama", "tiny-llama-f32.gguf", 14, 60};
// A layer with a window of 16 tokens and one without.
const SimulatedModel kWindows = {"Windows", std::string(BATON_TEST_DATA) + "/arch/gpt-oss-f16.gguf",
                                 44, 170};

class Simulation {
 public:
  Simulation(unsigned seed, int steps_ahead, const SimulatedModel& model)
      : random_(seed),
        steps_ahead_(steps_ahead),
        model_(model),
        prefill_(SmallPool(1)),
        decode_(SmallPool(2)),
        local_(RoomyPool()) {}

  void Run() {
    for (int i = 0; i < 12; ++i) NewRequest();
    for (int tick = 0; tick < 1500; ++tick) {
      if (Chance(8)) Start();
      for (Job& job : std::exchange(again_, {})) Submit(std::move(job));
      for (Job& job : jobs_) Drive(job);
      if (Chance(2)) prefill_.engine().Step();
      if (Chance(2)) decode_.engine().Step();
    }
    quiet_ = true;
    for (int tick = 0; tick < 4000 && !AllEnded(); ++tick) {
      for (Job& job : jobs_) Drive(job);
      prefill_.engine().Step();
      decode_.engine().Step();
    }
    ASSERT_TRUE(AllEnded()) << "somebody is stuck";
    prefill_.Run();
    decode_.Run();
    for (Job& job : jobs_) Check(job);
    prefill_.ExpectNothingHeld();
    decode_.ExpectNothingHeld();
  }

  int finished() const { return finished_; }
  int stopped() const { return stopped_; }
  int broken() const { return broken_; }
  int parted() const { return parted_; }
  int choices_stopped() const { return choices_stopped_; }
  // Without the hand-offs that broke, nothing would begin in the middle of a block.
  int resumed_in_a_block() const { return resumed_in_a_block_; }
  int scored() const { return scored_; }
  uint64_t accepted_guesses() { return decode_.engine().Stats().accepted_guesses; }
  uint64_t refused_guesses() { return decode_.engine().Stats().refused_guesses; }
  uint64_t preemptions() { return decode_.engine().Stats().preemptions; }

 private:
  struct Job {
    size_t request = 0;
    std::string resume_key = {};
    bool handed_off = false;  // else local, on the decoding engine
    SequenceId decode_id = 0;
    SequenceId prefill_id = 0;  // 0: not yet submitted
    bool opened = false, committed = false, prefill_released = false, released = false;
    bool paused = false;
    std::vector<OutputToken> first = {};  // by choice, made by the prefill engine
  };

  EngineHarness::Options SmallPool(int pages_per_block) {
    EngineHarness::Options options = EngineHarness::SmallOptions();
    options.engine.block_size = kKvPageTokens * pages_per_block;
    options.model = model_.path;
    options.engine.num_kv_blocks =
        model_.pages / pages_per_block + 1 + static_cast<int>(random_() % 3);
    options.engine.max_num_seqs = 2 + static_cast<int>(random_() % 5);
    options.engine.max_num_batched_tokens = 64 + static_cast<int>(random_() % 64);
    options.engine.steps_ahead = steps_ahead_;
    options.engine.speculation = SpeculationMode::kNgram;
    return options;
  }
  EngineHarness::Options RoomyPool() const {
    EngineHarness::Options options = EngineHarness::SmallOptions();
    options.model = model_.path;
    return options;
  }

  bool Chance(int one_in) { return random_() % static_cast<unsigned>(one_in) == 0; }

  void NewRequest() {
    const int length = 1 + static_cast<int>(random_() % model_.most_prompt_tokens);
    SamplingParams sampling{.temperature = Chance(2) ? 0.0f : 0.8f,
                            .frequency_penalty = 0.2f,
                            .max_tokens = 2 + static_cast<int>(random_() % 150),
                            .seed = random_(),
                            .ignore_eos = true,
                            .logprobs = 0};
    for (int i = 0; i < 3; ++i) {
      sampling.stop_token_ids.push_back(static_cast<int32_t>(random_() % 256));
    }
    std::sort(sampling.stop_token_ids.begin(), sampling.stop_token_ids.end());
    if (Chance(2)) {
      // An output of three tokens is full of n-grams that came before.
      for (int i = 0; i < 3; ++i) sampling.logit_bias[static_cast<int32_t>(random_() % 256)] = 30;
      sampling.frequency_penalty = 0;
    }
    if (requests_.size() % 3 == 0)
      sampling.prompt_logprobs = static_cast<int>(requests_.size() % 7);
    requests_.push_back(LocalRequest(RandomTokens(random_, length), sampling));
    requests_.back().isolate = Chance(15);
    if (Chance(3)) {
      requests_.back().choices = 2 + static_cast<int>(random_() % 3);
      requests_.back().sampling.max_tokens = 2 + static_cast<int>(random_() % 100);
    }
    std::vector<EventLog>& expected = expected_.emplace_back();
    for (int choice = 0; choice < requests_.back().choices; ++choice) {
      SequenceRequest alone = requests_.back();
      alone.choice = choice;
      alone.choices = 1;
      expected.push_back(local_.RunAlone(std::move(alone)));
    }
  }

  void Start() {
    Job job;
    job.request = random_() % requests_.size();
    job.handed_off = !Chance(3);
    job.resume_key = std::to_string(jobs_.size());
    Submit(std::move(job));
  }

  void Submit(Job job) {
    SequenceRequest request = requests_[job.request];
    request.mode = job.handed_off ? Mode::kReceive : Mode::kLocal;
    request.resume_key = job.resume_key;
    job.decode_id = decode_.Submit(request);
    jobs_.push_back(std::move(job));
  }

  // Some of the pages have arrived. The next attempt goes on behind them: another hand-off, or
  // without one.
  void Break(Job& job) {
    const EventLog& decode = decode_.log(job.decode_id);
    const EventLog& prefill = prefill_.log(job.prefill_id);
    const auto tokens = static_cast<int>(requests_[job.request].token_ids.size());
    const int pages = (tokens - decode.start_token) / kKvPageTokens;
    const int end = decode.start_token +
                    kKvPageTokens * static_cast<int>(random_() % static_cast<unsigned>(pages + 1));
    CopyKv(prefill_.engine().cache(), prefill.block_table, decode_.engine().cache(),
           decode.block_table, {decode.start_token, end}, tokens);
    decode_.engine().Release(job.decode_id, end);
    job.released = true;
    ++broken_;
    again_.push_back(
        {.request = job.request, .resume_key = job.resume_key, .handed_off = !Chance(3)});
  }

  void Drive(Job& job) {
    if (job.handed_off) DriveHandOff(job, decode_.log(job.decode_id));
    if (job.released || Ended(job)) return;
    if (quiet_ ? job.paused : Chance(40)) {
      job.paused = !job.paused;
      decode_.engine().SetPaused(job.decode_id, job.paused);
    }
    // A release waits for nobody, but whoever writes the blocks must have stopped; here writes are
    // instantaneous.
    if (!quiet_ && Chance(150)) {
      decode_.engine().Release(job.decode_id);
      job.released = true;
    } else if (!quiet_ && Chance(200)) {
      const auto choices = static_cast<unsigned>(requests_[job.request].choices);
      if (choices > 1) decode_.engine().Stop(job.decode_id, static_cast<int>(random_() % choices));
    }
  }

  bool Ended(const Job& job) {
    const std::vector<EventLog>& logs = decode_.logs(job.decode_id);
    return std::all_of(logs.begin(), logs.end(), [](const EventLog& log) { return log.ended(); });
  }

  void DriveHandOff(Job& job, EventLog& decode) {
    bool gone = job.released || Ended(job);
    if (job.prefill_id == 0) {
      if (!decode.admitted || gone) return;
      SequenceRequest request = requests_[job.request];
      request.mode = Mode::kPrefillOnly;
      job.prefill_id = prefill_.Submit(request);
    }
    if (!job.opened && !gone && Chance(3)) {
      decode_.engine().OpenReceive(job.decode_id, "");
      job.opened = true;
    }
    if (job.prefill_released) return;
    EventLog& prefill = prefill_.log(job.prefill_id);
    const auto tokens = static_cast<int>(requests_[job.request].token_ids.size());
    if (!gone && !quiet_ && prefill.finished && decode.granted && Chance(6)) {
      Break(job);
      gone = true;
    }
    if (gone ? Chance(5) : prefill.finished && decode.granted && Chance(3)) {
      if (!gone) {
        CopyKv(prefill_.engine().cache(), prefill.block_table, decode_.engine().cache(),
               decode.block_table, {decode.start_token, tokens}, tokens);
        for (const EventLog& log : prefill_.logs(job.prefill_id)) {
          job.first.push_back(log.tokens.at(0));
        }
        decode_.engine().Commit(job.decode_id, job.first);
      }
      prefill_.engine().Release(job.prefill_id);
      job.prefill_released = true;
    }
  }

  bool AllEnded() {
    for (Job& job : jobs_) {
      if (!Ended(job)) return false;
      if (job.prefill_id != 0 && !job.prefill_released) return false;
    }
    return true;
  }

  void Check(Job& job) {
    const int start_token = decode_.log(job.decode_id).start_token;
    if (start_token % decode_.engine().options().block_size != 0) ++resumed_in_a_block_;
    const std::vector<EventLog>& logs = decode_.logs(job.decode_id);
    const auto is_released = [](const EventLog& log) { return log.released; };
    for (size_t choice = 0; choice < logs.size(); ++choice) {
      CheckChoice(logs[choice], job.first.empty() ? nullptr : &job.first[choice],
                  expected_[job.request][choice]);
    }
    // The worker that computes the prompt reports its log probabilities, as far as it comes.
    if (job.handed_off && job.prefill_id == 0) return;
    const EventLog& computes =
        job.handed_off ? prefill_.log(job.prefill_id) : decode_.log(job.decode_id);
    const std::vector<TokenLogprobs>& right = expected_[job.request][0].scores;
    ASSERT_LE(computes.scores.size(), right.size());
    if (computes.finished || !computes.tokens.empty()) {
      EXPECT_EQ(computes.scores.size(), right.size());
    }
    for (size_t i = 0; i < computes.scores.size(); ++i) {
      EXPECT_EQ(computes.scores[i].logprob, right[i].logprob);
      EXPECT_EQ(computes.scores[i].top.size(), right[i].top.size());
    }
    scored_ += static_cast<int>(computes.scores.size());
    if (logs.size() == 1) return;
    const bool all_finished = std::none_of(logs.begin(), logs.end(), is_released);
    const bool any_finished = !std::all_of(logs.begin(), logs.end(), is_released);
    if (all_finished) ++parted_;
    if (any_finished && !all_finished) ++choices_stopped_;
  }

  void CheckChoice(const EventLog& decode, const OutputToken* first, const EventLog& alone) {
    EXPECT_TRUE(decode.failure.ok()) << decode.failure;
    std::vector<OutputToken> tokens;
    if (first != nullptr) tokens.push_back(*first);
    tokens.insert(tokens.end(), decode.tokens.begin(), decode.tokens.end());
    std::vector<OutputToken> expected = alone.tokens;
    if (decode.released) {
      ASSERT_LE(tokens.size(), expected.size());
      expected.resize(tokens.size());
    } else {
      ++finished_;
      if (!tokens.empty() && tokens.back().finish_reason == FinishReason::kStop) ++stopped_;
    }
    ExpectSameTokens(tokens, expected);
  }

  std::mt19937 random_;
  const int steps_ahead_;
  const SimulatedModel model_;
  EngineHarness prefill_, decode_, local_;
  std::vector<SequenceRequest> requests_;
  std::vector<std::vector<EventLog>> expected_;  // [request][choice]
  std::vector<Job> jobs_;
  std::vector<Job> again_;  // to be submitted
  bool quiet_ = false;
  int broken_ = 0;
  int parted_ = 0;
  int choices_stopped_ = 0;
  int resumed_in_a_block_ = 0;
  int scored_ = 0;  // prompt tokens
  int finished_ = 0;
  int stopped_ = 0;
};

// steps_ahead, model
class EngineSimulation : public testing::TestWithParam<std::tuple<int, SimulatedModel>> {};

TEST_P(EngineSimulation, WhoeverIsNotReleasedGetsTheTokensOfAnUndisturbedRun) {
  int finished = 0;
  int stopped = 0;
  int broken = 0;
  int parted = 0;
  int choices_stopped = 0;
  int resumed_in_a_block = 0;
  int scored = 0;
  uint64_t preemptions = 0;
  uint64_t accepted_guesses = 0;
  uint64_t refused_guesses = 0;
  for (unsigned seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE(seed);
    Simulation simulation(seed, std::get<0>(GetParam()), std::get<1>(GetParam()));
    simulation.Run();
    if (testing::Test::HasFailure()) return;
    finished += simulation.finished();
    stopped += simulation.stopped();
    broken += simulation.broken();
    parted += simulation.parted();
    choices_stopped += simulation.choices_stopped();
    resumed_in_a_block += simulation.resumed_in_a_block();
    scored += simulation.scored();
    preemptions += simulation.preemptions();
    accepted_guesses += simulation.accepted_guesses();
    refused_guesses += simulation.refused_guesses();
  }
  EXPECT_GT(finished, 200);
  EXPECT_GT(stopped, 60);
  EXPECT_GT(broken, 30);
  EXPECT_GT(parted, 15);
  EXPECT_GT(choices_stopped, 10);
  EXPECT_GT(resumed_in_a_block, 0);
  EXPECT_GT(scored, 1000);
  EXPECT_GT(preemptions, 20u);
  EXPECT_GT(accepted_guesses, 500u);
  EXPECT_GT(refused_guesses, 500u);
}

INSTANTIATE_TEST_SUITE_P(StepsAhead, EngineSimulation,
                         testing::Combine(testing::Values(0, 1),
                                          testing::Values(kTinyLlama, kWindows)),
                         [](const auto& simulated) {
                           return std::get<1>(simulated.param).name +
                                  std::to_string(std::get<0>(simulated.param));
                         });

}  // namespace
}  // namespace baton
