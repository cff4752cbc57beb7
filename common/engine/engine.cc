#include "common/engine/engine.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/backend/device_copies.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/engine/largest_step.h"
#include "common/engine/mailbox.h"
#include "common/engine/page_crcs.h"
#include "common/engine/rate_meter.h"
#include "common/engine/request_check.h"
#include "common/engine/sampler.h"
#include "common/engine/scheduler.h"
#include "common/engine/step_sizer.h"

namespace baton {
namespace {

using Mode = SequenceRequest::Mode;

absl::Status CheckOptions(const EngineOptions& options, const ModelConfig& config) {
  const auto refuse = [](const auto&... parts) {
    return absl::InvalidArgumentError(absl::StrCat(parts...));
  };
  if (options.block_size < kKvPageTokens || options.block_size % kKvPageTokens != 0) {
    return refuse("--block-size: must be a multiple of ", kKvPageTokens, ", not ",
                  options.block_size);
  }
  if (options.num_kv_blocks < 1) return refuse("--num-kv-blocks: there must be at least one block");
  if (options.max_num_seqs < 1) return refuse("--max-num-seqs: must be positive");
  if (options.max_waiting < 1) return refuse("max_waiting: must be positive");
  if (options.max_num_batched_tokens < kChunkTokens) {
    return refuse("--max-num-batched-tokens: must be at least ", kChunkTokens, ", not ",
                  options.max_num_batched_tokens);
  }
  if (options.max_model_len < 0 || options.max_model_len > config.context_length) {
    return refuse("--max-model-len: must be in [1, ", config.context_length,
                  "], the model's context, not ", options.max_model_len);
  }
  for (int32_t id : options.end_of_generation_ids) {
    if (id < 0 || id >= config.vocab_size) {
      return refuse("tokenizer: end token ", id, " is outside the model's vocabulary of ",
                    config.vocab_size);
    }
  }
  return absl::OkStatus();
}

EngineOptions FillDefaults(EngineOptions options, const ModelConfig& config) {
  if (options.max_model_len == 0) {
    const int64_t stored = int64_t{options.num_kv_blocks} * options.block_size;
    options.max_model_len = static_cast<int>(std::min<int64_t>(config.context_length, stored));
  }
  std::sort(options.end_of_generation_ids.begin(), options.end_of_generation_ids.end());
  return options;
}

SequenceFinished TimingsUntil(absl::Time now, const Sequence& sequence) {
  const absl::Time first_step = sequence.first_step.value_or(now);
  return {
      .queue = first_step - sequence.ready,
      .prefill = sequence.prefill_end.value_or(first_step) - first_step,
      .decode = now - sequence.first_decode.value_or(now),
      .preemptions = sequence.preemptions,
  };
}

}  // namespace

// What a step runs over. The functions are the engine's thread's, but for those of the mailbox.
struct Engine::Rep {
  Rep(const EngineOptions& engine_options, std::unique_ptr<Transformer> transformer,
      std::unique_ptr<KvCache> kv_cache)
      : options(engine_options),
        model(std::move(transformer)),
        cache(std::move(kv_cache)),
        pool(options.num_kv_blocks),
        prefix_cache(options.prefix_identity, options.block_size, pool),
        scheduler({.max_num_seqs = options.max_num_seqs,
                   .block_size = options.block_size,
                   .retained = {.lifetime = options.resume_timeout}},
                  pool, options.enable_prefix_caching ? &prefix_cache : nullptr),
        sampler(model->config().vocab_size, options.end_of_generation_ids),
        mailbox(options.max_waiting),
        sizer(options.max_num_batched_tokens, options.max_step_duration) {}

  void TakeCommands();
  void Obey(SequenceId id, Mailbox::Control& control);
  void CommitFirstToken(Sequence& sequence, const OutputToken& token);
  void Announce(const Schedule& schedule);
  void Compute(const Schedule& schedule);
  void LayerDone(const Schedule& schedule, int layer);
  void Apply(const Schedule& schedule);
  void Produce(Sequence& sequence, absl::Span<const float> logits);
  void Finish(Sequence& sequence);
  void Fail(Sequence& sequence, absl::Status status);
  void PublishStats();

  static void Tell(const Sequence& sequence, const SequenceEvent& event) {
    if (sequence.request.on_event) sequence.request.on_event(event);
  }

