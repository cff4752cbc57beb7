// The RPCs of one worker as raw streams: what is different between gRPC and a simulated network.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "baton/internal/v1/decode.pb.h"
#include "baton/internal/v1/prefill.pb.h"
#include "baton/internal/v1/worker.pb.h"
#include "common/rpc/trace_context.h"

namespace baton {

// Receives the events of a stream, on any thread. Each started operation is answered once.
class StreamEvents {
 public:
  virtual ~StreamEvents() = default;
  virtual void OnReadDone(bool ok) = 0;  // false: no message follows
  virtual void OnWriteDone(bool /*ok*/) {}
  // The stream is over, and may be destroyed from here on. Called once, after all else.
  virtual void OnDone(const absl::Status& status) = 0;
};

// An RPC that is answered by a stream. Its events never come from inside one of its functions.
// Destroyed before Start or from OnDone on.
template <typename Response>
class ReadStream {
 public:
  virtual ~ReadStream() = default;
  // Operations may be started before, and are carried out from here on.
  virtual void Start() = 0;
  // One at a time. `response` is written until OnReadDone.
  virtual void StartRead(Response* response) = 0;
  // Lets OnDone come. Until then reads may be started on any thread.
  virtual void NoMoreReads() = 0;
  virtual void Cancel() = 0;
  // The SPIFFE id in the worker's certificate; empty without TLS. REQUIRES: a read was answered
  // with a message, and OnDone has not come.
  virtual std::string PeerId() const = 0;
  // Returns the address of the other end in gRPC's form ("ipv4:10.0.0.3:50051"); empty if it is
  // unknown. REQUIRES: as PeerId.
  virtual std::string PeerAddress() const = 0;
};

// DecodeService.Decode, whose two directions are streams.
class DecodeStream : public ReadStream<internal::v1::DecodeResponse> {
 public:
  // One at a time, answered by OnWriteDone. `message` is read until then.
  virtual void StartWrite(const internal::v1::DecodeRequest* message) = 0;
  // No message follows. Not answered.
  virtual void StartWritesDone() = 0;
};

// Makes streams to one worker, not started. Two implementations: gRPC's (grpc_rpcs.h), and the
// simulation's. The events outlive the stream; a request lives until Start has returned.
class WorkerRpcs {
 public:
  virtual ~WorkerRpcs() = default;
  virtual std::unique_ptr<ReadStream<internal::v1::WatchResponse>> Watch(StreamEvents& events) = 0;
  // `trace`: that the call belongs to, which its headers say; null: to none. Both: as above.
  virtual std::unique_ptr<ReadStream<internal::v1::PrefillResponse>> Prefill(
      const internal::v1::PrefillRequest& request, const TraceContext* trace,
      StreamEvents& events) = 0;
  virtual std::unique_ptr<DecodeStream> Decode(const TraceContext* trace, StreamEvents& events) = 0;
};

// Does not connect yet. The error names the address.
using ConnectWorker = std::function<absl::StatusOr<std::unique_ptr<WorkerRpcs>>(
    internal::v1::WorkerRole role, const std::string& address)>;

}  // namespace baton
