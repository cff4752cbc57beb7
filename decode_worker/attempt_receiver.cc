#include "decode_worker/attempt_receiver.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "decode_worker/payload_copier.h"

namespace baton {
namespace {

// Events of streams that may wait. A push needs few: each of its streams has one message under way.
constexpr size_t kStreamEvents = 4096;

// See PutOwn. A grant of a slot may come when its user is already going.
size_t OwnPlaces(const KvStaging* staging) {
  constexpr size_t kWithoutStaging = 8;
  if (staging == nullptr) return kWithoutStaging;
  return kWithoutStaging + static_cast<size_t>(staging->slot_count()) + 2;
}

}  // namespace

AttemptReceiver::AttemptReceiver(KvReceiver::Config config, KvCache& cache, KvStaging* staging,
                                 Callbacks callbacks)
    : cache_(cache),
      callbacks_(std::move(callbacks)),
      receiver_(std::move(config), SteadyNow()),
      blocks_{cache.Block(0), cache.layout(), {}},
      own_places_(OwnPlaces(staging)),
      queue_(std::make_shared<Queue>(kStreamEvents + own_places_)) {
  BATON_CHECK(cache.host_memory() == (staging == nullptr), "staging for a device's memory");
  if (staging == nullptr) return;
  staged_.emplace(*staging, [queue = queue_](StagedCopier::Event event) {
    PutOwn(*queue, Item(std::move(event)));
  });
}

bool AttemptReceiver::PutOwn(Queue& queue, Item item) {
  const Pushed pushed = queue.TryPush(std::move(item));
  BATON_CHECK(pushed != Pushed::kFull, "places are kept for these events");
  return pushed == Pushed::kYes;
}

void AttemptReceiver::PutFromStream(Item item) {
  if (queue_->TryPush(std::move(item), own_places_) == Pushed::kFull) events_lost_ = true;
}

void AttemptReceiver::Post(KvReceiver::Event event) { PutFromStream(Item(std::move(event))); }

void AttemptReceiver::PostData(KvReceiver::StreamId stream, KvDataMessage message) {
  PutFromStream(Item(Data{stream, std::move(message)}));
}

void AttemptReceiver::Grant(std::vector<int32_t> block_table, int start_token) {
  PutOwn(*queue_, Item(Table{std::move(block_table), start_token}));
}

bool AttemptReceiver::AddStream(std::shared_ptr<PushReactor> stream) {
  absl::MutexLock lock(&mutex_);
  if (closed_) return false;
  const KvReceiver::StreamId id = stream->id();
  streams_[id] = std::move(stream);
  return true;
}

bool AttemptReceiver::Cancel(internal::v1::PushRefused::Reason reason) {
  return PutOwn(*queue_, Item(KvReceiver::Event(KvReceiver::Cancelled{reason})));
}

void AttemptReceiver::Run() {
  using State = KvReceiver::State;
  while (receiver_.state() != State::kGone && receiver_.state() != State::kCommitted) {
    const absl::Duration wait = receiver_.NextDeadline() - SteadyNow();
    std::optional<Item> item = queue_->Pop(std::max(wait, absl::ZeroDuration()));
    HandleItem(item.has_value() ? *std::move(item) : Item(KvReceiver::Event(KvReceiver::Tick{})));
    if (events_lost_) HandleItem(Item(KvReceiver::Event(KvReceiver::EventsLost{})));
  }
  queue_->Close();
  // Events that came in the meantime still get their answers. A cancellation after the commit
  // still releases the blocks.
  while (std::optional<Item> item = queue_->Pop(absl::ZeroDuration())) HandleItem(*std::move(item));
  staged_.reset();
  absl::MutexLock lock(&mutex_);
  closed_ = true;
  for (const auto& [id, stream] : std::exchange(streams_, {})) stream->End();
}

void AttemptReceiver::HandleItem(Item item) {
  KvReceiver::StreamId read_next = 0;
  if (auto* data = std::get_if<Data>(&item)) {
    read_next = data->stream;
    const uint64_t id = next_message_id_++;
    KvReceiver::DataReceived event{data->stream, id, std::move(data->message.header),
                                   data->message.header_crc32c, data->message.payload_bytes};
    callbacks_.received(data->message.payload_bytes);
    messages_.emplace(id, std::move(data->message));
    Handle(event);
  } else if (auto* table = std::get_if<Table>(&item)) {
    blocks_.block_table = std::move(table->block_table);
    Handle(KvReceiver::Granted{table->start_token});
  } else if (auto* staged = std::get_if<StagedCopier::Event>(&item)) {
    staged_->On(std::move(*staged));
  } else {
    const auto& event = std::get<KvReceiver::Event>(item);
    if (const auto* control = std::get_if<KvReceiver::ControlReceived>(&event)) {
      read_next = control->stream;
    }
    Handle(event);
    if (const auto* lost = std::get_if<KvReceiver::StreamLost>(&event)) Forget(lost->stream);
  }
  // gRPC reads the next message while this one is copied.
  if (PushReactor* stream = StreamOf(read_next)) stream->ReadNext();
  MakeCopies();
}

// Repeats itself because a copy that is done may let waiting messages be copied.
void AttemptReceiver::MakeCopies() {
  do {
    for (const KvReceiver::Copy& copy : std::exchange(copies_, {})) {
      if (staged_.has_value()) {
        staged_->Add(copy, messages_.at(copy.message_id));
      } else {
        CopyNow(copy);
      }
    }
    if (!staged_.has_value()) continue;
    const bool abandon = receiver_.state() == KvReceiver::State::kDraining;
    for (const KvReceiver::CopyDone& done : staged_->Advance(blocks_, abandon)) Handle(done);
  } while (!copies_.empty());
}

void AttemptReceiver::Handle(const KvReceiver::Event& event) {
  for (const KvReceiver::Action& action : receiver_.Handle(event, SteadyNow())) Execute(action);
}

void AttemptReceiver::Execute(const KvReceiver::Action& action) {
  if (const auto* take = std::get_if<KvReceiver::TakeBlocks>(&action)) {
    callbacks_.take_blocks(*take);
  } else if (const auto* send = std::get_if<KvReceiver::Send>(&action)) {
    if (PushReactor* stream = StreamOf(send->stream)) stream->Send(send->message);
  } else if (const auto* end = std::get_if<KvReceiver::EndStream>(&action)) {
    if (PushReactor* stream = StreamOf(end->stream)) stream->End();
    Forget(end->stream);
  } else if (const auto* copy = std::get_if<KvReceiver::Copy>(&action)) {
    copies_.push_back(*copy);
  } else if (const auto* drop = std::get_if<KvReceiver::Drop>(&action)) {
    messages_.erase(drop->message_id);
  } else if (const auto* commit = std::get_if<KvReceiver::CommitSequence>(&action)) {
    callbacks_.committed(*commit);
  } else if (const auto* failed = std::get_if<KvReceiver::Failed>(&action)) {
    callbacks_.failed(failed->status);
  } else if (const auto* release = std::get_if<KvReceiver::ReleaseBlocks>(&action)) {
    callbacks_.release_blocks(*release);
  }
}

void AttemptReceiver::CopyNow(const KvReceiver::Copy& copy) {
  const KvReceiver::CopyDone done = CopyPayload(copy, messages_.at(copy.message_id), blocks_);
  if (done.ok) {
    // The cache keeps the CRCs of the bytes in the block. A page whose CRC is wrong is copied once
    // more, which overwrites both.
    const std::vector<uint32_t>& crcs = done.block_crcs.empty() ? done.page_crcs : done.block_crcs;
    size_t index = 0;
    const int block_size = blocks_.layout.block_size;
    for (const KvReceiver::LayerTokens& range : copy.ranges) {
      const int end = range.first_token + range.token_count;
      for (int token = range.first_token; token < end; token += kKvPageTokens) {
        const int32_t block = blocks_.block_table[static_cast<size_t>(token / block_size)];
        cache_.PageCrc(block, range.layer, token % block_size / kKvPageTokens) = crcs[index++];
      }
    }
  }
  Handle(done);
}

void AttemptReceiver::Forget(KvReceiver::StreamId id) {
  std::shared_ptr<PushReactor> lost;  // destroyed without the lock
  absl::MutexLock lock(&mutex_);
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  lost = std::move(found->second);
  streams_.erase(found);
}

PushReactor* AttemptReceiver::StreamOf(KvReceiver::StreamId id) {
  absl::MutexLock lock(&mutex_);
  const auto found = streams_.find(id);
  return found == streams_.end() ? nullptr : found->second.get();
}

}  // namespace baton
