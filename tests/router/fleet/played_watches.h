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

  // Every address has a worker, but for those that may not be called.
  ConnectWorker Connect() {
    return [this](internal::v1::WorkerRole,
                  const std::string& address) -> absl::StatusOr<std::unique_ptr<WorkerRpcs>> {
      if (const auto found = not_allowed_.find(address); found != not_allowed_.end()) {
        return found->second;
      }
      ++connected_[address];
      return absl::StatusOr<std::unique_ptr<WorkerRpcs>>(std::make_unique<Rpcs>(*this, address));
    };
  }
  // REQUIRES: a stream to the worker is open.
  void Say(const std::string& address, const internal::v1::WatchResponse& message) {
    streams_.at(address)->Say(message);
  }
  void End(const std::string& address) { streams_.at(address)->Cancel(); }
  // The worker's stream, if one is open, and those that are opened from now on end with `status`;
  // OK: no longer.
  void Fail(const std::string& address, const absl::Status& status) {
    failures_.erase(address);
    if (status.ok()) return;
    failures_[address] = status;
    if (IsOpen(address)) streams_.at(address)->End(status);
  }
  // The address may not be called, as `why` says.
  void Forbid(const std::string& address, const absl::Status& why) { not_allowed_[address] = why; }
  bool IsOpen(const std::string& address) const { return streams_.count(address) != 0; }
  // Sets where connections to the worker lead, as gRPC writes it; unknown unless it is set.
  void LeadTo(const std::string& address, const std::string& peer) { led_to_[address] = peer; }
  // Sets the SPIFFE id of the worker's certificate; there is none unless it is set.
  void Certify(const std::string& address, const std::string& id) { ids_[address] = id; }
  // Streams to the worker that were opened so far.
  int opened(const std::string& address) const {
    const auto found = opened_.find(address);
    return found == opened_.end() ? 0 : found->second;
  }

  // How often connections to the worker were set up so far.
  int connected(const std::string& address) const {
    const auto found = connected_.find(address);
    return found == connected_.end() ? 0 : found->second;
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
    void Start() override {
      const auto found = watches_.failures_.find(address_);
      if (found != watches_.failures_.end()) End(found->second);
    }
    void StartRead(internal::v1::WatchResponse* response) override { response_ = response; }
    void NoMoreReads() override {}
    void Cancel() override { End(absl::CancelledError("")); }
    void End(const absl::Status& status) {
      if (std::exchange(ended_, true)) return;
      watches_.queue_.After(1, [&events = events_, status] {
        events.OnReadDone(false);
        events.OnDone(status);
      });
    }
    std::string PeerId() const override {
      const auto found = watches_.ids_.find(address_);
      return found == watches_.ids_.end() ? "" : found->second;
    }
    std::string PeerAddress() const override {
      const auto found = watches_.led_to_.find(address_);
      return found == watches_.led_to_.end() ? "" : found->second;
    }

   private:
    PlayedWatches& watches_;
    const std::string address_;
    StreamEvents& events_;
    internal::v1::WatchResponse* response_ = nullptr;
    bool ended_ = false;
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
  std::map<std::string, int> connected_;
  std::map<std::string, std::string> led_to_;
  std::map<std::string, absl::Status> failures_, not_allowed_;
  std::map<std::string, std::string> ids_;
};

}  // namespace baton
