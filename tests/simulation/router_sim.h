// The router of the simulated cluster: the real registry of workers, dispatcher, runner, request
// machines and placement, and the clients that call it.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "baton/v1/generation.pb.h"
#include "tests/simulation/control_network.h"
#include "tests/simulation/sim.h"

namespace baton {

class RouterSim {
 public:
  RouterSim(Sim& sim, ControlNetwork& network);
  ~RouterSim();

  // Draws the requests of the run and has them come in; some only after everything has healed,
  // which must be answered.
  void AddRequests();
  // More at once than the workers take. All is well, so each must be answered.
  void AddBurst(Micros from);

  // The process.
  void Boot();
  void Die(bool silently);  // requests end for their clients
  bool up() const { return process_ != nullptr; }
  void Drain();  // ends what runs, and takes nothing new
  void SetTarget(SimWorkerId worker, bool listed);
  bool listed(SimWorkerId worker) const { return listed_[worker.place()]; }
  // As a request that came now would find it.
  bool Ready() const;

  // Faults: of a request that runs; false when none does.
  bool ClientCancels(uint64_t choice);
  bool ClientStopsReading(uint64_t choice, Micros duration);

  bool busy() const;  // some request has not ended
  bool idle() const;  // nor has any call to a worker but Watch
  void CheckAtRest();
  // Once the workers have told all: the router knows who they are and what they hold of each
  // prompt.
  struct Truth {
    std::function<uint64_t(SimWorkerId)> incarnation;
    std::function<int(SimWorkerId, const std::vector<int32_t>& prompt)> held_tokens;
  };
  void CheckKnowledge(const Truth& truth);

 private:
  struct Process;
  struct Client;

  Client& AddClient();
  void DrawRequest(Client& client, const std::vector<int32_t>& common);
  void AddOutputs(SimRequest& right, int64_t choices);
  void DrawStop(Client& client);
  static absl::Time DeadlineOf(const Client& client);
  void Call(Client& client);
  void Prepare(Client& client, uint64_t number);
  void Take(Client& client, const v1::GenerateResponse& message, std::function<void()> taken);
  template <typename Response>
  void TakeText(Client& client, const Response& response);
  void CheckComplete(Client& client);
  void End(Client& client, const absl::Status& status);
  void CheckFailure(const Client& client);
  Client* Running(uint64_t choice);

  Sim& sim_;
  ControlNetwork& network_;
  std::array<bool, kSimWorkersOfBothKinds> listed_{};
  std::vector<std::unique_ptr<Client>> clients_;
  std::unique_ptr<Process> process_;
};

}  // namespace baton
