#include "common/engine/engine_commands.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/clock.h"
#include "common/base/failpoint.h"

namespace baton {

EngineCommands::EngineCommands(int vocab_size, std::function<SequenceId()> next_id,
                               const Parts& parts)
    : vocab_size_(vocab_size),
      next_id_(std::move(next_id)),
      mailbox_(parts.mailbox),
      sequences_(parts.sequences),
      ledger_(parts.ledger),
      pipeline_(parts.pipeline),
      ending_(parts.ending),
      auditor_(parts.auditor) {}

void EngineCommands::Take() {
  ledger_.ForgetExpired(SteadyNow());
  Mailbox::Contents contents = mailbox_.Take();
  for (Mailbox::Submission& submission : contents.submissions) {
    BATON_FAILPOINT("engine.before_add");
    sequences_.Add(submission.id, std::move(submission.sequence)).times.ready =
        submission.submitted;
  }
  for (auto& [id, control] : contents.controls) Obey(id, control);
  for (const std::string& source : contents.distrusted) Distrust(source);
}

void EngineCommands::Obey(SequenceId id, Mailbox::Control& control) {
  std::vector<Sequence*> choices = sequences_.Choices(id);
  if (choices.empty()) return;
  const bool ends = control.release || !control.stop.empty();
  if (ends && std::any_of(choices.begin(), choices.end(),
                          [this](Sequence* choice) { return sequences_.InFlight(*choice); })) {
    pipeline_.ApplyUntil(0);  // this may end some choices
    choices = sequences_.Choices(id);
  }
  if (control.release) {
    for (Sequence* choice : choices) Release(*choice, control.resume_tokens);
    return;
  }
  for (Sequence* choice : choices) choice->paused = control.paused.value_or(choice->paused);
  if (control.open_receive) {
    BATON_FAILPOINT("engine.before_grant");
    Sequence& sequence = *choices.front();
    sequences_.OpenReceive(sequence, *std::move(control.open_receive));
    Tell(sequence, BlocksGranted{.block_table = sequence.blocks.table,
                                 .start_token = sequence.kv.cached_tokens});
  }
  if (control.commit) Commit(*choices.front(), *control.commit, std::move(control.audit));
  for (const int choice : control.stop) Stop(id, choice);
}

void EngineCommands::Stop(SequenceId id, int choice) {
  for (Sequence* sequence : sequences_.Choices(id)) {
    const auto& has = sequence->choices;
    if (std::find(has.begin(), has.end(), choice) == has.end()) continue;
    if (!sequence->forks()) return Release(*sequence, std::nullopt);
    return ending_.ReleaseChoice(*sequence, choice);
  }
}

void EngineCommands::Release(Sequence& sequence, std::optional<int> resume_tokens) {
  if (!sequence.admitted) mailbox_.Admitted();
  // tests/planted_bugs: distrusted_push_retained
  if (resume_tokens && !sequence.distrusted) {
    ledger_.Retain(sequence, *resume_tokens, SteadyNow());
  }
  ending_.Release(sequence);
}

absl::Status EngineCommands::CheckFirstTokens(const Sequence& sequence,
                                              const std::vector<OutputToken>& tokens) const {
  const auto choices = static_cast<size_t>(sequence.request.choices);
  if (tokens.size() != choices) {
    return absl::InvalidArgumentError(absl::StrCat(
        "transfer: ", tokens.size(), " first tokens were sent for ", choices, " choices"));
  }
  const int output_index = sequence.output_count();
  for (const OutputToken& token : tokens) {
    if (token.token_id < 0 || token.token_id >= vocab_size_ || token.output_index != output_index) {
      return absl::InvalidArgumentError(
          absl::StrCat("transfer: token ", token.token_id, " at output ", token.output_index,
                       " cannot be committed as output ", output_index));
    }
    // tests/planted_bugs: grammar_first_token_not_asked
    if (!sequence.tokens.form) continue;
    SequenceForm behind = *sequence.tokens.form;
    if (const absl::Status status = behind.Accept(token.token_id); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "transfer: ", status.message(), ", and cannot be committed as output ", output_index));
    }
  }
  return absl::OkStatus();
}

void EngineCommands::Commit(Sequence& sequence, const std::vector<OutputToken>& tokens,
                            std::optional<AuditOrder> audit) {
  if (absl::Status status = CheckFirstTokens(sequence, tokens); !status.ok()) {
    return ending_.Fail(sequence, std::move(status));
  }
  const int first_choice = sequence.request.choice;
  const auto token_of = [&](int choice) -> const OutputToken& {
    return tokens[static_cast<size_t>(choice - first_choice)];
  };
  BATON_FAILPOINT("engine.before_commit");
  sequence.times.ready = SteadyNow();
  std::vector<int32_t> token_ids;
  for (const int choice : sequence.choices) token_ids.push_back(token_of(choice).token_id);
  const std::vector<Sequence*> parted = sequences_.Commit(sequence, token_ids);
  if (audit) auditor_.Begin(next_id_(), sequence, tokens, *std::move(audit));
  for (Sequence* choice : parted) {
    const OutputToken& token = token_of(choice->choice());
    const bool ends = token.finish_reason != FinishReason::kNone ||
                      ending_.ReasonOf(*choice, token) != FinishReason::kNone;
    if (ends) ending_.Finish(*choice);
  }
  BATON_FAILPOINT("engine.committed");
}

// Tokens that a preempted sequence has produced may rest on blocks that it no longer has.
bool EngineCommands::MayRestOn(const Sequence& sequence, const std::string& source) const {
  const bool received = sequence.request.mode == SequenceRequest::Mode::kReceive;
  return (received && sequence.request.kv_source == source) || sequence.preemptions > 0 ||
         sequence.kv.former_sources.count(source) > 0 ||
         ledger_.sources().AnyFrom(sequence.blocks.held, source);
}

// Where a peer still writes into the blocks, the sequence is only reported as failed. It may have
// failed already, with the peer's last bytes under way.
void EngineCommands::Distrust(const std::string& source) {
  pipeline_.ApplyUntil(0);
  ledger_.ForgetAllHeld();
  const absl::Status status = absl::DataLossError("its KV rests on pages that proved to be wrong");
  for (Sequence* sequence : sequences_.All()) {
    if (!MayRestOn(*sequence, source)) continue;
    sequence->distrusted = true;
    if (sequence->awaits_kv()) {
      Tell(*sequence, SequenceFailed{status, sequence->choice()});
    } else {
      ending_.Fail(*sequence, status);
    }
  }
}

}  // namespace baton
