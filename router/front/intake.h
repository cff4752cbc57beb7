// Takes clients' requests in, whether they come by gRPC or by HTTP: who calls, whether there is
// room, then the prompt's tokens and its form. The rest is done elsewhere.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "baton/v1/generation.pb.h"
#include "router/access_log/access_entry.h"
#include "router/calls/client_call.h"
#include "router/calls/event_loop.h"
#include "router/dispatch/admission.h"
#include "router/fleet/fleet_view.h"
#include "router/front/door.h"
#include "router/front/grammar_pool.h"
#include "router/front/preparing_pool.h"
#include "router/front/refusals.h"
#include "router/front/served_model.h"
#include "router/metrics/router_metrics.h"
#include "router/runner/request_runner.h"
#include "router/tenants/fleet_secret.h"
#include "router/tenants/quotas.h"
#include "router/trace/tracer.h"

namespace baton {

// Thread-safe. Borrows all of Parts.
class Intake {
 public:
  struct Parts {
    EventLoop& loop;
    const ServedModel& model;
    const FleetView& fleet;
    Door& door;
    Quotas& quotas;
    Refusals& refusals;
    const FleetSecret& secret;
    Admission& admission;
    PreparingPool& pool;  // its capacity is at least admission's limit of requests
    GrammarPool& grammars;
    RequestRunner& runner;
    RouterMetrics& metrics;
    Disaggregation disaggregation;
    // Whether requests are refused for want of memory. Empty: never.
    std::function<bool()> short_of_memory{};
    const Tracer* tracer = nullptr;   // null: nothing is traced
    AccessLog* access_log = nullptr;  // null: there is none
  };
  // A request's place in the queue, and its share of what its tenant may use.
  struct Place {
    Caller caller;
    Admission::Ticket ticket;
    Quotas::Use use;
    absl::Time received;
    absl::Time deadline;                          // infinite: the client gave none
    std::shared_ptr<const TraceContext> trace{};  // null: the request is not traced
    std::shared_ptr<AccessEntry> access{};        // null: the request has no line in the access log
    LongAnswers long_answers = LongAnswers::kRefuse;
  };

  using Settled = std::function<void(uint32_t prompt_tokens)>;

  explicit Intake(const Parts& parts) : parts_(parts) {}

  // From now on new requests are refused as those of a router that shuts down.
  void RefuseNew() { refusing_.store(true); }
  bool refusing() const { return refusing_.load(); }
  // Refuses everybody while memory is short.
  absl::Status CheckMemory() const;
  // Refuses new requests while memory is short, or the router shuts down.
  absl::Status CheckOpen() const;

  // A place for each of one caller's requests, or for none. In this order: what a limit or a full
  // queue refuses costs nothing else; then all is checked that can be before anything is tokenised.
  // A refusal is counted.
  absl::StatusOr<std::vector<Place>> Admit(const Caller& caller,
                                           absl::Span<const v1::GenerateRequest* const> requests,
                                           absl::Time received, absl::Time deadline,
                                           LongAnswers long_answers = LongAnswers::kRefuse);
  // The request belongs to the trace that its caller names, or to a new one; nothing is done if
  // nothing is traced.
  void Trace(const TraceHeaders& headers, Place& place) const;
  // Counts a refusal that Admit has not seen.
  void CountRefused(const absl::Status& status) { parts_.metrics.Refused(status); }

  // Runs a request. Its answer and errors go to `writer`, which keeps `request` alive until it is
  // destroyed. `settled` may be empty. It is called with the length of the prompt when the request
  // can no longer be refused as invalid, before anything is written, on any thread; it is not
  // called if the request is refused.
  void Start(Place place, const v1::GenerateRequest& request, std::unique_ptr<ClientWriter> writer,
             Settled settled = nullptr);

 private:
  struct Running;  // what preparing a request needs

  // Returns the request's share of its tenant's quotas.
  Quotas::Ask AskOf(const v1::GenerateRequest& request, LongAnswers long_answers) const;
  // Returns the request's max_tokens, cut as far as that can be known before the prompt is
  // tokenised.
  uint32_t MaxTokensOf(const v1::GenerateRequest& request, LongAnswers long_answers) const;
  // Tokens of prompt and outputs, as far as they are known before the prompt is tokenised.
  uint64_t ExpectedTokens(const v1::GenerateRequest& request, LongAnswers long_answers) const;
  // Finds room in the queue for a request, and checks what can be before it is tokenised.
  absl::StatusOr<Admission::Ticket> AdmitOne(const Caller& caller,
                                             const v1::GenerateRequest& request,
                                             absl::Time received, absl::Time deadline,
                                             LongAnswers long_answers);
  absl::StatusOr<RequestSpec> Prepare(Running& running);
  // Has the grammar compiled if there is one, and hands over.
  void HandOver(Running running, absl::StatusOr<RequestSpec> spec);
  void Prepared(const Running& running, absl::StatusOr<RequestSpec> spec);

  const Parts parts_;
  std::atomic<bool> refusing_ = false;
  std::atomic<uint64_t> next_number_ = 1;
};

}  // namespace baton
