// Push streams between prefill and decode workers, over a network that a seed makes bad.
//
// In order and whole within a stream, as gRPC promises, but for what the faults do: a message may
// be lost, doubled, damaged, held up, or be an old one of this or another stream.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "tests/simulation/sim.h"

namespace baton {

class Network {
 public:
  using StreamId = uint64_t;  // from 1
  // Whoever is told; each on the worker's process.
  struct Ends {
    std::function<void(int decode, StreamId, const std::string&)> request;
    std::function<void(int decode, StreamId)> lost;
    std::function<void(int prefill, StreamId, const std::string&)> answer;
    std::function<void(int prefill, StreamId, const absl::Status&)> ended;
    std::function<SimProcess&(int prefill)> prefill_process;
    std::function<SimProcess&(int decode)> decode_process;
  };
  struct Request {
    bool is_data = false;
    std::function<std::string()> bytes;  // read when the network takes them
    std::function<void()> released;      // once, when no slice exists any more; may be empty
  };

  Network(Sim& sim, Ends ends) : sim_(sim), ends_(std::move(ends)) {}

  // The prefill worker's end.
  StreamId Open(int prefill, int decode);
  void Send(StreamId id, Request request);
  void DropQueuedData(StreamId id);
  void HalfClose(StreamId id);
  void Cancel(StreamId id);       // may keep the slices: see kStuckChannel
  void DropChannel(StreamId id);  // gives everything back
  // The decode worker's end.
  void Answer(StreamId id, const std::string& bytes);
  void End(StreamId id);  // after what was answered
  // Who opened the stream, by the certificate: a prefill worker's address, or somebody else.
  std::string PeerOf(StreamId id) const;

  // Faults.
  void Cut(StreamId id, bool half);
  void BlackHole(StreamId id, Micros duration);
  // Delays a pair of workers in the ways named: what open and further streams carry that way comes
  // when it is over, unless they were given up.
  void Partition(int prefill, int decode, bool requests, bool answers, Micros duration);
  void Heal() { partitions_.clear(); }
  void WorkerDied(bool is_prefill, int worker);
  std::vector<StreamId> OpenStreams() const;
  size_t live_streams() const { return streams_.size(); }

 private:
  struct Stream {
    StreamId id = 0;
    int prefill = 0;
    int decode = 0;
    bool imitated = false;  // by somebody who is no prefill worker of the router's
    bool prefill_open = true;
    bool decode_open = true;
    bool prefill_told = false;
    bool stuck = false;
    bool half_closed = false;
    bool transmitting = false;
    bool opened = false;  // its first message was sent
    bool in_flight_lost = false;
    Micros black_until = 0;
    Micros requests_held_until = 0;
    Micros answers_held_until = 0;
    Micros last_request = 0;  // when it arrives
    Micros last_answer = 0;
    std::deque<Request> queue;      // not given to the network yet
    std::vector<Request> pinned;    // slices that a stuck transport keeps
    std::vector<std::string> sent;  // data, for replays; a few
  };

  struct Partitioned {
    Micros requests_until = 0;
    Micros answers_until = 0;
  };

  Stream* Find(StreamId id);
  void GiveUpWhenSilent(StreamId id);
  void Pump(Stream& stream);
  void Transmit(StreamId id, const Request& request);
  void Deliver(StreamId id, std::string bytes);
  void Replay(Stream& stream);
  void Imitate(int decode, const std::string& open);
  void Damage(std::string& bytes, bool is_data);
  void MistakeAck(std::string& bytes);
  void Release(const Request& request);
  void TellPrefill(StreamId id, Micros delay, const absl::Status& status);
  void TellDecode(StreamId id, Micros delay);
  void EraseIfOver(StreamId id);
  Micros Latency();

  Sim& sim_;
  const Ends ends_;
  StreamId next_id_ = 1;
  std::map<StreamId, Stream> streams_;
  std::map<std::pair<int, int>, Partitioned> partitions_;  // prefill, decode
};

}  // namespace baton
