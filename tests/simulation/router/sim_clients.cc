#include "tests/simulation/router/sim_clients.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace baton {
namespace {

constexpr int kRequests = 20;  // while things break
constexpr int kLateRequests = 4;
constexpr int kBurst = 16;  // requests: the workers take six to twelve at once
constexpr Micros kBurstTime = 300'000;
constexpr int kCommonTokens = 240;

}  // namespace

SimRequest& SimClients::AddRight() {
  auto right = std::make_unique<SimRequest>();
  right->index = static_cast<int>(clients_.size());
  SimRequest& added = *right;
  sim_.requests[static_cast<uint64_t>(right->index)] = std::move(right);
  return added;
}

void SimClients::Add(SimClientRequest request, Micros at) {
  SimClient& client = *clients_.emplace_back(std::make_unique<SimClient>(sim_, std::move(request)));
  sim_.queue.At(at, [this, &client] { call_(client); });
}

void SimClients::AddRequests() {
  // Some prompts begin alike, so that prefixes are shared.
  std::array<std::vector<int32_t>, 2> common;
  for (std::vector<int32_t>& tokens : common) {
    for (int i = 0; i < kCommonTokens; ++i) {
      tokens.push_back(static_cast<int32_t>(sim_.random.Between(0, kSimVocab - 1)));
    }
  }
  for (int i = 0; i < kRequests + kLateRequests; ++i) {
    const bool late = i >= kRequests;
    SimClientRequest request = Draw(late, common[sim_.random.Next() % common.size()]);
    // The first come at once, so that the first faults have something to strike.
    Micros at = i < 4 ? sim_.random.Between(1'000, 5'000) : sim_.random.Between(0, 400'000);
    if (i % 3 == 0) at = sim_.random.Between(0, 6'000'000);
    if (sim_.plan.gentle) at = sim_.random.Between(1'000, sim_.plan.heal_at);
    if (late) at = sim_.plan.heal_at + sim_.random.Between(4'000'000, 6'000'000);
    if (request.deadline < kNever) request.deadline += at;
    Add(std::move(request), at);
  }
}

void SimClients::AddBurst(Micros from) {
  if (sim_.plan.queue < kBurst) return;
  for (int i = 0; i < kBurst; ++i) {
    SimRequest& right = AddRight();
    right.prompt.resize(static_cast<size_t>(sim_.random.Between(20, 60)));
    for (int32_t& id : right.prompt) {
      id = static_cast<int32_t>(sim_.random.Between(kSimEndTokens, kSimVocab - 1));
    }
    right.max_tokens = static_cast<int>(sim_.random.Between(1, 3));
    right.seed = sim_.random.Next();
    AddOutputs(right, 1);
    SimClientRequest request;
    request.right = &right;
    request.must_succeed = true;
    Add(std::move(request), from + sim_.random.Between(0, kBurstTime));
  }
}

SimClientRequest SimClients::Draw(bool late, const std::vector<int32_t>& common) {
  SimRequest& right = AddRight();
  const auto tokens = static_cast<size_t>(sim_.random.Between(100, 300));
  if (sim_.random.Chance(600)) {
    right.prompt.assign(common.begin(), common.begin() + sim_.random.Between(1, kCommonTokens));
  }
  while (right.prompt.size() < tokens) {
    right.prompt.push_back(static_cast<int32_t>(sim_.random.Between(kSimEndTokens, kSimVocab - 1)));
  }
  // If nothing is handed off, more is decoded.
  const bool is_short =
      sim_.plan.disaggregation != Disaggregation::kNever && sim_.random.Chance(700);
  right.max_tokens =
      static_cast<int>(is_short ? sim_.random.Between(1, 8) : sim_.random.Between(40, 90));
  right.seed = sim_.random.Next();
  right.scored = sim_.random.Chance(200);
  if (sim_.random.Chance(400)) right.grammar = absl::StrCat("grammar ", sim_.random.Next());
  AddOutputs(right, sim_.random.Chance(250) ? sim_.random.Between(2, 4) : 1);
  SimClientRequest request;
  request.right = &right;
  request.must_succeed = late || sim_.plan.gentle;
  request.stream = sim_.random.Chance(800);
  request.priority = static_cast<int32_t>(sim_.random.Between(-1, 1));
  request.tenant = absl::StrCat("tenant", sim_.random.Between(0, 2));
  if (sim_.random.Chance(200)) request.stop = DrawStop(right);
  if (request.must_succeed) return request;
  if (sim_.Strikes(Fault::kDeadline)) {
    request.deadline = sim_.random.Between(500, sim_.random.Chance(700) ? 100'000 : 4'000'000);
  }
  DrawDeath(right, tokens);
  return request;
}

void SimClients::DrawDeath(SimRequest& right, size_t tokens) {
  if (sim_.Strikes(Fault::kDeadlyPrompt)) {
    right.deadly_chunk =
        static_cast<int>(sim_.random.Between(0, static_cast<int64_t>(tokens) / 64));
  }
  const auto choices = static_cast<int64_t>(right.choices.size());
  right.deadly_choice = static_cast<uint32_t>(sim_.random.Between(0, choices - 1));
  const auto output = static_cast<int64_t>(right.choices[right.deadly_choice].output.size());
  if (output > 1 && sim_.Strikes(Fault::kDeadlyOutput)) {
    right.deadly_output = static_cast<int>(sim_.random.Between(1, output - 1));
  }
  right.deadly_opening = sim_.Strikes(Fault::kDeadlyOpening);
  if (output > 1 && sim_.Strikes(Fault::kCostlyOutput)) {
    right.costly_output = static_cast<int>(sim_.random.Between(1, output - 1));
  }
}

// What has to come.
void SimClients::AddOutputs(SimRequest& right, int64_t choices) {
  for (uint32_t number = 0; number < choices; ++number) {
    SimRequest::Choice& choice = right.choices.emplace_back();
    choice.content = std::make_unique<KvContent>(right.prompt, right.seed, number);
    SimGrammar grammar(right.grammar);
    do {
      const int so_far = static_cast<int>(right.prompt.size() + choice.output.size());
      choice.output.push_back(choice.content->NextToken(so_far, grammar));
      choice.content->Append(choice.output.back());
      grammar.Accept(choice.output.back());
    } while (static_cast<int>(choice.output.size()) < right.max_tokens &&
             choice.output.back() >= kSimEndTokens);
  }
}

// The text of some token that will come, unless it is a long one.
std::string SimClients::DrawStop(const SimRequest& right) {
  const std::vector<int32_t>& output =
      right.choices[sim_.random.Next() % right.choices.size()].output;
  const int32_t id =
      output[static_cast<size_t>(sim_.random.Between(0, static_cast<int64_t>(output.size()) - 1))];
  if (HasLongText(id)) return "";
  return std::string(SimTokenTable().bytes[static_cast<size_t>(id)]);
}

SimClient* SimClients::Running(uint64_t choice) {
  for (size_t i = 0; i < clients_.size(); ++i) {
    SimClient& client = *clients_[(choice + i) % clients_.size()];
    if (client.has_call()) return &client;
  }
  return nullptr;
}

bool SimClients::Cancel(uint64_t choice) {
  SimClient* client = Running(choice);
  if (client != nullptr) client->Cancel();
  return client != nullptr;
}

bool SimClients::StopReading(uint64_t choice, Micros duration) {
  SimClient* client = Running(choice);
  if (client != nullptr) client->StopReading(duration);
  return client != nullptr;
}

bool SimClients::busy() const {
  return std::any_of(clients_.begin(), clients_.end(),
                     [](const auto& client) { return !client->has_ended(); });
}

void SimClients::CheckAtRest() {
  for (const auto& client : clients_) {
    if (client->ends() == 1) continue;
    sim_.Violation("request ", client->index(), " ended ", client->ends(), " times");
  }
}

}  // namespace baton
