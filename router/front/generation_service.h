// The public service: validates, admits, hands over; the work is done elsewhere.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "absl/time/time.h"

#include "baton/v1/generation.grpc.pb.h"
#include "common/rpc/receiving_service.h"
#include "router/calls/event_loop.h"
#include "router/dispatch/admission.h"
#include "router/fleet/fleet_view.h"
#include "router/front/door.h"
#include "router/front/grammar_pool.h"
#include "router/front/preparing_pool.h"
#include "router/front/served_model.h"
#include "router/metrics/router_metrics.h"
#include "router/runner/request_runner.h"
#include "router/tenants/fleet_secret.h"
#include "router/tenants/quotas.h"

namespace baton {

// Thread-safe, as gRPC calls it from its own threads. Borrows all of Parts.
class GenerationServiceImpl final : public ReceivingService<v1::GenerationService> {
 public:
  struct Parts {
    EventLoop& loop;
    const ServedModel& model;
    const FleetView& fleet;
    Door& door;
    Quotas& quotas;
    const FleetSecret& secret;
    Admission& admission;
    PreparingPool& pool;  // its capacity is at least admission's limit of requests
    GrammarPool& grammars;
    RequestRunner& runner;
    RouterMetrics& metrics;
    Disaggregation disaggregation;
    // Whether requests are refused for want of memory. Empty: never.
    std::function<bool()> short_of_memory{};
  };
  // `deadline` is for requests whose clients gave none.
  GenerationServiceImpl(const Parts& parts, absl::Duration deadline);

  // From now on new requests are refused as those of a router that shuts down.
  void RefuseNew() { refusing_.store(true); }

 private:
  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(
      grpc::CallbackServerContext* context, const Received<v1::GenerateRequest>* request);
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context,
                                     const Received<v1::TokenizeRequest>* request,
                                     v1::TokenizeResponse* response);
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context,
                                       const Received<v1::DetokenizeRequest>* request,
                                       v1::DetokenizeResponse* response);
  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context,
                                       const Received<v1::ListModelsRequest>* request,
                                       v1::ListModelsResponse* response);
  struct Admitted {
    Caller caller;
    Admission::Ticket ticket;
    Quotas::Use use;
  };
  // In this order: what a full queue or a limit refuses costs nothing else.
  absl::StatusOr<Admitted> CheckAndAdmit(const grpc::CallbackServerContext& context,
                                         const Received<v1::GenerateRequest>& request,
                                         absl::Time now, absl::Time deadline);

  // What Generate does once the prompt is tokenised: has the grammar compiled where there is one,
  // and hands over. `call` lives until then.
  void HandOver(uint64_t number, const ClientCall& call, const v1::GenerateRequest& request,
                absl::StatusOr<RequestSpec> spec);
  void Prepared(uint64_t number, absl::StatusOr<RequestSpec> spec);
  absl::Status CheckMemory() const;
  // Who calls `method`, which is answered at once. Counts the request.
  absl::Status LetIn(const grpc::CallbackServerContext& context, absl::string_view method);

  const Parts parts_;
  const absl::Duration deadline_;
  std::atomic<bool> refusing_ = false;
  std::atomic<uint64_t> next_number_ = 1;
};

}  // namespace baton
