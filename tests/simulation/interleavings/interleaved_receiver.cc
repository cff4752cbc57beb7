#include "tests/simulation/interleavings/interleaved_receiver.h"

#include "absl/strings/str_cat.h"

#include "common/base/crc32c.h"
#include "tests/simulation/interleavings/machine_state.h"
#include "tests/simulation/interleavings/push_of_request.h"
#include "tests/simulation/kv_content.h"

namespace baton {

void InterleavedReceiver::Start(InterleavedBlocks& blocks) {
  blocks.decode_owner = request_;
  const internal::v1::PushOpen open = InterleavedOpen(request_, messages_);
  machine_ = std::make_shared<ReceiveMachine>(
      ReceiveConfig{.key = open.key(),
                    .capability = open.capability(),
                    .identity = open.identity(),
                    .shape = open.shape(),
                    .layout = InterleavedLayout(),
                    .token_ids = InterleavedTokens(request_, messages_),
                    .page_hashes = {open.page_hashes().begin(), open.page_hashes().end()},
                    .prompt_length = messages_ * kKvPageTokens,
                    .vocab_size = kSimVocab,
                    .limits = {.window_bytes = 2 * InterleavedPageBytes()}},
      absl::UnixEpoch());
}

bool InterleavedReceiver::wants_blocks() const {
  return runs() && asked_for_blocks_ && !granted_ &&
         machine_->state() == ReceiveMachine::State::kOpen;
}

void InterleavedReceiver::Grant(InterleavedStream& stream, InterleavedBlocks& blocks) {
  granted_ = true;
  Handle(ReceiveEvent::Granted{0}, stream, blocks);
}

void InterleavedReceiver::Deliver(InterleavedStream& stream, InterleavedBlocks& blocks) {
  const InterleavedStream::Message message = stream.TakeMessage();
  if (message.half_close) return;
  if (message.is_data && blocks.prefill_owner != request_) {
    blocks.Violation("sent from a block in its next life");
  }
  if (!stream.decode_open()) return;
  if (over_) return stream.End();  // no such attempt is expected
  if (!message.is_data) {
    return Handle(ReceiveEvent::ControlReceived{kStream, message.control}, stream, blocks);
  }
  const uint64_t id = next_message_id_++;
  const std::string header = message.header.SerializeAsString();
  held_[id] = {message.header, blocks.prefill_content};
  Handle(ReceiveEvent::DataReceived{kStream, id, header, Crc32c(header.data(), header.size()),
                                    message.payload_bytes},
         stream, blocks);
}

void InterleavedReceiver::Handle(const ReceiveEvent::Any& event, InterleavedStream& stream,
                                 InterleavedBlocks& blocks, absl::Time now) {
  if (!runs()) return;
  auto next = std::make_shared<ReceiveMachine>(*machine_);
  const std::vector<ReceiveAction::Any> actions = next->Handle(event, now);
  machine_ = next;
  for (const ReceiveAction::Any& action : actions) Execute(action, stream, blocks);
}

void InterleavedReceiver::Execute(const ReceiveAction::Any& action, InterleavedStream& stream,
                                  InterleavedBlocks& blocks) {
  if (std::holds_alternative<ReceiveAction::TakeBlocks>(action)) {
    asked_for_blocks_ = true;
  } else if (const auto* send = std::get_if<ReceiveAction::Send>(&action)) {
    stream.Answer(send->message);
  } else if (std::holds_alternative<ReceiveAction::EndStream>(action)) {
    stream.EndAfterAnswers();
  } else if (const auto* copy = std::get_if<ReceiveAction::Copy>(&action)) {
    BeginCopy(*copy, blocks);
  } else if (const auto* drop = std::get_if<ReceiveAction::Drop>(&action)) {
    if (held_.erase(drop->message_id) != 1) blocks.Violation("a message is dropped twice");
  } else if (std::holds_alternative<ReceiveAction::CommitSequence>(action)) {
    Commit(blocks);
  } else if (std::holds_alternative<ReceiveAction::Failed>(action)) {
    if (committed_ || failed_) blocks.Violation("a failure after the end");
    failed_ = true;
  } else if (std::holds_alternative<ReceiveAction::ReleaseBlocks>(action)) {
    if (!copies_.empty()) blocks.Violation("blocks given back under a copy");
    if (blocks.decode_owner != request_) blocks.Violation("blocks given back twice");
    blocks.decode_owner = -1;
    over_ = true;
  }
}

void InterleavedReceiver::Commit(InterleavedBlocks& blocks) {
  if (committed_ || failed_ || !copies_.empty()) blocks.Violation("a commit after the end");
  committed_ = true;
  if (static_cast<int>(right_.size()) != messages_) blocks.Violation("committed a hole");
  for (const int content : blocks.decode_content) {
    if (content != request_) blocks.Violation("committed another request's K and V");
  }
}

void InterleavedReceiver::BeginCopy(const ReceiveAction::Copy& copy, InterleavedBlocks& blocks) {
  if (blocks.decode_owner != request_ || !granted_ || committed_) {
    blocks.Violation("a copy into somebody else's block");
  }
  for (const LayerTokens& range : copy.ranges) {
    const int end = KvPages(range.tokens.end);
    for (int page = range.tokens.begin / kKvPageTokens; page < end; ++page) {
      if (!in_copy_.insert(page).second) blocks.Violation("two copies into one page");
      if (right_.count(page) > 0) blocks.Violation("a copy into a covered page");
    }
  }
  copies_[copy.copy_id] = copy;
}

void InterleavedReceiver::FinishCopy(uint64_t copy_id, InterleavedStream& stream,
                                     InterleavedBlocks& blocks) {
  const ReceiveAction::Copy copy = copies_.at(copy_id);
  copies_.erase(copy_id);
  if (blocks.decode_owner != request_) {
    return blocks.Violation("a late write into somebody else's block");
  }
  ReceiveEvent::CopyDone done{copy_id, true, {}, {}};
  const int content = held_.at(copy.message_id).content;
  for (const LayerTokens& range : copy.ranges) {
    const int end = KvPages(range.tokens.end);
    for (int page = range.tokens.begin / kKvPageTokens; page < end; ++page) {
      blocks.decode_content[static_cast<size_t>(page)] = content;
      done.page_crcs.push_back(InterleavedCrc(content, page));
      in_copy_.erase(page);
      if (content == request_) right_.insert(page);
    }
  }
  Handle(done, stream, blocks);
}

void InterleavedReceiver::Kill() {
  over_ = true;
  copies_.clear();
  held_.clear();
}

void InterleavedReceiver::AppendState(std::string& out) const {
  const auto add = [&out](const auto&... parts) { (absl::StrAppend(&out, parts, ","), ...); };
  add(started(), asked_for_blocks_, granted_, committed_, failed_, over_, next_message_id_);
  for (const auto& [id, held] : held_) add(id, held.content);
  for (const auto& [id, copy] : copies_) add(id, copy.message_id);
  for (const int page : in_copy_) add("in copy ", page);
  for (const int page : right_) add("right ", page);
  if (runs()) MachineState::Append(*machine_, out);
}

}  // namespace baton
