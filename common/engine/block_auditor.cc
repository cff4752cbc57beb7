#include "common/engine/block_auditor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "common/kv/token_range.h"

namespace baton {

using Outcome = AuditResult::Outcome;

BlockAuditor::BlockAuditor(const Options& options, KvCache& cache, BlockPool& pool,
                           const BlockLedger& ledger)
    : options_(options), cache_(cache), pool_(pool), ledger_(ledger) {}

void BlockAuditor::Begin(SequenceId id, const Sequence& sequence,
                         const std::vector<OutputToken>& first_tokens, AuditOrder order) {
  if (audit_.has_value() || sequence.request.isolate) return order.done({});
  BATON_CHECK(cache_.host_memory(), "pages that the host can compare");
  Audit audit{.id = id, .order = std::move(order), .request = sequence.request};
  audit.request.mode = SequenceRequest::Mode::kPrefillOnly;
  audit.request.sampling.prompt_logprobs.reset();
  audit.request.on_event = nullptr;
  audit.request.token_ids.assign(sequence.tokens.ids.begin(), sequence.tokens.ids.end() - 1);
  audit.request.grammar = sequence.tokens.grammar;
  if (audit.request.grammar) audit.request.grammar->Rollback(1);
  audit.first_tokens = first_tokens;
  const auto entries =
      static_cast<size_t>((audit.order.block + 1) * cache_.layout().groups.count());
  for (size_t entry = 0; entry < entries; ++entry) {
    const BlockPool::Block& block = sequence.blocks.held[entry];
    audit.received.push_back(block.empty() ? BlockPool::Block() : block.Share());
  }
  audit_ = std::move(audit);
  if (!MayCompute(audit_->order.block) || !Compute(audit_->order.block)) End({});
}

// A block of the audited sequence; empty where it did not receive that one.
const BlockPool::Block& BlockAuditor::Received(int block, int group) const {
  return audit_->received[static_cast<size_t>(block * cache_.layout().groups.count() + group)];
}

// Whether the sequence received all that the block's tokens see, and the block itself.
bool BlockAuditor::MayCompute(int block) const {
  const KvLayout& layout = cache_.layout();
  for (int group = 0; group < layout.groups.count(); ++group) {
    const int first = layout.groups.FirstSeen(group, block * layout.block_size) / layout.block_size;
    for (int seen = first; seen <= block; ++seen) {
      if (Received(seen, group).empty()) return false;
    }
  }
  return true;
}

// Makes the hidden sequence that computes `block`. False where too few blocks are free for it.
bool BlockAuditor::Compute(int block) {
  Audit& audit = *audit_;
  audit.hidden.reset();  // gives its blocks back
  const int groups = cache_.layout().groups.count();
  if (pool_.available_blocks() < groups) return false;
  const int block_size = cache_.layout().block_size;
  SequenceRequest request = audit.request;
  const size_t end = static_cast<size_t>(block + 1) * static_cast<size_t>(block_size);
  request.token_ids.resize(std::min(end, request.token_ids.size()));
  const int most = static_cast<int>(audit.request.token_ids.size()) + 1;
  audit.block = block;
  audit.hidden = std::make_unique<Sequence>(audit.id, 0, std::move(request), most);
  Sequence& hidden = *audit.hidden;
  for (int entry = 0; entry < block * groups; ++entry) {
    const BlockPool::Block& before = audit.received[static_cast<size_t>(entry)];
    hidden.blocks.Add(before.empty() ? BlockPool::Block() : before.Share());
  }
  for (int group = 0; group < groups; ++group) hidden.blocks.Add(*pool_.TryAllocate());
  hidden.kv.computed_tokens = block * block_size;
  hidden.kv.vouched = false;
  hidden.Enter(Sequence::State::kRunning);
  return true;
}

int BlockAuditor::rows() const {
  return audit_.has_value() ? std::min(audit_->hidden->uncomputed_tokens(), kChunkTokens) : 0;
}

bool BlockAuditor::EndsPrompt(const Audit& audit) const {
  return audit.hidden->tokens.ids.size() == audit.request.token_ids.size();
}

void BlockAuditor::AddTo(Schedule& schedule) {
  if (!audit_.has_value()) return;
  int room = options_.most_rows;
  size_t samples = audit_->hidden->choices.size();
  for (const ScheduledTokens& scheduled : schedule.batch) {
    if (scheduled.sequence->request.isolate) return;
    room -= scheduled.token_count;
    if (scheduled.produces_token) samples += scheduled.sequence->choices.size();
  }
  Sequence& hidden = *audit_->hidden;
  const int begin = hidden.kv.computed_tokens;
  int end = begin + std::min(rows(), room);
  if (end < hidden.tokens.count()) end -= end % kChunkTokens;
  if (end <= begin) return;
  const bool produces_token = end == hidden.tokens.count() && EndsPrompt(*audit_) &&
                              samples <= static_cast<size_t>(options_.most_samples);
  schedule.batch.push_back({&hidden, begin, end - begin, produces_token});
}

void BlockAuditor::Computed(const ScheduledTokens& scheduled,
                            absl::Span<const absl::StatusOr<OutputToken>> tokens) {
  Audit& audit = *audit_;
  if (scheduled.end_token() < audit.hidden->tokens.count()) return;
  std::optional<AuditResult> wrong = FindDifference();
  for (size_t i = 0; !wrong && !audit.found && i < tokens.size(); ++i) {
    if (tokens[i].ok() && tokens[i]->token_id == audit.first_tokens[i].token_id) continue;
    wrong = {.outcome = Outcome::kMismatch, .block = audit.block, .wrong_token = true};
  }
  if (wrong) wrong->source = ledger_.sources().Of(Received(audit.block, 0));
  if (!wrong && !audit.found) return End({.outcome = Outcome::kMatch});
  if (audit.found ? wrong.has_value() : OneSource()) return End(*std::move(wrong));
  int next = audit.found ? audit.block + 1 : 0;
  if (!audit.found) audit.found = std::move(wrong);
  while (next < audit.order.block && !MayCompute(next)) ++next;
  if (next == audit.order.block) return End(*std::move(audit.found));
  // The blocks that the last one gave back are free.
  BATON_CHECK(Compute(next), "blocks are free");
}

// All blocks up to the audited one were received from who pushed that one.
bool BlockAuditor::OneSource() const {
  const std::vector<BlockPool::Block>& received = audit_->received;
  return std::all_of(received.begin(), received.end(), [&](const BlockPool::Block& block) {
    return block.empty() || ledger_.sources().Of(block) == ledger_.sources().Of(received.back());
  });
}

// The first page whose bytes differ, in the first layer in which they do.
std::optional<AuditResult> BlockAuditor::FindDifference() const {
  const Audit& audit = *audit_;
  const int begin = audit.block * cache_.layout().block_size;
  for (const TokenRange& page : PagesOf({begin, audit.hidden->tokens.count()})) {
    for (int layer = 0; layer < cache_.layout().layers; ++layer) {
      const int32_t received = Received(audit.block, cache_.layout().groups.GroupOf(layer)).id();
      const int32_t computed =
          audit.hidden->blocks.table[cache_.layout().TableIndex(layer, page.begin)];
      if (SamePage(received, computed, layer, (page.begin - begin) / kKvPageTokens, page.size())) {
        continue;
      }
      return AuditResult{.outcome = Outcome::kMismatch,
                         .block = audit.block,
                         .layer = layer,
                         .page = page.begin / kKvPageTokens};
    }
  }
  return std::nullopt;
}

// Whether the first `tokens` tokens of a page are equal in both blocks.
bool BlockAuditor::SamePage(int32_t a, int32_t b, int layer, int page_in_block, int tokens) const {
  const KvLayout& layout = cache_.layout();
  const auto count = static_cast<size_t>(tokens);
  const int token = page_in_block * kKvPageTokens;
  for (const KvLayout::Part part : {KvLayout::kKeys, KvLayout::kValues}) {
    const size_t rows = layout.RowOffset(layer, part, token);
    const size_t scales = layout.ScaleOffset(layer, part, token);
    if (std::memcmp(cache_.Block(a) + rows, cache_.Block(b) + rows, count * layout.row_bytes()) !=
            0 ||
        std::memcmp(cache_.Block(a) + scales, cache_.Block(b) + scales,
                    count * layout.scale_bytes()) != 0) {
      return false;
    }
  }
  return true;
}

void BlockAuditor::GiveWay() {
  if (audit_.has_value() && !audit_->found.has_value()) End({});
}

void BlockAuditor::End(AuditResult result) {
  const AuditOrder order = std::move(audit_->order);
  audit_.reset();
  order.done(result);
}

}  // namespace baton
