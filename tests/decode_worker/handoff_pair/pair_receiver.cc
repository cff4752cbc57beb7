#include "tests/decode_worker/handoff_pair/pair_receiver.h"

#include <algorithm>
#include <utility>

#include "gtest/gtest.h"

namespace baton {

void PairReceiver::Start(const internal::v1::PushOpen& open,
                         const std::vector<int32_t>& token_ids) {
  internal::v1::KvShape shape = open.shape();
  shape.set_block_size(static_cast<uint32_t>(run_.options.receiver_block_size));
  machine_.emplace(
      ReceiveConfig{.key = open.key(),
                    .capability = open.capability(),
                    .identity = open.identity(),
                    .shape = shape,
                    .layout = memory_.blocks.layout,
                    .token_ids = token_ids,
                    .page_hashes = {open.page_hashes().begin(), open.page_hashes().end()},
                    .prompt_length = run_.options.tokens,
                    .vocab_size = 1000,
                    .limits = {.window_bytes = run_.options.window_bytes}},
      run_.now);
  if (memory_.staging == nullptr) return;
  copier_.emplace(*memory_.staging,
                  [this](StagedCopier::Event event) { staged_.push_back(std::move(event)); });
}

void PairReceiver::Message(PushStreamId stream, const std::string& bytes) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size();) {
    const size_t count = std::min<size_t>(bytes.size() - at, 1 + run_.random() % 700);
    slices.emplace_back(bytes.data() + at, count);
    at += count;
  }
  if (!IsKvData(slices)) {
    ReceiveEvent::ControlReceived control{stream, {}};
    if (control.message.ParseFromString(bytes)) return Deliver(control);
    return Deliver(ReceiveEvent::Malformed{stream, "not a message"});
  }
  absl::StatusOr<KvDataMessage> data = DecodeKvData(std::move(slices));
  if (!data.ok()) {
    return Deliver(ReceiveEvent::Malformed{stream, std::string(data.status().message())});
  }
  const uint64_t id = next_message_id_++;
  const ReceiveEvent::DataReceived received{stream, id, data->header, data->header_crc32c,
                                            data->payload_bytes};
  messages_.emplace(id, *std::move(data));
  Deliver(received);
}

void PairReceiver::Deliver(const ReceiveEvent::Any& event) {
  for (const ReceiveAction::Any& action : machine_->Handle(event, run_.now)) {
    if (std::holds_alternative<ReceiveAction::TakeBlocks>(action)) {
      granted_ = true;
      Deliver(ReceiveEvent::Granted{run_.options.cached_by_receiver});
    } else if (const auto* send = std::get_if<ReceiveAction::Send>(&action)) {
      Send(*send);
    } else if (const auto* end = std::get_if<ReceiveAction::EndStream>(&action)) {
      network_.EndAfterAnswers(end->stream);
    } else if (const auto* copy = std::get_if<ReceiveAction::Copy>(&action)) {
      BeginCopy(*copy);
    } else if (const auto* drop = std::get_if<ReceiveAction::Drop>(&action)) {
      EXPECT_EQ(messages_.erase(drop->message_id), 1u) << "dropped once";
    } else if (std::holds_alternative<ReceiveAction::CommitSequence>(action)) {
      EXPECT_FALSE(committed_ || released_);
      committed_ = true;
      oracle_.CheckSequence();
    } else if (const auto* failed = std::get_if<ReceiveAction::Failed>(&action)) {
      EXPECT_FALSE(committed_) << failed->status.ToString();
    } else if (const auto* release = std::get_if<ReceiveAction::ReleaseBlocks>(&action)) {
      Release(*release);
    }
  }
}

void PairReceiver::Send(const ReceiveAction::Send& send) {
  if (send.message.has_ack()) oracle_.Acknowledged(send.message.ack().sequence_number());
  if (send.message.has_refused()) ++refusals_;
  network_.Answer(send.stream, send.message);
}

void PairReceiver::BeginCopy(const ReceiveAction::Copy& copy) {
  EXPECT_TRUE(granted_);
  EXPECT_FALSE(committed_ || released_) << "a copy into blocks of somebody else";
  oracle_.BeginCopy(copy);
  copies_.push_back(copy);
  if (copier_.has_value()) new_copies_.push_back(copy);
}

void PairReceiver::Release(const ReceiveAction::ReleaseBlocks& release) {
  EXPECT_TRUE(copies_.empty()) << "blocks given back under a copy";
  if (copier_.has_value()) {
    EXPECT_EQ(memory_.backend->copies().to_device(), 0);
  }
  EXPECT_FALSE(released_);
  released_ = true;
  resume_tokens_ = release.resume_tokens;
}

void PairReceiver::FinishHostCopy() {
  const size_t index = run_.random() % copies_.size();
  const ReceiveAction::Copy copy = copies_[index];
  CopyIsDone(CopyPayload(copy, messages_.at(copy.message_id), memory_.blocks));
}

void PairReceiver::EndCopy() { EXPECT_TRUE(memory_.backend->copies().EndOne()); }

void PairReceiver::NextStaged() {
  copier_->On(std::move(staged_.front()));
  staged_.pop_front();
}

void PairReceiver::Settle() {
  while (copier_.has_value()) {
    for (const ReceiveAction::Copy& copy : std::exchange(new_copies_, {})) {
      copier_->Add(copy, messages_.at(copy.message_id));
    }
    const bool abandon = machine_->state() == ReceiveMachine::State::kDraining;
    const auto done = copier_->Advance(memory_.device, abandon);
    if (done.empty()) return;
    for (const ReceiveEvent::CopyDone& copy : done) CopyIsDone(copy);
  }
}

void PairReceiver::CopyIsDone(const ReceiveEvent::CopyDone& done) {
  const auto copy = std::find_if(copies_.begin(), copies_.end(), [&done](const auto& other) {
    return other.copy_id == done.copy_id;
  });
  ASSERT_NE(copy, copies_.end());
  oracle_.EndCopy(*copy);
  copies_.erase(copy);
  Deliver(done);
}

void PairReceiver::CheckAtRest() const {
  EXPECT_TRUE(committed_ != released_) << "one owner of the blocks, always";
  EXPECT_TRUE(messages_.empty());
}

}  // namespace baton
