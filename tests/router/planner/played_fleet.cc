#include "tests/router/planner/played_fleet.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace baton {
namespace {

constexpr double kTickS = 0.25;
constexpr int kTicksOfSecond = 4, kTicksOfSample = 8;

// In (0, 1), the same on every machine.
double Uniform(std::mt19937_64& random) {
  return (static_cast<double>(random() >> 11) + 0.5) / 9007199254740992.0;
}

}  // namespace

PlayedFleet::PlayedFleet(uint32_t prefill, uint32_t decode, const PlayedRates& rates)
    : rates_(rates) {
  for (uint32_t i = 0; i < prefill + decode; ++i) {
    auto machine = std::make_unique<Machine>();
    machine->state = i < prefill ? Machine::State::kPrefill : Machine::State::kDecode;
    machines_.push_back(std::move(machine));
  }
}

void PlayedFleet::At(double at, std::function<void()> what) {
  events_.push({at, next_number_++, std::move(what)});
}

void PlayedFleet::Advance(double at) {
  busy_seconds_ += busy_ * (at - now_);
  now_ = at;
}

void PlayedFleet::RunUntil(double end, const std::function<void()>& on_second) {
  for (;;) {
    const bool ticks = events_.empty() || next_tick_ <= events_.top().at;
    const double at = ticks ? next_tick_ : events_.top().at;
    if (at > end) return Advance(end);
    Advance(at);
    if (ticks) {
      next_tick_ += kTickS;
      Report();
      if (++ticks_ % kTicksOfSecond == 0) on_second();
      continue;
    }
    const std::function<void()> what = events_.top().what;
    events_.pop();
    what();
  }
}

PlayedGoodput& PlayedFleet::Play(const PlayedPart& part, uint64_t seed,
                                 const std::function<void()>& on_second) {
  std::mt19937_64 random(seed);
  PlayedGoodput& goodput = goodputs_.emplace_back();
  const auto length = [&random](double mean) {
    return static_cast<uint32_t>(std::lround(std::max(2.0, mean * (0.5 + Uniform(random)))));
  };
  double at = now_;
  for (;;) {
    at -= std::log(Uniform(random)) / part.requests_per_second;
    if (at >= now_ + part.seconds) break;
    const uint32_t prompt = length(part.prompt_tokens), output = length(part.output_tokens);
    ++goodput.all;
    At(at, [this, prompt, output, &goodput] {
      Arrive({.arrived = now_,
              .prompt_tokens = prompt,
              .output_tokens = output,
              .place = demand_.Arrived(prompt),
              .goodput = &goodput});
    });
  }
  RunUntil(now_ + part.seconds, on_second);
  return goodput;
}

void PlayedFleet::Finish() {
  while (!events_.empty()) RunUntil(events_.top().at, [] {});
}

void PlayedFleet::Arrive(Request request) {
  waiting_.push_back(request);
  TakePrompts();
}

void PlayedFleet::TakePrompts() {
  for (const auto& machine : machines_) {
    if (machine->state != Machine::State::kPrefill || machine->leaves || machine->busy) continue;
    while (!waiting_.empty() && now_ - waiting_.front().arrived > rates_.max_queue_s) {
      demand_.Ended(waiting_.front().place, 0, true);
      waiting_.pop_front();
    }
    if (waiting_.empty()) return;
    Request request = waiting_.front();
    waiting_.pop_front();
    demand_.GotWorkers(request.place, request.prompt_tokens);
    machine->busy = true;
    ++busy_;
    At(now_ + request.prompt_tokens / rates_.prompt_tokens_per_second,
       [this, &machine = *machine, request] {
         machine.busy = false;
         --busy_;
         computed_tokens_ += request.prompt_tokens;
         Decode(request);
         if (machine.leaves) ChangeRole(machine);
         TakePrompts();
       });
  }
}

void PlayedFleet::Decode(Request request) {
  Machine* least = nullptr;
  for (const auto& machine : machines_) {
    if (machine->state != Machine::State::kDecode || machine->leaves) continue;
    if (least == nullptr || machine->load() < least->load()) least = machine.get();
  }
  if (least == nullptr) return demand_.Ended(request.place, 0, false);
  request.first_token = now_;
  least->joining.push_back(request);
  if (!least->stepping) Step(*least);
}

