#include "tests/simulation/router_sim.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "common/net/metrics.h"
#include "router/dispatch/admission.h"
#include "router/fleet/worker_registry.h"
#include "router/request/errors.h"
#include "router/runner/request_runner.h"
#include "tests/simulation/router_client.h"
#include "tests/simulation/sim_client_writer.h"
#include "tests/simulation/sim_rpcs.h"
#include "tests/simulation/virtual_loop.h"

namespace baton {

struct RequestMachineState {
  // The state of the attempt that began with all choices.
  static size_t Phase(const RequestMachine& machine) {
    const Attempt::State over = Attempt::Over{};
    return machine.done() ? over.index() : machine.choices_.front().attempt().state.index();
  }
};

namespace {

// Traces what the machines go through, and counts their transitions.
class TransitionObserver final : public RequestObserver {
 public:
  TransitionObserver(Sim& sim, RequestObserver& metrics) : sim_(sim), metrics_(metrics) {}

  void Handled(const RequestMachine& machine, const RequestEvent& event, Seen& seen,
               absl::Time now) override {
    const uint64_t request = machine.spec().id_low;
    size_t& phase = phases_[request];
    const size_t before = std::exchange(phase, RequestMachineState::Phase(machine));
    if (machine.spec().sampling.n() == 1) {
      sim_.coverage.CountMachine(before, event.index(), phase);
    }
    sim_.Trace(90 + event.index(), request, phase);
    metrics_.Handled(machine, event, seen, now);
  }

 private:
  Sim& sim_;
  RequestObserver& metrics_;
  std::map<uint64_t, size_t> phases_;  // [request]: 0, kChoosing, before its first event
};

// Place. Counts where a worker that holds some of the prompt was taken that would not have been by
// load.
PlaceFunction CountingPlace(Coverage& coverage) {
  return [&coverage](const WorkerNeeds& needs, absl::Span<const WorkerSnapshot> prefill,
                     absl::Span<const WorkerSnapshot> decode, const PlacementOptions& options,
                     uint64_t turn, LinkLookup link) {
    const Placement placement = Place(needs, prefill, decode, options, turn, link);
    if (options.policy != PlacementPolicy::kPrefixAware) return placement;
    PlacementOptions by_load = options;
    by_load.policy = PlacementPolicy::kLeastLoaded;
    const Placement other = Place(needs, prefill, decode, by_load, turn, link);
    const auto drawn = [](const auto& list, std::optional<size_t> by,
                          std::optional<size_t> else_by) {
      return by.has_value() && by != else_by && list[*by].cached_tokens > 0;
    };
    if (drawn(prefill, placement.prefill, other.prefill)) ++coverage.prefills_by_prefix;
    if (drawn(decode, placement.decode, other.decode)) ++coverage.decodes_by_prefix;
    return placement;
  };
}

std::string DrawBytes(SimRandom& random, size_t count) {
  std::string bytes;
  for (size_t i = 0; i < count; ++i) bytes.push_back(static_cast<char>(random.Next()));
  return bytes;
}

}  // namespace

// What a Router is made of, without its threads.
struct RouterSim::Process {
  Process(Sim& sim, ControlNetwork& network, const RequestRunner::Options& options,
          const Admission::Limits& limits)
      : admission(limits),
        loop(sim.queue),
        fleet(loop),
        metrics("router"),
        router_metrics(metrics, admission),
        observer(sim, router_metrics),
        registry(std::make_unique<WorkerRegistry>(
            loop, fleet, view,
            WorkerRegistry::Options{
                .tokenizer_digest = "",
                .connect =
                    [&sim, &network](const std::string& address) {
                      return std::make_unique<SimWorkerRpcs>(sim, network, address);
                    },
                .on_change =
                    [this] {
                      if (runner != nullptr) runner->PlaceWaiting();
                    },
                .on_lost = [this](uint64_t id,
                                  const absl::Status& why) { runner->WorkerLost(id, why); },
                .on_up = [](const WorkerTarget&, bool) {},
                .on_pages = nullptr})),
        runner(std::make_unique<RequestRunner>(
            RequestRunner::Parts{
                .loop = loop,
                .fleet = fleet,
                .view = view,
                .admission = admission,
                .metrics = router_metrics,
                .observer = observer,
                .place = CountingPlace(sim.coverage),
                .random_bytes = [&sim](size_t count) { return DrawBytes(sim.random, count); }},
            options)) {
    disaggregation = options.dispatch.placement.disaggregation;
  }

