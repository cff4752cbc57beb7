#include "common/engine/engine.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/base/status_macros.h"
#include "common/engine/block_auditor.h"
#include "common/engine/block_ledger.h"
#include "common/engine/draft_model.h"
#include "common/engine/engine_commands.h"
#include "common/engine/first_steps.h"
#include "common/engine/guesser.h"
#include "common/engine/life_signs.h"
#include "common/engine/mailbox.h"
#include "common/engine/masks_ahead.h"
#include "common/engine/scheduler.h"
#include "common/engine/sequence_ending.h"
#include "common/engine/sequence_table.h"
#include "common/engine/step_pipeline.h"
#include "common/speculation/ngram_proposer.h"

namespace baton {
namespace {

EngineOptions FillDefaults(EngineOptions options, const ModelConfig& config,
                           const Backend& backend) {
  if (options.max_model_len == 0) {
    const KvLayout layout = config.MakeKvLayout(options.block_size, options.kv_dtype);
    const int64_t stored =
        layout.groups.TokensIn(options.num_kv_blocks, options.block_size, LargestStepRows(options));
    options.max_model_len = static_cast<int>(std::min<int64_t>(config.context_length, stored));
  }
  std::sort(options.end_of_generation_ids.begin(), options.end_of_generation_ids.end());
  options.steps_ahead = options.steps_ahead.value_or(backend.steps_ahead());
  BATON_CHECK(*options.steps_ahead == 0 || *options.steps_ahead == 1,
              "a sequence has at most one pending output when a step is chosen");
  return options;
}

// A draft model's block is of all layers, and so serves as many tokens as a span of the model's.
int DraftBlocks(const EngineOptions& options, const KvLayout& layout) {
  return (options.num_kv_blocks + layout.groups.count() - 1) / layout.groups.count();
}

}  // namespace

// Thread rule: the engine's thread only, except the mailbox, the stats and last_id.
struct Engine::Rep {
  Rep(const EngineOptions& engine_options, std::unique_ptr<Transformer> transformer,
      std::unique_ptr<DraftModel> draft_model, std::unique_ptr<KvCache> kv_cache,
      std::unique_ptr<StepSampler> step_sampler, std::unique_ptr<PassRecordings> pass_recordings);

  void Announce(const Schedule& schedule);
  void PublishStats();

