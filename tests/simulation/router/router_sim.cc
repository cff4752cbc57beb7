#include "tests/simulation/router/router_sim.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "common/net/metrics.h"
#include "common/rpc/status.h"
#include "router/dispatch/admission.h"
#include "router/fleet/worker_registry.h"
#include "router/request/errors.h"
#include "router/runner/request_runner.h"
#include "tests/simulation/router/sim_rpcs.h"
#include "tests/simulation/router/told_kills.h"
#include "tests/simulation/router/told_links.h"
#include "tests/simulation/router/virtual_loop.h"

namespace baton {

struct RequestMachineState {
  // The state of the attempt that began with all choices.
  static size_t Phase(const RequestMachine& machine) {
    const Attempt::State over = Attempt::Over{};
    return machine.done() ? over.index() : machine.choices_.front().attempt().state.index();
  }
  // The attempt that computes the choice; null: none does.
  static const Attempt* AttemptAt(const RequestMachine& machine, uint32_t choice) {
    if (machine.done()) return nullptr;
    for (const Choices& choices : machine.choices_) {
      if (!choices.done() && choices.attempt().Find(choice).has_value()) return &choices.attempt();
    }
    return nullptr;
  }
};

namespace {

// Traces what the machines go through, and counts their transitions. Notes the attempts whose
// decode worker has ended them because of who pushed, and the workers that a request has killed.
class TransitionObserver final : public RequestObserver {
 public:
  TransitionObserver(Sim& sim, RequestObserver& metrics)
      : sim_(sim), metrics_(metrics), kills_(sim), links_(sim) {}

  void Handled(const RequestMachine& machine, const RequestEvent& event, Seen& seen,
               absl::Time now) override {
    const uint64_t request = machine.spec().id_low;
    size_t& phase = phases_[request];
    const size_t before = std::exchange(phase, RequestMachineState::Phase(machine));
    if (machine.spec().sampling.n() == 1) {
      sim_.coverage.CountMachine(before, event.index(), phase);
      links_.Handled(machine, RequestMachineState::AttemptAt(machine, 0));
    }
    sim_.Trace(90 + event.index(), request, phase);
    NoteDistrust(machine, event);
    const SimRequest& right = *sim_.requests.at(request);
    kills_.Handled(right, event, RequestMachineState::AttemptAt(machine, right.deadly_choice),
                   machine.log(right.deadly_choice).size());
    CountStopInRun(machine, event);
    metrics_.Handled(machine, event, seen, now);
  }

 private:
  // The first token of the message was taken, and the last was not.
  void CountStopInRun(const RequestMachine& machine, const RequestEvent& event) {
    const auto* decode = std::get_if<DecodeMessage>(&event);
    if (decode == nullptr || decode->message.tokens().tokens_size() < 2) return;
    const auto& tokens = decode->message.tokens().tokens();
    const size_t taken = machine.log(tokens.rbegin()->choice()).size();
    if (tokens.begin()->output_index() < taken && taken <= tokens.rbegin()->output_index()) {
      ++sim_.coverage.stops_in_runs;
    }
  }
  void NoteDistrust(const RequestMachine& machine, const RequestEvent& event) {
    const uint64_t request = machine.spec().id_low;
    const auto* ended = std::get_if<DecodeEnded>(&event);
    if (ended != nullptr && done_.count(request) == 0) {
      const std::string reason = ErrorReason(ended->status);
      if (reason == kReasonKvWrong || reason == kReasonPusherQuarantined) {
        sim_.requests.at(request)->heard_wrong.insert(ended->attempt);
      }
    }
    if (machine.done()) done_.insert(request);
  }