  const EngineOptions options;
  const std::unique_ptr<Transformer> model;
  const std::unique_ptr<KvCache> cache;
  BlockPool pool;
  PrefixCache prefix_cache;
  Scheduler scheduler;
  Sampler sampler;
  Mailbox mailbox;
  StepSizer sizer;
  std::vector<float> logits;  // [rows that produce a token, vocab_size]

  std::atomic<uint64_t> last_id = 0;
  std::atomic<uint64_t> progress = 0;
  EngineStats totals;              // its counters; the engine's thread
  mutable std::mutex stats_mutex;  // guards what follows
  EngineStats stats;
  mutable RateMeter rate;
};

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(std::unique_ptr<Transformer> model,
                                                       Backend& backend,
                                                       const EngineOptions& options) {
  BATON_RETURN_IF_ERROR(CheckOptions(options, model->config()));
  const EngineOptions filled = FillDefaults(options, model->config());
  BATON_RETURN_IF_ERROR(model->Reserve(LargestStepRows(filled)));
  const KvLayout layout = model->MakeKvLayout(filled.block_size, filled.kv_dtype);
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<KvCache> cache,
                         KvCache::Create(backend, layout, filled.num_kv_blocks));
  auto rep = std::make_unique<Rep>(filled, std::move(model), std::move(cache));
  rep->PublishStats();
  return std::unique_ptr<Engine>(new Engine(std::move(rep)));
}

