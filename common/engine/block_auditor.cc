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
  if (sequence.tokens.form) {
    audit.request.grammar = sequence.tokens.form->state;
    audit.request.grammar->Rollback(1);
  }
  audit.first_tokens = first_tokens;
  for (size_t entry = 0; entry < Entry(audit.order.block + 1, 0); ++entry) {
    Received& received = audit.received.emplace_back();
    const BlockPool::Block& block = sequence.blocks.held[entry];
    if (block.empty()) continue;
    received = {.block = block.Share(), .source = ledger_.sources().Of(block)};
  }
  audit_ = std::move(audit);
  if (!MayCompute(audit_->order.block)) return End({});
  std::optional<BlockPool::Reservation> reservation = pool_.TryReserve(OwnBlocks());
  if (!reservation) return End({});
  audit_->reservation = *std::move(reservation);
  Compute(audit_->order.block);
}

// The place of a group's block of span `block` in a block table.
size_t BlockAuditor::Entry(int block, int group) const {
  const auto groups = static_cast<size_t>(cache_.layout().groups.count());
  return static_cast<size_t>(block) * groups + static_cast<size_t>(group);
}

// Whether the sequence received all that the block's tokens see, and the block itself.
bool BlockAuditor::MayCompute(int block) const {
  const KvLayout& layout = cache_.layout();
  for (int group = 0; group < layout.groups.count(); ++group) {
    const int first = layout.groups.FirstSeen(group, block * layout.block_size) / layout.block_size;
    for (int seen = first; seen <= block; ++seen) {
      if (audit_->received[Entry(seen, group)].block.empty()) return false;
    }
  }
  return true;
}

// All blocks up to the audited one were received from who committed the first tokens.
bool BlockAuditor::AllFromPusher() const {
  return std::all_of(
      audit_->received.begin(), audit_->received.end(), [&](const Received& received) {
        return received.block.empty() || received.source == audit_->request.kv_source;
      });
}

// The first token that the sequence certainly received in the layers of `group`.
int BlockAuditor::FirstReceived(int group) const {
  const auto tokens = static_cast<int>(audit_->request.token_ids.size());
  return cache_.layout().groups.FirstHandedOff(group, tokens);
}

// The most blocks that the audit has at once: those of the span that it computes, and while it
// compares from the begin on those that this one sees through its windows.
int BlockAuditor::OwnBlocks() const {
  const KvLayout& layout = cache_.layout();
  int blocks = layout.groups.count();
  if (AllFromPusher()) return blocks;
  const int begin = audit_->order.block * layout.block_size;
  for (int group = 0; group < layout.groups.count(); ++group) {
    if (layout.groups.window(group) == 0) continue;
    blocks += layout.BlocksFor(begin - layout.groups.FirstSeen(group, begin));
  }
  return blocks;
}

// Makes the hidden sequence that computes `block`.
void BlockAuditor::Compute(int block) {
  Audit& audit = *audit_;
  const int groups = cache_.layout().groups.count();
  const int block_size = cache_.layout().block_size;
  SequenceRequest request = audit.request;
  const size_t end = static_cast<size_t>(block + 1) * static_cast<size_t>(block_size);
  request.token_ids.resize(std::min(end, request.token_ids.size()));
  const int most = static_cast<int>(audit.request.token_ids.size()) + 1;
  audit.block = block;
  audit.hidden = std::make_unique<Sequence>(audit.id, 0, std::move(request), most);
  Sequence& hidden = *audit.hidden;
  for (size_t entry = 0; entry < Entry(block, 0); ++entry) {
    const BlockPool::Block& before = audit.received[entry].block;
    hidden.blocks.Add(before.empty() ? BlockPool::Block() : before.Share());
  }
  for (int group = 0; group < groups; ++group) {
    if (audit.spare.empty()) audit.spare.push_back(audit.reservation.Take());
    hidden.blocks.Add(std::move(audit.spare.back()));
    audit.spare.pop_back();
  }
  hidden.kv.computed_tokens = block * block_size;
  hidden.kv.vouched = false;
  hidden.Enter(Sequence::State::kRunning);
}

