#include "router/calls/grpc_rpcs.h"

#include <utility>

#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/client_callback.h"

#include "baton/internal/v1/decode.grpc.pb.h"
#include "baton/internal/v1/prefill.grpc.pb.h"
#include "baton/internal/v1/worker.grpc.pb.h"
#include "common/base/status_macros.h"
#include "common/net/channel.h"
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

 protected:
  StreamEvents& events_;

 private:
  void OnReadDone(bool ok) override { events_.OnReadDone(ok); }
  void OnDone(const grpc::Status& status) override { events_.OnDone(FromGrpcStatus(status)); }

  grpc::ClientContext context_;
};

template <typename Response>
using GrpcReadStream =
    GrpcStream<ReadStream<Response>, grpc::ClientReadReactor<Response>, Response>;

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

class GrpcWorkerRpcs final : public WorkerRpcs {
 public:
  explicit GrpcWorkerRpcs(const std::shared_ptr<grpc::Channel>& channel)
      : watch_(WorkerService::NewStub(channel)),
        prefill_(PrefillService::NewStub(channel)),
        decode_(DecodeService::NewStub(channel)) {}

  std::unique_ptr<ReadStream<WatchResponse>> Watch(StreamEvents& events) override {
    static const WatchRequest kRequest;
    auto stream = std::make_unique<GrpcReadStream<WatchResponse>>(events);
    watch_->async()->Watch(&stream->context(), &kRequest, stream.get());
    return stream;
  }
  std::unique_ptr<ReadStream<PrefillResponse>> Prefill(const PrefillRequest& request,
                                                       StreamEvents& events) override {
    auto stream = std::make_unique<GrpcReadStream<PrefillResponse>>(events);
    prefill_->async()->Prefill(&stream->context(), &request, stream.get());
    return stream;
  }
  std::unique_ptr<DecodeStream> Decode(StreamEvents& events) override {
    auto stream = std::make_unique<GrpcDecodeStream>(events);
    decode_->async()->Decode(&stream->context(), stream.get());
    return stream;
  }

 private:
  const std::unique_ptr<WorkerService::Stub> watch_;
  const std::unique_ptr<PrefillService::Stub> prefill_;
  const std::unique_ptr<DecodeService::Stub> decode_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerRpcs>> ConnectOverGrpc(internal::v1::WorkerRole role,
                                                            const std::string& address,
                                                            const Credentials& credentials) {
  BATON_ASSIGN_OR_RETURN(
      const std::shared_ptr<grpc::Channel> channel,
      MakeChannel(address, credentials,
                  role == internal::v1::WORKER_ROLE_PREFILL ? ChannelPurpose::kPrefill
                                                            : ChannelPurpose::kDecode));
  return std::make_unique<GrpcWorkerRpcs>(channel);
}

}  // namespace baton
