// How SendMachine decides what goes out and when: data messages within the limits, checkpoints and
// the commit.
#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/failpoint.h"
#include "prefill_worker/send_machine.h"

namespace baton {
namespace {

using internal::v1::KvDataHeader;

// A page takes 4 bytes of the header.
constexpr int kMaxPagesPerMessage = 8192;

}  // namespace

void SendMachine::Pump() {
  while (const std::optional<uint64_t> missed = unacknowledged_.Missed(now_)) Repeat(*missed);
  while (SendNextMessage()) {
  }
  SendCheckpoint();
  SendCommit();
}

// Three messages fit into the flight limit, so that some are under way while another is
// acknowledged.
size_t SendMachine::PayloadLimit() const {
  const size_t third_of_flight = unacknowledged_.flight_limit_bytes() / 3;
  return std::min({config_.limits.max_payload_bytes, size_t{window_bytes_},
                   std::max(third_of_flight, page_bytes())});
}

// The next message, from the front of the computed ranges. It has as many consecutive layers of one
// range of tokens as the limits and the window allow, and their number goes to `layers`. If one
// layer is too large, it has only the first pages of this layer. Nothing where there is nothing to
// send, or where it pays to wait for more layers.
std::optional<SendMachine::Range> SendMachine::NextMessage(size_t* layers) const {
  if (computed_.empty()) return std::nullopt;
  const size_t limit = PayloadLimit();
  Range next = computed_.front();
  next.first_token = std::max(next.first_token, start_token_);
  const int tokens = next.end_token - next.first_token;
  const size_t layer_bytes = static_cast<size_t>(tokens) * token_bytes_;
  const int pages = KvPages(tokens);
  *layers = 1;
  if (layer_bytes > limit || pages > kMaxPagesPerMessage) {
    const auto fit = static_cast<int>(std::min<size_t>(limit / page_bytes(), kMaxPagesPerMessage));
    next.end_token = next.first_token + fit * kKvPageTokens;
    return next;
  }
  const auto follows = [&](const Range& range) {
    return range.layer == next.layer + static_cast<int>(*layers) &&
           range.first_token == computed_.front().first_token && range.end_token == next.end_token;
  };
  while (*layers < computed_.size() && (*layers + 1) * layer_bytes <= limit &&
         static_cast<int>(*layers + 1) * pages <= kMaxPagesPerMessage &&
         follows(computed_[*layers])) {
    ++*layers;
  }
  const bool may_grow = *layers == computed_.size() && computed_.back().waits &&
                        next.layer + static_cast<int>(*layers) < config_.layout.layers;
  if (may_grow && *layers * layer_bytes < config_.limits.min_payload_bytes &&
      (*layers + 1) * layer_bytes <= limit) {
    return std::nullopt;
  }
  return next;
}

// Returns false when there is nothing to send or it has to wait.
bool SendMachine::SendNextMessage() {
  while (!computed_.empty() && computed_.front().end_token <= start_token_) computed_.pop_front();
  if (unacknowledged_.bytes() >= window_bytes_) return false;
  size_t layers = 0;
  const std::optional<Range> next = NextMessage(&layers);
  if (!next.has_value()) return false;
  const int tokens = next->end_token - next->first_token;
  const size_t bytes = layers * static_cast<size_t>(tokens) * token_bytes_;
  const uint64_t flight = unacknowledged_.bytes() + bytes;
  if (flight > window_bytes_) return false;
  if (flight > unacknowledged_.flight_limit_bytes() && !unacknowledged_.empty()) return false;

  BATON_FAILPOINT("send_machine.before_data");
  const KvDataHeader header =
      MakeHeader(next->layer, static_cast<int>(layers), next->first_token, tokens);
  if (next->end_token < computed_.front().end_token) {
    computed_.front().first_token = next->end_token;
  } else {
    computed_.erase(computed_.begin(), computed_.begin() + static_cast<std::ptrdiff_t>(layers));
  }
  if (report_.messages == 0) first_sent_ = now_;
  report_.bytes_sent += bytes;
  ++report_.messages;
  ++live_messages_;
  actions_.emplace_back(
      SendAction::SendData{header, bytes, unacknowledged_.Add(header, bytes, now_)});
  return true;
}

KvDataHeader SendMachine::MakeHeader(int first_layer, int layer_count, int first_token,
                                     int token_count) {
  KvDataHeader header;
  *header.mutable_key() = config_.open.key();
  header.set_sequence_number(next_sequence_number_++);
  header.set_first_layer(static_cast<uint32_t>(first_layer));
  header.set_layer_count(static_cast<uint32_t>(layer_count));
  header.set_first_token(static_cast<uint32_t>(first_token));
  header.set_token_count(static_cast<uint32_t>(token_count));
  header.set_first_kv_head(0);
  header.set_kv_head_count(static_cast<uint32_t>(config_.layout.kv_heads));
  for (int layer = first_layer; layer < first_layer + layer_count; ++layer) {
    for (int page = first_token / kKvPageTokens; page < KvPages(first_token + token_count);
         ++page) {
      header.add_page_crc32c(crcs_.At(layer, page));
    }
  }
  return header;
}

bool SendMachine::CoveredBefore(int end_token) const {
  for (const Range& range : computed_) {
    if (range.first_token < end_token) return false;
  }
  for (const auto& [sequence_number, message] : unacknowledged_.messages()) {
    if (static_cast<int>(message.header.first_token()) < end_token) return false;
  }
  return true;
}

void SendMachine::SendCheckpoint() {
  if (state_ != State::kSending) return;
  int end_token = 0;
  while (!checkpoints_.empty() && CoveredBefore(checkpoints_.front())) {
    end_token = checkpoints_.front();
    checkpoints_.pop_front();
  }
  if (end_token <= start_token_) return;
  BATON_FAILPOINT("send_machine.before_checkpoint");
  SendAction::SendControl checkpoint;
  checkpoint.message.mutable_checkpoint()->set_end_token(static_cast<uint32_t>(end_token));
  checkpoint.message.mutable_checkpoint()->set_digest(Digest(end_token, {}));
  actions_.emplace_back(std::move(checkpoint));
}

void SendMachine::SendCommit() {
  if (state_ != State::kSending || first_tokens_.size() < static_cast<size_t>(config_.choices) ||
      !checkpoints_.empty() || last_computed_ == absl::InfinitePast() || !computed_.empty() ||
      !unacknowledged_.empty()) {
    return;
  }
  BATON_FAILPOINT("send_machine.before_commit");
  state_ = State::kCommitting;
  deadline_ = now_ + config_.limits.commit_timeout;
  SendAction::SendControl commit;
  commit.message.mutable_commit()->mutable_first_tokens()->Add(first_tokens_.begin(),
                                                               first_tokens_.end());
  std::string digest = Digest(static_cast<int>(config_.token_ids.size()), first_tokens_);
  BATON_FAILPOINT_BYTES("send_machine.digest", digest.data(), digest.size());
  commit.message.mutable_commit()->set_digest(std::move(digest));
  actions_.emplace_back(std::move(commit));
}

std::string SendMachine::Digest(int end_token,
                                absl::Span<const internal::v1::OutputToken> first_tokens) {
  return digester_.Digest({.identity = config_.open.identity(),
                           .token_ids = config_.token_ids,
                           .start_token = start_token_,
                           .end_token = end_token,
                           .first_tokens = first_tokens,
                           .crcs = crcs_});
}

}  // namespace baton
