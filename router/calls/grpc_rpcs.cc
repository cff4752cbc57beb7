#include "router/calls/grpc_rpcs.h"

#include <string>
#include <utility>

#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/client_callback.h"

#include "baton/internal/v1/decode.grpc.pb.h"
#include "baton/internal/v1/prefill.grpc.pb.h"
#include "baton/internal/v1/worker.grpc.pb.h"
#include "common/base/check.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/net/access_check.h"
#include "common/net/channel.h"
#include "common/rpc/limits.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

using internal::v1::DecodeRequest;
using internal::v1::DecodeResponse;
using internal::v1::DecodeService;
using internal::v1::PrefillRequest;
using internal::v1::PrefillResponse;
using internal::v1::PrefillService;
using internal::v1::WatchRequest;
using internal::v1::WatchResponse;
using internal::v1::WorkerService;

// `Stream` over gRPC's `Reactor`. Reads are started from outside of gRPC's callbacks: the hold
// keeps OnDone back until NoMoreReads.
template <typename Stream, typename Reactor, typename Response>
class GrpcStream : public Stream, public Reactor {
 public:
  explicit GrpcStream(StreamEvents& events) : events_(events) {}
  grpc::ClientContext& context() { return context_; }

  void Start() override {
    this->AddHold();
    this->StartCall();
  }
  void StartRead(Response* response) override { Reactor::StartRead(response); }
  void NoMoreReads() override { this->RemoveHold(); }
  void Cancel() override { context_.TryCancel(); }
  std::string PeerId() const override { return SpiffeIdOf(*context_.auth_context()); }
  std::string PeerAddress() const override { return context_.peer(); }

 protected:
  void OnReadDone(bool ok) override { events_.OnReadDone(ok); }
  void OnDone(const grpc::Status& status) override { events_.OnDone(FromGrpcStatus(status)); }

  StreamEvents& events_;

 private:
  grpc::ClientContext context_;
};

template <typename Response>
using GrpcReadStream =
    GrpcStream<ReadStream<Response>, grpc::ClientReadReactor<Response>, Response>;

// Ends also when the worker's certificate is revoked, for its connection stands as long as it
// wants.
class GrpcWatchStream final : public GrpcReadStream<WatchResponse> {
 public:
  GrpcWatchStream(StreamEvents& events, const Credentials& credentials)
      : GrpcReadStream<WatchResponse>(events), credentials_(credentials) {}

 private:
  void OnReadDone(bool ok) override {
    if (ok) trusted_ = credentials_.CheckPeer(*context().auth_context());
    if (!trusted_.ok()) Cancel();
    events_.OnReadDone(ok && trusted_.ok());
  }
  void OnDone(const grpc::Status& status) override {
    events_.OnDone(trusted_.ok() ? FromGrpcStatus(status) : trusted_);
  }

  const Credentials credentials_;
  absl::Status trusted_;
};

class GrpcDecodeStream final
    : public GrpcStream<DecodeStream, grpc::ClientBidiReactor<DecodeRequest, DecodeResponse>,
                        DecodeResponse> {
 public:
  using GrpcStream::GrpcStream;

  void StartWrite(const DecodeRequest* message) override { ClientBidiReactor::StartWrite(message); }
  void StartWritesDone() override { ClientBidiReactor::StartWritesDone(); }

 private:
  void OnWriteDone(bool ok) override { events_.OnWriteDone(ok); }
};

void AddTrace(const TraceContext* trace, grpc::ClientContext& context) {
  if (trace == nullptr) return;
  context.AddMetadata(kTraceParentHeader, TraceParentOf(*trace));
  if (!trace->state.empty()) context.AddMetadata(kTraceStateHeader, trace->state);
}

class GrpcWorkerRpcs final : public WorkerRpcs {
 public:
  GrpcWorkerRpcs(internal::v1::WorkerRole role, std::string address, const Credentials& credentials)
      : purpose_(role == internal::v1::WORKER_ROLE_PREFILL ? ChannelPurpose::kPrefill
                                                           : ChannelPurpose::kDecode),
        address_(std::move(address)),
        credentials_(credentials) {
    watch_request_.set_router(RandomBytes(kWatchingRouterBytes));
  }

  // Calls that run keep the channel on which they were begun.
  absl::Status Connect() {
    BATON_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                           MakeChannel(address_, credentials_, purpose_));
    watch_ = WorkerService::NewStub(channel);
    prefill_ = PrefillService::NewStub(channel);
    decode_ = DecodeService::NewStub(channel);
    return absl::OkStatus();
  }

  std::unique_ptr<ReadStream<WatchResponse>> Watch(StreamEvents& events) override {
    // One side may have got a new certificate, which the connection that stands does not show.
    if (std::exchange(watched_, true) && credentials_.secure()) {
      BATON_CHECK(Connect().ok(), "the address was good before");
    }
    auto stream = std::make_unique<GrpcWatchStream>(events, credentials_);
    watch_->async()->Watch(&stream->context(), &watch_request_, stream.get());
    return stream;
  }
  std::unique_ptr<ReadStream<PrefillResponse>> Prefill(const PrefillRequest& request,
                                                       const TraceContext* trace,
                                                       StreamEvents& events) override {
    auto stream = std::make_unique<GrpcReadStream<PrefillResponse>>(events);
    AddTrace(trace, stream->context());
    prefill_->async()->Prefill(&stream->context(), &request, stream.get());
    return stream;
  }
  std::unique_ptr<DecodeStream> Decode(const TraceContext* trace, StreamEvents& events) override {
    auto stream = std::make_unique<GrpcDecodeStream>(events);
    AddTrace(trace, stream->context());
    decode_->async()->Decode(&stream->context(), stream.get());
    return stream;
  }

 private:
  const ChannelPurpose purpose_;
  const std::string address_;
  const Credentials credentials_;
  bool watched_ = false;
  std::unique_ptr<WorkerService::Stub> watch_;
  std::unique_ptr<PrefillService::Stub> prefill_;
  std::unique_ptr<DecodeService::Stub> decode_;
  WatchRequest watch_request_;  // the same for every stream, so that the newest ends the others
};

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerRpcs>> ConnectOverGrpc(internal::v1::WorkerRole role,
                                                            const std::string& address,
                                                            const Credentials& credentials) {
  auto rpcs = std::make_unique<GrpcWorkerRpcs>(role, address, credentials);
  BATON_RETURN_IF_ERROR(rpcs->Connect());
  return rpcs;
}

}  // namespace baton