Engine::Engine(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
Engine::~Engine() = default;

const EngineOptions& Engine::options() const { return rep_->options; }
const ModelConfig& Engine::model_config() const { return rep_->model->config(); }
KvCache& Engine::cache() { return *rep_->cache; }
uint32_t Engine::BlockGeneration(int32_t block) const { return rep_->pool.generation(block); }
SequenceId Engine::NextId() { return ++rep_->last_id; }

absl::Status Engine::Submit(SequenceId id, SequenceRequest request) {
  const EngineLimits limits = {.vocab_size = rep_->model->config().vocab_size,
                               .max_model_len = rep_->options.max_model_len,
                               .block_size = rep_->options.block_size,
                               .total_blocks = rep_->options.num_kv_blocks};
  BATON_RETURN_IF_ERROR(CheckRequest(request, limits));
  return rep_->mailbox.Submit({id, std::move(request), SteadyNow()});
}

void Engine::OpenReceive(SequenceId id, std::string kv_numerics) {
  rep_->mailbox.OpenReceive(id, std::move(kv_numerics));
}
void Engine::Commit(SequenceId id, OutputToken first_token) {
  rep_->mailbox.Commit(id, std::move(first_token));
}
void Engine::SetPaused(SequenceId id, bool paused) { rep_->mailbox.SetPaused(id, paused); }
void Engine::Release(SequenceId id, std::optional<int> resume_tokens) {
  rep_->mailbox.Release(id, resume_tokens);
}
void Engine::WaitForWork(absl::Duration timeout) {
  const absl::Duration expiry = rep_->scheduler.NextExpiry() - SteadyNow();
  rep_->mailbox.Wait(std::clamp(expiry, absl::ZeroDuration(), timeout));
}
void Engine::Wake() { rep_->mailbox.Wake(); }

EngineStats Engine::Stats() const {
  const int submissions = rep_->mailbox.submissions();
  const std::lock_guard lock(rep_->stats_mutex);
  EngineStats stats = rep_->stats;
  stats.progress = rep_->progress.load(std::memory_order_relaxed);
  stats.waiting_sequences += submissions;
  stats.tokens_per_second = rep_->rate.PerSecond(SteadyNow());
  return stats;
}

bool Engine::Step() {
  rep_->TakeCommands();
  const Schedule schedule = rep_->scheduler.Next(rep_->sizer.rows());
  rep_->Announce(schedule);
  rep_->PublishStats();
  if (schedule.batch.empty()) return !schedule.preempted.empty();
  rep_->Compute(schedule);
  rep_->Apply(schedule);
  rep_->PublishStats();
  return true;
}

void Engine::Rep::TakeCommands() {
  scheduler.ForgetExpired(SteadyNow());
  Mailbox::Contents contents = mailbox.Take();
  for (Mailbox::Submission& submission : contents.submissions) {
    scheduler.Add(submission.id, std::move(submission.request)).ready = submission.submitted;
  }
  for (auto& [id, control] : contents.controls) Obey(id, control);
}

void Engine::Rep::Obey(SequenceId id, Mailbox::Control& control) {
  Sequence* sequence = scheduler.Find(id);
  if (sequence == nullptr) return;
  if (control.release) {
    const auto on_event = std::move(sequence->request.on_event);
    const SequenceReleased released = {TimingsUntil(SteadyNow(), *sequence)};
    if (!sequence->admitted) mailbox.Admitted();
    if (control.resume_tokens) {
      scheduler.Retain(*sequence, *control.resume_tokens, SteadyNow());
    }
    scheduler.Remove(*sequence);
    mailbox.Ended(id);
    if (on_event) on_event(released);
    return;
  }
  if (control.paused) sequence->paused = *control.paused;
  if (control.open_receive) {
    scheduler.OpenReceive(*sequence, *std::move(control.open_receive));
    Tell(*sequence, BlocksGranted{.block_table = sequence->block_table,
                                  .start_token = sequence->cached_tokens});
  }
  if (control.commit) CommitFirstToken(*sequence, *control.commit);
}

void Engine::Rep::CommitFirstToken(Sequence& sequence, const OutputToken& token) {
  const int output_index = sequence.output_count();
  if (token.token_id < 0 || token.token_id >= model->config().vocab_size ||
      token.output_index != output_index) {
    return Fail(sequence, absl::InvalidArgumentError(absl::StrCat(
                              "transfer: token ", token.token_id, " at output ", token.output_index,
                              " cannot be committed as output ", output_index)));
  }
  scheduler.Commit(sequence, token.token_id);
  sequence.ready = SteadyNow();
  const bool ends = token.finish_reason != FinishReason::kNone ||
                    sampler.FinishReasonOf(token, sequence.request.sampling, sequence.token_count(),
                                           options.max_model_len) != FinishReason::kNone;
  if (ends) Finish(sequence);
}

void Engine::Rep::Announce(const Schedule& schedule) {
  for (const Sequence* sequence : schedule.preempted) {
    ++totals.preemptions;
    Tell(*sequence, SequencePreempted{});
  }
  for (const Sequence* sequence : schedule.admitted) {
    mailbox.Admitted();
    Tell(*sequence, SequenceAdmitted{.cached_tokens = sequence->cached_tokens});
  }
  const absl::Time now = SteadyNow();
  for (const ScheduledTokens& scheduled : schedule.batch) {
    Sequence& sequence = *scheduled.sequence;
    const bool decodes = scheduled.first_token >= sequence.prefill_tokens;
    if (decodes && !sequence.first_decode) sequence.first_decode = now;
    if (sequence.first_step) continue;
    sequence.first_step = now;
    if (!decodes) Tell(sequence, PrefillStarted{.cached_tokens = sequence.cached_tokens});
  }
}

void Engine::Rep::Compute(const Schedule& schedule) {
  Batch batch;
  for (const ScheduledTokens& scheduled : schedule.batch) {
    const Sequence& sequence = *scheduled.sequence;
    batch.sequences.push_back({.first_row = batch.rows(),
                               .row_count = scheduled.token_count,
                               .first_position = scheduled.first_token,
                               .block_table = sequence.block_table});
    const auto first = sequence.token_ids.begin() + scheduled.first_token;
    batch.token_ids.insert(batch.token_ids.end(), first, first + scheduled.token_count);
    if (scheduled.produces_token()) batch.logits_rows.push_back(batch.rows() - 1);
  }
  logits.resize(batch.logits_rows.size() * static_cast<size_t>(model->config().vocab_size));
  const absl::Time start = SteadyNow();
  model->Forward(
      batch, *cache, [&](int layer) { LayerDone(schedule, layer); }, absl::MakeSpan(logits));
  const absl::Time end = SteadyNow();
  sizer.Observe(batch.rows(), end - start);
  const std::lock_guard lock(stats_mutex);
  rate.Add(end, batch.rows());
}

void Engine::Rep::LayerDone(const Schedule& schedule, int layer) {
  progress.fetch_add(1, std::memory_order_relaxed);
  uint64_t mark = 0;  // of the layer, where somebody may copy it from the device's memory
  for (const ScheduledTokens& scheduled : schedule.batch) {
    const Sequence& sequence = *scheduled.sequence;
    StorePageCrcs(*cache, sequence.block_table, layer, scheduled.first_token,
                  scheduled.end_token());
    if (sequence.request.mode != Mode::kPrefillOnly) continue;
    if (mark == 0 && !cache->host_memory()) mark = cache->device_copies()->Mark();
    Tell(sequence, LayerComputed{.layer = layer,
                                 .first_token = scheduled.first_token,
                                 .token_count = scheduled.token_count,
                                 .block_table = sequence.block_table,
                                 .copies_after = mark});
  }
}

void Engine::Rep::Apply(const Schedule& schedule) {
  const auto vocab_size = static_cast<size_t>(model->config().vocab_size);
  size_t logits_row = 0;
  for (const ScheduledTokens& scheduled : schedule.batch) {
    Sequence& sequence = *scheduled.sequence;
    const bool produces = scheduled.produces_token();
    scheduler.MarkComputed(sequence, scheduled.end_token());
    if (scheduled.first_token < sequence.prefill_tokens) {
      totals.prompt_tokens_computed += static_cast<uint64_t>(scheduled.token_count);
      if (scheduled.first_token == sequence.cached_tokens) {
        totals.prompt_tokens_cached += static_cast<uint64_t>(sequence.cached_tokens);
      }
      if (!sequence.prefill_end && !sequence.committed) {
        if (produces) sequence.prefill_end = SteadyNow();
        Tell(sequence, ChunkComputed{.end_token = scheduled.end_token()});
      }
    }
    if (produces) {
      Produce(sequence, absl::MakeSpan(logits).subspan(logits_row++ * vocab_size, vocab_size));
    }
  }
}

void Engine::Rep::Produce(Sequence& sequence, absl::Span<const float> row) {
  absl::StatusOr<OutputToken> token =
      sampler.Choose(row, {.sampling = sequence.request.sampling,
                           .counts = sequence.counts,
                           .choice = sequence.request.choice,
                           .output_index = sequence.output_count()});
  if (!token.ok()) return Fail(sequence, token.status());
  token->finish_reason = sampler.FinishReasonOf(*token, sequence.request.sampling,
                                                sequence.token_count() + 1, options.max_model_len);
  ++totals.generated_tokens;
  const bool ends = token->finish_reason != FinishReason::kNone;
  if (sequence.request.mode != Mode::kPrefillOnly) {
    sequence.token_ids.push_back(token->token_id);
    sequence.counts.AddOutput(token->token_id);
  }
  Tell(sequence, TokenProduced{*std::move(token)});
  if (ends || sequence.request.mode == Mode::kPrefillOnly) Finish(sequence);
}

void Engine::Rep::Finish(Sequence& sequence) {
  const SequenceFinished finished = TimingsUntil(SteadyNow(), sequence);
  if (sequence.request.mode == Mode::kPrefillOnly) {
    scheduler.Hold(sequence);
    return Tell(sequence, finished);
  }
  const auto on_event = std::move(sequence.request.on_event);
  mailbox.Ended(sequence.id);
  scheduler.Remove(sequence);
  if (on_event) on_event(finished);
}

void Engine::Rep::Fail(Sequence& sequence, absl::Status status) {
  scheduler.ForgetBlocks(sequence);
  const SequenceFailed failed = {std::move(status)};
  if (sequence.request.mode == Mode::kPrefillOnly) {
    scheduler.Hold(sequence);
    return Tell(sequence, failed);
  }
  const auto on_event = std::move(sequence.request.on_event);
  mailbox.Ended(sequence.id);
  scheduler.Remove(sequence);
  if (on_event) on_event(failed);
}

void Engine::Rep::PublishStats() {
  const Scheduler::Counts counts = scheduler.CountSequences();
  EngineStats now = totals;
  now.waiting_sequences = counts.waiting;
  now.running_sequences = counts.running;
  now.runnable_sequences = counts.runnable;
  now.waiting_tokens = counts.waiting_tokens;
  now.total_blocks = pool.total_blocks();
  now.used_blocks = pool.used_blocks();
  now.promised_blocks = pool.promised_blocks();
  now.free_blocks = pool.available_blocks();
  now.cached_blocks = std::min(pool.kept_blocks(), now.free_blocks);
  const std::lock_guard lock(stats_mutex);
  stats = now;
}

}  // namespace baton
