// One streamed answer of a GenerationService.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "baton/v1/generation.grpc.pb.h"

namespace baton {

struct Answer {
  // By index: text, ids and logprobs so far. The finish reason is set when a choice is complete.
  std::vector<v1::GenerateComplete> choices;
  size_t last_complete = 0;  // the choice whose complete came last: it has the usage
  absl::Status status;       // how it ended; the choices are what came until then
};

// Generate: one thread at a time. Cancel: any thread.
class GenerateClient {
 public:
  explicit GenerateClient(const std::shared_ptr<grpc::Channel>& channel);

  // Sends `request`, calls `on_event` for each message once `answer` holds what is in it, and
  // returns when the answer has ended. Its status: CANCELLED after Cancel, DEADLINE_EXCEEDED after
  // `timeout`. REQUIRES: request.stream().
  void Generate(const v1::GenerateRequest& request, absl::Duration timeout,
                const std::function<void(const v1::GenerateResponse&)>& on_event, Answer& answer);

  // Ends the call that runs. False when none does.
  bool Cancel();

 private:
  std::unique_ptr<v1::GenerationService::Stub> stub_;
  absl::Mutex mutex_;
  grpc::ClientContext* running_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace baton
