#include "tests/prefill_worker/fake_decode_worker.h"

#include <chrono>

#include "absl/time/clock.h"
#include "gtest/gtest.h"

#include "common/base/crc32c.h"

namespace baton {

using internal::v1::PushRefused;
using internal::v1::PushRequest;
using internal::v1::PushResponse;

FakeDecodeWorker::FakeDecodeWorker(const Behaviour& behaviour) : behaviour_(behaviour) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  address_ = "127.0.0.1:" + std::to_string(port);
}

FakeDecodeWorker::~FakeDecodeWorker() { server_->Shutdown(std::chrono::system_clock::now()); }

std::vector<FakeDecodeWorker::Received> FakeDecodeWorker::received() const {
  absl::MutexLock lock(&mutex_);
  return received_;
}

grpc::Status FakeDecodeWorker::Push(grpc::ServerContext* context, Stream* stream) {
  ++streams_;
  PushRequest request;
  bool joined = false;
  while (stream->Read(&request)) {
    joined |= request.has_join();
    if (joined && request.has_data() && behaviour_.lose_joined) {
      return grpc::Status(grpc::StatusCode::UNAVAILABLE, "lost");
    }
    if (!Answer(request, context->peer(), stream)) return grpc::Status::OK;
    read_bytes_ += request.data().payload().size();
    while (behaviour_.stall && read_bytes_ >= behaviour_.reads_bytes && !context->IsCancelled()) {
      stalled_ = true;
      absl::SleepFor(absl::Milliseconds(1));
    }
  }
  return grpc::Status::OK;
}

bool FakeDecodeWorker::Answer(const PushRequest& request, const std::string& peer, Stream* stream) {
  PushResponse response;
  switch (request.event_case()) {
    case PushRequest::kOpen:
      response.mutable_opened()->set_window_bytes(behaviour_.window_bytes);
      break;
    case PushRequest::kJoin:
      if (!behaviour_.refuse_joins) return true;
      response.mutable_refused()->set_reason(PushRefused::REASON_UNKNOWN_ATTEMPT);
      stream->Write(response);
      return false;
    case PushRequest::kData: {
      const std::string header = request.data().header().SerializeAsString();
      EXPECT_EQ(Crc32c(header.data(), header.size()), request.data().header_crc32c());
      absl::MutexLock lock(&mutex_);
      received_.push_back({peer, request.data().header(), request.data().payload()});
      response.mutable_ack()->set_sequence_number(request.data().header().sequence_number());
      response.mutable_ack()->set_window_bytes(behaviour_.window_bytes);
      break;
    }
    case PushRequest::kCheckpoint:
      response.mutable_checkpointed()->set_end_token(request.checkpoint().end_token());
      break;
    case PushRequest::kCommit:
      committed_ = true;
      response.mutable_committed();
      stream->Write(response);
      return false;
    case PushRequest::kAbort:
      response.mutable_refused()->set_reason(PushRefused::REASON_ABORTED);
      stream->Write(response);
      return false;
    default:
      return false;
  }
  stream->Write(response);
  return true;
}

}  // namespace baton
