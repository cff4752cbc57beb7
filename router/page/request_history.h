// The last requests of the router, as they go on.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "router/page/event_log.h"
#include "router/page/fleet_history.h"
#include "router/page/request_record.h"
#include "router/request/events.h"
#include "router/request/request_machine.h"

namespace baton {

// Keeps the record of one request. Chosen, Handled and Ended: on the loop's thread; a token costs
// them no allocation. The others: thread-safe. Borrows the log and the fleet's history.
class RecordedRequest {
 public:
  static constexpr size_t kMaxTries = 32;  // beyond that the oldest are left out

  RecordedRequest(const RequestSpec& spec, double received, EventLog& events, FleetHistory& fleet);

  // An attempt was given workers, whose own names these are; an empty one is not there. To be called
  // before the machine receives them.
  void Chosen(uint32_t attempt, const std::string& prefill_worker, const std::string& decode_worker,
              const RequestMachine& machine, absl::Time now);
  // The machine has handled `event`.
  void Handled(const RequestMachine& machine, const RequestEvent& event, absl::Time now);
  void Ended(const RequestMachine& machine, const absl::Status& status, const std::string& finish,
             absl::Time now);

  const std::string& id() const { return id_; }
  // `whole`: with its tries.
  RequestRecord Read(absl::Time now, bool whole) const;

 private:
  void On(const DecodeMessage& event, absl::Duration at) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void On(const PrefillMessage& event, absl::Duration at) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndTries(const RequestMachine& machine, absl::Duration at)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountQueue(const RequestEvent& event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enter(RequestStage stage, absl::Duration at) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  TryRecord* Find(uint32_t attempt) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string id_;
  const absl::Time received_;  // on the loop's clock
  EventLog& events_;
  FleetHistory& fleet_;
  mutable absl::Mutex mutex_;
  RequestRecord record_ ABSL_GUARDED_BY(mutex_);
  uint32_t breaks_ ABSL_GUARDED_BY(mutex_) = 0;           // breaks counted by the machine
  absl::Duration broken_ ABSL_GUARDED_BY(mutex_);         // time of the last break
  bool break_follows_ ABSL_GUARDED_BY(mutex_) = false;    // whether no try has begun since
  absl::Duration counted_queue_ ABSL_GUARDED_BY(mutex_);  // queue time of all tries
};

// Thread-safe. Borrows the log, and the fleet's history, which it gives the times to first tokens.
class RequestHistory {
 public:
  static constexpr size_t kBound = 256;

  RequestHistory(EventLog& events, FleetHistory& fleet) : events_(events), fleet_(fleet) {}

  // `now`: on the loop's clock, as all times of the record.
  std::shared_ptr<RecordedRequest> Begin(const RequestSpec& spec, absl::Time now);
  // The newest first, without their tries.
  std::vector<RequestRecord> Newest(absl::Time now) const;
  // The newest request with this id; none: it is forgotten, or never was.
  std::optional<RequestRecord> Find(absl::string_view id, absl::Time now) const;

 private:
  EventLog& events_;
  FleetHistory& fleet_;
  mutable absl::Mutex mutex_;
  std::deque<std::shared_ptr<RecordedRequest>> requests_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton
