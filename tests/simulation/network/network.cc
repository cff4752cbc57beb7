#include "tests/simulation/network/network.h"

#include <algorithm>
#include <utility>

#include "tests/simulation/network/control_network.h"

namespace baton {

using internal::v1::PushRequest;

namespace {

constexpr size_t kRememberedMessages = 4;  // messages of each stream, for replays

}  // namespace

Network::StreamId Network::Open(int prefill, int decode) {
  const StreamId id = next_id_++;
  Stream& stream = streams_[id];
  stream.id = id;
  stream.prefill = prefill;
  stream.decode = decode;
  const auto found = partitions_.find({prefill, decode});
  if (found != partitions_.end()) {
    stream.requests_held_until = found->second.requests_until;
    stream.answers_held_until = found->second.answers_until;
    GiveUpWhenSilent(id);
  }
  return id;
}

Network::Stream* Network::Find(StreamId id) {
  const auto found = streams_.find(id);
  return found == streams_.end() ? nullptr : &found->second;
}

Micros Network::Latency() {
  if (sim_.Strikes(Fault::kDelay)) return sim_.random.Between(1'000, 3'000'000);
  return sim_.random.Between(20, 400);
}

void Network::Release(const Request& request) {
  if (request.released) sim_.queue.After(sim_.random.Between(0, 300), request.released);
}

void Network::Send(StreamId id, Request request) {
  Stream* stream = Find(id);
  if (stream == nullptr || !stream->prefill_open || stream->half_closed) return Release(request);
  stream->queue.push_back(std::move(request));
  Pump(*stream);
}

void Network::DropQueuedData(StreamId id) {
  Stream* stream = Find(id);
  if (stream == nullptr) return;
  std::deque<Request> kept;
  for (Request& request : stream->queue) {
    if (request.is_data) {
      Release(request);
    } else {
      kept.push_back(std::move(request));
    }
  }
  stream->queue = std::move(kept);
}

void Network::Pump(Stream& stream) {
  if (stream.transmitting || stream.queue.empty()) return;
  stream.transmitting = true;
  Request request = std::move(stream.queue.front());
  stream.queue.pop_front();
  sim_.queue.After(sim_.random.Between(10, 150),
                   [this, id = stream.id, life = ends_.prefill_process(stream.prefill).life(),
                    prefill = stream.prefill, request = std::move(request)] {
                     if (ends_.prefill_process(prefill).life() != life) return;
                     Transmit(id, request);
                   });
}

void Network::Transmit(StreamId id, const Request& request) {
  Stream* stream = Find(id);
  if (stream == nullptr) return Release(request);
  stream->transmitting = false;
  if (stream->prefill_open) {
    std::string bytes = request.bytes();
    if (bytes.empty()) {  // a half-close, in its turn
      stream->last_request = std::max(stream->last_request, sim_.queue.now()) + Latency();
      TellDecode(id, stream->last_request - sim_.queue.now());
    } else {
      if (request.is_data) {
        stream->sent.push_back(bytes);
        if (stream->sent.size() > kRememberedMessages) stream->sent.erase(stream->sent.begin());
      }
      if (!std::exchange(stream->opened, true)) Imitate(stream->decode, bytes);
      if (!sim_.Strikes(Fault::kLoseRequest)) {
        if (sim_.Strikes(Fault::kDoubleRequest)) Deliver(id, bytes);
        Damage(bytes, request.is_data);
        Deliver(id, std::move(bytes));
      }
      Replay(*Find(id));
    }
  }
  stream = Find(id);
  if (stream != nullptr && stream->stuck && request.released) {
    stream->pinned.push_back(request);
  } else {
    Release(request);
  }
  if (stream != nullptr) Pump(*stream);
}

void Network::Damage(std::string& bytes, bool is_data) {
  const auto flip = [&](size_t first, size_t end) {
    const auto at = static_cast<size_t>(
        sim_.random.Between(static_cast<int64_t>(first), static_cast<int64_t>(end) - 1));
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << sim_.random.Between(0, 7)));
  };
  if (!is_data) {
    if (sim_.Strikes(Fault::kCorruptControl)) flip(0, bytes.size());
    return;
  }
  // The header, with its page CRCs, and the envelope are the first bytes; the payload the last.
  if (sim_.Strikes(Fault::kCorruptHeader)) flip(0, std::min<size_t>(bytes.size(), 60));
  if (sim_.Strikes(Fault::kCorruptPayload)) {
    flip(bytes.size() - std::min<size_t>(bytes.size(), 200), bytes.size());
  }
  if (sim_.Strikes(Fault::kTruncate)) {
    bytes.resize(
        static_cast<size_t>(sim_.random.Between(1, static_cast<int64_t>(bytes.size()) - 1)));
  }
}

