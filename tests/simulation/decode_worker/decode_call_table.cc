#include "tests/simulation/decode_worker/decode_call_table.h"

#include <memory>

namespace baton {

SimDecodeCall* DecodeCallTable::Find(SimAttemptId id) {
  const auto found = calls_.find(id);
  return found == calls_.end() ? nullptr : &found->second;
}

SimDecodeChoice* DecodeCallTable::FindChoice(SimAttemptId id, uint32_t number) {
  SimDecodeCall* call = Find(id);
  if (call == nullptr) return nullptr;
  const auto found = call->parted.find(number);
  return found == call->parted.end() ? nullptr : &found->second;
}

void DecodeCallTable::Tell(const SimDecodeCall& call,
                           const internal::v1::DecodeResponse& response) {
  if (call.call_over || Forgotten(call)) return;
  control_.Answer(call.attempt.call, std::make_shared<internal::v1::DecodeResponse>(response));
}

void DecodeCallTable::Erase(SimAttemptId id) {
  const SimAttempt& attempt = calls_.at(id).attempt;
  fence_->End(attempt.key, attempt.choices);
  calls_.erase(id);
}

}  // namespace baton
