#include "common/engine/draft_model.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>

#include "common/base/status_macros.h"
#include "common/engine/schedule.h"

namespace baton {
namespace {

// Returns the number of the sequence's first tokens that the cache holds.
size_t KnownTokens(const DraftKv& kv, absl::Span<const int32_t> tokens) {
  const auto first_other =
      std::mismatch(kv.tokens.begin(), kv.tokens.end(), tokens.begin(), tokens.end()).first;
  return static_cast<size_t>(first_other - kv.tokens.begin());
}

}  // namespace

absl::StatusOr<std::unique_ptr<DraftModel>> DraftModel::Create(std::unique_ptr<Transformer> model,
                                                               Backend& backend,
                                                               const Options& options) {
  BATON_RETURN_IF_ERROR(model->Reserve(options.most_sequences + kChunkTokens));
  KvLayout layout = model->MakeKvLayout(options.block_size, options.kv_dtype);
  layout.groups = {};  // it gives no block back before its sequence ends
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<KvCache> cache,
                         KvCache::Create(backend, layout, options.num_blocks));
  return std::unique_ptr<DraftModel>(new DraftModel(std::move(model), std::move(cache)));
}

DraftModel::DraftModel(std::unique_ptr<Transformer> model, std::unique_ptr<KvCache> cache)
    : model_(std::move(model)), cache_(std::move(cache)), pool_(cache_->block_count()) {}

int DraftModel::Propose(absl::Span<Order> orders, int spare_rows) {
  Pass pass;
  spare_rows = std::clamp(spare_rows, 0, kChunkTokens);
  for (Order& order : orders) AddMissing(order, spare_rows, pass);
  int rows = 0;
  while (pass.batch.rows() > 0) {
    rows += pass.batch.rows();
    Compute(pass);
    Pass next;
    for (Order* order : pass.proposing) {
      if (static_cast<int>(order->proposed.size()) == order->most) continue;
      if (TakeRoom(*order->kv, 1) == 0) continue;
      AddRows(*order, {&order->proposed.back(), 1}, /*proposes=*/true, next);
    }
    pass = std::move(next);
  }
  return rows;
}

void DraftModel::AddMissing(Order& order, int& spare_rows, Pass& pass) {
  DraftKv& kv = *order.kv;
  const int own_rows = order.most > 0 ? 1 : 0;
  if (spare_rows + own_rows == 0) return;
  // The logits of the last token are computed anew, whether it is known or not.
  const size_t last = order.tokens.size() - static_cast<size_t>(own_rows);
  // tests/planted_bugs: draft_goes_on_from_refused_tokens
  kv.tokens.resize(std::min(KnownTokens(kv, order.tokens), last));
  const absl::Span<const int32_t> missing = order.tokens.subspan(kv.tokens.size());
  const int wanted = std::min(static_cast<int>(missing.size()), spare_rows + own_rows);
  const int count = TakeRoom(kv, wanted);
  if (count == 0) return;
  spare_rows -= std::max(0, count - own_rows);
  const bool complete = static_cast<size_t>(count) == missing.size();
  AddRows(order, missing.first(static_cast<size_t>(count)), own_rows > 0 && complete, pass);
}

// Takes blocks for up to `wanted` more tokens. Returns the number of tokens that there is room for.
int DraftModel::TakeRoom(DraftKv& kv, int wanted) {
  const int known = static_cast<int>(kv.tokens.size());
  const int end = std::min(known + wanted, model_->config().context_length);
  const int block_size = cache_->layout().block_size;
  while (static_cast<int>(kv.held.size()) * block_size < end) {
    std::optional<BlockPool::Block> block = pool_.TryAllocate();
    if (!block) break;
    kv.table.push_back(block->id());
    kv.held.push_back(*std::move(block));
  }
  return std::clamp(static_cast<int>(kv.held.size()) * block_size, known, end) - known;
}

// REQUIRES: the sequence has room for the tokens.
void DraftModel::AddRows(Order& order, absl::Span<const int32_t> tokens, bool proposes,
                         Pass& pass) {
  DraftKv& kv = *order.kv;
  pass.batch.sequences.push_back({.first_row = pass.batch.rows(),
                                  .row_count = static_cast<int>(tokens.size()),
                                  .first_position = static_cast<int>(kv.tokens.size()),
                                  .block_table = kv.table.data(),
                                  .table_entries = static_cast<int>(kv.table.size())});
  std::transform(tokens.begin(), tokens.end(), std::back_inserter(pass.batch.tokens),
                 InputToken::Id);
  kv.tokens.insert(kv.tokens.end(), tokens.begin(), tokens.end());
  if (!proposes) return;
  pass.batch.logits_rows.push_back(pass.batch.rows() - 1);
  pass.proposing.push_back(&order);
}

void DraftModel::Compute(const Pass& pass) {
  const auto vocab_size = static_cast<size_t>(model_->config().vocab_size);
  logits_.resize(pass.proposing.size() * vocab_size);
  model_->Forward(
      pass.batch, *cache_, [](int) {}, absl::MakeSpan(logits_));
  auto row = logits_.begin();
  for (Order* order : pass.proposing) {
    const auto end = row + static_cast<std::ptrdiff_t>(vocab_size);
    order->proposed.push_back(static_cast<int32_t>(std::max_element(row, end) - row));
    row = end;
  }
}

}  // namespace baton