  Admission admission;  // outlives what was posted, which may hold its tickets
  VirtualLoop loop;
  Fleet fleet;
  FleetView view;
  Metrics metrics;
  RouterMetrics router_metrics;
  TransitionObserver observer;
  std::unique_ptr<WorkerRegistry> registry;
  std::unique_ptr<RequestRunner> runner;
  Disaggregation disaggregation;
  uint64_t next_number = 1;
  bool draining = false;
};

RouterSim::RouterSim(Sim& sim, ControlNetwork& network) : sim_(sim), network_(network) {
  listed_.fill(true);
}

RouterSim::~RouterSim() { process_.reset(); }

void RouterSim::Boot() {
  RequestRunner::Options options;
  options.dispatch.placement = {.policy = sim_.plan.policy,
                                .disaggregation = sim_.plan.disaggregation,
                                .local_below_tokens = 200};
  process_ = std::make_unique<Process>(sim_, network_, options,
                                       Admission::Limits{.requests = sim_.plan.queue});
  process_->registry->Start();
  SetTarget({true, 0}, listed_[0]);
}

// Its calls end with it, and so does every client's stream.
void RouterSim::Die(bool silently) {
  network_.RouterDied(silently);
  for (const auto& client : clients_) client->call = nullptr;
  process_.reset();
  for (const auto& client : clients_) {
    if (client->state == Client::State::kRunning) {
      client->router_died = true;
      End(*client, absl::UnavailableError("the router is gone"));
    }
  }
}

void RouterSim::Drain() {
  process_->draining = true;
  process_->runner->EndAll(RouterDraining());
}

void RouterSim::SetTarget(SimWorkerId worker, bool listed) {
  listed_[worker.place()] = listed;
  if (process_ == nullptr) return;
  std::vector<WorkerTarget> targets;
  for (int i = 0; i < kSimWorkers; ++i) {
    for (const bool is_prefill : {true, false}) {
      const SimWorkerId id{is_prefill, i};
      if (!listed_[id.place()]) continue;
      targets.push_back({.role = is_prefill ? internal::v1::WORKER_ROLE_PREFILL
                                            : internal::v1::WORKER_ROLE_DECODE,
                         .address = id.address()});
    }
  }
  std::sort(targets.begin(), targets.end());
  process_->registry->SetTargets(targets);
}

bool RouterSim::Ready() const {
  return process_ != nullptr && process_->view.Get().CanServe(process_->disaggregation);
}

absl::Time RouterSim::DeadlineOf(const Client& client) {
  const bool has = client.deadline < kNever;
  const Micros at = has ? client.deadline : client.received + 600'000'000;
  return absl::UnixEpoch() + absl::Microseconds(at);
}

// As the generation service does it.
void RouterSim::Call(Client& client) {
  if (client.state != Client::State::kNotYet) return;
  if (process_ == nullptr) {  // refused: the client comes again
    sim_.queue.After(sim_.random.Between(10'000, 200'000), [this, &client] { Call(client); });
    return;
  }
  client.state = Client::State::kRunning;
  client.received = sim_.queue.now();
  sim_.Trace(70, static_cast<uint64_t>(client.right->index));
  if (process_->draining) return End(client, RouterDraining());
  const absl::Time now = sim_.queue.time();
  const auto prompt_tokens = static_cast<uint64_t>(client.right->prompt.size());
  absl::StatusOr<Admission::Ticket> ticket =
      process_->admission.Admit({.tenant = client.tenant,
                                 .priority = client.priority,
                                 .bytes = 5 * prompt_tokens,
                                 .tokens = process_->admission.ExpectedTokens(
                                     prompt_tokens, static_cast<uint32_t>(client.right->max_tokens),
                                     static_cast<uint32_t>(client.right->choices.size())),
                                 .time_left = DeadlineOf(client) - now},
                                now);
  if (!ticket.ok()) return End(client, ticket.status());
  const uint64_t number = process_->next_number++;
  auto writer = std::make_unique<SimClientWriter>(
      sim_.queue, SimClientWriter::Client{.take =
                                              [this, &client](const v1::GenerateResponse& response,
                                                              std::function<void()> taken) {
                                                Take(client, response, std::move(taken));
                                              },
                                          .end =
                                              [this, &client](const absl::Status& status) {
                                                client.call = nullptr;
                                                End(client, status);
                                              }});
  client.call = writer.get();
  auto call = std::make_unique<ClientCall>(process_->loop, std::move(writer));
  process_->loop.Post(
      [this, number, call = std::move(call), ticket = *std::move(ticket)]() mutable {
        process_->runner->Arrived(number, std::move(call), std::move(ticket));
      });
  process_->loop.RunAt(sim_.queue.time() + absl::Microseconds(sim_.random.Between(100, 5'000)),
                       [this, &client, number] { Prepare(client, number); });
  if (client.deadline < kNever) {
    // The client's own clock: it waits for the router's word a little longer.
    sim_.queue.At(client.deadline + 1'000'000, [this, &client] {
      if (client.state != Client::State::kRunning || client.reads_at > sim_.queue.now()) return;
      sim_.Violation("request ", client.right->index, " lives a second after its deadline");
    });
  }
}

void RouterSim::Prepare(Client& client, uint64_t number) {
  RequestSpec spec;
  spec.id_high = 77;
  spec.id_low = static_cast<uint64_t>(client.right->index);
  spec.prompt_token_ids.assign(client.right->prompt.begin(), client.right->prompt.end());
  spec.sampling.set_max_tokens(static_cast<uint32_t>(client.right->max_tokens));
  spec.sampling.set_n(static_cast<uint32_t>(client.right->choices.size()));
  spec.sampling.set_seed(client.right->seed);
  if (!client.stop.empty()) spec.sampling.add_stop(client.stop);
  spec.priority = client.priority;
  spec.tenant = client.tenant;
  spec.stream = client.stream;
  spec.return_token_ids = true;
  spec.received = absl::UnixEpoch() + absl::Microseconds(client.received);
  spec.deadline = DeadlineOf(client);
  process_->runner->Prepared(number, std::move(spec), SimTokenTable());
}

bool RouterSim::ClientCancels(uint64_t choice) {
  Client* client = Running(choice);
  if (client == nullptr) return false;
  std::exchange(client->call, nullptr)->ClientCancels();
  End(*client, absl::CancelledError("the client has left"));
  return true;
}

bool RouterSim::busy() const {
  return std::any_of(clients_.begin(), clients_.end(),
                     [](const auto& client) { return client->state != Client::State::kEnded; });
}

bool RouterSim::idle() const { return !busy() && process_->runner->running() == 0; }

void RouterSim::CheckKnowledge(const Truth& truth) {
  const PlacementOptions options{.policy = PlacementPolicy::kPrefixAware};
  for (const auto& client : clients_) {
    const std::vector<int32_t>& prompt = client->right->prompt;
    const auto tokens = static_cast<uint32_t>(prompt.size());
    const WorkerNeeds needs{.prompt_tokens = tokens, .max_total_tokens = tokens};
    const auto candidates =
        process_->fleet.Choose(needs, absl::MakeConstSpan(prompt), "", options, 0);
    for (const auto* list : {&candidates.prefill, &candidates.decode}) {
      for (const WorkerSnapshot& worker : *list) {
        const Worker& known = *process_->fleet.Find(worker.id);
        const std::string& address = known.target.address;
        const SimWorkerId id{list == &candidates.prefill, address[1] - '0'};
        if (known.info.incarnation() != truth.incarnation(id)) {
          sim_.Violation("the router takes ", address, " for what was there before");
        }
        const int right = truth.held_tokens(id, prompt);
        if (static_cast<int>(worker.cached_tokens) == right) continue;
        sim_.Violation("the router believes that ", address, " holds ", worker.cached_tokens,
                       " tokens of request ", client->right->index, ", not ", right);
      }
    }
  }
}

}  // namespace baton
