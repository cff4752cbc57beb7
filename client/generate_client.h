// One streamed answer of a GenerationService.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "baton/v1/generation.grpc.pb.h"

namespace baton {

struct Answer {
  std::string text;  // all of it
  v1::GenerateComplete complete;
};

// Generate: one thread at a time. Cancel: any thread.
class GenerateClient {
 public:
  explicit GenerateClient(const std::shared_ptr<grpc::Channel>& channel);

  // Sends `request`, calls `on_text` for each piece as it comes, and returns when the answer is
  // whole. CANCELLED after Cancel, DEADLINE_EXCEEDED after `timeout`.
  absl::StatusOr<Answer> Generate(const v1::GenerateRequest& request, absl::Duration timeout,
                                  const std::function<void(const std::string&)>& on_text);

  // Ends the call that runs. False when none does.
  bool Cancel();

 private:
  std::unique_ptr<v1::GenerationService::Stub> stub_;
  absl::Mutex mutex_;
  grpc::ClientContext* running_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace baton
