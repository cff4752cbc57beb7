// The stream of one push: what is on its way, and who knows that it is over.
#pragma once

#include <deque>
#include <string>

#include "baton/internal/v1/kv_transfer.pb.h"

namespace baton {

// A value: copies go their own ways.
class InterleavedStream {
 public:
  struct Message {
    bool is_data = false;
    internal::v1::PushRequest control;
    internal::v1::KvDataHeader header;
    size_t payload_bytes = 0;
    bool half_close = false;
  };

  // The prefill worker's end.
  void Open(const internal::v1::PushRequest& first);
  void SendControl(const internal::v1::PushRequest& message, bool drops_queued);
  void SendData(const internal::v1::KvDataHeader& header, size_t payload_bytes);
  void HalfClose();
  internal::v1::PushResponse TakeAnswer();
  // The network gave one message back: its slices no longer point into the blocks.
  void ReleaseOne();
  void NoticeAtPrefill() { prefill_notice_ = prefill_open_ = false; }
  void LosePrefill();  // its worker was killed

  // The decode worker's end.
  Message TakeMessage();
  void Answer(const internal::v1::PushResponse& answer);
  void EndAfterAnswers();
  void NoticeAtDecode() { decode_notice_ = false; }
  void LoseDecode();

  // Both ends hear of it, each in its time; what was on its way is lost.
  void End();

  bool prefill_open() const { return prefill_open_; }
  bool decode_open() const { return decode_open_; }
  bool prefill_notice() const { return prefill_notice_; }  // on its way
  bool decode_notice() const { return decode_notice_; }
  bool has_messages() const { return !to_decode_.empty(); }
  bool has_answers() const { return !to_prefill_.empty(); }
  int live_slices() const { return live_slices_; }
  // Slices that the network gave back unheard by the sender.
  int released_slices() const { return released_slices_; }

  // Everything that the future depends on.
  void AppendState(std::string& out) const;

 private:
  bool prefill_open_ = false;
  bool decode_open_ = false;
  bool prefill_notice_ = false;
  bool decode_notice_ = false;
  bool half_closed_ = false;
  std::deque<Message> to_decode_;
  std::deque<internal::v1::PushResponse> to_prefill_;
  int live_slices_ = 0;  // messages that point into the blocks
  int released_slices_ = 0;
};

}  // namespace baton
