#include "tests/simulation/router_sim.h"

#include <algorithm>
#include <utility>

namespace baton {
namespace {

constexpr int kRequests = 12;
constexpr Micros kStall = 60'000'000;  // without any news of an attempt

}  // namespace

void RouterSim::AddRequests() {
  // Some prompts begin alike, so that prefixes are shared.
  std::vector<int32_t> common;
  for (int i = 0; i < 160; ++i) {
    common.push_back(static_cast<int32_t>(sim_.random.Between(0, kSimVocab - 1)));
  }
  requests_.resize(kRequests);
  for (int i = 0; i < kRequests; ++i) {
    Request& request = requests_[static_cast<size_t>(i)];
    const auto tokens = static_cast<size_t>(sim_.random.Between(150, 320));
    if (sim_.random.Chance(400)) {
      request.prompt.assign(common.begin(), common.begin() + sim_.random.Between(1, 160));
    }
    while (request.prompt.size() < tokens) {
      request.prompt.push_back(static_cast<int32_t>(sim_.random.Between(0, kSimVocab - 1)));
    }
    request.output_tokens = static_cast<int>(sim_.random.Between(1, 6));
    request.all_tokens = request.prompt;
    for (int t = 0; t < request.output_tokens; ++t) {
      const KvContent so_far(request.all_tokens);
      request.all_tokens.push_back(so_far.NextToken(static_cast<int>(request.all_tokens.size())));
    }
    request.content = std::make_unique<KvContent>(request.all_tokens);
    // The first come at once, so that the first faults have something to strike.
    sim_.queue.At(i < 4 ? 0 : sim_.random.Between(0, 300'000), [this, i] {
      StartAttempt(i);
      WatchProgress(i);
    });
  }
}

// In order with the calls before it to the same worker.
void RouterSim::Call(SimProcess& process, Micros& last, std::function<void()> what,
                     std::function<void()> unreachable) {
  last = std::max(last, sim_.queue.now() + sim_.random.Between(50, 500));
  sim_.queue.At(last, [&process, what = std::move(what), unreachable = std::move(unreachable)] {
    if (process.up()) {
      process.Post(what);
    } else if (unreachable) {
      unreachable();
    }
  });
}

void RouterSim::StartAttempt(int index) {
  Request& request = requests_[static_cast<size_t>(index)];
  if (request.outcome != Outcome::kRunning) return;
  ++sim_.coverage.attempts;
  SimAttempt& attempt = request.attempt;
  attempt.request = index;
  ++attempt.attempt;
  if (attempt.attempt == 1 || sim_.random.Chance(500)) {
    attempt.prefill = static_cast<int>(sim_.random.Between(0, kWorkers - 1));
    attempt.decode = static_cast<int>(sim_.random.Between(0, kWorkers - 1));
  }
  attempt.token_ids = request.prompt;
  attempt.token_ids.insert(attempt.token_ids.end(), request.log.begin(), request.log.end());
  attempt.prompt_length = static_cast<int>(request.prompt.size());
  attempt.remaining_tokens = request.output_tokens - static_cast<int>(request.log.size());
  attempt.content = request.content.get();
  attempt.key.set_request_id_high(77);
  attempt.key.set_request_id_low(static_cast<uint64_t>(index));
  attempt.key.set_attempt(attempt.attempt);
  attempt.capability.assign(16, static_cast<char>(sim_.random.Next()));
  request.committed = false;
  request.last_news = sim_.queue.now();
  sim_.Trace(70, static_cast<uint64_t>(index), attempt.attempt);
  DecodeSim& decode = *decode_[static_cast<size_t>(attempt.decode)];
  Call(
      decode.process(), last_decode_call_[static_cast<size_t>(attempt.decode)],
      [&decode, attempt] { decode.Start(attempt); }, [this, attempt] { DecodeFailed(attempt); });
}

void RouterSim::WatchProgress(int index) {
  sim_.queue.After(kStall / 4, [this, index] {
    const Request& request = requests_[static_cast<size_t>(index)];
    if (request.outcome != Outcome::kRunning) return;
    if (sim_.queue.now() > request.last_news + kStall) FailAttempt(index);
    WatchProgress(index);
  });
}

bool RouterSim::Current(const SimAttempt& attempt) {
  Request& request = Of(attempt);
  if (request.outcome != Outcome::kRunning || request.attempt.attempt != attempt.attempt) {
    return false;
  }
  request.last_news = sim_.queue.now();
  return true;
}

void RouterSim::Accepted(const SimAttempt& attempt) {
  if (!Current(attempt)) return;
  PrefillSim& prefill = *prefill_[static_cast<size_t>(attempt.prefill)];
  Call(
      prefill.process(), last_prefill_call_[static_cast<size_t>(attempt.prefill)],
      [&prefill, attempt] { prefill.Start(attempt); },
      [this, attempt] {
        if (Current(attempt)) FailAttempt(attempt.request);
      });
}

void RouterSim::Committed(const SimAttempt& attempt) {
  if (Current(attempt)) Of(attempt).committed = true;
}

// I1, I5: the next token of this very request, and the right one. The first may come from both
// workers.
void RouterSim::Token(const SimAttempt& attempt, int output_index, int32_t token) {
  if (!Current(attempt)) return;
  Request& request = Of(attempt);
  const auto index = static_cast<size_t>(output_index);
  if (index > request.log.size() ||
      (index < request.log.size() && index != attempt.token_ids.size() - request.prompt.size())) {
    return sim_.Violation("request ", attempt.request, ": output ", index, " after ",
                          request.log.size());
  }
  if (index >= static_cast<size_t>(request.output_tokens) ||
      request.all_tokens[request.prompt.size() + index] != token) {
    return sim_.Violation("request ", attempt.request, ": a wrong token at output ", index);
  }
  if (index == request.log.size()) request.log.push_back(token);
  if (static_cast<int>(request.log.size()) == request.output_tokens) {
    End(attempt.request, Outcome::kOk);
  }
}

void RouterSim::FirstToken(const SimAttempt& attempt, int32_t token, bool ends) {
  if (!Current(attempt)) return;
  Token(attempt, static_cast<int>(attempt.token_ids.size()) - attempt.prompt_length, token);
  if (ends && Of(attempt).outcome == Outcome::kRunning) {
    sim_.Violation("the prefill worker ends a request too early");
  }
}

void RouterSim::DecodeFailed(const SimAttempt& attempt) {
  if (Current(attempt)) FailAttempt(attempt.request);
}

// A commit may still be on its way from the decode worker.
void RouterSim::PrefillFinished(const SimAttempt& attempt, const absl::Status& status) {
  if (status.ok() || !Current(attempt)) return;
  sim_.queue.After(250'000, [this, attempt] {
    if (Current(attempt) && !Of(attempt).committed) FailAttempt(attempt.request);
  });
}