  const EngineOptions options;
  const std::unique_ptr<Transformer> model;
  const std::unique_ptr<DraftModel> draft;  // null: there is none
  const std::unique_ptr<KvCache> cache;
  const std::unique_ptr<StepSampler> sampler;
  const std::unique_ptr<PassRecordings> recordings;
  BlockPool pool;
  PrefixCache prefix_cache;
  StepsInFlight steps;
  BlockLedger ledger;
  SequenceTable sequences;
  LifeSigns signs;
  Scheduler scheduler;
  Mailbox mailbox;
  EngineStatsBoard stats;
  SequenceEnding ending;
  BlockAuditor auditor;
  Guesser guesser;
  MasksAhead masks;
  StepPipeline pipeline;
  EngineCommands commands;
  std::atomic<uint64_t> last_id = 0;
};

Engine::Rep::Rep(const EngineOptions& engine_options, std::unique_ptr<Transformer> transformer,
                 std::unique_ptr<DraftModel> draft_model, std::unique_ptr<KvCache> kv_cache,
                 std::unique_ptr<StepSampler> step_sampler,
                 std::unique_ptr<PassRecordings> pass_recordings)
    : options(engine_options),
      model(std::move(transformer)),
      draft(std::move(draft_model)),
      cache(std::move(kv_cache)),
      sampler(std::move(step_sampler)),
      recordings(std::move(pass_recordings)),
      pool(options.num_kv_blocks),
      prefix_cache(options.prefix_identity, cache->layout(), pool),
      ledger({.block_size = options.block_size,
              .groups = cache->layout().groups,
              .chunk_tokens = LargestStepRows(options),
              .retained = {.lifetime = options.resume_timeout}},
             pool, options.enable_prefix_caching ? &prefix_cache : nullptr, steps),
      sequences(options.max_model_len, ledger, steps),
      signs(options.sign_interval, SteadyNow(), sequences),
      scheduler(options.max_num_seqs, sequences, ledger),
      mailbox(options.max_waiting),
      ending({.end_of_generation_ids = options.end_of_generation_ids,
              .max_model_len = options.max_model_len},
             sequences, ledger, mailbox),
      auditor({.most_rows = LargestStepRows(options), .most_samples = MostSamples(options)}, *cache,
              pool, ledger),
      guesser({.mode = options.speculation,
               .most_samples = MostSamples(options),
               .make_proposer = [] { return std::make_unique<NgramProposer>(); },
               .draft = draft.get()},
              ledger),
      masks(options.form_patience, sequences, [this] { mailbox.Wake(); }),
      pipeline(options, {*model, *cache, *sampler, *recordings, sequences, ending, auditor, guesser,
                         stats, signs}),
      commands(model->config().vocab_size, [this] { return ++last_id; },
               {mailbox, sequences, ledger, pipeline, ending, auditor}) {}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(std::unique_ptr<Transformer> model,
                                                       Backend& backend,
                                                       const EngineOptions& options,
                                                       std::unique_ptr<Transformer> draft) {
  BATON_RETURN_IF_ERROR(CheckEngineOptions(options, model->config()));
  if (options.num_kv_blocks < 1) {
    return absl::InvalidArgumentError("--num-kv-blocks: there must be at least one block");
  }
  const EngineOptions filled = FillDefaults(options, model->config(), backend);
  BATON_RETURN_IF_ERROR(model->Reserve(LargestStepRows(filled)));
  std::unique_ptr<PassRecordings> recordings = backend.MakeRecordings();
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<StepSampler> sampler,
                         backend.MakeStepSampler(SamplerOptionsOf(
                             filled, model->config(), recordings->PassRows(filled.max_num_seqs))));
  const KvLayout layout = model->MakeKvLayout(filled.block_size, filled.kv_dtype);
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<KvCache> cache,
                         KvCache::Create(backend, layout, filled.num_kv_blocks));
  std::unique_ptr<DraftModel> draft_model;
  if (draft != nullptr) {
    BATON_ASSIGN_OR_RETURN(draft_model,
                           DraftModel::Create(std::move(draft), backend,
                                              {.block_size = filled.block_size,
                                               .num_blocks = DraftBlocks(filled, layout),
                                               .kv_dtype = filled.kv_dtype,
                                               .most_sequences = filled.max_num_seqs}));
  }
  auto rep = std::make_unique<Rep>(filled, std::move(model), std::move(draft_model),
                                   std::move(cache), std::move(sampler), std::move(recordings));
  rep->PublishStats();
  return std::unique_ptr<Engine>(new Engine(std::move(rep)));
}

