// Recomputes blocks of KV that were received, and compares: equal numerics give equal bits.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/backend/sampling_params.h"
#include "common/engine/audit_order.h"
#include "common/engine/block_ledger.h"
#include "common/engine/schedule.h"
#include "common/engine/sequence.h"
#include "common/kv/cache.h"

namespace baton {

// Audits one block at a time. A hidden sequence shares the blocks before the audited one and
// computes the block's tokens once more, into a block of its own. If the blocks before are right,
// and the bytes are equal, the block is right. The block that holds the prompt's end also gives the
// first token of each choice, which is compared too if the step has room to sample it.
//
// The blocks before may come from others. Then a mismatch shows only that one of them is wrong, so
// the blocks are compared from the sequence's begin on: the first that differs is the wrong one.
// Each is computed from what proved to be equal so far. What the sequence did not receive, behind
// the windows of its layers, is computed from the tokens too. So who is found wrong is so, whatever
// others pushed before it; the blocks that this takes are reserved when the audit begins.
//
// The hidden sequence is in no table. It is of kPrefillOnly, whose steps are done before the next
// is chosen, so between steps nothing is in flight.
//
// Thread rule: one thread, the engine's. Borrows the cache, the pool and the ledger.
class BlockAuditor {
 public:
  struct Options {
    int most_rows = 0;     // rows of a step
    int most_samples = 0;  // tokens that a step samples
  };
  // REQUIRES: the host can read the cache, or Begin is not called.
  BlockAuditor(const Options& options, KvCache& cache, BlockPool& pool, const BlockLedger& ledger);

  // `sequence` has committed `first_tokens`, one for each choice that it was asked for. If an
  // audit is under way already, too few blocks are free (to find out who is to blame, too), or the
  // sequence did not receive all that the block's tokens see, this one is skipped at once. `id`
  // names the hidden sequence. REQUIRES: order.block is a span of the tokens before first_tokens.
  void Begin(SequenceId id, const Sequence& sequence, const std::vector<OutputToken>& first_tokens,
             AuditOrder order);
  // The rows that the audit asks of the next step, at most kChunkTokens; 0: none is under way.
  int rows() const;
  // Adds these rows if the step has room for them and runs no isolated sequence.
  void AddTo(Schedule& schedule);
  bool Has(const Sequence& sequence) const {
    return audit_.has_value() && audit_->hidden.get() == &sequence;
  }
  // The step that computed `scheduled`, of the hidden sequence, is done; it sampled `tokens`.
  void Computed(const ScheduledTokens& scheduled,
                absl::Span<const absl::StatusOr<OutputToken>> tokens);
  // Skips an audit that has found nothing so far, because a sequence lacks a block.
  void GiveWay();

 private:
  // A block of the audited sequence; empty if it did not receive that one.
  struct Received {
    BlockPool::Block block{};
    std::string source{};  // BlockSources::Of, before the sequence goes on in the block itself
  };
  struct Audit {
    SequenceId id = 0;
    AuditOrder order;
    SequenceRequest request;                  // what the hidden sequence computes, all tokens
    std::vector<OutputToken> first_tokens{};  // by choice
    // Spans [0, order.block] of the sequence's blocks; flat, as in SequenceBlocks. While the blocks
    // are compared, those before `block` that did not come whole are ours, as far as they are seen.
    std::vector<Received> received{};
    BlockPool::Reservation reservation{};   // OwnBlocks() less those that were taken
    std::vector<BlockPool::Block> spare{};  // taken and not in use
    int block = 0;                          // the span that is computed now
    std::unique_ptr<Sequence> hidden{};
    std::optional<AuditResult> found{};  // order.block is wrong; those before it are being compared
  };

  size_t Entry(int block, int group) const;
  bool MayCompute(int block) const;
  bool AllFromPusher() const;
  int FirstReceived(int group) const;
  int OwnBlocks() const;
  void Compute(int block);
  void TakeBack(bool right);
  bool EndsPrompt(const Audit& audit) const;
  std::optional<AuditResult> FindDifference() const;
  bool SamePage(int32_t a, int32_t b, int layer, int page_in_block, int tokens) const;
  void End(const AuditResult& result);

  const Options options_;
  KvCache& cache_;
  BlockPool& pool_;
  const BlockLedger& ledger_;
  std::optional<Audit> audit_;
};

}  // namespace baton
