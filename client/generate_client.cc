#include "client/generate_client.h"

#include "absl/cleanup/cleanup.h"

#include "common/rpc/status.h"

namespace baton {

GenerateClient::GenerateClient(const std::shared_ptr<grpc::Channel>& channel)
    : stub_(v1::GenerationService::NewStub(channel)) {}

absl::StatusOr<Answer> GenerateClient::Generate(
    const v1::GenerateRequest& request, absl::Duration timeout,
    const std::function<void(const std::string&)>& on_text) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  {
    absl::MutexLock lock(&mutex_);
    running_ = &context;
  }
  const absl::Cleanup done = [this] {
    absl::MutexLock lock(&mutex_);
    running_ = nullptr;
  };

  Answer answer;
  bool complete = false;
  const auto reader = stub_->Generate(&context, request);
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
    if (response.has_chunk()) {
      answer.text += response.chunk().text();
      on_text(response.chunk().text());
    } else if (response.has_complete()) {
      answer.complete = response.complete();
      complete = true;
      if (!request.stream()) {
        answer.text = answer.complete.text();
        on_text(answer.text);
      }
    }
  }
  if (const grpc::Status status = reader->Finish(); !status.ok()) return FromGrpcStatus(status);
  if (!complete) return absl::InternalError("the server ended the stream without completing it");
  return answer;
}

bool GenerateClient::Cancel() {
  absl::MutexLock lock(&mutex_);
  if (running_ == nullptr) return false;
  running_->TryCancel();
  return true;
}

}  // namespace baton
