// A real engine on a tiny model, driven step by step, with everything it tells written down.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/backend/backend.h"
#include "common/engine/engine.h"
#include "common/kv/token_range.h"

namespace baton {

// What one choice of a sequence was told. Checks the order of events that sequence_request.h
// reservations as they come.
struct EventLog {
  std::vector<OutputToken> tokens;
  std::vector<LayerComputed> layers;  // without their block tables
  std::vector<int> chunk_ends;
  std::vector<TokenLogprobs> scores;  // for the prompt's tokens from the second on
  std::vector<int32_t> block_table;   // granted, or from the last LayerComputed
  bool admitted = false;
  bool granted = false;
  int start_token = 0;  // first token that the grant left to be pushed
  bool prefill_started = false;
  int preempted = 0;
  int accepted_guesses = 0;
  int refused_guesses = 0;
  bool finished = false;
  absl::Status failure;
  bool released = false;

  bool ended() const { return finished || !failure.ok() || released; }
  std::vector<int32_t> token_ids() const;
};

class EngineHarness {
 public:
  struct Options {
    std::string model = "tiny-llama-f32.gguf";  // file in tests/data/tiny, or a whole path
    std::string draft = {};                     // as `model`; empty: no draft model
    std::string device = "cpu";
    bool deterministic = false;
    int threads = 1;
    EngineOptions engine;
  };
  static Options SmallOptions();
  explicit EngineHarness(const Options& options);
  ~EngineHarness();

  Engine& engine() { return *engine_; }
  // Submits and keeps a log; `also` hears every event after the log.
  SequenceId Submit(SequenceRequest request,
                    std::function<void(const SequenceEvent&)> also = nullptr);
  // Submits it to receive its KV, which is all NaN but for what is held already: it is ready for
  // Commit.
  SequenceId SubmitWithNanKv(SequenceRequest request);
  // The log of its first choice, or of the one after so many others.
  EventLog& log(SequenceId id, int choices_before = 0) {
    return logs_.at(id).at(static_cast<size_t>(choices_before));
  }
  // The logs of all its choices, in their order.
  std::vector<EventLog>& logs(SequenceId id) { return logs_.at(id); }
  // Steps until there is nothing to do.
  void Run();
  // Submits, runs to the end and gives the (first choice's) log.
  EventLog RunAlone(SequenceRequest request);
  void ExpectNothingHeld();

 private:
  static void Hear(EventLog& log, const SequenceEvent& event);

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Engine> engine_;
  std::map<SequenceId, std::vector<EventLog>> logs_;  // by choice
};

// `count` random token ids of the tiny vocabularies.
std::vector<int32_t> RandomTokens(std::mt19937& random, int count);
inline SamplingParams Greedy(int max_tokens) {
  return {.temperature = 0, .max_tokens = max_tokens, .ignore_eos = true};
}
SequenceRequest LocalRequest(std::vector<int32_t> token_ids, const SamplingParams& sampling);
// Copies the tokens' KV from `source`'s blocks to `target`'s, row by row, scales too. In layers with
// a window only what the hand-off of so many `sequence_tokens` carries; 0: all.
void CopyKv(const KvCache& source, const std::vector<int32_t>& source_table, const KvCache& target,
            const std::vector<int32_t>& target_table, TokenRange tokens, int sequence_tokens = 0);
// Each choice has finished with the tokens that `plain` gives it alone.
void ExpectChoicesAsAlone(EngineHarness& harness, SequenceId id, const SequenceRequest& request,
                          EngineHarness& plain);
// Ids and logprobs, bit by bit.
void ExpectSameTokens(const std::vector<OutputToken>& a, const std::vector<OutputToken>& b);

}  // namespace baton
