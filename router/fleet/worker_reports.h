// What calls to workers show about them, for placement: who serves and who fails, how fast prompts
// are computed and handed off.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "baton/internal/v1/decode.pb.h"
#include "baton/internal/v1/prefill.pb.h"
#include "router/fleet/fleet.h"
#include "router/fleet/lease.h"

namespace baton {

// On the loop's thread only. Borrows the fleet. Reports about removed workers are ignored.
class WorkerReports {
 public:
  // What one call has shown so far.
  struct Call {
    uint64_t worker_id = 0;
    uint64_t begun = 0;            // the lease's for that worker
    bool served = false;           // the call has done something useful
    uint32_t cached_tokens = 0;    // tokens of the prompt that the worker held, as it said
    uint32_t computed_tokens = 0;  // tokens of the prompt that it has or has computed, as it said
  };

  // A hand-off has failed on the link between the two for that reason, one of kPush...
  // (worker_status.h). Null: not reported.
  using OnLinkFailed = std::function<void(const WorkerTarget& prefill, const WorkerTarget& decode,
                                          const std::string& fault)>;
  explicit WorkerReports(Fleet& fleet, OnLinkFailed on_link_failed = nullptr)
      : fleet_(fleet), on_link_failed_(std::move(on_link_failed)) {}

  // The call was answered. `lease`: what its attempt holds; null when that was given back.
  void Heard(Call& call, const Lease* lease, const internal::v1::PrefillResponse& message);
  void Heard(Call& call, const Lease* lease, const internal::v1::DecodeResponse& message);
  void Ended(const Call& call, const absl::Status& status);
  // The worker broke the protocol in the call, as `status` describes: it ends as if it had failed.
  void NotBelieved(const Call& call, const absl::Status& status);
  // The attempt broke with `failure` because its KV did not reach the decode worker. Logs the link
  // if a line is due.
  void HandOffFailed(const Lease& lease, const absl::Status& failure);

 private:
  void Served(Call& call);
  void Computed(Call& call, uint32_t tokens);
  void HandedOff(const Call& call, uint64_t decode, const internal::v1::PrefillFinished& finished);
  void Prefilled(const Call& call, const Lease& lease, absl::Duration compute);

  Fleet& fleet_;
  const OnLinkFailed on_link_failed_;
};

}  // namespace baton
