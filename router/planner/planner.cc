#include "router/planner/planner.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace baton {
namespace {

// Half of a rate is of the last minute in which workers were busy.
constexpr double kRateHalfLifeSeconds = 60;
constexpr double kLeastRateSeconds = 1;
constexpr absl::Duration kLately = absl::Seconds(5);  // sequences are averaged over it
// Clients that are turned away come again, each time counted anew.
constexpr double kMostRefused = 1;  // for each request that was taken
constexpr char kNoFlow[] = "not known yet: too little came since the router began";

double Grown(uint64_t before, uint64_t after) { return static_cast<double>(after - before); }

std::string Number(double value) {
  return value < 100 ? absl::StrFormat("%.3g", value) : absl::StrFormat("%.0f", value);
}

const char* BoundText(const StepTime::Capacity& capacity) {
  if (capacity.objective_is_missed) return "even a lone sequence misses the objective";
  switch (capacity.bound) {
    case StepTime::Bound::kObjective:
      return "more would slow each";
    case StepTime::Bound::kMemory:
      return "more have no memory";
    case StepTime::Bound::kPlaces:
      return "more have to wait";
    case StepTime::Bound::kSeen:
      return "twice what was seen";
  }
  return "";
}

}  // namespace

void Planner::Rate::Add(double tokens, double seconds) {
  const double keep = std::exp2(-seconds / kRateHalfLifeSeconds);
  tokens_ = tokens_ * keep + tokens;
  seconds_ = seconds_ * keep + seconds;
  measured_seconds_ += seconds;
}

std::optional<double> Planner::Rate::tokens_per_second() const {
  if (measured_seconds_ < kLeastRateSeconds || tokens_ <= 0) return std::nullopt;
  return tokens_ / seconds_;
}

Planner::Planner(const Options& options)
    : options_(options),
      prefill_count_(kHold * options.window),
      decode_count_(kHold * options.window) {}

Advice Planner::Take(const FleetLoad& load, const StepTime& steps, absl::Time now) {
  if (!samples_.empty()) Learn(load);
  samples_.push_back({now, load});
  while (samples_.size() > 2 && now - samples_[1].at >= options_.window) samples_.pop_front();
  const std::optional<Flow> flow = Measure();
  Advice advice;
  advice.prefill.ready = load.prefill_workers;
  advice.decode.ready = load.decode_workers;
  AdvisePrefill(flow, advice.prefill);
  const std::optional<StepTime::Capacity> one =
      steps.Find(absl::ToDoubleSeconds(options_.time_per_token));
  AdviseDecode(flow, one, advice.decode);
  if (!options_.prompts_on_decode_workers && advice.prefill.needed.has_value()) {
    advice.prefill.advised = prefill_count_.Take(*advice.prefill.needed, now);
    ExplainHold(advice.prefill);
  }
  if (advice.decode.needed.has_value()) {
    advice.decode.advised = decode_count_.Take(*advice.decode.needed, now);
    ExplainHold(advice.decode);
  }
  if (!options_.prompts_on_decode_workers) {
    Split(advice);
    Colocate(one, advice);
  }
  return advice;
}

void Planner::Learn(const FleetLoad& load) {
  const FleetLoad& last = samples_.back().load;
  seen_.Add(load.computed_tokens - last.computed_tokens, load.busy_seconds - last.busy_seconds);
  told_.Add(load.told_tokens - last.told_tokens, load.told_seconds - last.told_seconds);
  const DemandCounts& before = samples_.front().load.demand;
  const DemandCounts& after = load.demand;
  if (after.placed_tokens > before.placed_tokens) {
    uncached_share_ = Grown(before.uncached_tokens, after.uncached_tokens) /
                      Grown(before.placed_tokens, after.placed_tokens);
  }
  if (after.ended > before.ended) {
    output_tokens_ =
        Grown(before.output_tokens, after.output_tokens) / Grown(before.ended, after.ended);
  }
}

std::optional<Planner::Flow> Planner::Measure() const {
  const Sample& first = samples_.front();
  const Sample& last = samples_.back();
  if (last.at - first.at < options_.window / 3) return std::nullopt;
  const DemandCounts& before = first.load.demand;
  const DemandCounts& after = last.load.demand;
  const double seconds = absl::ToDoubleSeconds(last.at - first.at);
  const double requests = Grown(before.requests, after.requests);
  const double refused = Grown(first.load.refused, last.load.refused);
  // Those that were turned away are taken to be like those that were not.
  const double taken = requests > 0 ? 1 + std::min(kMostRefused, refused / requests) : 1;
  Flow flow;
  flow.requests = requests * taken / seconds;
  flow.prompt_tokens =
      uncached_share_ *
      (Grown(before.prompt_tokens, after.prompt_tokens) * taken / seconds +
       static_cast<double>(after.waiting_tokens) / absl::ToDoubleSeconds(options_.window));
  int count = 0;
  for (auto sample = samples_.rbegin(); sample != samples_.rend(); ++sample) {
    if (last.at - sample->at >= kLately) break;
    flow.decoding += sample->load.decoding;
    ++count;
  }
  flow.decoding /= count;
  return flow;
}

