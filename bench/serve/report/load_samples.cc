#include "bench/serve/report/load_samples.h"

namespace baton {
namespace {

constexpr size_t kMaxFailureMessages = 8;

}  // namespace

void LoadSamples::Add(const LoadRecord& record, const LoadWindow& window,
                      const LoadObjective& objective) {
  AddMessages(record, window);
  const int64_t due = record.intended_ns;
  if (!window.Has(due)) return;
  ++offered;
  send_lag.push_back({due, record.sent_ns - due});
  if (!record.messages.empty()) {
    const int64_t first = record.messages.front().at_ns;
    ttft.push_back({due, first - due});
    ttft_from_sent.push_back({due, first - record.sent_ns});
  }
  switch (record.outcome) {
    case RequestOutcome::kCompleted:
      return AddCompleted(record, objective);
    case RequestOutcome::kCut:
      ++cut;
      return;
    case RequestOutcome::kRefused:
      ++refused;
      refusal.push_back({due, record.end_ns - due});
      ++kinds[record.kind];
      return;
    case RequestOutcome::kFailed:
      ++failed;
      return AddFailure(record);
  }
}

void LoadSamples::AddMessages(const LoadRecord& record, const LoadWindow& window) {
  for (size_t i = 0; i < record.messages.size(); ++i) {
    const TokenMessage& message = record.messages[i];
    if (!window.Has(message.at_ns)) continue;
    ++messages;
    tokens += message.tokens;
    if (i == 0) {
      input_tokens += record.input_tokens;
    } else {
      itl.push_back({message.at_ns, message.at_ns - record.messages[i - 1].at_ns});
    }
  }
}

void LoadSamples::AddCompleted(const LoadRecord& record, const LoadObjective& objective) {
  const int64_t due = record.intended_ns;
  ++completed;
  resumed += record.attempts > 1;
  local_prefills += record.local_prefill;
  shorter += record.output_tokens() < record.asked_output_tokens;
  spread += record.count == TokensTold::kSpread;
  uncounted += record.count == TokensTold::kMessages;
  e2e.push_back({due, record.end_ns - due});
  e2e_from_sent.push_back({due, record.end_ns - record.sent_ns});
  if (record.messages.size() > 1) tpot.push_back({due, TpotNanoseconds(record)});
  for (size_t i = 0; i < kStages; ++i) {
    if (record.stages_ns[i].has_value()) stages[i].push_back({due, *record.stages_ns[i]});
  }
  if (!record.messages.empty() && Keeps(record, objective)) {
    ++good;
    good_at_ns.push_back(due);
  }
}

void LoadSamples::AddFailure(const LoadRecord& record) {
  ++kinds[record.kind];
  const bool known = failures.count(record.error) != 0;
  ++failures[known || failures.size() < kMaxFailureMessages ? record.error : kOtherFailures];
}

}  // namespace baton
