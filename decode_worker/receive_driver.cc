#include "decode_worker/receive_driver.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "decode_worker/payload_copier.h"

namespace baton {

ReceiveDriver::ReceiveDriver(ReceiveConfig config, KvCache& cache, KvStaging* staging,
                             Callbacks callbacks)
    : cache_(cache),
      callbacks_(std::move(callbacks)),
      machine_(std::move(config), SteadyNow()),
      blocks_{cache.Block(0), cache.layout(), {}},
      inbox_(std::make_shared<ReceiveInbox>(
          staging == nullptr ? 0 : static_cast<size_t>(staging->slot_count()))) {
  BATON_CHECK(cache.host_memory() == (staging == nullptr), "staging for a device's memory");
  if (staging == nullptr) return;
  staged_.emplace(*staging,
                  [inbox = inbox_](StagedCopier::Event event) { inbox->Post(std::move(event)); });
}

void ReceiveDriver::Grant(std::vector<int32_t> block_table, int start_token) {
  inbox_->Post(ReceiveInbox::Grant{std::move(block_table), start_token});
}

bool ReceiveDriver::AddStream(std::shared_ptr<ReceiveStream> stream) {
  absl::MutexLock lock(&mutex_);
  if (closed_) return false;
  const PushStreamId id = stream->id();
  streams_[id] = std::move(stream);
  return true;
}

bool ReceiveDriver::Cancel(internal::v1::PushRefused::Reason reason) {
  return inbox_->Post(ReceiveEvent::Cancelled{reason});
}

void ReceiveDriver::Run() {
  using State = ReceiveMachine::State;
  while (machine_.state() != State::kGone && machine_.state() != State::kCommitted) {
    const absl::Duration wait = machine_.NextDeadline() - SteadyNow();
    std::optional<ReceiveInbox::Message> message =
        inbox_->Next(std::max(wait, absl::ZeroDuration()));
    if (message.has_value()) {
      Take(*std::move(message));
    } else {
      Tell(ReceiveEvent::Tick{});
    }
    if (inbox_->lost()) Tell(ReceiveEvent::EventsLost{});
    Advance();
  }
  inbox_->Close();
  // Messages that came in the meantime still get their answers. A cancellation after the commit
  // still releases the blocks.
  while (std::optional<ReceiveInbox::Message> message = inbox_->Next(absl::ZeroDuration())) {
    Take(*std::move(message));
    Advance();
  }
  staged_.reset();
  absl::MutexLock lock(&mutex_);
  closed_ = true;
  for (const auto& [id, stream] : std::exchange(streams_, {})) stream->End();
}

void ReceiveDriver::Take(ReceiveInbox::Message message) {
  std::visit([this](auto& kind) { On(std::move(kind)); }, message);
}

void ReceiveDriver::On(const ReceiveEvent::ControlReceived& control) {
  Tell(control);
  ReadNext(control.stream);
}

void ReceiveDriver::On(ReceiveInbox::Data data) {
  const uint64_t id = next_message_id_++;
  const size_t payload_bytes = data.message.payload_bytes;
  const ReceiveEvent::DataReceived event{data.stream, id, std::move(data.message.header),
                                         data.message.header_crc32c, payload_bytes};
  callbacks_.received(payload_bytes);
  messages_.emplace(id, std::move(data.message));
  Tell(event);
  // gRPC reads the next message while this one is copied.
  ReadNext(data.stream);
}

void ReceiveDriver::On(const ReceiveEvent::StreamLost& lost) {
  Tell(lost);
  Forget(lost.stream);
}

void ReceiveDriver::On(ReceiveInbox::Grant grant) {
  blocks_.block_table = std::move(grant.block_table);
  Tell(ReceiveEvent::Granted{grant.start_token});
}

void ReceiveDriver::Tell(const ReceiveEvent::Any& event) {
  for (const ReceiveAction::Any& action : machine_.Handle(event, SteadyNow())) {
    std::visit([this](const auto& kind) { Execute(kind); }, action);
  }
}

void ReceiveDriver::Execute(const ReceiveAction::Send& send) {
  if (ReceiveStream* stream = Stream(send.stream)) stream->Send(send.message);
}

void ReceiveDriver::Execute(const ReceiveAction::EndStream& end) {
  if (ReceiveStream* stream = Stream(end.stream)) stream->End();
  Forget(end.stream);
}

// Makes the copies that the machine has asked for. It repeats itself because a copy that is done
// may let waiting messages be copied.
void ReceiveDriver::Advance() {
  do {
    for (const ReceiveAction::Copy& copy : std::exchange(copies_, {})) {
      if (staged_.has_value()) {
        staged_->Add(copy, messages_.at(copy.message_id));
      } else {
        CopyNow(copy);
      }
    }
    if (!staged_.has_value()) continue;
    const bool abandon = machine_.state() == ReceiveMachine::State::kDraining;
    for (const ReceiveEvent::CopyDone& done : staged_->Advance(blocks_, abandon)) Tell(done);
  } while (!copies_.empty());
}

void ReceiveDriver::CopyNow(const ReceiveAction::Copy& copy) {
  const ReceiveEvent::CopyDone done = CopyPayload(copy, messages_.at(copy.message_id), blocks_);
  if (done.ok) {
    // The cache keeps the CRCs of the bytes in the block. A page whose CRC is wrong is copied once
    // more, which overwrites both.
    const std::vector<uint32_t>& crcs = done.block_crcs.empty() ? done.page_crcs : done.block_crcs;
    size_t index = 0;
    const int block_size = blocks_.layout.block_size;
    for (const auto& [layer, tokens] : copy.ranges) {
      for (const TokenRange page : PagesOf(tokens)) {
        // tests/planted_bugs: page_crc_of_another_group
        const int32_t block = blocks_.block_table[blocks_.layout.TableIndex(layer, page.begin)];
        cache_.PageCrc(block, layer, page.begin % block_size / kKvPageTokens) = crcs[index++];
      }
    }
  }
  Tell(done);
}

ReceiveStream* ReceiveDriver::Stream(PushStreamId id) {
  absl::MutexLock lock(&mutex_);
  const auto found = streams_.find(id);
  return found == streams_.end() ? nullptr : found->second.get();
}

void ReceiveDriver::ReadNext(PushStreamId id) {
  if (ReceiveStream* stream = Stream(id)) stream->ReadNext();
}

void ReceiveDriver::Forget(PushStreamId id) {
  std::shared_ptr<ReceiveStream> lost;  // destroyed without the lock
  absl::MutexLock lock(&mutex_);
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  lost = std::move(found->second);
  streams_.erase(found);
}

}  // namespace baton