void Planner::AdvisePrefill(const std::optional<Flow>& flow, RoleAdvice& advice) const {
  if (options_.prompts_on_decode_workers) {
    advice.needed = 0;
    advice.why = "decode workers compute the prompts, as --disaggregate says";
    return;
  }
  // Both may be too low, neither too high: time in which a worker has a prompt is more than that in
  // which it computes, also for other routers; and prompts that are computed together each count
  // all of their time.
  const double rate =
      std::max(seen_.tokens_per_second().value_or(0), told_.tokens_per_second().value_or(0));
  if (rate == 0) {
    advice.why = "not known yet: too few prompts were computed on prefill workers";
    return;
  }
  if (!flow.has_value()) {
    advice.why = kNoFlow;
    return;
  }
  advice.needed = flow->prompt_tokens / (rate * options_.utilisation);
  advice.why = absl::StrCat(Number(flow->prompt_tokens), " prompt tokens/s to compute, ",
                            Number(rate), "/s by a busy worker: ", Number(*advice.needed),
                            " needed at ", options_.utilisation);
}

void Planner::AdviseDecode(const std::optional<Flow>& flow,
                           const std::optional<StepTime::Capacity>& one, RoleAdvice& advice) const {
  if (!one.has_value()) {
    advice.why = "not known yet: how the time of a token grows with a worker's sequences";
    return;
  }
  if (!flow.has_value()) {
    advice.why = kNoFlow;
    return;
  }
  const double tokens = flow->requests * output_tokens_.value_or(0);
  const double by_tokens = tokens / (one->tokens_per_second() * options_.utilisation);
  const double by_sequences = flow->decoding / (one->sequences * options_.utilisation);
  advice.needed = std::max(by_tokens, by_sequences);
  const std::string carries =
      absl::StrCat(Number(one->sequences), " sequences at ", Number(1e3 * one->seconds_per_token),
                   " ms a token (", BoundText(*one), "): ", Number(*advice.needed), " needed at ",
                   options_.utilisation);
  advice.why = by_tokens >= by_sequences
                   ? absl::StrCat(Number(tokens), " output tokens/s asked for, ",
                                  Number(one->tokens_per_second()), "/s by a worker with ", carries)
                   : absl::StrCat(Number(flow->decoding),
                                  " sequences are generated for, a worker carries ", carries);
}

void Planner::ExplainHold(RoleAdvice& advice) const {
  if (advice.advised <= SteadyCount::Sufficing(*advice.needed)) return;
  absl::StrAppend(&advice.why, "; held at ", advice.advised,
                  " until fewer have sufficed, with a tenth to spare, for ",
                  absl::FormatDuration(kHold * options_.window));
}

void Planner::Split(Advice& advice) {
  const uint32_t workers =
      options_.workers > 0 ? options_.workers : advice.prefill.ready + advice.decode.ready;
  if (workers < 2 || !advice.prefill.needed.has_value() || !advice.decode.needed.has_value()) {
    return;
  }
  const double prefill = *advice.prefill.needed, decode = *advice.decode.needed;
  const uint32_t best = BalancedPrefill(prefill, decode, workers);
  const bool keeps =
      split_of_ == workers && BusierRole(prefill, decode, split_, workers) <=
                                  kSplitTolerance * BusierRole(prefill, decode, best, workers);
  if (!keeps) split_ = best;
  split_of_ = workers;
  advice.prefill.balanced = split_;
  advice.decode.balanced = workers - split_;
}

// What a worker of both kinds carries, if it is as fast at both as the workers of the roles are.
// While it computes a prompt its sequences wait, which is a part prefill / workers of its time; in
// the rest it makes their tokens: limit * (1 - prefill / workers) = alone + more * sequences, with
// sequences = tokens per second of a worker * limit. Or memory or places bound the sequences, and
// the two times just add up.
void Planner::Colocate(const std::optional<StepTime::Capacity>& one, Advice& advice) const {
  if (advice.prefill.advised == 0 || advice.decode.advised == 0) return;
  const double slack = one->limit_seconds - one->alone_seconds;
  if (slack <= 0) return;
  const double prefill = *advice.prefill.needed, decode = *advice.decode.needed;
  const double tokens = decode * one->tokens_per_second();
  const double by_limit = one->limit_seconds * (prefill + one->more_seconds * tokens) / slack;
  const double workers = std::max(1.0, std::ceil(std::max(prefill + decode, by_limit) - 1e-9));
  if (workers >= advice.prefill.advised + advice.decode.advised) return;
  advice.colocated = {.workers = static_cast<uint32_t>(workers),
                      .prompt_share = prefill * options_.utilisation / workers};
}

}  // namespace baton
