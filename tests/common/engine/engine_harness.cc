#include "tests/common/engine/engine_harness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>
#include <variant>

#include "common/backend/make_backend.h"
#include "common/gguf/gguf_file.h"
#include "common/model/transformer.h"
#include "tests/common/engine/test_sequences.h"

namespace baton {

namespace {

// None: the event is of all choices.
std::optional<int> ChoiceOf(const SequenceEvent& event) {
  if (const auto* produced = std::get_if<TokenProduced>(&event)) return produced->choice;
  if (const auto* preempted = std::get_if<SequencePreempted>(&event)) return preempted->choice;
  if (const auto* finished = std::get_if<SequenceFinished>(&event)) return finished->choice;
  if (const auto* failed = std::get_if<SequenceFailed>(&event)) return failed->choice;
  if (const auto* released = std::get_if<SequenceReleased>(&event)) return released->timings.choice;
  return std::nullopt;
}

std::unique_ptr<Transformer> LoadModel(const std::string& name, Backend& backend) {
  const bool is_path = name.find('/') != std::string::npos;
  const auto file = GgufFile::Open(is_path ? name : std::string(BATON_TEST_DATA) + "/tiny/" + name);
  EXPECT_TRUE(file.ok()) << file.status();
  auto model = Transformer::Load(*file, backend, [](double) {});
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

}  // namespace

std::vector<int32_t> EventLog::token_ids() const {
  std::vector<int32_t> ids;
  for (const OutputToken& token : tokens) ids.push_back(token.token_id);
  return ids;
}

EngineHarness::Options EngineHarness::SmallOptions() {
  Options options;
  options.engine = {.max_num_seqs = 8,
                    .max_num_batched_tokens = 128,
                    .max_step_duration = absl::InfiniteDuration(),
                    .block_size = 16,
                    .num_kv_blocks = 64,
                    .kv_dtype = KvType::kF32,
                    .speculation = SpeculationMode::kNone};
  return options;
}

EngineHarness::EngineHarness(const Options& options) {
  BackendOptions backend_options;
  backend_options.device = options.device;
  backend_options.deterministic = options.deterministic;
  backend_options.threads = options.threads;
  auto backend = MakeBackend(backend_options);
  EXPECT_TRUE(backend.ok()) << backend.status();
  backend_ = *std::move(backend);
  auto engine =
      Engine::Create(LoadModel(options.model, *backend_), *backend_, options.engine,
                     options.draft.empty() ? nullptr : LoadModel(options.draft, *backend_));
  EXPECT_TRUE(engine.ok()) << engine.status();
  engine_ = *std::move(engine);
}

EngineHarness::~EngineHarness() = default;

SequenceId EngineHarness::Submit(SequenceRequest request,
                                 std::function<void(const SequenceEvent&)> also) {
  const SequenceId id = engine_->NextId();
  logs_[id].resize(static_cast<size_t>(request.choices));
  const bool one = request.mode == SequenceRequest::Mode::kPrefillOnly;
  const bool local = request.mode == SequenceRequest::Mode::kLocal;
  request.on_event = [this, id, first = request.choice, one, local,
                      also = std::move(also)](const SequenceEvent& event) {
    const bool produced = std::holds_alternative<TokenProduced>(event);
    // Choices that have not parted are preempted together.
    const bool together =
        local && std::holds_alternative<SequencePreempted>(event) && log(id).tokens.empty();
    const std::optional<int> choice =
        (one && !produced) || together ? std::nullopt : ChoiceOf(event);
    if (choice) {
      Hear(log(id, *choice - first), event);
    } else {
      // For the sake of the others, where one was stopped before they parted.
      std::vector<EventLog>& all = logs(id);
      for (EventLog& each : all) {
        const bool stopped = all.size() > 1 && std::exchange(each.released, false);
        Hear(each, event);
        each.released |= stopped;
      }
    }
    if (also) also(event);
  };
  const absl::Status status = engine_->Submit(id, TestSequences::Trust(std::move(request)));
  EXPECT_TRUE(status.ok()) << status;
  return id;
}

SequenceId EngineHarness::SubmitWithNanKv(SequenceRequest request) {
  request.mode = SequenceRequest::Mode::kReceive;
  const SequenceId id = Submit(std::move(request));
  Run();
  engine_->OpenReceive(id, "");
  Run();
  const KvCache& cache = engine_->cache();
  const EventLog& granted = log(id);
  EXPECT_EQ(granted.start_token % cache.layout().block_size, 0);
  for (size_t i = static_cast<size_t>(granted.start_token / cache.layout().block_size);
       i < granted.block_table.size(); ++i) {
    auto* values = reinterpret_cast<float*>(cache.Block(granted.block_table[i]));
    std::fill(values, values + cache.layout().block_bytes() / sizeof(float), std::nanf(""));
  }
  return id;
}

void EngineHarness::Run() {
  for (int idle = 0; idle < 3;) {
    idle = engine_->Step() ? 0 : idle + 1;
    if (idle == 0 || engine_->Stats().awaited_masks == 0) continue;
    engine_->WaitForWork(absl::Seconds(1));
    idle = 0;
  }
}

EventLog EngineHarness::RunAlone(SequenceRequest request) {
  const SequenceId id = Submit(std::move(request));
  Run();
  return log(id);
}

void EngineHarness::ExpectNothingHeld() {
  const EngineStats stats = engine_->Stats();
  EXPECT_EQ(stats.used_blocks, 0);
  EXPECT_EQ(stats.reserved_blocks, 0);
  EXPECT_EQ(stats.draft_used_blocks, 0);
  EXPECT_EQ(stats.waiting_sequences, 0);
  EXPECT_EQ(stats.running_sequences, 0);
}

void EngineHarness::Hear(EventLog& log, const SequenceEvent& event) {
  EXPECT_FALSE(log.released) << "an event after SequenceReleased";
  if (std::holds_alternative<SequenceAlive>(event)) return;
  if (std::holds_alternative<SequenceReleased>(event)) {
    log.released = true;
    return;
  }
  EXPECT_FALSE(log.ended()) << "an event after the end";
  EXPECT_EQ(log.admitted, !std::holds_alternative<SequenceAdmitted>(event));
  if (std::holds_alternative<SequenceAdmitted>(event)) {
    log.admitted = true;
  } else if (const auto* granted = std::get_if<BlocksGranted>(&event)) {
    log.granted = true;
    log.block_table = granted->block_table;
    log.start_token = granted->start_token;
  } else if (std::holds_alternative<PrefillStarted>(event)) {
    EXPECT_FALSE(log.prefill_started);
    log.prefill_started = true;
  } else if (const auto* layer = std::get_if<LayerComputed>(&event)) {
    EXPECT_TRUE(log.prefill_started);
    log.layers.push_back(*layer);
    log.layers.back().block_table = {};
    log.block_table.assign(layer->block_table.begin(), layer->block_table.end());
  } else if (const auto* chunk = std::get_if<ChunkComputed>(&event)) {
    EXPECT_TRUE(log.prefill_started);
    EXPECT_TRUE(log.tokens.empty());
    log.chunk_ends.push_back(chunk->end_token);
  } else if (const auto* scored = std::get_if<PromptScored>(&event)) {
    EXPECT_TRUE(log.tokens.empty());
    EXPECT_EQ(scored->first_token, static_cast<int>(log.scores.size()) + 1);
    EXPECT_FALSE(scored->tokens.empty());
    log.scores.insert(log.scores.end(), scored->tokens.begin(), scored->tokens.end());
  } else if (const auto* produced = std::get_if<TokenProduced>(&event)) {
    if (!log.tokens.empty()) {
      EXPECT_EQ(produced->token.output_index, log.tokens.back().output_index + 1);
      EXPECT_EQ(log.tokens.back().finish_reason, FinishReason::kNone);
    }
    log.tokens.push_back(produced->token);
    log.accepted_guesses += produced->guessed ? 1 : 0;
    log.refused_guesses += produced->refused_guesses;
  } else if (std::holds_alternative<SequencePreempted>(event)) {
    ++log.preempted;
  } else if (const auto* finished = std::get_if<SequenceFinished>(&event)) {
    EXPECT_EQ(finished->preemptions, log.preempted);
    EXPECT_GE(finished->queue, absl::ZeroDuration());
    EXPECT_GE(finished->prefill, absl::ZeroDuration());
    EXPECT_GE(finished->decode, absl::ZeroDuration());
    log.finished = true;
  } else {
    log.failure = std::get<SequenceFailed>(event).status;
    EXPECT_FALSE(log.failure.ok());
  }
}

std::vector<int32_t> RandomTokens(std::mt19937& random, int count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % 256);
  return tokens;
}

SequenceRequest LocalRequest(std::vector<int32_t> token_ids, const SamplingParams& sampling) {
  SequenceRequest request;
  request.mode = SequenceRequest::Mode::kLocal;
  request.prompt_length = static_cast<int>(token_ids.size());
  request.token_ids = std::move(token_ids);
  request.sampling = sampling;
  return request;
}

void CopyKv(const KvCache& source, const std::vector<int32_t>& source_table, const KvCache& target,
            const std::vector<int32_t>& target_table, TokenRange tokens, int sequence_tokens) {
  const KvLayout& from = source.layout();
  const KvLayout& to = target.layout();
  for (int layer = 0; layer < source.layout().layers; ++layer) {
    const int first = from.groups.FirstHandedOff(from.groups.GroupOf(layer), sequence_tokens);
    for (KvLayout::Part part : {KvLayout::kKeys, KvLayout::kValues}) {
      for (int token = std::max(tokens.begin, first); token < tokens.end; ++token) {
        const uint8_t* read = source.Block(source_table[from.TableIndex(layer, token)]);
        uint8_t* write = target.Block(target_table[to.TableIndex(layer, token)]);
        const int read_at = token % from.block_size, write_at = token % to.block_size;
        std::memcpy(write + to.RowOffset(layer, part, write_at),
                    read + from.RowOffset(layer, part, read_at), from.row_bytes());
        std::memcpy(write + to.ScaleOffset(layer, part, write_at),
                    read + from.ScaleOffset(layer, part, read_at), from.scale_bytes());
      }
    }
  }
}

void ExpectChoicesAsAlone(EngineHarness& harness, SequenceId id, const SequenceRequest& request,
                          EngineHarness& plain) {
  for (int choice = 0; choice < request.choices; ++choice) {
    SequenceRequest alone = request;
    alone.choice = choice;
    alone.choices = 1;
    const EventLog& log = harness.log(id, choice);
    EXPECT_TRUE(log.finished) << log.failure;
    ExpectSameTokens(log.tokens, plain.RunAlone(alone).tokens);
  }
}

void ExpectSameTokens(const std::vector<OutputToken>& a, const std::vector<OutputToken>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].token_id, b[i].token_id) << "output " << i;
    EXPECT_EQ(a[i].output_index, b[i].output_index);
    EXPECT_EQ(a[i].finish_reason, b[i].finish_reason);
    ASSERT_EQ(a[i].logprobs.has_value(), b[i].logprobs.has_value());
    if (!a[i].logprobs) continue;
    EXPECT_EQ(std::bit_cast<uint32_t>(a[i].logprobs->logprob),
              std::bit_cast<uint32_t>(b[i].logprobs->logprob))
        << "output " << i;
    ASSERT_EQ(a[i].logprobs->top.size(), b[i].logprobs->top.size());
    for (size_t k = 0; k < a[i].logprobs->top.size(); ++k) {
      EXPECT_EQ(a[i].logprobs->top[k].token_id, b[i].logprobs->top[k].token_id);
      EXPECT_EQ(std::bit_cast<uint32_t>(a[i].logprobs->top[k].logprob),
                std::bit_cast<uint32_t>(b[i].logprobs->top[k].logprob));
    }
  }
}

}  // namespace baton
