#include "decode_worker/kv_audit.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/log.h"

namespace baton {
namespace {

const char* ResultName(AuditResult::Outcome outcome) {
  switch (outcome) {
    case AuditResult::Outcome::kMatch:
      return "match";
    case AuditResult::Outcome::kMismatch:
      return "mismatch";
    case AuditResult::Outcome::kSkipped:
      return "skipped";
  }
  return "";
}

}  // namespace

KvAudit::KvAudit(Engine& engine, Options options)
    : engine_(engine), options_(std::move(options)), chooser_(options_.share, options_.random) {}

// The block in which the push began may also hold pages that an earlier one brought.
std::optional<AuditOrder> KvAudit::Choose(const Push& push) {
  const KvLayout& layout = engine_.cache().layout();
  const int first_block =
      std::max(push.start_token / layout.block_size, FirstAuditableBlock(layout, push.token_count));
  const int end_block = layout.BlocksFor(push.token_count);
  if (first_block >= end_block) return std::nullopt;
  std::optional<int> block;
  {
    absl::MutexLock lock(&mutex_);
    block = chooser_.Choose(first_block, end_block);
  }
  if (!block) return std::nullopt;
  if (options_.metrics != nullptr) options_.metrics->AuditOrdered();
  return AuditOrder{*block, [this, push](const AuditResult& result) { Judge(push, result); }};
}

void KvAudit::Judge(const Push& push, const AuditResult& result) {
  if (options_.metrics != nullptr) options_.metrics->AuditDone(ResultName(result.outcome));
  if (result.outcome != AuditResult::Outcome::kMismatch) return;
  const std::string where = result.wrong_token
                                ? "a first token"
                                : absl::StrCat("layer ", result.layer, ", page ", result.page);
  const bool nobody = result.source.empty();
  const std::string what =
      nobody ? "KV audit: wrong KV that no prefill worker wrote alone"
             : absl::StrCat("KV audit: wrong KV from '", LogSafe(result.source), "'");
  const char* const then = nobody ? "nobody is blamed; all that may rest on such KV is dropped"
                                  : "all that it pushed is dropped, and it may not push here until "
                                    "this worker is restarted";
  LogError("{}, found in a push of '{}' for request {:016x}{:016x}: block {}, {}; {}", what,
           LogSafe(push.pusher), push.key.request_id_high(), push.key.request_id_low(),
           result.block, where, then);
  size_t count = 0;
  {
    absl::MutexLock lock(&mutex_);
    quarantine_.Add(result.source);
    count = quarantine_.size();
  }
  engine_.Distrust(result.source);
  if (options_.metrics != nullptr) options_.metrics->Quarantined(count);
  if (options_.on_quarantine) options_.on_quarantine();
}

absl::Status KvAudit::CheckTrusted(const std::string& pusher) const {
  absl::MutexLock lock(&mutex_);
  return quarantine_.CheckTrusted(pusher);
}

std::vector<std::string> KvAudit::quarantined() const {
  absl::MutexLock lock(&mutex_);
  return quarantine_.pushers();
}

}  // namespace baton
