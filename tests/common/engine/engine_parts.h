// The parts of an engine on a tiny model, each to be driven by itself.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/backend/make_backend.h"
#include "common/base/check.h"
#include "common/engine/engine_commands.h"
#include "common/engine/first_steps.h"
#include "common/engine/masks_ahead.h"
#include "common/engine/scheduler.h"
#include "common/engine/step_pipeline.h"
#include "tests/common/engine/test_sequences.h"

namespace baton {

template <class T>
T PartOrDie(absl::StatusOr<T> value) {
  BATON_CHECK(value.ok(), "what a test needs");
  return *std::move(value);
}

struct EngineParts {
  using MakeProposer = std::function<std::unique_ptr<Proposer>()>;

  // With `make_proposer`, everything that is proposed is guessed.
  explicit EngineParts(int steps_ahead, MakeProposer make_proposer = nullptr)
      : options({.max_model_len = 256,
                 .max_num_seqs = 4,
                 .max_num_batched_tokens = 128,
                 .max_step_duration = absl::InfiniteDuration(),
                 .block_size = 16,
                 .num_kv_blocks = 32,
                 .kv_dtype = KvType::kF32,
                 .steps_ahead = steps_ahead,
                 .speculation = make_proposer ? SpeculationMode::kNgram : SpeculationMode::kNone}),
        guesser({.mode = options.speculation,
                 .most_samples = MostSamples(options),
                 .make_proposer = std::move(make_proposer)},
                ledger) {}

  // Adds a sequence that is computed here; what it is told goes to `events`.
  Sequence& Add(SequenceId id, int tokens, int max_tokens,
                SequenceRequest::Mode mode = SequenceRequest::Mode::kLocal) {
    return sequences.Add(id, TestSequences::Trust(Request(tokens, max_tokens, mode)));
  }
  SequenceRequest Request(int tokens, int max_tokens, SequenceRequest::Mode mode) {
    SequenceRequest request;
    request.mode = mode;
    for (int i = 0; i < tokens; ++i) request.token_ids.push_back(3 + i % 50);
    request.prompt_length = tokens;
    request.sampling = {.temperature = 0, .max_tokens = max_tokens, .ignore_eos = true};
    request.on_event = [this](const SequenceEvent& event) { events.push_back(event); };
    return request;
  }
  Schedule Next(int row_budget) {
    masks.Prepare();
    return scheduler.Next(row_budget);
  }
  // The ids of the tokens that were told.
  std::vector<int32_t> TokenIds() const {
    std::vector<int32_t> ids;
    for (const SequenceEvent& event : events) {
      if (const auto* produced = std::get_if<TokenProduced>(&event)) {
        ids.push_back(produced->token.token_id);
      }
    }
    return ids;
  }

  const EngineOptions options;
  const std::unique_ptr<Backend> backend = PartOrDie(MakeBackend({.device = "cpu", .threads = 1}));
  const std::unique_ptr<Transformer> model = PartOrDie(
      Transformer::Load(PartOrDie(GgufFile::Open(BATON_TEST_DATA "/tiny/tiny-llama-f32.gguf")),
                        *backend, [](double) {}));
  const std::unique_ptr<KvCache> cache =
      PartOrDie(KvCache::Create(*backend, model->MakeKvLayout(16, KvType::kF32), 32));
  const std::unique_ptr<PassRecordings> recordings = backend->MakeRecordings();
  const std::unique_ptr<StepSampler> sampler = PartOrDie(
      backend->MakeStepSampler(SamplerOptionsOf(options, model->config(), /*max_rows=*/4)));
  BlockPool pool{32};
  StepsInFlight steps;
  BlockLedger ledger{{.block_size = 16}, pool, nullptr, steps};
  SequenceTable sequences{256, ledger, steps};
  Scheduler scheduler{4, sequences, ledger};
  Mailbox mailbox{10};
  EngineStatsBoard stats;
  SequenceEnding ending{{.max_model_len = 256}, sequences, ledger, mailbox};
  BlockAuditor auditor{{.most_rows = 128, .most_samples = 16}, *cache, pool, ledger};
  Guesser guesser;
  MasksAhead masks{absl::InfiniteDuration(), sequences, [] {}};
  LifeSigns signs{absl::InfiniteDuration(), absl::UnixEpoch(), sequences};
  StepPipeline pipeline{
      options,
      {*model, *cache, *sampler, *recordings, sequences, ending, auditor, guesser, stats, signs}};
  EngineCommands commands{model->config().vocab_size,
                          [] { return SequenceId{1'000'000}; },
                          {mailbox, sequences, ledger, pipeline, ending, auditor}};
  std::vector<SequenceEvent> events;
};

}  // namespace baton
