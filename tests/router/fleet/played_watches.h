// The Watch streams of workers that a test plays in virtual time.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"

#include "router/calls/worker_rpcs.h"
#include "tests/simulation/event_queue.h"

namespace baton {

// Outlives its streams. Borrows the queue.
class PlayedWatches {
 public:
  explicit PlayedWatches(EventQueue& queue) : queue_(queue) {}

  // Every address has a worker.
  ConnectWorker Connect() {
    return [this](internal::v1::WorkerRole, const std::string& address) {
      return absl::StatusOr<std::unique_ptr<WorkerRpcs>>(std::make_unique<Rpcs>(*this, address));
    };
  }
  // REQUIRES: a stream to the worker is open.
  void Say(const std::string& address, const internal::v1::WatchResponse& message) {
    streams_.at(address)->Say(message);
  }
  void End(const std::string& address) { streams_.at(address)->Cancel(); }
  bool IsOpen(const std::string& address) const { return streams_.count(address) != 0; }
  // Sets where connections to the worker lead, as gRPC writes it; unknown unless it is set.
  void LeadTo(const std::string& address, const std::string& peer) { led_to_[address] = peer; }
  // Streams to the worker that were opened so far.
  int opened(const std::string& address) const {
    const auto found = opened_.find(address);
    return found == opened_.end() ? 0 : found->second;
  }

 private:
  using WatchStream = ReadStream<internal::v1::WatchResponse>;

  class Stream final : public WatchStream {
   public:
    Stream(PlayedWatches& watches, std::string address, StreamEvents& events)
        : watches_(watches), address_(std::move(address)), events_(events) {
      watches_.streams_[address_] = this;
      ++watches_.opened_[address_];
    }
    ~Stream() override { watches_.streams_.erase(address_); }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    void Say(const internal::v1::WatchResponse& message) {
      *response_ = message;
      events_.OnReadDone(true);
    }
    void Start() override {}
    void StartRead(internal::v1::WatchResponse* response) override { response_ = response; }
    void NoMoreReads() override {}
    void Cancel() override {
      if (std::exchange(cancelled_, true)) return;
      watches_.queue_.After(1, [&events = events_] {
        events.OnReadDone(false);
        events.OnDone(absl::CancelledError(""));
      });
    }
    std::string PeerId() const override { return ""; }
    std::string PeerAddress() const override {
      const auto found = watches_.led_to_.find(address_);
      return found == watches_.led_to_.end() ? "" : found->second;
    }

   private:
    PlayedWatches& watches_;
    const std::string address_;
    StreamEvents& events_;
    internal::v1::WatchResponse* response_ = nullptr;
    bool cancelled_ = false;
  };

  class Rpcs final : public WorkerRpcs {
   public:
    Rpcs(PlayedWatches& watches, std::string address)
        : watches_(watches), address_(std::move(address)) {}
    std::unique_ptr<WatchStream> Watch(StreamEvents& events) override {
      return std::make_unique<Stream>(watches_, address_, events);
    }
    // Nobody gives these workers work.
    std::unique_ptr<ReadStream<internal::v1::PrefillResponse>> Prefill(
        const internal::v1::PrefillRequest&, const TraceContext*, StreamEvents&) override {
      return nullptr;
    }
    std::unique_ptr<DecodeStream> Decode(const TraceContext*, StreamEvents&) override {
      return nullptr;
    }

   private:
    PlayedWatches& watches_;
    const std::string address_;
  };

  EventQueue& queue_;
  std::map<std::string, Stream*> streams_;  // open ones, by address
  std::map<std::string, int> opened_;
  std::map<std::string, std::string> led_to_;
};

}  // namespace baton
