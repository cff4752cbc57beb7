// A receiver of pushes that behaves as it is told, over real sockets, with protobuf's own parsing.
#pragma once

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "grpcpp/grpcpp.h"

#include "baton/internal/v1/kv_transfer.grpc.pb.h"

namespace baton {

// Thread-safe.
class FakeDecodeWorker final : public internal::v1::KvTransferService::Service {
 public:
  struct Behaviour {
    bool stall = false;  // reads nothing any more after the first `reads_bytes` of payload
    // Enough for a sender to have learnt that it may send more than gRPC takes for a receiver that
    // does not read.
    size_t reads_bytes = size_t{7} << 20;
    bool refuse_joins = false;  // by name
    bool lose_joined = false;   // ends a joined stream at its first message, unanswered
    uint64_t window_bytes = uint64_t{64} << 20;
  };
  // Every message of data that was acknowledged, on which connection.
  struct Received {
    std::string peer;
    internal::v1::KvDataHeader header;
    std::string payload;
  };

  explicit FakeDecodeWorker(const Behaviour& behaviour);
  ~FakeDecodeWorker() override;

  const std::string& address() const { return address_; }
  std::vector<Received> received() const;
  int streams() const { return streams_; }
  bool committed() const { return committed_; }
  bool stalled() const { return stalled_; }

 private:
  using Stream = grpc::ServerReaderWriter<internal::v1::PushResponse, internal::v1::PushRequest>;
  grpc::Status Push(grpc::ServerContext* context, Stream* stream) override;
  bool Answer(const internal::v1::PushRequest& request, const std::string& peer, Stream* stream);

  const Behaviour behaviour_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
  std::atomic<int> streams_ = 0;
  std::atomic<bool> committed_ = false;
  std::atomic<size_t> read_bytes_ = 0;  // payload bytes
  std::atomic<bool> stalled_ = false;
  mutable absl::Mutex mutex_;
  std::vector<Received> received_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton
