#include "common/engine/engine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/backend/device_copies.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/base/status_macros.h"
#include "common/engine/engine_rep.h"
#include "common/engine/largest_step.h"
#include "common/engine/page_crcs.h"

namespace baton {
namespace {

using Mode = SequenceRequest::Mode;

EngineOptions FillDefaults(EngineOptions options, const ModelConfig& config,
                           const Backend& backend) {
  if (options.max_model_len == 0) {
    const int64_t stored = int64_t{options.num_kv_blocks} * options.block_size;
    options.max_model_len = static_cast<int>(std::min<int64_t>(config.context_length, stored));
  }
  std::sort(options.end_of_generation_ids.begin(), options.end_of_generation_ids.end());
  options.steps_ahead = options.steps_ahead.value_or(backend.steps_ahead());
  BATON_CHECK(*options.steps_ahead == 0 || *options.steps_ahead == 1,
              "a sequence has at most one pending output when a step is chosen");
  return options;
}

}  // namespace

absl::Status CheckEngineOptions(const EngineOptions& options, const ModelConfig& config) {
  const auto refuse = [](const auto&... parts) {
    return absl::InvalidArgumentError(absl::StrCat(parts...));
  };
  if (options.block_size < kKvPageTokens || options.block_size % kKvPageTokens != 0) {
    return refuse("--block-size: must be a multiple of ", kKvPageTokens, ", not ",
                  options.block_size);
  }
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

Engine::Rep::Rep(const EngineOptions& engine_options, std::unique_ptr<Transformer> transformer,
                 std::unique_ptr<KvCache> kv_cache, std::unique_ptr<StepSampler> step_sampler,
                 std::unique_ptr<PassRecordings> pass_recordings)
    : options(engine_options),
      model(std::move(transformer)),
      cache(std::move(kv_cache)),
      sampler(std::move(step_sampler)),
      recordings(std::move(pass_recordings)),
      pool(options.num_kv_blocks),
      prefix_cache(options.prefix_identity, options.block_size, pool),
      scheduler({.max_num_seqs = options.max_num_seqs,
                 .block_size = options.block_size,
                 .max_model_len = options.max_model_len,
                 .retained = {.lifetime = options.resume_timeout}},
                pool, options.enable_prefix_caching ? &prefix_cache : nullptr),
      mailbox(options.max_waiting),
      sizer(options.max_num_batched_tokens, options.max_step_duration) {}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(std::unique_ptr<Transformer> model,
                                                       Backend& backend,
                                                       const EngineOptions& options) {
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
  auto rep = std::make_unique<Rep>(filled, std::move(model), std::move(cache), std::move(sampler),
                                   std::move(recordings));
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
          .total_blocks = rep_->options.num_kv_blocks};
}
const ModelConfig& Engine::model_config() const { return rep_->model->config(); }
KvCache& Engine::cache() { return *rep_->cache; }
uint32_t Engine::BlockGeneration(int32_t block) const { return rep_->pool.generation(block); }
const PrefixPages& Engine::prefix_pages() const { return rep_->prefix_cache.pages(); }
SequenceId Engine::NextId() { return ++rep_->last_id; }

absl::Status Engine::Submit(SequenceId id, SequenceRequest request) {
  BATON_CHECK(IsWellFormed(request, limits()), "whoever makes a request checks it");
  if (const auto misfit = FindMisfit(request, limits())) {
    return absl::InvalidArgumentError(absl::StrCat(misfit->field, ": ", misfit->description));
  }
  return rep_->mailbox.Submit({id, std::move(request), SteadyNow()});
}

void Engine::OpenReceive(SequenceId id, std::string kv_numerics) {
  rep_->mailbox.OpenReceive(id, std::move(kv_numerics));
}
void Engine::Commit(SequenceId id, std::vector<OutputToken> first_tokens) {
  rep_->mailbox.Commit(id, std::move(first_tokens));
}
void Engine::SetPaused(SequenceId id, bool paused) { rep_->mailbox.SetPaused(id, paused); }
void Engine::Stop(SequenceId id, int choice) { rep_->mailbox.Stop(id, choice); }
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

void Engine::Rep::TakeCommands() {
  scheduler.ForgetExpired(SteadyNow());
  Mailbox::Contents contents = mailbox.Take();
  for (Mailbox::Submission& submission : contents.submissions) {
    BATON_FAILPOINT("engine.before_add");
    scheduler.Add(submission.id, std::move(submission.request)).ready = submission.submitted;
  }
  for (auto& [id, control] : contents.controls) Obey(id, control);
}

void Engine::Rep::Obey(SequenceId id, Mailbox::Control& control) {
  std::vector<Sequence*> choices = scheduler.Choices(id);
  if (choices.empty()) return;
  const bool ends = control.release || !control.stop.empty();
  if (ends && std::any_of(choices.begin(), choices.end(),
                          [this](Sequence* choice) { return scheduler.InFlight(*choice); })) {
    ApplyUntil(0);  // this may end some choices
    choices = scheduler.Choices(id);
  }
  if (control.release) {
    for (Sequence* choice : choices) Release(*choice, control.resume_tokens);
    return;
  }
  for (Sequence* choice : choices) choice->paused = control.paused.value_or(choice->paused);
  if (control.open_receive) {
    BATON_FAILPOINT("engine.before_grant");
    Sequence& sequence = *choices.front();
    scheduler.OpenReceive(sequence, *std::move(control.open_receive));
    Tell(sequence,
         BlocksGranted{.block_table = sequence.block_table, .start_token = sequence.cached_tokens});
  }
  if (control.commit) CommitFirstTokens(*choices.front(), *control.commit);
  for (const int choice : control.stop) Stop(id, choice);
}

void Engine::Rep::Stop(SequenceId id, int choice) {
  for (Sequence* sequence : scheduler.Choices(id)) {
    const auto& has = sequence->choices;
    if (std::find(has.begin(), has.end(), choice) == has.end()) continue;
    if (!sequence->forks()) return Release(*sequence, std::nullopt);
    scheduler.DropChoice(*sequence, choice);
    SequenceReleased released = {TimingsUntil(SteadyNow(), *sequence)};
    released.timings.choice = choice;
    return Tell(*sequence, released);
  }
}

void Engine::Rep::Release(Sequence& sequence, std::optional<int> resume_tokens) {
  if (!sequence.admitted) mailbox.Admitted();
  if (resume_tokens) scheduler.Retain(sequence, *resume_tokens, SteadyNow());
  RemoveAndTell(sequence, SequenceReleased{TimingsUntil(SteadyNow(), sequence)});
}

absl::Status Engine::Rep::CheckFirstTokens(const Sequence& sequence,
                                           const std::vector<OutputToken>& tokens) const {
  const auto choices = static_cast<size_t>(sequence.request.choices);
  if (tokens.size() != choices) {
    return absl::InvalidArgumentError(absl::StrCat(
        "transfer: ", tokens.size(), " tokens cannot be committed for ", choices, " choices"));
  }
  const int output_index = sequence.output_count();
  for (const OutputToken& token : tokens) {
    if (token.token_id >= 0 && token.token_id < model->config().vocab_size &&
        token.output_index == output_index) {
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("transfer: token ", token.token_id, " at output ", token.output_index,
                     " cannot be committed as output ", output_index));
  }
  return absl::OkStatus();
}

void Engine::Rep::CommitFirstTokens(Sequence& sequence, const std::vector<OutputToken>& tokens) {
  if (absl::Status status = CheckFirstTokens(sequence, tokens); !status.ok()) {
    return Fail(sequence, std::move(status));
  }
  const int first_choice = sequence.request.choice;
  const auto of = [&](int choice) -> const OutputToken& {
    return tokens[static_cast<size_t>(choice - first_choice)];
  };
  BATON_FAILPOINT("engine.before_commit");
  sequence.ready = SteadyNow();
  std::vector<int32_t> token_ids;
  for (const int choice : sequence.choices) token_ids.push_back(of(choice).token_id);
  for (Sequence* choice : scheduler.Commit(sequence, token_ids)) {
    const OutputToken& token = of(choice->choice());
    const bool ends = token.finish_reason != FinishReason::kNone ||
                      FinishReasonOf(*choice, token) != FinishReason::kNone;
    if (ends) Finish(*choice);
  }
  BATON_FAILPOINT("engine.committed");
}

void Engine::Rep::LayerDone(const Schedule& schedule, int layer) {
  progress.fetch_add(1, std::memory_order_relaxed);
  BATON_FAILPOINT("engine.layer_done");
  uint64_t mark = 0;  // made where a peer copies this layer from the device's memory
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

void Engine::Rep::PublishStats() {
  prefix_cache.pages().Publish();
  const Scheduler::Counts counts = scheduler.CountSequences();
  EngineStats now = totals;
  now.waiting_sequences = counts.waiting;
  now.running_sequences = counts.running;
  now.runnable_sequences = counts.runnable;
  now.waiting_tokens = counts.waiting_tokens;
  now.total_blocks = pool.total_blocks();
  now.used_blocks = pool.used_blocks();
  now.reserved_blocks = pool.reserved_blocks();
  now.free_blocks = pool.available_blocks();
  now.cached_blocks = std::min(pool.kept_blocks(), now.free_blocks);
  const std::lock_guard lock(stats_mutex);
  stats = now;
}

}  // namespace baton
