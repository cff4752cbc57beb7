// The data of a push at the prefill worker: which message goes out when and on which stream, and
// which goes out again. Its mirror at the decode worker is decode_worker/data_receiver.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"

#include "baton/internal/v1/kv_transfer.pb.h"
#include "common/handoff/kv_digest.h"
#include "prefill_worker/computed_kv.h"
#include "prefill_worker/send_events.h"
#include "prefill_worker/send_meter.h"
#include "prefill_worker/send_window.h"

namespace baton {

// The unacknowledged bytes never exceed the receiver's window, nor what the network has shown to
// take (flight_limit.h). Functions that send add a SendAction::SendData for each message to
// `actions`. Does no I/O and reads no clock. Not thread-safe.
class DataSender {
 public:
  using Actions = std::vector<SendAction::Any>;

  explicit DataSender(const SendConfig& config);

  void Add(const SendEvent::LayerReady& layer) { computed_.Add(layer); }
  void Flush() { computed_.Flush(); }
  // All layers of all tokens were added; the last chunk was computed at `at`.
  void AllComputed(absl::Time at) { meter_.AllComputed(at); }

  // The receiver holds the tokens before `start_token`. Returns the number of streams that carry
  // data from here on, at most `most_streams`: no more than there are full messages to send.
  int Open(int start_token, int most_streams);
  // The first token that the receiver does not hold. REQUIRES: Open was called.
  int start_token() const { return computed_.carried().start_token(); }
  void SetWindow(uint64_t bytes) { window_bytes_ = bytes; }
  // Whether the window has room for a page of one layer, without which nothing can be sent.
  bool WindowHoldsAPage() const { return window_bytes_ >= page_bytes(); }

  // Sends again what misses its answer, and then what the limits allow. REQUIRES: Open was called,
  // and WindowHoldsAPage().
  void Pump(absl::Time now, Actions& actions);
  // Takes an acknowledgement. False if it does not name an unacknowledged message. It was
  // damaged then, and if `repeat` holds, the message that it was most likely meant for goes out
  // again.
  bool Acknowledge(uint64_t sequence_number, int stream, bool repeat, absl::Time now,
                   Actions& actions);
  // Sends a message again that the receiver refused; false if it was refused too often.
  // REQUIRES: MaySendAgain(sequence_number).
  [[nodiscard]] bool Resend(uint64_t sequence_number, absl::Time now, Actions& actions);
  // Whether the message may have to go out once more.
  bool MaySendAgain(uint64_t sequence_number) const {
    return window_.messages().count(sequence_number) > 0;
  }

  // Whether the stream carries data: stream 0 always, a joined one until it is closed.
  bool Carries(int stream) const { return window_.Carries(stream); }
  void Answered(int stream, absl::Time now) { window_.Answered(stream, now); }
  // The joined stream is lost and carries nothing any more. If `resend` holds, what it carried goes
  // out on the other streams.
  void LoseStream(int stream, bool resend, absl::Time now, Actions& actions);
  // Cancels the joined streams. Their slices are not needed any more, and a cancelled call gives
  // them back soonest.
  void CloseJoinedStreams(Actions& actions);
  // The lowest stream that has not answered for `timeout` though it carries something.
  std::optional<int> Silent(absl::Duration timeout, absl::Time now) const {
    return window_.Silent(timeout, now);
  }
  // When an answer will be missed, or a stream silent for `timeout`.
  absl::Time NextDeadline(absl::Duration timeout) const;

  // The slices of one SendData are gone; see SendEvent::SlicesReleased.
  void Released(bool intact);
  bool slices_alive() const { return live_messages_ > 0; }
  // Nothing more is sent.
  void Stop();

  // Whether something was sent and nothing was acknowledged.
  bool none_acknowledged() const {
    return !window_.empty() && window_.messages().size() == next_sequence_number_ - 1;
  }
  // Whether all computed tokens before `end_token` were sent and acknowledged.
  bool AcknowledgedBefore(int end_token) const;
  // Whether the whole sequence was computed, sent and acknowledged.
  bool all_acknowledged() const {
    return meter_.all_computed() && computed_.all_sent() && window_.empty();
  }
  // The digest that both ends compare: KvDigest of the tokens before `end_token`. `config`: as in
  // the constructor. REQUIRES: end_token is no less than in the last call.
  std::string Digest(const SendConfig& config, int end_token,
                     absl::Span<const internal::v1::OutputToken> first_tokens);
  // Payload bytes that the network has shown to take at once.
  uint64_t flight_limit_bytes() const { return window_.flight_limit_bytes(); }
  SendReport Report(bool committed, absl::Time now) const { return meter_.Report(committed, now); }

 private:
  friend struct MachineState;  // a test compares states with it
  bool SendNext(absl::Time now, Actions& actions);
  void SendOnceMore(uint64_t sequence_number, Actions& actions);
  void Send(const SendWindow::Message& message, Actions& actions);
  void Repeat(uint64_t sequence_number, absl::Time now, Actions& actions);
  void Move(uint64_t sequence_number, absl::Time now, Actions& actions);
  size_t PayloadLimit() const;
  size_t page_bytes() const { return token_bytes_ * size_t{kKvPageTokens}; }

  const internal::v1::AttemptKey key_;
  const size_t max_payload_bytes_;
  const size_t token_bytes_;  // K and V of one token in one layer, on the wire
  ComputedKv computed_;
  KvDigester digester_;
  SendWindow window_;  // messages that were sent and not acknowledged
  uint64_t window_bytes_ = 0;
  uint64_t next_sequence_number_ = 1;
  int live_messages_ = 0;  // number of SendData whose slices still exist
  SendMeter meter_;
};

}  // namespace baton