void RouterSim::WorkerGone(bool is_prefill, int worker) {
  for (const Request& request : requests_) {
    const SimAttempt& attempt = request.attempt;
    if (request.outcome != Outcome::kRunning || attempt.attempt == 0) continue;
    if ((is_prefill ? attempt.prefill : attempt.decode) != worker) continue;
    if (is_prefill && request.committed) continue;
    FailAttempt(attempt.request);
  }
}

void RouterSim::EndCalls(const Request& request) {
  const SimAttempt attempt = request.attempt;
  PrefillSim& prefill = *prefill_[static_cast<size_t>(attempt.prefill)];
  DecodeSim& decode = *decode_[static_cast<size_t>(attempt.decode)];
  if (!sim_.Strikes(Fault::kLostCancel)) {
    Call(
        prefill.process(), last_prefill_call_[static_cast<size_t>(attempt.prefill)],
        [&prefill, attempt] { prefill.Cancel(attempt); }, nullptr);
  }
  if (!sim_.Strikes(Fault::kLostCancel)) {
    Call(
        decode.process(), last_decode_call_[static_cast<size_t>(attempt.decode)],
        [&decode, attempt] { decode.Cancel(attempt); }, nullptr);
  }
}

void RouterSim::FailAttempt(int index) {
  Request& request = requests_[static_cast<size_t>(index)];
  if (request.outcome != Outcome::kRunning) return;
  EndCalls(request);
  // Late news of the failed attempt do not count; the number is used up.
  ++request.attempt.attempt;
  request.last_news = sim_.queue.now();
  ++request.failures;
  const Micros patience = std::min<Micros>(100'000 * request.failures, 3'000'000);
  sim_.queue.After(sim_.random.Between(500, patience), [this, index] { StartAttempt(index); });
}

void RouterSim::End(int index, Outcome outcome) {
  Request& request = requests_[static_cast<size_t>(index)];
  if (request.outcome != Outcome::kRunning) return;
  request.outcome = outcome;
  ++request.ends;
  sim_.Trace(71, static_cast<uint64_t>(index), static_cast<uint64_t>(outcome));
  (outcome == Outcome::kOk ? sim_.coverage.requests_ok : sim_.coverage.requests_cancelled) += 1;
  if (outcome == Outcome::kCancelled && request.attempt.attempt > 0) EndCalls(request);
}

bool RouterSim::ClientCancels(uint64_t choice) {
  for (size_t i = 0; i < requests_.size(); ++i) {
    const size_t index = (choice + i) % requests_.size();
    if (requests_[index].outcome != Outcome::kRunning) continue;
    End(static_cast<int>(index), Outcome::kCancelled);
    return true;
  }
  return false;
}

bool RouterSim::busy() const {
  return std::any_of(requests_.begin(), requests_.end(),
                     [](const Request& r) { return r.outcome == Outcome::kRunning; });
}

void RouterSim::CheckAtRest() {
  for (size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i].ends != 1)
      sim_.Violation("request ", i, " ended ", requests_[i].ends, " times");
    const bool whole = static_cast<int>(requests_[i].log.size()) == requests_[i].output_tokens;
    if (requests_[i].outcome == Outcome::kOk && !whole)
      sim_.Violation("request ", i, " lacks tokens");
  }
}

}  // namespace baton