Engine::Engine(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
Engine::~Engine() = default;

const EngineOptions& Engine::options() const { return rep_->options; }
EngineLimits Engine::limits() const {
  return {.vocab_size = rep_->model->config().vocab_size,
          .max_model_len = rep_->options.max_model_len,
          .block_size = rep_->options.block_size,
          .groups = rep_->cache->layout().groups,
          .chunk_tokens = LargestStepRows(rep_->options),
          .total_blocks = rep_->options.num_kv_blocks};
}
const ModelConfig& Engine::model_config() const { return rep_->model->config(); }
KvCache& Engine::cache() { return *rep_->cache; }
const KvCache* Engine::draft_cache() const {
  return rep_->draft == nullptr ? nullptr : &rep_->draft->cache();
}
uint32_t Engine::BlockGeneration(int32_t block) const { return rep_->pool.generation(block); }
const PrefixPages& Engine::prefix_pages() const { return rep_->prefix_cache.pages(); }
SequenceId Engine::NextId() { return ++rep_->last_id; }

absl::Status Engine::Submit(SequenceId id, CheckedSequence sequence) {
  return rep_->mailbox.Submit({id, std::move(sequence), SteadyNow()});
}

void Engine::OpenReceive(SequenceId id, std::string kv_numerics) {
  rep_->mailbox.OpenReceive(id, std::move(kv_numerics));
}
void Engine::Commit(SequenceId id, std::vector<OutputToken> first_tokens,
                    std::optional<AuditOrder> audit) {
  rep_->mailbox.Commit(id, std::move(first_tokens), std::move(audit));
}
void Engine::Distrust(std::string source) { rep_->mailbox.Distrust(std::move(source)); }
bool Engine::can_audit() const { return rep_->cache->host_memory(); }
void Engine::SetPaused(SequenceId id, bool paused) { rep_->mailbox.SetPaused(id, paused); }
void Engine::Stop(SequenceId id, int choice) { rep_->mailbox.Stop(id, choice); }
void Engine::Release(SequenceId id, std::optional<int> resume_tokens) {
  rep_->mailbox.Release(id, resume_tokens);
}
void Engine::WaitForWork(absl::Duration timeout) {
  const absl::Duration expiry = rep_->ledger.NextExpiry() - SteadyNow();
  rep_->mailbox.Wait(std::clamp(expiry, absl::ZeroDuration(), timeout));
}
void Engine::Wake() { rep_->mailbox.Wake(); }

EngineStats Engine::Stats() const {
  const int submissions = rep_->mailbox.submissions();
  EngineStats stats = rep_->stats.Read(SteadyNow());
  stats.waiting_sequences += submissions;
  return stats;
}

void Engine::RecordSteps() {
  Rep& rep = *rep_;
  baton::RecordSteps(rep.options, *rep.model, *rep.cache, *rep.sampler, *rep.recordings);
}

bool Engine::Step() {
  StepPipeline& pipeline = rep_->pipeline;
  rep_->commands.Take();
  rep_->signs.Give(SteadyNow());
  // A preempted sequence gives its blocks to others at once, so no step in flight may use them.
  if (rep_->scheduler.MayPreempt()) {
    rep_->auditor.GiveWay();
    pipeline.ApplyUntil(0);
  }
  rep_->masks.Prepare();
  Schedule schedule = rep_->scheduler.Next(pipeline.row_budget() - rep_->auditor.rows());
  rep_->auditor.AddTo(schedule);
  rep_->guesser.AddTo(schedule, pipeline.row_budget());
  const bool caught_up = rep_->draft != nullptr && rep_->guesser.CatchUp(rep_->sequences.All());
  rep_->Announce(schedule);
  rep_->PublishStats();
  const bool computes = !schedule.batch.empty();
  if (!computes && pipeline.empty()) return caught_up || !schedule.preempted.empty();
  if (computes) {
    pipeline.Run(std::move(schedule));
  } else {
    pipeline.ApplyUntil(0);
  }
  rep_->PublishStats();
  return true;
}

// Reports the schedule's events for each of its sequences, before the step runs.
void Engine::Rep::Announce(const Schedule& schedule) {
  for (const Sequence* sequence : schedule.preempted) {
    BATON_FAILPOINT("engine.preempted");
    ++stats.totals.preemptions;
    Tell(*sequence, SequencePreempted{.choice = sequence->choice()});
  }
  for (const Sequence* sequence : schedule.admitted) {
    BATON_FAILPOINT("engine.admitted");
    mailbox.Admitted();
    Tell(*sequence, SequenceAdmitted{.cached_tokens = sequence->kv.cached_tokens});
  }
  const absl::Time now = SteadyNow();
  for (const ScheduledTokens& scheduled : schedule.batch) {
    Sequence& sequence = *scheduled.sequence;
    const bool decodes = scheduled.first_token >= sequence.kv.prefill_tokens;
    if (decodes && !sequence.times.first_decode) sequence.times.first_decode = now;
    if (sequence.times.first_step) continue;
    sequence.times.first_step = now;
    if (decodes || sequence.kv.committed) continue;
    Tell(sequence, PrefillStarted{.cached_tokens = sequence.kv.cached_tokens});
  }
}

void Engine::Rep::PublishStats() {
  prefix_cache.pages().Publish();
  const Scheduler::Counts counts = scheduler.CountSequences();
  EngineStats now = stats.totals;
  now.waiting_sequences = counts.waiting;
  now.running_sequences = counts.running;
  now.runnable_sequences = counts.runnable;
  now.awaited_masks = masks.under_way();
  now.waiting_tokens = counts.waiting_tokens;
  now.total_blocks = pool.total_blocks();
  now.used_blocks = pool.used_blocks();
  now.reserved_blocks = pool.reserved_blocks();
  now.free_blocks = pool.available_blocks();
  now.cached_blocks = std::min(pool.kept_blocks(), now.free_blocks);
  if (draft != nullptr) now.draft_used_blocks = draft->used_blocks();
  stats.Publish(now);
}

}  // namespace baton
