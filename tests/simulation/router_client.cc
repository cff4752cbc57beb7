// The clients of the simulated router, and what must hold of their answers: I1, I4, I5.
#include "tests/simulation/router_client.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/rpc/status.h"

namespace baton {
namespace {

constexpr int kRequests = 20;  // while things break
constexpr int kLateRequests = 4;
constexpr int kBurst = 16;  // requests: the workers take six to twelve at once
constexpr Micros kBurstTime = 300'000;
constexpr int kCommonTokens = 240;
constexpr Micros kPatience = 30'000'000;  // RequestMachineOptions::worker_timeout
// What a broken worker may cost a request, in all: being noticed, and its work done again.
constexpr Micros kGentleTime = 6'000'000;
constexpr Micros kGrace = 2'000'000;  // Dispatcher::Options::no_worker_grace

std::string ErrorStage(const absl::Status& status) {
  return GetErrorInfo(status).value_or(ErrorInfo{}).stage;
}

bool HasLongText(int32_t id) { return id % 8 == 0; }

}  // namespace

const TokenTable& SimTokenTable() {
  static const std::vector<std::string> kTexts = [] {
    std::vector<std::string> texts;
    for (int32_t id = 0; id < kSimVocab; ++id) {
      texts.push_back(absl::StrCat("<", id, ">"));
      if (HasLongText(id)) texts.back().append(24'000, 'x');
    }
    return texts;
  }();
  static const TokenTable kTable = [] {
    TokenTable table;
    for (const std::string& text : kTexts) table.bytes.push_back(text);
    table.special.resize(kTexts.size());
    return table;
  }();
  return kTable;
}

RouterSim::Client& RouterSim::AddClient() {
  Client& client = *clients_.emplace_back(std::make_unique<Client>());
  auto right = std::make_unique<SimRequest>();
  right->index = static_cast<int>(clients_.size()) - 1;
  client.right = right.get();
  sim_.requests[static_cast<uint64_t>(right->index)] = std::move(right);
  return client;
}

void RouterSim::AddRequests() {
  // Some prompts begin alike, so that prefixes are shared.
  std::array<std::vector<int32_t>, 2> common;
  for (std::vector<int32_t>& tokens : common) {
    for (int i = 0; i < kCommonTokens; ++i) {
      tokens.push_back(static_cast<int32_t>(sim_.random.Between(0, kSimVocab - 1)));
    }
  }
  for (int i = 0; i < kRequests + kLateRequests; ++i) {
    Client& client = AddClient();
    const bool late = i >= kRequests;
    client.must_succeed = late || sim_.plan.gentle;
    DrawRequest(client, common[sim_.random.Next() % common.size()]);
    // The first come at once, so that the first faults have something to strike.
    Micros at = i < 4 ? sim_.random.Between(1'000, 5'000) : sim_.random.Between(0, 400'000);
    if (i % 3 == 0) at = sim_.random.Between(0, 6'000'000);
    if (sim_.plan.gentle) at = sim_.random.Between(1'000, sim_.plan.heal_at);
    if (late) at = sim_.plan.heal_at + sim_.random.Between(4'000'000, 6'000'000);
    if (client.deadline < kNever) client.deadline += at;
    sim_.queue.At(at, [this, &client] { Call(client); });
  }
}

void RouterSim::AddBurst(Micros from) {
  if (sim_.plan.queue < kBurst) return;
  for (int i = 0; i < kBurst; ++i) {
    Client& client = AddClient();
    SimRequest& right = *client.right;
    client.must_succeed = true;
    right.prompt.resize(static_cast<size_t>(sim_.random.Between(20, 60)));
    for (int32_t& id : right.prompt) {
      id = static_cast<int32_t>(sim_.random.Between(kSimEndTokens, kSimVocab - 1));
    }
    right.max_tokens = static_cast<int>(sim_.random.Between(1, 3));
    right.seed = sim_.random.Next();
    AddOutputs(right, 1);
    client.choices.emplace_back(right.choices.front().output, client.stop);
    sim_.queue.At(from + sim_.random.Between(0, kBurstTime), [this, &client] { Call(client); });
  }
}

void RouterSim::DrawRequest(Client& client, const std::vector<int32_t>& common) {
  SimRequest& right = *client.right;
  const auto tokens = static_cast<size_t>(sim_.random.Between(100, 300));
  if (sim_.random.Chance(600)) {
    right.prompt.assign(common.begin(), common.begin() + sim_.random.Between(1, kCommonTokens));
  }
  while (right.prompt.size() < tokens) {
    right.prompt.push_back(static_cast<int32_t>(sim_.random.Between(kSimEndTokens, kSimVocab - 1)));
  }
  // Where nothing is handed off, more is decoded.
  const bool is_short =
      sim_.plan.disaggregation != Disaggregation::kNever && sim_.random.Chance(700);
  right.max_tokens =
      static_cast<int>(is_short ? sim_.random.Between(1, 8) : sim_.random.Between(40, 90));
  right.seed = sim_.random.Next();
  const int64_t choices = sim_.random.Chance(250) ? sim_.random.Between(2, 4) : 1;
  AddOutputs(right, choices);
  client.stream = sim_.random.Chance(800);
  client.priority = static_cast<int32_t>(sim_.random.Between(-1, 1));
  client.tenant = absl::StrCat("tenant", sim_.random.Between(0, 2));
  if (sim_.random.Chance(200)) DrawStop(client);
  for (const SimRequest::Choice& choice : right.choices) {
    client.choices.emplace_back(choice.output, client.stop);
  }
  if (client.must_succeed) return;
  if (sim_.Strikes(Fault::kDeadline)) {
    client.deadline = sim_.random.Between(500, sim_.random.Chance(700) ? 100'000 : 4'000'000);
  }
  if (sim_.Strikes(Fault::kDeadlyPrompt)) {
    right.deadly_chunk =
        static_cast<int>(sim_.random.Between(0, static_cast<int64_t>(tokens) / 64));
  }
  right.deadly_choice = static_cast<uint32_t>(sim_.random.Between(0, choices - 1));
  const auto output = static_cast<int64_t>(right.choices[right.deadly_choice].output.size());
  if (output > 1 && sim_.Strikes(Fault::kDeadlyOutput)) {
    right.deadly_output = static_cast<int>(sim_.random.Between(1, output - 1));
  }
}

// What has to come.
void RouterSim::AddOutputs(SimRequest& right, int64_t choices) {
  for (uint32_t number = 0; number < choices; ++number) {
    SimRequest::Choice& choice = right.choices.emplace_back();
    choice.content = std::make_unique<KvContent>(right.prompt, right.seed, number);
    do {
      const int so_far = static_cast<int>(right.prompt.size() + choice.output.size());
      choice.output.push_back(choice.content->NextToken(so_far));
      choice.content->Append(choice.output.back());
    } while (static_cast<int>(choice.output.size()) < right.max_tokens &&
             choice.output.back() >= kSimEndTokens);
  }
}

// The text of some token that will come.
void RouterSim::DrawStop(Client& client) {
  const std::vector<SimRequest::Choice>& choices = client.right->choices;
  const std::vector<int32_t>& output = choices[sim_.random.Next() % choices.size()].output;
  const int32_t id =
      output[static_cast<size_t>(sim_.random.Between(0, static_cast<int64_t>(output.size()) - 1))];
  if (!HasLongText(id)) client.stop = std::string(SimTokenTable().bytes[static_cast<size_t>(id)]);
}

RouterSim::Client::Choice::Choice(const std::vector<int32_t>& output, const std::string& stop) {
  for (const int32_t id : output) {
    ++expected_tokens;
    expected_reason = v1::FINISH_REASON_STOP;
    if (id < kSimEndTokens) return;
    expected_ids.push_back(static_cast<uint32_t>(id));
    const auto its_text = SimTokenTable().bytes[static_cast<size_t>(id)];
    if (!stop.empty() && its_text == stop) return;
    expected_text.append(its_text.data(), its_text.size());
  }
  expected_reason = v1::FINISH_REASON_LENGTH;
}

RouterSim::Client* RouterSim::Running(uint64_t choice) {
  for (size_t i = 0; i < clients_.size(); ++i) {
    Client& client = *clients_[(choice + i) % clients_.size()];
    if (client.state == Client::State::kRunning && client.call != nullptr) return &client;
  }
  return nullptr;
}

bool RouterSim::ClientStopsReading(uint64_t choice, Micros duration) {
  Client* client = Running(choice);
  if (client == nullptr) return false;
  client->stopped_reading = true;
  client->reads_at = std::max(client->reads_at, sim_.queue.now() + duration);
  return true;
}

void RouterSim::Take(Client& client, const v1::GenerateResponse& message,
                     std::function<void()> taken) {
  const Micros at = std::max(sim_.queue.now() + sim_.random.Between(10, 200), client.reads_at);
  auto response = std::make_shared<v1::GenerateResponse>(message);
  sim_.queue.At(at, [this, &client, response, taken = std::move(taken)] {
    if (client.call == nullptr) return;
    taken();
    response->has_complete() ? TakeText(client, response->complete())
                             : TakeText(client, response->chunk());
    if (!response->has_complete()) return;
    Client::Choice& choice = client.choices[response->complete().index()];
    if (std::exchange(choice.completed, true)) {
      sim_.Violation("request ", client.right->index, " completes a choice twice");
    }
    choice.reason = response->complete().finish_reason();
    client.complete = response->complete();
  });
}

// I1, I5: the next tokens of this very choice, and the right ones.
template <typename Response>
void RouterSim::TakeText(Client& client, const Response& response) {
  if (response.index() >= client.choices.size()) {
    return sim_.Violation("request ", client.right->index, " has no choice ", response.index());
  }
  Client::Choice& choice = client.choices[response.index()];
  choice.text += response.text();
  choice.ids.insert(choice.ids.end(), response.token_ids().begin(), response.token_ids().end());
  if (choice.ids.size() > choice.expected_ids.size() ||
      !std::equal(choice.ids.begin(), choice.ids.end(), choice.expected_ids.begin())) {
    sim_.Violation("request ", client.right->index, ": a wrong token at output ",
                   choice.ids.size());
  }
  if (choice.text.size() > choice.expected_text.size() ||
      choice.expected_text.compare(0, choice.text.size(), choice.text) != 0) {
    sim_.Violation("request ", client.right->index, ": a wrong text");
  }
}

void RouterSim::CheckComplete(Client& client) {
  const int request = client.right->index;
  uint32_t expected_tokens = 0;
  for (const Client::Choice& choice : client.choices) {
    if (!choice.completed) sim_.Violation("request ", request, " ends OK without a complete");
    if (choice.ids != choice.expected_ids || choice.text != choice.expected_text) {
      sim_.Violation("request ", request, " lacks tokens");
    }
    if (choice.reason != choice.expected_reason) {
      sim_.Violation("request ", request, " ends for another reason");
    }
    expected_tokens += choice.expected_tokens;
  }
  const v1::Usage& usage = client.complete.usage();
  if (usage.prompt_tokens() != client.right->prompt.size() ||
      usage.completion_tokens() != expected_tokens) {
    sim_.Violation("request ", request, " counts ", usage.completion_tokens(), " tokens, not ",
                   expected_tokens);
  }
  if (!client.complete.timings().exact()) sim_.Violation("request ", request, " is not exact");
  sim_.coverage.attempts += client.complete.timings().attempts();
}

void RouterSim::End(Client& client, const absl::Status& status) {
  if (client.state == Client::State::kEnded) {
    return sim_.Violation("request ", client.right->index, " ends twice");
  }
  client.state = Client::State::kEnded;
  client.ended = sim_.queue.now();
  client.status = status;
  ++client.ends;
  const std::string reason = ErrorReason(status);
  sim_.Trace(71, static_cast<uint64_t>(client.right->index), static_cast<uint64_t>(status.code()));
  ++sim_.coverage.outcomes[absl::StrCat(absl::StatusCodeToString(status.code()),
                                        reason.empty() ? "" : " ", reason)];
  const Micros took = client.ended - client.received;
  sim_.coverage.longest_gentle =
      std::max(sim_.coverage.longest_gentle, sim_.plan.gentle ? took : 0);
  if (client.must_succeed && took > kGentleTime) {
    sim_.Violation("request ", client.right->index, " takes ", took, " us, in ",
                   client.complete.timings().attempts(),
                   " attempts: ", client.complete.timings().ShortDebugString());
  }
  if (status.ok()) return CheckComplete(client);
  CheckFailure(client);
}

// A request fails for reasons that the client can be told, and none of them comes early.
void RouterSim::CheckFailure(const Client& client) {
  const auto wrong = [&](const char* what) {
    sim_.Violation("request ", client.right->index, " fails ", what, ": ",
                   client.status.ToString());
  };
  if (client.must_succeed) return wrong("though all is well");
  const Micros waited = client.ended - client.received;
  const std::string reason = ErrorReason(client.status);
  switch (client.status.code()) {
    case absl::StatusCode::kCancelled:
      return;
    case absl::StatusCode::kDeadlineExceeded:
      if (client.ended < client.deadline) wrong("before its deadline");
      return;
    case absl::StatusCode::kResourceExhausted:
      if (reason == kReasonQueueFull || reason == kReasonQueueTime) return;
      if (reason == "CLIENT_STALLED" && client.stopped_reading) return;
      break;
    case absl::StatusCode::kInternal:
      // Four deaths in a row may meet one request at one place by chance.
      if (reason != kReasonPoisonRequest || (client.right->kills == 0 && sim_.deaths < 4)) {
        wrong("by mistake");
      }
      return;
    case absl::StatusCode::kFailedPrecondition:
      if (reason != kReasonModelMismatch) return wrong("for no good reason");
      break;
    case absl::StatusCode::kUnavailable:
      if (client.router_died || (reason == kReasonDraining && ErrorStage(client.status).empty())) {
        return;
      }
      if (reason == kReasonNoReadyWorker && waited >= kGrace) return;
      break;
    default:
      return wrong("for no good reason");
  }
  if (waited < kPatience) wrong("before its patience is at an end");
}

void RouterSim::CheckAtRest() {
  for (const auto& client : clients_) {
    if (client->ends == 1) continue;
    sim_.Violation("request ", client->right->index, " ended ", client->ends, " times");
  }
}

}  // namespace baton
