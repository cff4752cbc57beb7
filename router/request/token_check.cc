#include "router/request/token_check.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "common/rpc/limits.h"

namespace baton {
namespace {

using internal::v1::OutputToken;

bool SameToken(const OutputToken& a, const OutputToken& b) {
  if (a.token().token_id() != b.token().token_id() || a.ends_sequence() != b.ends_sequence()) {
    return false;
  }
  if (a.ends_sequence() && a.finish_reason() != b.finish_reason()) return false;
  return !a.token().has_logprob() || !b.token().has_logprob() ||
         a.token().logprob() == b.token().logprob();
}

}  // namespace

// tests/planted_bugs: token_fault
std::optional<std::string> FaultOf(const OutputToken& token, const TokenPlace& place) {
  const size_t index = token.output_index();
  if (index != place.next_index || place.complete) {
    return absl::StrCat("output index ", index, " where ", place.next_index,
                        index < place.next_index ? " was next (doubled)" : " was next (missing)");
  }
  if (index < place.log.size()) {
    if (SameToken(place.log[index], token)) return std::nullopt;
    return absl::StrCat("its copy of output ", index, " is token ", token.token().token_id(),
                        ", the other worker's ", place.log[index].token().token_id());
  }
  if (place.ended) {
    if (place.ended_by_stop_string) return std::nullopt;
    return absl::StrCat("output ", index, " after the last one");
  }
  if (token.token().token_id() >= place.vocab_size) {
    return absl::StrCat("token id ", token.token().token_id(), " outside the vocabulary");
  }
  const auto& likely = token.token().top_logprobs();
  if (likely.size() > kMaxLogprobs) {
    return absl::StrCat(likely.size(), " likely tokens beside one, at most ", kMaxLogprobs,
                        " may be asked for");
  }
  if (std::any_of(likely.begin(), likely.end(),
                  [&](const auto& top) { return top.token_id() >= place.vocab_size; })) {
    return "a likely token outside the vocabulary";
  }
  const bool last = index + 1 >= place.max_tokens;
  if (last && !token.ends_sequence()) return "it does not stop at max_tokens";
  if (token.ends_sequence() && token.finish_reason() != v1::FINISH_REASON_STOP &&
      token.finish_reason() != v1::FINISH_REASON_LENGTH) {
    return "a last token without a finish reason";
  }
  return std::nullopt;
}

}  // namespace baton
