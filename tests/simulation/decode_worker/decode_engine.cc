#include "tests/simulation/decode_worker/decode_engine.h"

#include <algorithm>
#include <utility>

#include "tests/simulation/sim_open.h"

namespace baton {

namespace {

// Tokens whose KV a choice has: its last output is not among them.
std::vector<int32_t> Tokens(const SimDecodeCall& call, uint32_t number) {
  std::vector<int32_t> ids = call.attempt.token_ids;
  const SimDecodeChoice& choice = call.parted.at(number);
  ids.insert(ids.end(), choice.outputs.begin(), choice.outputs.begin() + choice.decoded_tokens);
  return ids;
}

}  // namespace

DecodeEngine::DecodeEngine(Sim& sim, WorkerCore& core, DecodeBlocks& blocks, DecodeCallTable& table,
                           std::function<void(SimAttemptId, uint32_t choice)> choice_ended)
    : sim_(sim),
      core_(core),
      blocks_(blocks),
      table_(table),
      choice_ended_(std::move(choice_ended)) {}

bool DecodeEngine::MustWait(SimAttemptId id) const {
  for (const auto& [other, call] : table_.calls()) {
    if (!call.attempt.isolate || call.released || call.paused) continue;
    const bool runs = std::any_of(call.parted.begin(), call.parted.end(),
                                  [](const auto& choice) { return !choice.second.preempted; });
    const bool computes = call.local && call.granted && !call.committed && !call.lacks_blocks;
    if (runs || computes) return other != id;
  }
  return false;
}

// Each other choice has a copy of a last span that is not full.
int DecodeEngine::BlocksToStart(const SimDecodeCall& call) const {
  const KvLayout& layout = blocks_.layout();
  const auto tokens = static_cast<int>(call.attempt.token_ids.size());
  const auto choices = static_cast<int>(call.going.size());
  const int copies = tokens % layout.block_size != 0 ? choices - 1 : 0;
  const int spans_more = copies + choices;
  return std::min(blocks_.BlocksForTokens(tokens, call.local) + spans_more * layout.groups.count(),
                  blocks_.pool().total_blocks());
}

void DecodeEngine::DropChoice(SimDecodeCall& call, uint32_t number) {
  const auto parted = call.parted.find(number);
  if (parted != call.parted.end()) {
    blocks_.GiveBack(parted->second.held);
    call.parted.erase(parted);
    return;
  }
  const int without = BlocksToStart(call);
  call.going.insert(number);
  const int with = BlocksToStart(call);
  call.going.erase(number);
  call.held.reservation.GiveUp(std::min(call.held.reservation.count(), with - without));
}

void DecodeEngine::BeginDecoding(SimAttemptId id) {
  SimDecodeCall& call = *table_.Find(id);
  Part(call);
  const auto tokens = static_cast<int>(call.attempt.token_ids.size());
  internal::v1::DecodeResponse response;
  const bool joined = sim_.random.Chance(500);
  for (auto& [number, choice] : call.parted) {
    NoteForgers(call, number, tokens);
    if (!joined) response.Clear();
    // A pusher forges KV, not its own first token.
    internal::v1::OutputToken& token = *response.mutable_tokens()->add_tokens();
    token = Give(call, number, tokens, call.local ? choice.forgers : 0);
    NoteGuesses(call.attempt.right->choices[number], token);
    if (!joined) table_.Tell(call, response);
  }
  if (joined) table_.Tell(call, response);
  for (const auto& [number, choice] : call.parted) Schedule(id, number);
}

void DecodeEngine::Part(SimDecodeCall& call) {
  if (call.going.size() > 1) ++sim_.coverage.forks;
  const auto block_size = static_cast<size_t>(blocks_.layout().block_size);
  const bool copies_last = call.attempt.token_ids.size() % block_size != 0;
  const uint32_t first = *call.going.begin();
  for (const uint32_t number : call.going) {
    SimDecodeChoice& choice = call.parted[number];
    choice.order = call.order + number - call.attempt.key.choice();
    choice.grammar = call.attempt.grammar;
    choice.forgers = call.forgers;
    if (number != first) blocks_.Fork(call.held, choice.held, copies_last);
  }
  SimHolding& held = call.parted.at(first).held;
  blocks_.Move(call.held, held);
  // What was reserved for windows while the prompt was computed here.
  held.reservation.GiveUp(std::max(0, held.reservation.count() - held.groups()));
}

void DecodeEngine::NoteForgers(SimDecodeCall& call, uint32_t number, int tokens) {
  if (!sim_.forged) return;
  SimDecodeChoice& choice = call.parted.at(number);
  choice.forgers |=
      CheckSeen(sim_, call.attempt, number, choice.held.memory, tokens, "when it begins");
}

// I7: nothing goes on that rests on what an audit has found.
void DecodeEngine::CheckTrusted(SimAttemptId id, const SimDecodeChoice& choice) const {
  if ((choice.forgers & blocks_.distrusted()) == 0) return;
  sim_.Violation("request ", id.first, " decodes on KV that an audit has found wrong");
}

internal::v1::OutputToken DecodeEngine::Give(SimDecodeCall& call, uint32_t number, int tokens,
                                             Forgers forgers) {
  SimDecodeChoice& choice = call.parted.at(number);
  const internal::v1::OutputToken token =
      TokenAfter(call.attempt, choice.grammar, number, tokens, forgers);
  SimRequest& right = *call.attempt.right;
  right.gave_tokens.insert(call.attempt.attempt);
  choice.outputs.push_back(static_cast<int32_t>(token.token().token_id()));
  choice.grammar.Accept(choice.outputs.back());
  choice.ended = token.ends_sequence();
  if (forgers != 0) {
    right.choices[number].wrong[static_cast<int>(token.output_index())] = call.attempt.attempt;
  }
  return token;
}

void DecodeEngine::Schedule(SimAttemptId id, uint32_t number) {
  const SimDecodeCall* call = table_.Find(id);
  SimDecodeChoice* choice = table_.FindChoice(id, number);
  if (choice == nullptr || choice->stepping || choice->preempted || call->paused ||
      call->cancelled || call->released) {
    return;
  }
  choice->stepping = true;
  core_.Work(sim_.random.Between(500, 4'000), [this, id, number] { Step(id, number); });
}

// One step of a sequence: the last token's own KV, then the next token.
void DecodeEngine::Step(SimAttemptId id, uint32_t number) {
  SimDecodeChoice* choice = table_.FindChoice(id, number);
  if (choice == nullptr) return;
  SimDecodeCall& call = *table_.Find(id);
  choice->stepping = false;
  if (call.released || call.cancelled || call.paused || choice->preempted) return;
  CheckTrusted(id, *choice);
  if (MustWait(id)) return Schedule(id, number);
  const int tokens = static_cast<int>(call.attempt.token_ids.size()) + choice->decoded_tokens;
  if (choice->ended) {
    CheckSeen(sim_, call.attempt, number, choice->held.memory, tokens, "at its end");
    return choice_ended_(id, number);
  }
  if (!HasRoom(call, *choice, tokens + 1)) return;
  const int output = tokens + 1 - call.attempt.prompt_length;
  if (number == call.attempt.right->deadly_choice && StopsEngine(sim_, call.attempt, output)) {
    choice->stepping = true;
    return core_.StandStill([this, id, number] { Step(id, number); });
  }
  const Guesses guesses = Guess(call, *choice, tokens);
  if (Kills(call, number, tokens, guesses.accepted)) {
    sim_.coverage.deaths_in_runs += guesses.accepted > 0 ? 1 : 0;
    call.attempt.right->kills[id.second] = {
        .decoded = true,
        .outputs = OutputIndex(call.attempt) + static_cast<int>(choice->outputs.size())};
    return sim_.kill_worker(false, core_.id().index);
  }
  Compute(call, number, tokens, guesses);
  GiveRun(call, number, tokens, guesses);
  Schedule(id, number);
}

// Guesses do not pass the length of the sequence, nor reach an output that stops the engine. They
// take what blocks it has, and one more at most.
DecodeEngine::Guesses DecodeEngine::Guess(const SimDecodeCall& call, SimDecodeChoice& choice,
                                          int tokens) {
  if (!call.attempt.guess || !sim_.random.Chance(sim_.plan.guessed_steps)) return {};
  const int length = call.attempt.prompt_length + call.attempt.right->max_tokens;
  const int first = tokens + 1 - call.attempt.prompt_length;
  const int costly = call.attempt.right->costly_output;
  const int most = costly < first ? length : costly - first - 1;
  Guesses guesses{.count = static_cast<int>(std::min<int64_t>(
                      sim_.random.Between(1, 16), std::min(most, length - tokens - 2)))};
  if (guesses.count <= 0) return {};
  const auto room = [&] { return choice.held.spans() * blocks_.layout().block_size - tokens - 1; };
  guesses.took_block = guesses.count > room() && blocks_.TakeAhead(choice.held);
  guesses.count = std::min(guesses.count, room());
  guesses.accepted = static_cast<int>(sim_.random.Between(0, guesses.count));
  return guesses;
}

// Whether a row computes the output that nobody survives.
bool DecodeEngine::Kills(const SimDecodeCall& call, uint32_t number, int tokens,
                         int accepted) const {
  const SimRequest& right = *call.attempt.right;
  const int first = tokens + 1 - call.attempt.prompt_length;
  return number == right.deadly_choice && first <= right.deadly_output &&
         right.deadly_output <= first + accepted;
}

void DecodeEngine::Compute(const SimDecodeCall& call, uint32_t number, int tokens,
                           const Guesses& guesses) {
  const SimDecodeChoice& choice = call.parted.at(number);
  const KvContent& content = *call.attempt.right->choices[number].content;
  const int right_end = std::min(tokens + 1 + guesses.accepted, content.tokens());
  const int end = tokens + 1 + guesses.count;
  CheckMayDecode(choice, tokens, end);
  CheckRows(sim_, call.attempt, number, choice.held.memory,
            {kSimWindowLayer, {SimFirstSeen(kSimWindowLayer, tokens), tokens}},
            "when a step reads it");
  for (int layer = 0; layer < blocks_.layout().layers; ++layer) {
    content.Write(choice.held.memory, layer, tokens, right_end);
    KvContent::WriteRefused(choice.held.memory, layer, right_end, end);
  }
}

// The tokens come in one message, or in several: those that are there while one is being written
// wait together for the next.
void DecodeEngine::GiveRun(SimDecodeCall& call, uint32_t number, int tokens,
                           const Guesses& guesses) {
  SimDecodeChoice& choice = call.parted.at(number);
  internal::v1::DecodeResponse response;
  int given = 0;
  for (bool more = true; more;) {
    internal::v1::OutputToken& token = *response.mutable_tokens()->add_tokens();
    token = Give(call, number, tokens + ++given, choice.forgers);
    token.set_guessed(given <= guesses.accepted);
    more = token.guessed() && !token.ends_sequence();
    if (!more) {
      const int accepted = std::min(guesses.accepted, given);
      token.set_refused_guesses(static_cast<uint32_t>(guesses.count - accepted));
    }
    NoteGuesses(call.attempt.right->choices[number], token);
    if (more && sim_.random.Chance(700)) continue;
    table_.Tell(call, response);
    response.Clear();
  }
  choice.decoded_tokens += given;
  sim_.coverage.runs += given > 1 ? 1 : 0;
  sim_.coverage.runs_by_grammar += given > 1 && !call.attempt.right->grammar.empty() ? 1 : 0;
  blocks_.GiveBackUnread(choice.held, tokens + given);
  if (guesses.took_block) blocks_.SettleAhead(choice.held, tokens + given);
}

// I3: what a choice decodes goes into blocks that no other sequence has.
void DecodeEngine::CheckMayDecode(const SimDecodeChoice& choice, int first_token, int end_token) {
  const int block_size = blocks_.layout().block_size;
  const size_t behind = choice.held.Entry((end_token - 1) / block_size + 1, 0);
  for (size_t entry = choice.held.Entry(first_token / block_size, 0); entry < behind; ++entry) {
    if (!blocks_.IsAlone(choice.held, entry)) {
      sim_.Violation("a step writes into a block that is another's too");
    }
  }
}

// Takes a span if one is needed; when there is none, the youngest gives way, who may be this.
bool DecodeEngine::HasRoom(SimDecodeCall& call, SimDecodeChoice& choice, int tokens) {
  while (choice.held.spans() < blocks_.layout().BlocksFor(tokens)) {
    if (blocks_.TakeSpan(choice.held)) continue;
    if (&PreemptYoungest(call) == &choice) return false;
  }
  return true;
}

// At least a choice of `call` runs.
SimDecodeChoice& DecodeEngine::PreemptYoungest(SimDecodeCall& call) {
  SimDecodeCall* of = &call;
  uint32_t number = 0;
  SimDecodeChoice* youngest = nullptr;
  for (auto& [id, running] : table_.calls()) {
    if (running.released || running.cancelled) continue;
    for (auto& [candidate_number, candidate] : running.parted) {
      if (candidate.preempted) continue;
      if (youngest != nullptr && candidate.order < youngest->order) continue;
      youngest = &candidate;
      number = candidate_number;
      of = &running;
    }
  }
  Preempt(*of, number);
  return *youngest;
}

// Its blocks go back; when there is room it computes what it had by itself.
void DecodeEngine::Preempt(SimDecodeCall& call, uint32_t number) {
  SimDecodeChoice& choice = call.parted.at(number);
  ++sim_.coverage.preemptions;
  choice.preempted = choice.was_preempted = true;
  blocks_.GiveBack(choice.held);
  internal::v1::DecodeResponse response;
  response.mutable_preempted()->set_choice(number);
  table_.Tell(call, response);
  core_.process().After(sim_.random.Between(1'000, 50'000), [this] { GoOnWithPreempted(); });
}

void DecodeEngine::GoOnWithPreempted() {
  for (auto& [id, call] : table_.calls()) {
    if (call.cancelled || call.released) continue;
    for (auto& [number, choice] : call.parted) {
      if (!choice.preempted) continue;
      if (!Recompute(call, number)) return;
      Schedule(id, number);
    }
  }
}

// False when there is no room. What its siblings share it finds again.
bool DecodeEngine::Recompute(SimDecodeCall& call, uint32_t number) {
  SimDecodeChoice& choice = call.parted.at(number);
  const std::vector<int32_t> ids = Tokens(call, number);
  const auto tokens = static_cast<int>(ids.size());
  const std::vector<int32_t> cached = blocks_.Cached(ids, {.computes = true});
  const int head_room = blocks_.layout().groups.count();
  const int most =
      std::min(blocks_.BlocksForTokens(tokens, true) + head_room, blocks_.pool().total_blocks());
  auto reservation = blocks_.pool().TryReserve(most - blocks_.UsedOf(cached, true));
  if (!reservation.has_value()) return false;
  choice.forgers = 0;
  SimHolding& held = choice.held;
  held.reservation = *std::move(reservation);
  blocks_.TakeCached(held, cached);
  blocks_.TakeReserved(held, tokens, false);
  for (int first = blocks_.TokensOf(cached), end = 0; first < tokens; first = end) {
    end = std::min(tokens, (first / kSimChunk + 1) * kSimChunk);
    if (!ComputeChunk(call.attempt, number, held, {first, end}, choice.forgers)) {
      blocks_.GiveBack(held);
      return false;
    }
    blocks_.GiveBackUnread(held, end, tokens);
  }
  held.reservation.GiveUp(std::max(0, held.reservation.count() - head_room));
  choice.preempted = false;
  NoteForgers(call, number, tokens);
  return true;
}

// What the chunk sees of the tokens before it must be there.
bool DecodeEngine::ComputeChunk(const SimAttempt& attempt, uint32_t number, SimHolding& held,
                                TokenRange chunk, Forgers& forgers) {
  if (!blocks_.TakeForChunk(held, chunk.begin, chunk.end)) return false;
  forgers |= CheckSeen(sim_, attempt, number, held.memory, chunk.begin, "when a chunk reads it");
  for (int layer = 0; layer < blocks_.layout().layers; ++layer) {
    attempt.right->choices[number].content->Write(held.memory, layer, chunk.begin, chunk.end);
  }
  return true;
}

}  // namespace baton
