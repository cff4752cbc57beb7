#include "tests/support/mock_worker.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"

#include "baton/internal/v1/decode.grpc.pb.h"
#include "baton/internal/v1/prefill.grpc.pb.h"
#include "baton/internal/v1/worker.grpc.pb.h"
#include "common/base/check.h"
#include "common/base/random.h"
#include "tests/support/mock_calls.h"

namespace baton {
namespace {

using grpc::CallbackServerContext;
using internal::v1::AttemptKey;

std::string HandOffKey(const std::string& address, const AttemptKey& key) {
  return absl::StrCat(address, " ", key.SerializeAsString());
}

}  // namespace

void MockHandOff::Commit(const std::string& decode_address, const AttemptKey& key) {
  Entry& entry = entries_[HandOffKey(decode_address, key)];
  entry.committed = true;
  if (entry.expected) std::exchange(entry.expected, nullptr)();
}

void MockHandOff::Expect(const std::string& decode_address, const AttemptKey& key,
                         EventLoop::Task committed) {
  Entry& entry = entries_[HandOffKey(decode_address, key)];
  if (entry.committed) return committed();
  entry.expected = std::move(committed);
}

void MockHandOff::Forget(const std::string& decode_address, const AttemptKey& key) {
  entries_.erase(HandOffKey(decode_address, key));
}

struct MockWorker::Rep final : public internal::v1::WorkerService::CallbackService,
                               public internal::v1::PrefillService::CallbackService,
                               public internal::v1::DecodeService::CallbackService {
  Rep(const Options& options, MockHandOff& hand_off) : state(options, hand_off) {}

  grpc::ServerWriteReactor<internal::v1::WatchResponse>* Watch(
      CallbackServerContext*, const internal::v1::WatchRequest*) override {
    return new MockWatch(state);
  }
  grpc::ServerWriteReactor<internal::v1::PrefillResponse>* Prefill(
      CallbackServerContext* context, const internal::v1::PrefillRequest* request) override {
    NoteTrace(*context);
    return new MockPrefill(state, *request);
  }
  grpc::ServerBidiReactor<internal::v1::DecodeRequest, internal::v1::DecodeResponse>* Decode(
      CallbackServerContext* context) override {
    NoteTrace(*context);
    return new MockDecode(state);
  }
  void NoteTrace(const CallbackServerContext& context) {
    const auto found = context.client_metadata().find("traceparent");
    absl::MutexLock lock(&state.mutex);
    state.trace_parent = found == context.client_metadata().end()
                             ? ""
                             : std::string(found->second.data(), found->second.size());
  }

  MockState state;
  std::unique_ptr<grpc::Server> server;
};

MockWorker::MockWorker(const Options& options, MockHandOff& hand_off)
    : rep_(std::make_unique<Rep>(options, hand_off)) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(absl::StrCat("127.0.0.1:", options.port),
                           grpc::InsecureServerCredentials(), &port);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 500);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.RegisterService(static_cast<internal::v1::WorkerService::Service*>(rep_.get()));
  builder.RegisterService(static_cast<internal::v1::PrefillService::Service*>(rep_.get()));
  builder.RegisterService(static_cast<internal::v1::DecodeService::Service*>(rep_.get()));
  rep_->state.incarnation = RandomUint64();
  rep_->server = builder.BuildAndStart();
  BATON_CHECK(rep_->server != nullptr && port != 0, "the mock worker cannot listen");
  // Nobody knows the port yet, so no call can read the address before it is set.
  rep_->state.address = absl::StrCat("127.0.0.1:", port);
}

MockWorker::~MockWorker() { Kill(); }

const std::string& MockWorker::address() const { return rep_->state.address; }

void MockWorker::Behave(const MockBehaviour& behaviour) {
  absl::MutexLock lock(&rep_->state.mutex);
  rep_->state.behaviour_now = behaviour;
}

void MockWorker::Kill() {
  if (rep_->server == nullptr) return;
  rep_->server->Shutdown(std::chrono::system_clock::now());
  rep_->server->Wait();
  rep_->server.reset();
  rep_->state.loop().Run([] {});  // waits for the ends of calls, which were posted before
}

internal::v1::WorkerRole MockWorker::role() const { return rep_->state.options.role; }
int MockWorker::active_calls() const { return rep_->state.active; }
int MockWorker::total_calls() const { return rep_->state.total; }
bool MockWorker::saw_pause() const { return rep_->state.saw_pause; }
std::string MockWorker::trace_parent() const {
  absl::MutexLock lock(&rep_->state.mutex);
  return rep_->state.trace_parent;
}

}  // namespace baton