// Old messages again: on the stream that they came on, on another attempt's, on a new one.
void Network::Replay(Stream& stream) {
  const auto any = [&](const std::vector<std::string>& sent) {
    return sent[static_cast<size_t>(sim_.random.Between(0, static_cast<int64_t>(sent.size()) - 1))];
  };
  if (!stream.sent.empty() && sim_.Strikes(Fault::kReplayOnSameStream)) {
    Deliver(stream.id, any(stream.sent));
  }
  if (!sim_.healed && sim_.random.Chance(sim_.plan.Chance(Fault::kReplayOnOtherStream))) {
    for (const auto& [id, other] : streams_) {
      if (id == stream.id || other.decode != stream.decode || other.sent.empty()) continue;
      sim_.coverage.Count(Fault::kReplayOnOtherStream);
      Deliver(stream.id, any(other.sent));
      break;
    }
  }
}

std::string Network::PeerOf(StreamId id) const {
  const auto found = streams_.find(id);
  if (found == streams_.end() || found->second.imitated) return "somebody else";
  return SimWorkerId{.is_prefill = true, .index = found->second.prefill}.address();
}

// Plays an attacker that has seen an open or a join and sends it on a separate stream, unchanged or
// with a guessed secret.
void Network::Imitate(int decode, const std::string& open) {
  const auto send = [&](const std::string& bytes) {
    const StreamId id = next_id_++;
    Stream& stream = streams_[id];
    stream.id = id;
    stream.decode = decode;
    stream.imitated = true;
    stream.prefill_open = false;
    stream.prefill_told = true;
    Deliver(id, bytes);
    TellDecode(id, sim_.random.Between(1'000'000, 60'000'000));
  };
  if (sim_.Strikes(Fault::kReplayedOpen)) send(open);
  if (sim_.Strikes(Fault::kForgedOpen)) {
    PushRequest forged;
    if (!forged.ParseFromString(open)) return;
    if (forged.has_open()) forged.mutable_open()->set_capability(std::string(16, 'x'));
    if (forged.has_join()) forged.mutable_join()->set_capability(std::string(16, 'x'));
    send(forged.SerializeAsString());
  }
}

void Network::Deliver(StreamId id, std::string bytes) {
  Stream& stream = *Find(id);
  if (sim_.queue.now() < stream.black_until) return;
  stream.last_request =
      std::max({stream.last_request, sim_.queue.now() + Latency(), stream.requests_held_until});
  sim_.queue.At(stream.last_request, [this, id, bytes = std::move(bytes)] {
    Stream* to = Find(id);
    if (to == nullptr || !to->decode_open || to->in_flight_lost) return;
    ends_.decode_process(to->decode).Post([this, id, decode = to->decode, bytes] {
      ++sim_.coverage.messages;
      sim_.Trace(1, id, bytes.size());
      ends_.request(decode, id, bytes);
    });
  });
}

// An acknowledgement names a message that was sent before, is on its way, or will be sent.
void Network::MistakeAck(std::string& bytes) {
  internal::v1::PushResponse answer;
  if (!answer.ParseFromString(bytes) || !answer.has_ack() || !sim_.Strikes(Fault::kWrongAck))
    return;
  const auto right = static_cast<int64_t>(answer.ack().sequence_number());
  const int64_t wrong = sim_.random.Between(std::max<int64_t>(right - 6, 0), right + 5);
  answer.mutable_ack()->set_sequence_number(
      static_cast<uint64_t>(wrong + (wrong >= right ? 1 : 0)));
  bytes = answer.SerializeAsString();
}

void Network::Answer(StreamId id, const std::string& bytes) {
  Stream* stream = Find(id);
  if (stream == nullptr || !stream->decode_open || !stream->prefill_open) return;
  if (sim_.queue.now() < stream->black_until || sim_.Strikes(Fault::kLoseAnswer)) return;
  std::string sent = bytes;
  MistakeAck(sent);
  if (!sent.empty() && sim_.Strikes(Fault::kCorruptAnswer)) {
    const auto at =
        static_cast<size_t>(sim_.random.Between(0, static_cast<int64_t>(sent.size()) - 1));
    sent[at] = static_cast<char>(sent[at] ^ (1 << sim_.random.Between(0, 7)));
  }
  stream->last_answer =
      std::max({stream->last_answer, sim_.queue.now() + Latency(), stream->answers_held_until});
  sim_.queue.At(stream->last_answer, [this, id, sent] {
    Stream* to = Find(id);
    if (to == nullptr || !to->prefill_open || to->in_flight_lost) return;
    ends_.prefill_process(to->prefill).Post([this, id, prefill = to->prefill, sent] {
      ++sim_.coverage.messages;
      sim_.Trace(2, id, sent.size());
      ends_.answer(prefill, id, sent);
    });
  });
}

void Network::End(StreamId id) {
  Stream* stream = Find(id);
  if (stream == nullptr || !stream->decode_open) return;
  stream->decode_open = false;
  if (stream->prefill_told) return EraseIfOver(id);
  if (sim_.queue.now() < stream->black_until) return;  // nobody is told; keepalive will
  const Micros at = std::max(stream->last_answer, sim_.queue.now() + Latency());
  TellPrefill(id, at - sim_.queue.now(), absl::OkStatus());
}

void Network::HalfClose(StreamId id) {
  Send(id, {.is_data = false, .bytes = [] { return std::string(); }, .released = nullptr});
  if (Stream* stream = Find(id)) stream->half_closed = true;
}

void Network::Cancel(StreamId id) {
  Stream* stream = Find(id);
  if (stream == nullptr || !stream->prefill_open) return;
  if (sim_.Strikes(Fault::kStuckChannel)) {
    stream->stuck = true;
    for (Request& request : std::exchange(stream->queue, {})) {
      if (request.released) stream->pinned.push_back(std::move(request));
    }
    return;
  }
  TellDecode(id, Latency());
  TellPrefill(id, sim_.random.Between(0, 500), absl::CancelledError("cancelled"));
}

void Network::DropChannel(StreamId id) {
  Stream* stream = Find(id);
  if (stream == nullptr) return;
  stream->stuck = false;
  for (const Request& request : std::exchange(stream->pinned, {})) Release(request);
  TellDecode(id, Latency());
  TellPrefill(id, sim_.random.Between(0, 500), absl::CancelledError("the channel is gone"));
}

// The prefill worker's end is over after `delay`: what it queued is given back.
void Network::TellPrefill(StreamId id, Micros delay, const absl::Status& status) {
  sim_.queue.After(delay, [this, id, status] {
    Stream* stream = Find(id);
    if (stream == nullptr || stream->prefill_told || stream->stuck) return;
    stream->prefill_open = false;
    stream->prefill_told = true;
    for (const Request& request : std::exchange(stream->queue, {})) Release(request);
    ends_.prefill_process(stream->prefill).Post([this, id, prefill = stream->prefill, status] {
      sim_.Trace(3, id);
      ends_.ended(prefill, id, status);
    });
    EraseIfOver(id);
  });
}

