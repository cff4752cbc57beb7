// The RPCs of the simulated workers, as the router makes them: streams over the control network.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

#include "router/calls/worker_rpcs.h"
#include "tests/simulation/network/control_network.h"
#include "tests/simulation/sim.h"

namespace baton {

class SimWorkerRpcs final : public WorkerRpcs {
 public:
  // `watched` is told of each Watch message when the router reads it.
  using Watched = std::function<void(const internal::v1::WatchResponse&)>;
  SimWorkerRpcs(Sim& sim, ControlNetwork& network, std::string address, Watched watched)
      : sim_(sim), network_(network), address_(std::move(address)), watched_(std::move(watched)) {}

  std::unique_ptr<ReadStream<internal::v1::WatchResponse>> Watch(StreamEvents& events) override;
  std::unique_ptr<ReadStream<internal::v1::PrefillResponse>> Prefill(
      const internal::v1::PrefillRequest& request, const TraceContext* trace,
      StreamEvents& events) override;
  std::unique_ptr<DecodeStream> Decode(const TraceContext* trace, StreamEvents& events) override;

 private:
  Sim& sim_;
  ControlNetwork& network_;
  const std::string address_;
  const Watched watched_;
};

}  // namespace baton