void PlayedFleet::Step(Machine& machine) {
  for (const Request& request : machine.joining) {
    machine.sequences.emplace(machine.steps + request.output_tokens - 1, request);
  }
  machine.joining.clear();
  machine.stepping = !machine.sequences.empty();
  if (!machine.stepping) {
    if (machine.leaves) ChangeRole(machine);
    return;
  }
  const auto count = static_cast<double>(machine.sequences.size());
  At(now_ + rates_.alone_s + rates_.more_s * count, [this, &machine] { StepDone(machine); });
}

void PlayedFleet::StepDone(Machine& machine) {
  machine.generated += static_cast<double>(machine.sequences.size());
  ++machine.steps;
  while (!machine.sequences.empty() && machine.sequences.begin()->first <= machine.steps) {
    Request& request = machine.sequences.begin()->second;
    demand_.Ended(request.place, request.output_tokens, false);
    const double token_s = (now_ - request.first_token) / (request.output_tokens - 1);
    const bool good = request.first_token - request.arrived <= kFirstTokenS && token_s <= kTokenS;
    request.goodput->good += good ? 1 : 0;
    machine.sequences.erase(machine.sequences.begin());
  }
  Step(machine);
}

void PlayedFleet::ChangeRole(Machine& machine) {
  const bool to_prefill = machine.state == Machine::State::kDecode;
  machine = Machine();
  machine.state = Machine::State::kStarts;
  becomes_prefill_[&machine] = to_prefill;
  At(now_ + rates_.start_s, [this, &machine, to_prefill] {
    machine.state = to_prefill ? Machine::State::kPrefill : Machine::State::kDecode;
    becomes_prefill_.erase(&machine);
    TakePrompts();
  });
}

uint32_t PlayedFleet::prefill_to_be() const {
  uint32_t count = 0;
  for (const auto& machine : machines_) {
    const auto starts = becomes_prefill_.find(machine.get());
    count += starts != becomes_prefill_.end()
                 ? starts->second
                 : (machine->state == Machine::State::kPrefill) != machine->leaves;
  }
  return count;
}

void PlayedFleet::SetPrefill(uint32_t workers) {
  for (uint32_t now = prefill_to_be(); now != workers; now = prefill_to_be()) {
    const auto from = now > workers ? Machine::State::kPrefill : Machine::State::kDecode;
    Machine* least = nullptr;
    for (const auto& machine : machines_) {
      if (machine->state != from || machine->leaves) continue;
      const auto work = [](const Machine& one) { return one.load() + (one.busy ? 1 : 0); };
      if (least == nullptr || work(*machine) < work(*least)) least = machine.get();
    }
    if (least == nullptr) return;  // all that could are started already
    least->leaves = true;
    if (!least->busy && !least->stepping) ChangeRole(*least);
  }
}

// Four times a second, as workers do.
void PlayedFleet::Report() {
  for (const auto& machine : machines_) {
    if (machine->state != Machine::State::kDecode) continue;
    machine->reports += 1;
    machine->reported_sequences += static_cast<double>(machine->sequences.size());
    if (machine->reports < kTicksOfSample) continue;
    const StepTime::Sample sample = {
        .sequences = machine->reported_sequences / machine->reports,
        .tokens_per_second = machine->generated / (machine->reports * kTickS)};
    if (sample.sequences >= 0.25 && sample.tokens_per_second > 0) steps_.Add(sample);
    machine->generated = machine->reports = machine->reported_sequences = 0;
  }
}

uint32_t PlayedFleet::Count(Machine::State state) const {
  return static_cast<uint32_t>(std::count_if(
      machines_.begin(), machines_.end(),
      [state](const auto& machine) { return machine->state == state && !machine->leaves; }));
}

FleetLoad PlayedFleet::load() const {
  FleetLoad load;
  load.demand = demand_.counts();
  load.computed_tokens = computed_tokens_;
  load.busy_seconds = busy_seconds_;
  for (const auto& machine : machines_) load.decoding += static_cast<double>(machine->load());
  load.prefill_workers = Count(Machine::State::kPrefill);
  load.decode_workers = Count(Machine::State::kDecode);
  return load;
}

}  // namespace baton
