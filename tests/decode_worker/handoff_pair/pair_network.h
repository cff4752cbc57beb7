// The network of a HandoffPair: streams that keep their order, until something happens to them.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "grpcpp/support/byte_buffer.h"

#include "baton/internal/v1/kv_transfer.pb.h"
#include "decode_worker/receive_machine.h"
#include "tests/decode_worker/handoff_pair/pair_run.h"

namespace baton {

class PairNetwork {
 public:
  // The callbacks of both ends.
  struct Ends {
    std::function<void(PushStreamId, const std::string& bytes)> message;        // to the receiver
    std::function<void(PushStreamId)> lost;                                     // to the receiver
    std::function<void(int stream, const internal::v1::PushResponse&)> answer;  // to the sender
    std::function<void(int stream)> ended;                                      // to the sender
  };
  PairNetwork(PairRun& run, Ends ends) : run_(run), ends_(std::move(ends)) {}

  // The sender's end, which knows a stream by another number than the receiver.
  void Open(int stream, const internal::v1::PushRequest& first);
  void SendControl(const internal::v1::PushRequest& message, bool drops_queued);
  // `released` is called once, when no slice of the message exists any more.
  void SendData(int stream, const grpc::ByteBuffer& slices, std::function<void()> released);
  void EndAll();
  // The receiver's end.
  void Answer(PushStreamId stream, const internal::v1::PushResponse& answer);
  void EndAfterAnswers(PushStreamId stream);

  // Both ends hear that a stream is over; what is on its way is lost.
  void End(int stream);
  void CutSome();

  // Streams with something on its way, and its delivery.
  bool HasMessages(int stream) const { return !streams_.at(stream).to_receiver.empty(); }
  bool HasAnswers(int stream) const { return !streams_.at(stream).to_sender.empty(); }
  std::vector<int> streams() const;
  void DeliverToReceiver(int stream);
  void DeliverToSender(int stream);

  int streams_used() const { return static_cast<int>(carried_.size()); }  // by data

 private:
  struct Message {
    bool is_data = false;
    std::string bytes;  // an encoded PushRequest
    std::function<void()> released;
    grpc::ByteBuffer slices = {};  // where the bytes of data are from
  };
  struct Stream {
    bool open = false;
    std::deque<Message> to_receiver;
    std::deque<internal::v1::PushResponse> to_sender;
  };
  static PushStreamId AtReceiver(int stream) { return static_cast<PushStreamId>(stream) + 1; }
  static int AtSender(PushStreamId stream) { return static_cast<int>(stream) - 1; }
  void DropQueuedData();

  PairRun& run_;
  const Ends ends_;
  std::map<int, Stream> streams_;
  std::set<int> carried_;
};

}  // namespace baton
