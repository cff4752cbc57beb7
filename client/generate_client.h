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
#include "common/net/client_key.h"

namespace baton {

struct Answer {
  // The choices by index, each with its text, token ids and logprobs so far. A choice is complete
  // when its finish reason is set.
  std::vector<v1::GenerateComplete> choices;
  size_t last_complete = 0;  // index of the choice that was completed last: it has the usage
  absl::Status status;       // how the call ended
};

// A client of one server. Generate may be called by one thread at a time, Cancel by any thread.
class GenerateClient {
 public:
  // `key` is shown in every call.
  explicit GenerateClient(const std::shared_ptr<grpc::Channel>& channel, ClientKey key = {});

  // Sends `request` and returns when the answer has ended. Each message is first added to `answer`,
  // then given to `on_event`, on the calling thread. The answer's status is CANCELLED after Cancel
  // and DEADLINE_EXCEEDED after `timeout`. REQUIRES: request.stream().
  void Generate(const v1::GenerateRequest& request, absl::Duration timeout,
                const std::function<void(const v1::GenerateResponse&)>& on_event, Answer& answer);

  // Cancels the running call. Returns false if no call runs.
  bool Cancel();

 private:
  std::unique_ptr<v1::GenerationService::Stub> stub_;
  const ClientKey key_;
  absl::Mutex mutex_;
  grpc::ClientContext* running_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace baton
