// Two engines, of which one prefills and the other receives and audits.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/common/engine/engine_harness.h"

namespace baton {

struct AuditVariant {
  KvType dtype = KvType::kF32;
  int block_size = 16;
  int rows = 128;  // the most in a step of the engine that audits
  int steps_ahead = 0;
  const char* model = "tiny-llama-f32.gguf";  // see EngineHarness::Options
};
// A layer with a window of 16 tokens, and one without.
inline constexpr AuditVariant kWindowsVariant = {.model = BATON_TEST_DATA "/arch/gpt-oss-f16.gguf"};

inline EngineHarness::Options OptionsOf(const AuditVariant& variant) {
  EngineHarness::Options options = EngineHarness::SmallOptions();
  options.model = variant.model;
  options.engine.kv_dtype = variant.dtype;
  options.engine.block_size = variant.block_size;
  options.engine.num_kv_blocks = 2048 / variant.block_size;
  options.engine.max_num_batched_tokens = variant.rows;
  options.engine.steps_ahead = variant.steps_ahead;
  return options;
}

class AuditedPair {
 public:
  explicit AuditedPair(const AuditVariant& variant = {})
      : prefill_(OptionsOf({variant.dtype, 16, 64, 0, variant.model})),
        decode_(OptionsOf(variant)) {}

  EngineHarness& decode() { return decode_; }
  const KvLayout& layout() { return decode_.engine().cache().layout(); }
  EventLog& log(SequenceId id) { return decode_.log(id); }

  // Hands the prompt's KV over, ready for Commit: tokens first to last are in blocks of the
  // sequence's table. `budget`: of its form where it is received.
  SequenceId Receive(SequenceRequest request, const std::string& source,
                     std::optional<GrammarBudget> budget = std::nullopt) {
    request.mode = SequenceRequest::Mode::kPrefillOnly;
    const SequenceId from = prefill_.Submit(request);
    prefill_.Run();
    first_tokens_.clear();
    for (EventLog& choice : prefill_.logs(from)) first_tokens_.push_back(choice.tokens.front());
    request.mode = SequenceRequest::Mode::kReceive;
    request.kv_source = source;
    if (budget) request.grammar->SetBudget(*budget);
    const int tokens = static_cast<int>(request.token_ids.size());
    const SequenceId id = decode_.Submit(std::move(request));
    StepUntil([&] { return log(id).admitted; });
    decode_.engine().OpenReceive(id, "");
    StepUntil([&] { return log(id).granted; });
    CopyKv(prefill_.engine().cache(), prefill_.log(from).block_table, decode_.engine().cache(),
           log(id).block_table, {log(id).start_token, tokens}, tokens);
    prefill_.engine().Release(from);
    prefill_.Run();
    return id;
  }
  void Commit(SequenceId id, int block) {
    result_.reset();
    decode_.engine().Commit(id, first_tokens_, AuditOrder{block, [this](const AuditResult& result) {
                                                            EXPECT_FALSE(result_.has_value());
                                                            result_ = result;
                                                          }});
  }
  // Commits, and steps until the audit of `block` has ended.
  AuditResult Audit(SequenceId id, int block) {
    Commit(id, block);
    StepUntil([&] { return result_.has_value(); });
    return *result_;
  }
  std::vector<OutputToken>& first_tokens() { return first_tokens_; }
  // Changes one bit of the KV of `token` of a sequence that is received.
  void Flip(SequenceId id, int layer, KvLayout::Part part, int token, size_t byte) {
    const int block = log(id).block_table[layout().TableIndex(layer, token)];
    const int row = token % layout().block_size;
    const size_t in_row = layout().row_bytes();
    const size_t at = byte < in_row ? layout().RowOffset(layer, part, row) + byte
                                    : layout().ScaleOffset(layer, part, row) + byte - in_row;
    decode_.engine().cache().Block(block)[at] ^= 0x10;
  }

 private:
  template <typename Condition>
  void StepUntil(Condition done) {
    for (int steps = 0; !done(); ++steps) {
      ASSERT_LT(steps, 10'000);
      decode_.engine().Step();
    }
  }

  EngineHarness prefill_;
  EngineHarness decode_;
  std::vector<OutputToken> first_tokens_;  // by choice, those of the sequence received last
  std::optional<AuditResult> result_;
};

inline SequenceRequest RandomRequest(std::mt19937& random, int tokens) {
  return LocalRequest(RandomTokens(random, tokens),
                      {.temperature = 0.9f, .max_tokens = 3, .seed = random(), .ignore_eos = true});
}

// The prompt goes on with these tokens.
inline void Append(SequenceRequest& request, const std::vector<int32_t>& tokens) {
  request.token_ids.insert(request.token_ids.end(), tokens.begin(), tokens.end());
  request.prompt_length = static_cast<int>(request.token_ids.size());
}

}  // namespace baton
