// Calls whose messages are given as bytes, for messages that no stub would send.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/generic_stub.h"

#include "common/rpc/status.h"

namespace baton {

struct RawAnswer {
  absl::Status status;
  std::vector<std::string> messages;
};

// Sends `messages` to `method` ("/package.Service/Method", of any kind) and reads its answers to
// the end. The deadline is 30 s.
inline RawAnswer RawCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                         const std::vector<std::string>& messages,
                         const std::map<std::string, std::string>& headers = {}) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  for (const auto& [name, value] : headers) context.AddMetadata(name, value);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  grpc::CompletionQueue queue;
  const auto done = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  const auto call = stub.PrepareCall(&context, method, &queue);
  call->StartCall(nullptr);
  bool open = done();
  for (const std::string& message : messages) {
    const grpc::Slice slice(message);
    if (!open) break;
    call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    open = done();
  }
  if (open) {
    call->WritesDone(nullptr);
    done();
  }
  RawAnswer answer;
  for (grpc::ByteBuffer buffer;; buffer.Clear()) {
    call->Read(&buffer, nullptr);
    if (!done()) break;
    grpc::Slice slice;
    if (!buffer.DumpToSingleSlice(&slice).ok()) break;
    answer.messages.emplace_back(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  grpc::Status status;
  call->Finish(&status, nullptr);
  done();
  answer.status = FromGrpcStatus(status);
  return answer;
}

}  // namespace baton
