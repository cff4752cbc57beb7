// The transfer that one would write first: each message is a protobuf with a `bytes` field.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "grpcpp/grpcpp.h"

#include "baton/internal/v1/kv_transfer.grpc.pb.h"
#include "bench/transfer/transfer_bench.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

using internal::v1::KvTransferService;
using internal::v1::PushRequest;
using internal::v1::PushResponse;

// Copies the fields that arrive into the cache one after the other, and answers at the call's end.
class CopyingService final : public KvTransferService::Service {
 public:
  CopyingService(uint8_t* to, size_t bytes) : to_(to), bytes_(bytes) {}
  grpc::Status Push(grpc::ServerContext*,
                    grpc::ServerReaderWriter<PushResponse, PushRequest>* stream) override {
    PushRequest message;
    size_t at = 0;
    while (stream->Read(&message)) {
      const std::string& payload = message.data().payload();
      if (payload.size() > bytes_ - at) return {grpc::StatusCode::OUT_OF_RANGE, "too much"};
      std::memcpy(to_ + at, payload.data(), payload.size());
      at += payload.size();
    }
    PushResponse done;
    done.mutable_committed();
    if (at == bytes_) stream->Write(done);
    return grpc::Status::OK;
  }

 private:
  uint8_t* const to_;
  const size_t bytes_;
};

absl::Status ReceiveMessages(const TransferCase& transfer, const ReadyFunction& ready) {
  BATON_ASSIGN_OR_RETURN(const TransferCache cache, TransferCache::Create(transfer));
  CopyingService service(cache.data(), transfer.bytes());
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(-1);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return absl::UnavailableError("cannot listen on 127.0.0.1");
  ready(absl::StrCat("127.0.0.1:", port));
  server->Wait();
  return absl::OkStatus();
}

absl::Status SendOnce(KvTransferService::Stub& stub, const uint8_t* from, size_t bytes,
                      size_t message_bytes) {
  grpc::ClientContext context;
  const auto stream = stub.Push(&context);
  PushRequest message;
  for (size_t at = 0; at < bytes; at += message_bytes) {
    message.mutable_data()->set_payload(from + at, std::min(message_bytes, bytes - at));
    if (!stream->Write(message)) break;
  }
  stream->WritesDone();
  PushResponse answer;
  const bool answered = stream->Read(&answer);
  const grpc::Status status = stream->Finish();
  if (answered && status.ok()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("protobuf bytes: ", status.error_message()));
}

absl::StatusOr<std::vector<TransferSample>> SendMessages(const TransferCase& transfer,
                                                         const std::vector<size_t>& message_bytes,
                                                         const std::string& address,
                                                         pid_t receiver) {
  BATON_ASSIGN_OR_RETURN(TransferCache cache, TransferCache::Create(transfer));
  cache.Fill();
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // as between servers
  const auto stub = KvTransferService::NewStub(
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
  BATON_RETURN_IF_ERROR(SendOnce(*stub, cache.data(), transfer.bytes(), message_bytes.front()));
  std::vector<TransferSample> samples;
  for (const size_t bytes : message_bytes) {
    const TransferMeter meter(receiver);
    BATON_RETURN_IF_ERROR(SendOnce(*stub, cache.data(), transfer.bytes(), bytes));
    samples.push_back(meter.Stop(transfer.bytes()));
  }
  return samples;
}

}  // namespace

absl::StatusOr<std::vector<TransferSample>> MeasureProtobufBytes(
    const TransferCase& transfer, const std::vector<size_t>& message_bytes) {
  return RunForkedPair([&](const ReadyFunction& ready) { return ReceiveMessages(transfer, ready); },
                       [&](const std::string& address, pid_t receiver) {
                         return SendMessages(transfer, message_bytes, address, receiver);
                       },
                       kTransferTimeout);
}

}  // namespace baton