void Network::TellDecode(StreamId id, Micros delay) {
  sim_.queue.After(delay, [this, id] {
    Stream* stream = Find(id);
    if (stream == nullptr) return;
    if (std::exchange(stream->decode_open, false)) {
      ends_.decode_process(stream->decode).Post([this, id, decode = stream->decode] {
        sim_.Trace(4, id);
        ends_.lost(decode, id);
      });
      // The call ends on the decode worker; a prefill worker that can still be reached hears so.
      if (sim_.queue.now() >= stream->black_until) {
        TellPrefill(id, Latency(), absl::UnavailableError("the call ended"));
      }
    }
    EraseIfOver(id);
  });
}

void Network::EraseIfOver(StreamId id) {
  Stream* stream = Find(id);
  if (stream->prefill_told && !stream->decode_open && stream->pinned.empty()) streams_.erase(id);
}

void Network::Cut(StreamId id, bool half) {
  Stream* stream = Find(id);
  if (stream == nullptr || stream->stuck) return;
  const bool late = sim_.Strikes(Fault::kLateDelivery);
  if (!late) {
    stream->black_until = sim_.queue.now() + 10'000'000;
    stream->in_flight_lost = true;
  }
  const Micros soon = sim_.random.Between(0, 2'000);
  const Micros later = half || late ? sim_.random.Between(2'000, 6'000'000) : soon;
  const bool prefill_first = sim_.random.Chance(500);
  TellPrefill(id, prefill_first ? soon : later, absl::UnavailableError("cut"));
  TellDecode(id, prefill_first ? later : soon);
}

void Network::BlackHole(StreamId id, Micros duration) {
  Stream* stream = Find(id);
  if (stream == nullptr) return;
  stream->black_until = sim_.queue.now() + duration;
  GiveUpWhenSilent(id);
}

// Keepalive ends what stays silent for so long.
void Network::GiveUpWhenSilent(StreamId id) {
  sim_.queue.After(3'000'000, [this, id] {
    const Stream* stream = Find(id);
    if (stream == nullptr) return;
    const Micros now = sim_.queue.now();
    if (now >=
        std::max({stream->black_until, stream->requests_held_until, stream->answers_held_until})) {
      return;
    }
    TellPrefill(id, 0, absl::UnavailableError("keepalive"));
    TellDecode(id, sim_.random.Between(0, 500'000));
  });
}

void Network::Partition(int prefill, int decode, bool requests, bool answers, Micros duration) {
  const Micros until = sim_.queue.now() + duration;
  Partitioned& pair = partitions_[{prefill, decode}];
  if (requests) pair.requests_until = until;
  if (answers) pair.answers_until = until;
  for (auto& [id, stream] : streams_) {
    if (stream.prefill != prefill || stream.decode != decode || !stream.prefill_open) continue;
    if (requests) stream.requests_held_until = until;
    if (answers) stream.answers_held_until = until;
    GiveUpWhenSilent(id);
  }
}

void Network::WorkerDied(bool is_prefill, int worker) {
  for (auto it = streams_.begin(); it != streams_.end();) {
    Stream& stream = (it++)->second;
    if ((is_prefill ? stream.prefill : stream.decode) != worker) continue;
    if (is_prefill) {
      stream.queue.clear();
      stream.pinned.clear();
      stream.stuck = stream.prefill_open = false;
      stream.prefill_told = true;
      stream.in_flight_lost = !sim_.Strikes(Fault::kLateDelivery);
      TellDecode(stream.id, sim_.random.Between(100, 3'000'000));
    } else {
      stream.decode_open = false;
      TellPrefill(stream.id, sim_.random.Between(100, 3'000'000),
                  absl::UnavailableError("the decode worker died"));
    }
    EraseIfOver(stream.id);
  }
}

std::vector<Network::StreamId> Network::OpenStreams() const {
  std::vector<StreamId> ids;
  for (const auto& [id, stream] : streams_) {
    if (stream.prefill_open && stream.decode_open) ids.push_back(id);
  }
  return ids;
}

}  // namespace baton