  Sim& sim_;
  RequestObserver& metrics_;
  std::map<uint64_t, size_t> phases_;  // [request]: 0, kChoosing, before its first event
  std::set<uint64_t> done_;            // requests
  ToldKills kills_;
  ToldLinks links_;
};

// Place. Counts where a worker that holds some of the prompt was taken that would not have been by
// load. I7: nobody is taken of whom a decode worker has told that it forges.
PlaceFunction CountingPlace(Sim& sim, const Fleet& fleet, const ToldQuarantines& told) {
  return [&sim, &fleet, &told](const WorkerNeeds& needs, absl::Span<const WorkerSnapshot> prefill,
                               absl::Span<const WorkerSnapshot> decode,
                               const PlacementOptions& options, uint64_t turn, LinkLookup link) {
    Coverage& coverage = sim.coverage;
    const Placement placement = Place(needs, prefill, decode, options, turn, link);
    if (placement.prefill.has_value()) {
      const std::string& address = fleet.Find(prefill[*placement.prefill].id)->target.address;
      if (told.Forbid(address, sim.queue.now())) {
        sim.Violation("the router uses ", address, ", which a decode worker has quarantined");
      }
    }
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
  // `watched` is told of each Watch message by its worker's address.
  Process(Sim& sim, ControlNetwork& network, const RequestRunner::Options& options,
          const Admission::Limits& limits,
          std::function<void(const std::string&, const internal::v1::WatchResponse&)> watched,
          const ToldQuarantines& told)
      : admission(limits),
        loop(sim.queue),
        fleet(loop),
        metrics("router"),
        router_metrics(metrics, admission),
        observer(sim, router_metrics),
        registry(std::make_unique<WorkerRegistry>(
            loop, fleet, view,
            WorkerRegistry::Options{
                .model = {.tokenizer_digest = ""},
                .allow_mixed_revisions = true,  // workers come back with another model
                .connect =
                    [&sim, &network, watched = std::move(watched)](
                        internal::v1::WorkerRole /*role*/, const std::string& address) {
                      return std::make_unique<SimWorkerRpcs>(
                          sim, network, address,
                          [address, watched](const auto& message) { watched(address, message); });
                    },
                .on_change =
                    [this] {
                      if (runner != nullptr) runner->PlaceWaiting();
                    },
                .on_lost = [this](uint64_t id,
                                  const absl::Status& why) { runner->WorkerLost(id, why); },
                .on_stood_still =
                    [this, &sim](const Worker& worker, absl::Time since) {
                      ++sim.deaths;  // an engine that hangs for long may be lost again and again
                      runner->WorkerStoodStill(worker, since);
                    },
                .on_up = [](const WorkerTarget&, bool) {},
                .on_quarantine = nullptr,
                .on_pages = nullptr})),
        runner(std::make_unique<RequestRunner>(
            RequestRunner::Parts{
                .loop = loop,
                .fleet = fleet,
                .view = view,
                .admission = admission,
                .metrics = router_metrics,
                .observer = observer,
                .place = CountingPlace(sim, fleet, told),
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

RouterSim::RouterSim(Sim& sim, ControlNetwork& network)
    : sim_(sim), network_(network), clients_(sim, [this](SimClient& client) { Call(client); }) {
  listed_.fill(true);
}

RouterSim::~RouterSim() { process_.reset(); }

void RouterSim::Boot() {
  RequestRunner::Options options;
  options.dispatch.placement = {.policy = sim_.plan.policy,
                                .disaggregation = sim_.plan.disaggregation,
                                .local_below_tokens = 200};
  told_ = {};
  process_ = std::make_unique<Process>(
      sim_, network_, options, Admission::Limits{.requests = sim_.plan.queue},
      [this](const std::string& address, const internal::v1::WatchResponse& message) {
        const SimWorkerId worker{address[0] == 'p', address[1] - '0'};
        if (listed_[worker.place()]) told_.Heard(address, message, sim_.queue.now());
      },
      told_);
  process_->registry->Start();
  SetTarget({true, 0}, listed_[0]);
}

// Its calls end with it, and so does every client's stream.
void RouterSim::Die(bool silently) {
  network_.RouterDied(silently);
  for (const auto& client : clients_.all()) client->Disconnect();
  process_.reset();
  for (const auto& client : clients_.all()) client->LoseRouter();
}

void RouterSim::Drain() {
  process_->draining = true;
  process_->runner->EndAll(RouterDraining());
}

void RouterSim::SetTarget(SimWorkerId worker, bool listed) {
  listed_[worker.place()] = listed;
  if (!listed) told_.Forget(worker.address());
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

// As the generation service does it.
void RouterSim::Call(SimClient& client) {
  if (client.has_begun()) return;
  if (process_ == nullptr) {  // refused: the client comes again
    sim_.queue.After(sim_.random.Between(10'000, 200'000), [this, &client] { Call(client); });
    return;
  }
  client.Begin();
  if (process_->draining) return client.End(RouterDraining());
  const absl::Time now = sim_.queue.time();
  const SimClientRequest& request = client.request();
  const SimRequest& right = *request.right;
  const auto prompt_tokens = static_cast<uint64_t>(right.prompt.size());
  absl::StatusOr<Admission::Ticket> ticket =
      process_->admission.Admit({.tenant = request.tenant,
                                 .priority = request.priority,
                                 .bytes = 5 * prompt_tokens,
                                 .tokens = process_->admission.ExpectedTokens(
                                     prompt_tokens, static_cast<uint32_t>(right.max_tokens),
                                     static_cast<uint32_t>(right.choices.size())),
                                 .time_left = client.Deadline() - now},
                                now);
  if (!ticket.ok()) return client.End(ticket.status());
  const uint64_t number = process_->next_number++;
  auto call = std::make_unique<ClientCall>(process_->loop, client.Connect());
  process_->loop.Post(
      [this, number, call = std::move(call), ticket = *std::move(ticket)]() mutable {
        process_->runner->Arrived(number, std::move(call), std::move(ticket));
      });
  process_->loop.RunAt(sim_.queue.time() + absl::Microseconds(sim_.random.Between(100, 5'000)),
                       [this, &client, number] { Prepare(client, number); });
  if (request.deadline < kNever) {
    // The client's own clock: it waits for the router's word a little longer.
    sim_.queue.At(request.deadline + 1'000'000, [&client] { client.CheckDeadline(); });
  }
}

void RouterSim::Prepare(const SimClient& client, uint64_t number) {
  const SimClientRequest& request = client.request();
  const SimRequest& right = *request.right;
  RequestSpec spec;
  spec.id_high = 77;
  spec.id_low = static_cast<uint64_t>(client.index());
  spec.prompt_token_ids.assign(right.prompt.begin(), right.prompt.end());
  spec.sampling.set_max_tokens(static_cast<uint32_t>(right.max_tokens));
  spec.sampling.set_n(static_cast<uint32_t>(right.choices.size()));
  spec.sampling.set_seed(right.seed);
  if (!request.stop.empty()) spec.sampling.add_stop(request.stop);
  if (right.scored) spec.sampling.set_prompt_logprobs(0);
  if (!right.grammar.empty()) spec.grammar = std::make_shared<const std::string>(right.grammar);
  spec.priority = request.priority;
  spec.tenant = request.tenant;
  spec.stream = request.stream;
  spec.return_token_ids = true;
  spec.received = absl::UnixEpoch() + absl::Microseconds(client.received());
  spec.deadline = client.Deadline();
  process_->runner->Prepared(number, std::move(spec), SimTokenTable());
}

bool RouterSim::idle() const { return !clients_.busy() && process_->runner->running() == 0; }

void RouterSim::CheckKnowledge(const Truth& truth) {
  const PlacementOptions options{.policy = PlacementPolicy::kPrefixAware};
  for (const auto& client : clients_.all()) {
    const std::vector<int32_t>& prompt = client->request().right->prompt;
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
                       " tokens of request ", client->index(), ", not ", right);
      }
    }
  }
}

}  // namespace baton
