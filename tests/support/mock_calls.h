// The calls of a mock worker. They run on the loop's thread; gRPC's callbacks only post to it.
#pragma once

#include <atomic>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/support/server_callback.h"

#include "baton/internal/v1/decode.pb.h"
#include "baton/internal/v1/prefill.pb.h"
#include "baton/internal/v1/worker.pb.h"
#include "common/base/clock.h"
#include "router/calls/event_loop.h"
#include "tests/support/mock_worker.h"

namespace baton {

// The state of a worker that its calls share. Belongs to the loop's thread, except if it says
// so.
struct MockState {
  MockState(const MockWorker::Options& o, MockHandOff& h) : options(o), hand_off(h) {}

  // Thread-safe, as is stalled().
  MockBehaviour behaviour() const {
    absl::MutexLock lock(&mutex);
    return behaviour_now;
  }
  bool stalled() const {
    const MockBehaviour b = behaviour();
    return b.silent || b.stuck;
  }
  ThreadLoop& loop() { return hand_off.loop(); }
  MockVocabulary vocabulary() const {
    return {.vocab_size = options.vocab_size, .eos_id = options.eos_id};
  }
  // The worker's info, as Watch sends it first.
  internal::v1::WorkerInfo Info() const;
  // The time at which a prompt that arrives now will be computed.
  absl::Time ComputedAt(uint32_t prompt_tokens);
  // The next step of a worker whose steps take longer the more there is to do: all sequences have
  // it together.
  absl::Time NextStep(const MockBehaviour& behaviour);
  // How loaded the worker is, as Watch tells it.
  internal::v1::WorkerLoad Load() const;

  const MockWorker::Options options;
  MockHandOff& hand_off;
  std::string address;  // set before the first call
  uint64_t incarnation = 0;
  mutable absl::Mutex mutex;
  MockBehaviour behaviour_now ABSL_GUARDED_BY(mutex);
  std::atomic<bool> saw_pause = false;
  std::string trace_parent ABSL_GUARDED_BY(mutex);  // header of the last call
  std::atomic<int> active = 0;
  std::atomic<int> total = 0;
  uint64_t progress = 0;  // the worker's sign of life
  absl::Time busy_until;  // the time at which all prompts so far will be computed
  absl::Time step_at;     // the last step, or the next
  int decoding = 0;       // choices of decode calls that step
  uint32_t used_blocks = 0;
  uint64_t generated_tokens = 0;
};

// A call that is answered by a stream, with an outbox and one timer. It deletes itself.
template <typename Reactor, typename Response>
class MockCall : public Reactor {
 public:
  explicit MockCall(MockState& state) : state_(state) {}

 protected:
  ~MockCall() override {
    state_.loop().Cancel(timer_);
    state_.loop().Cancel(sign_timer_);
  }

  // Runs `task` after `delay`, unless the call is over by then. Only one task can wait.
  void RunAfter(absl::Duration delay, EventLoop::Task task) {
    if (!over()) timer_ = state_.loop().RunAt(SteadyNow() + delay, std::move(task));
  }
  // Runs `task` after `delay` as RunAfter does, but not before the worker is no longer stalled.
  void After(absl::Duration delay, EventLoop::Task task) {
    RunAfter(delay, [this, task = std::move(task)]() mutable {
      if (state_.stalled()) return After(kStalledPoll, std::move(task));
      task();
    });
  }
  // Sends a sign of life again and again, until the call is over.
  void GiveSigns(absl::Duration interval) {
    if (over() || interval == absl::InfiniteDuration()) return;
    sign_timer_ = state_.loop().RunAt(SteadyNow() + interval, [this, interval] {
      Response response;
      response.mutable_alive();
      Queue(std::move(response));
      GiveSigns(interval);
    });
  }
  void Queue(Response response) {
    if (over()) return;
    outbox_.push_back(std::move(response));
    WriteNext();
  }
  // Ends the call once the outbox is empty.
  void EndWith(const grpc::Status& status) {
    if (over()) return;
    ending_ = true;
    status_ = status;
    WriteNext();
  }
  bool over() const { return ending_ || finished_; }
  bool writing() const { return writing_; }
  // The last message that is not being written; null if there is none.
  Response* waiting() { return outbox_.size() > (writing_ ? 1 : 0) ? &outbox_.back() : nullptr; }
  virtual void Written() {}  // called when a message has been written