// Takes the hidden sequence's span back. If that is `right`, its blocks take the place of those
// that did not come whole, until no window reaches them any more.
void BlockAuditor::TakeBack(bool right) {
  Audit& audit = *audit_;
  const KvLayout& layout = cache_.layout();
  const auto is_whole = [&](int block, int group) {
    return block * layout.block_size >= FirstReceived(group);
  };
  const int next = (audit.block + 1) * layout.block_size;
  for (int group = 0; group < layout.groups.count(); ++group) {
    const size_t entry = Entry(audit.block, group);
    BlockPool::Block own = audit.hidden->blocks.Put(entry, {});
    if (right && !is_whole(audit.block, group)) {
      audit.received[entry].block = std::move(own);
    } else {
      audit.spare.push_back(std::move(own));
    }
    const int unseen = layout.groups.FirstSeen(group, next) / layout.block_size - 1;
    if (!right || unseen < 0 || is_whole(unseen, group)) continue;
    BlockPool::Block& left = audit.received[Entry(unseen, group)].block;
    if (!left.empty()) audit.spare.push_back(std::move(left));
  }
  audit.hidden.reset();
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

// tests/planted_bugs: audit_computed
void BlockAuditor::Computed(const ScheduledTokens& scheduled,
                            absl::Span<const absl::StatusOr<OutputToken>> tokens) {
  Audit& audit = *audit_;
  if (scheduled.end_token() < audit.hidden->tokens.count()) return;
  std::optional<AuditResult> wrong = FindDifference();
  // A form that has failed here says nothing about who sampled under it elsewhere.
  const std::optional<SequenceForm>& form = audit.hidden->tokens.form;
  if (form && form->state.failed()) tokens = {};
  for (size_t i = 0; !wrong && !audit.found && i < tokens.size(); ++i) {
    if (tokens[i].ok() && tokens[i]->token_id == audit.first_tokens[i].token_id) continue;
    wrong = {.outcome = Outcome::kMismatch,
             .block = audit.block,
             .wrong_token = true,
             .source = audit.request.kv_source};
  }
  // tests/planted_bugs: audit_mismatch_ignored
  if (!wrong && !audit.found) return End({.outcome = Outcome::kMatch});
  if (audit.found ? wrong.has_value() : AllFromPusher()) return End(*wrong);
  const int next = audit.found ? audit.block + 1 : 0;
  TakeBack(/*right=*/audit.found.has_value());
  if (!audit.found) audit.found = std::move(wrong);
  // Where all before it is right, so was what the audited block was compared with.
  if (next == audit.order.block) return End(*audit.found);
  Compute(next);
}

// The first page whose bytes differ, in the first layer in which they do.
std::optional<AuditResult> BlockAuditor::FindDifference() const {
  const Audit& audit = *audit_;
  const KvLayout& layout = cache_.layout();
  const int begin = audit.block * layout.block_size;
  for (const TokenRange& page : PagesOf({begin, audit.hidden->tokens.count()})) {
    // tests/planted_bugs: audit_compared_pages
    for (int layer = 0; layer < layout.layers; ++layer) {
      const int group = layout.groups.GroupOf(layer);
      if (page.begin < FirstReceived(group)) continue;
      const Received& received = audit.received[Entry(audit.block, group)];
      const int32_t computed = audit.hidden->blocks.table[layout.TableIndex(layer, page.begin)];
      if (SamePage(received.block.id(), computed, layer, (page.begin - begin) / kKvPageTokens,
                   page.size())) {
        continue;
      }
      return AuditResult{.outcome = Outcome::kMismatch,
                         .block = audit.block,
                         .layer = layer,
                         .page = page.begin / kKvPageTokens,
                         .source = received.source};
    }
  }
  return std::nullopt;
}

// Whether the first `tokens` tokens of a page are equal in both blocks.
bool BlockAuditor::SamePage(int32_t a, int32_t b, int layer, int page_in_block, int tokens) const {
  const KvLayout& layout = cache_.layout();
  const auto count = static_cast<size_t>(tokens);
  const int token = page_in_block * kKvPageTokens;
  // tests/planted_bugs: audited_pages_not_all
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

void BlockAuditor::End(const AuditResult& result) {
  audit_->order.done(result);  // `result` may be the audit's own
  audit_.reset();
}

}  // namespace baton
