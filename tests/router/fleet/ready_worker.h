// A worker that a fleet holds for ready, without a process behind it.
#pragma once

#include <cstdint>
#include <memory>

#include "router/calls/event_loop.h"
#include "router/fleet/fleet.h"
#include "router/fleet/worker.h"

namespace baton {

// Borrows loop and fleet. Up to 100 blocks of 16 tokens, and sequences up to 1000 tokens.
class ReadyWorker {
 public:
  ReadyWorker(EventLoop& loop, Fleet& fleet, internal::v1::WorkerRole role) : fleet_(fleet) {
    worker_.target = {.role = role, .address = "worker:1"};
    worker_.watch = std::make_unique<StreamingCall<internal::v1::WatchResponse>>(
        loop, CallHandlers<internal::v1::WatchResponse>{});
    worker_.state = internal::v1::WORKER_STATE_READY;
    worker_.seen.identity = "model";
    worker_.seen.max_model_len = 1000;
    worker_.seen.block_size = 16;
    worker_.seen.total_blocks = worker_.seen.free_blocks = 100;
    fleet_.pages().Add(worker_);
    fleet_.AddUnderNewId(worker_);
  }
  ~ReadyWorker() {
    fleet_.Remove(worker_);
    fleet_.pages().Remove(worker_);
  }
  ReadyWorker(const ReadyWorker&) = delete;
  ReadyWorker& operator=(const ReadyWorker&) = delete;

  uint64_t id() const { return worker_.id; }
  Worker& worker() { return worker_; }
  const WorkerSnapshot& seen() const { return worker_.seen; }
  void ComeAgain() {
    fleet_.Remove(worker_);
    fleet_.AddUnderNewId(worker_);
  }
  void SetReady(bool ready) {
    worker_.state = ready ? internal::v1::WORKER_STATE_READY : internal::v1::WORKER_STATE_DRAINING;
    fleet_.ReadinessChanged(worker_);
  }

 private:
  Fleet& fleet_;
  Worker worker_;
};

}  // namespace baton