  MockState& state_;

 private:
  static constexpr absl::Duration kStalledPoll = absl::Milliseconds(1);

  void WriteNext() {
    if (writing_ || finished_) return;
    if (!outbox_.empty()) {
      writing_ = true;
      this->StartWrite(&outbox_.front());
    } else if (ending_) {
      finished_ = true;
      this->Finish(status_);
    }
  }
  void OnWriteDone(bool ok) override {
    state_.loop().PostOrRun([this, ok] {
      writing_ = false;
      outbox_.pop_front();
      if (!ok) outbox_.clear();
      WriteNext();
      if (ok && !over()) Written();
    });
  }
  void OnCancel() override {
    state_.loop().PostOrRun([this] {
      if (!writing_) outbox_.clear();
      if (outbox_.size() > 1) outbox_.resize(1);
      EndWith(grpc::Status::CANCELLED);
      state_.loop().Cancel(timer_);
    });
  }
  void OnDone() override {
    state_.loop().PostOrRun([this] { delete this; });
  }

  std::deque<Response> outbox_;  // while writing_, the first message is being written
  bool writing_ = false, ending_ = false, finished_ = false;
  grpc::Status status_;
  EventLoop::Timer timer_, sign_timer_;
};

class MockWatch final : public MockCall<grpc::ServerWriteReactor<internal::v1::WatchResponse>,
                                        internal::v1::WatchResponse> {
 public:
  explicit MockWatch(MockState& state);

 private:
  void Tick();
  bool introduced_ = false;
};

class MockPrefill final : public MockCall<grpc::ServerWriteReactor<internal::v1::PrefillResponse>,
                                          internal::v1::PrefillResponse> {
 public:
  MockPrefill(MockState& state, const internal::v1::PrefillRequest& request);

 private:
  ~MockPrefill() override { --state_.active; }
  void Start();
  void SendFirstTokens();
  void Commit();

  const internal::v1::PrefillRequest request_;
  const MockBehaviour behaviour_;  // the worker's behaviour when the call came
  bool ends_ = true;               // the sequence ends with its first tokens
};

class MockDecode final
    : public MockCall<
          grpc::ServerBidiReactor<internal::v1::DecodeRequest, internal::v1::DecodeResponse>,
          internal::v1::DecodeResponse> {
 public:
  explicit MockDecode(MockState& state);

 private:
  static constexpr int kMaxQueuedTokens = 256;

  ~MockDecode() override;
  void OnReadDone(bool ok) override;
  void Take(const internal::v1::DecodeRequest& request);
  void Start();
  void Accept();
  // Schedules the next token of each choice after behaviour_.between_tokens, unless the call is
  // paused or its outbox is full.
  void StepLater();
  void Step();
  void QueueToken(const internal::v1::OutputToken& token);
  void FinishChoice(uint32_t choice);
  void Written() override;

  internal::v1::DecodeRequest request_;  // the message that is being read
  internal::v1::DecodeStart start_;
  const MockBehaviour behaviour_;
  std::vector<MockSequence> choices_;
  std::vector<bool> running_;  // [choices]
  size_t unfinished_ = 0;
  bool started_ = false, paused_ = false;
  bool idle_ = false;     // no step is scheduled, since the call is paused or the outbox is full
  uint32_t blocks_ = 0;   // blocks that it holds
  bool steps_ = false;    // its unfinished choices are among state_.decoding
  bool expects_ = false;  // the call waits for its hand-off
};

}  // namespace baton
