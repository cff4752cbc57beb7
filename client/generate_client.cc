#include "client/generate_client.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"

#include "common/rpc/deadline.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

// Adds a message to `answer`. Returns false for a choice that was not requested, and for an event
// of a later version.
bool Take(const v1::GenerateResponse& response, Answer& answer) {
  if (!response.has_chunk() && !response.has_complete()) return false;
  const uint32_t index =
      response.has_chunk() ? response.chunk().index() : response.complete().index();
  if (index >= answer.choices.size()) return false;
  v1::GenerateComplete& choice = answer.choices[index];
  if (response.has_chunk()) {
    choice.mutable_text()->append(response.chunk().text());
    choice.mutable_token_ids()->MergeFrom(response.chunk().token_ids());
    choice.mutable_logprobs()->MergeFrom(response.chunk().logprobs());
    choice.mutable_prompt_logprobs()->MergeFrom(response.chunk().prompt_logprobs());
  } else {
    v1::GenerateComplete end = response.complete();
    end.clear_text();  // in a stream the chunks carry the text
    choice.MergeFrom(end);
    answer.last_complete = index;
  }
  return true;
}

}  // namespace

GenerateClient::GenerateClient(const std::shared_ptr<grpc::Channel>& channel, ClientKey key)
    : stub_(v1::GenerationService::NewStub(channel)), key_(std::move(key)) {}

void GenerateClient::Generate(const v1::GenerateRequest& request, absl::Duration timeout,
                              const std::function<void(const v1::GenerateResponse&)>& on_event,
                              Answer& answer) {
  grpc::ClientContext context;
  context.set_deadline(DeadlineAfter(timeout));
  key_.AddTo(context);
  {
    absl::MutexLock lock(&mutex_);
    running_ = &context;
  }
  const absl::Cleanup done = [this] {
    absl::MutexLock lock(&mutex_);
    running_ = nullptr;
  };

  answer = {};
  answer.choices.resize(request.sampling_params().has_n() ? request.sampling_params().n() : 1);
  const auto reader = stub_->Generate(&context, request);
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
    if (Take(response, answer)) on_event(response);
  }
  answer.status = FromGrpcStatus(reader->Finish());
  const bool complete = std::all_of(
      answer.choices.begin(), answer.choices.end(), [](const v1::GenerateComplete& choice) {
        return choice.finish_reason() != v1::FINISH_REASON_UNSPECIFIED;
      });
  if (answer.status.ok() && !complete) {
    answer.status = absl::InternalError("the server ended the stream without completing it");
  }
}

bool GenerateClient::Cancel() {
  absl::MutexLock lock(&mutex_);
  if (running_ == nullptr) return false;
  running_->TryCancel();
  return true;
}

}  // namespace baton
