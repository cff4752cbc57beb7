#include "tests/simulation/decode_worker/decode_audit.h"

#include <algorithm>
#include <utility>

namespace baton {

DecodeAudit::DecodeAudit(Sim& sim, WorkerCore& core, DecodeBlocks& blocks,
                         std::function<void(const std::string&)> distrust)
    : sim_(sim),
      core_(core),
      blocks_(blocks),
      distrust_(std::move(distrust)),
      chooser_(sim.plan.audit_share, [&sim] { return sim.random.Next(); }) {}

void DecodeAudit::Boot() {
  quarantine_.emplace();
  found_.clear();
  under_way_ = false;
}

absl::Status DecodeAudit::CheckTrusted(const SimAttempt& attempt) const {
  return quarantine_->CheckTrusted(PusherKey(attempt.pusher));
}

void DecodeAudit::CheckCommit(const SimAttempt& attempt) const {
  if (found_.count(PusherKey(attempt.pusher)) == 0) return;
  sim_.Violation("a push of ", PusherKey(attempt.pusher), " is committed after an audit found it");
}

// What is compared is there already, and does not change: the time that it takes is all that is
// left of the engine's work.
void DecodeAudit::Begin(const SimDecodeCall& call) {
  const KvLayout& layout = blocks_.layout();
  const auto tokens = static_cast<int>(call.attempt.token_ids.size());
  // The last block always can be audited, since none has more than kAuditRows tokens.
  const int first =
      std::max(call.start_token / layout.block_size, FirstAuditableBlock(layout, tokens));
  const std::optional<int> block = chooser_.Choose(first, layout.BlocksFor(tokens));
  if (!block.has_value() || under_way_ || call.attempt.isolate) return;
  CheckAuditable(*block, tokens);
  under_way_ = true;
  ++sim_.coverage.audits;
  core_.Work(sim_.random.Between(200, 20'000), [this, source = Compare(call, *block)] {
    under_way_ = false;
    if (source.has_value()) Judge(*source);
  });
}

// The worker that computes the block once more reads only tokens that the hand-off carries.
void DecodeAudit::CheckAuditable(int block, int tokens) const {
  const int first = block * blocks_.layout().block_size;
  if (SimFirstSeen(kSimWindowLayer, first) < SimFirstHandedOff(kSimWindowLayer, tokens)) {
    sim_.Violation("an audit computes a block over rows that were not handed off");
  }
}

// The layers of a block may have come from several workers.
std::optional<std::string> DecodeAudit::Compare(const SimDecodeCall& call, int block) const {
  if (!sim_.forged) return std::nullopt;
  const KvLayout& layout = blocks_.layout();
  const auto tokens = static_cast<int>(call.attempt.token_ids.size());
  const auto forgers_of = [&](int index, int layer) {
    const int begin = std::max(index * layout.block_size, SimFirstHandedOff(layer, tokens));
    const int end = std::min(tokens, (index + 1) * layout.block_size);
    return call.attempt.content->ForgersOf(call.held.memory, layer, begin, end).value_or(0);
  };
  const auto wrong_layer = [&](int index) {
    int layer = 0;
    while (layer < layout.layers && forgers_of(index, layer) == 0) ++layer;
    return layer;
  };
  if (wrong_layer(block) == layout.layers) return std::nullopt;
  int first = 0;
  while (wrong_layer(first) == layout.layers) ++first;
  const int layer = wrong_layer(first);
  const size_t entry = call.held.EntryOf(layer, first * layout.block_size);
  const std::string source = blocks_.sources().Of(call.held.blocks[entry]);
  if (!source.empty() && forgers_of(first, layer) != ForgerNamed(source)) {
    sim_.Violation("an audit blames ", source, " for what another forged");
  }
  return source;
}

// The engine hears of it at its next step.
void DecodeAudit::Judge(const std::string& source) {
  ++sim_.coverage.audits_wrong;
  sim_.Trace(80, source.empty() ? 0 : ForgerNamed(source));
  quarantine_->Add(source);
  if (!source.empty()) found_.insert(source);
  core_.SetQuarantined(quarantine_->pushers());
  core_.Work(sim_.random.Between(500, 4'000), [this, source] { distrust_(source); });
}

}  // namespace baton
