// The clients of one run: draws what they ask, and when each of them comes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/simulation/router/sim_client.h"

namespace baton {

class SimClients {
 public:
  // `call` begins a client's request when it comes.
  SimClients(Sim& sim, std::function<void(SimClient&)> call) : sim_(sim), call_(std::move(call)) {}

  // Draws the requests of the run and has them come in; some only after everything has healed,
  // which must be answered.
  void AddRequests();
  // More at once than the workers take. All is well, so each must be answered.
  void AddBurst(Micros from);

  const std::vector<std::unique_ptr<SimClient>>& all() const { return clients_; }
  bool busy() const;  // some request has not ended
  void CheckAtRest();

  // Faults: of a request that runs; false when none does.
  bool Cancel(uint64_t choice);
  bool StopReading(uint64_t choice, Micros duration);

 private:
  SimRequest& AddRight();
  SimClientRequest Draw(bool late, const std::vector<int32_t>& common);
  void DrawDeath(SimRequest& right, size_t tokens);
  void AddOutputs(SimRequest& right, int64_t choices);
  std::string DrawStop(const SimRequest& right);
  void Add(SimClientRequest request, Micros at);
  SimClient* Running(uint64_t choice);

  Sim& sim_;
  const std::function<void(SimClient&)> call_;
  std::vector<std::unique_ptr<SimClient>> clients_;
};

}  // namespace baton
