#include "tests/fuzz/receiver_harness.h"

#include <algorithm>

#include "common/base/check.h"
#include "tests/support/push_messages.h"

namespace baton {

using internal::v1::KvDataHeader;
using internal::v1::PushRequest;

namespace {

constexpr uint8_t kCanary = 0xEE;
constexpr size_t kForeignBlock = 0;  // a block in the target's memory

}  // namespace

ReceiverHarness::ReceiverHarness() {
  layout_ = {.layers = kLayers, .kv_heads = 1, .head_dim = 4, .block_size = 32};
  source_memory_.resize(layout_.block_bytes() * 2);
  for (size_t i = 0; i < source_memory_.size(); ++i) {
    source_memory_[i] = static_cast<uint8_t>((i * 2654435761u) >> 13);
  }
  target_memory_.assign(layout_.block_bytes() * 3, kCanary);
  source_ = {source_memory_.data(), layout_, {1, 0}};
  target_ = {target_memory_.data(), layout_, {2, 1}};
  config_ = MakeReceiverConfig(layout_, kTokens);
  config_.limits.window_bytes = 4000;
  receiver_.emplace(config_, now_);
}

void ReceiverHarness::Do(const ReceiveEvent::Any& event) {
  for (const ReceiveAction::Any& action : receiver_->Handle(event, now_)) Execute(action);
  CheckMemory();
}

void ReceiverHarness::Arrive(PushStreamId stream, const std::string& bytes) {
  if (bytes.empty()) return;
  const size_t half = bytes.size() / 2;
  std::vector<grpc::Slice> slices;
  slices.emplace_back(bytes.data(), half);
  slices.emplace_back(bytes.data() + half, bytes.size() - half);
  if (!IsKvData(slices)) {
    PushRequest message;
    if (!message.ParseFromString(bytes) || message.has_data()) {
      return Do(ReceiveEvent::Malformed{stream, "not a message"});
    }
    return Do(ReceiveEvent::ControlReceived{stream, message});
  }
  absl::StatusOr<KvDataMessage> data = DecodeKvData(std::move(slices));
  if (!data.ok()) {
    return Do(ReceiveEvent::Malformed{stream, std::string(data.status().message())});
  }
  KvDataHeader header;
  if (header.ParseFromString(data->header)) headers_[header.sequence_number()].push_back(header);
  const uint64_t id = next_message_++;
  const ReceiveEvent::DataReceived received{stream, id, data->header, data->header_crc32c,
                                            data->payload_bytes};
  messages_.emplace(id, *std::move(data));
  Do(received);
}

void ReceiverHarness::Grant(int start_token) {
  if (!asked_ || granted_) return;
  granted_ = true;
  start_token_ = start_token;
  // What is held already was checked when it was received.
  for (int layer = 0; layer < kLayers; ++layer) {
    for (const auto part : {KvLayout::kKeys, KvLayout::kValues}) {
      for (int token = 0; token < start_token; ++token) {
        std::copy_n(source_.Row(layer, part, token), layout_.row_bytes(),
                    target_.Row(layer, part, token));
      }
    }
  }
  Do(ReceiveEvent::Granted{start_token});
}

void ReceiverHarness::FinishCopy(size_t index, bool ok, bool damage) {
  if (copies_.empty()) return;
  index %= copies_.size();
  const ReceiveAction::Copy copy = copies_[index];
  copies_.erase(copies_.begin() + static_cast<std::ptrdiff_t>(index));
  ReceiveEvent::CopyDone done = CopyPayload(copy, messages_.at(copy.message_id), target_);
  BATON_CHECK(done.ok, "a checked message has all its payload");
  if (damage) {
    const LayerTokens& range = copy.ranges.front();
    *target_.Row(range.layer, KvLayout::kKeys, range.tokens.begin) ^= 1;
    done.page_crcs.front() = TargetCrc({range.layer, range.tokens.begin / kKvPageTokens});
  }
  done.ok = ok;
  for (const LayerTokens& range : copy.ranges) {
    const int end = KvPages(range.tokens.end);
    for (int page = range.tokens.begin / kKvPageTokens; page < end; ++page) {
      in_copy_.erase({range.layer, page});
    }
  }
  Do(done);
}

void ReceiverHarness::Pass(absl::Duration time) {
  now_ += time;
  if (receiver_->NextDeadline() <= now_) Do(ReceiveEvent::Tick{});
}

void ReceiverHarness::End() {
  Do(ReceiveEvent::Cancelled{});
  while (!copies_.empty()) FinishCopy(0, true, false);
  BATON_CHECK(receiver_->state() == ReceiveMachine::State::kGone, "a cancelled attempt goes");
  BATON_CHECK(released_, "its blocks come back");
  BATON_CHECK(messages_.empty(), "it holds no message");
}

void ReceiverHarness::Execute(const ReceiveAction::Any& action) {
  if (std::holds_alternative<ReceiveAction::TakeBlocks>(action)) {
    BATON_CHECK(!asked_, "blocks are taken once");
    asked_ = true;
  } else if (const auto* send = std::get_if<ReceiveAction::Send>(&action)) {
    if (send->message.has_ack()) OnAck(send->message.ack().sequence_number());
  } else if (const auto* copy = std::get_if<ReceiveAction::Copy>(&action)) {
    OnCopy(*copy);
  } else if (const auto* drop = std::get_if<ReceiveAction::Drop>(&action)) {
    BATON_CHECK(messages_.erase(drop->message_id) == 1, "a message is dropped once");
  } else if (std::holds_alternative<ReceiveAction::CommitSequence>(action)) {
    OnCommit();
  } else if (std::holds_alternative<ReceiveAction::Failed>(action)) {
    BATON_CHECK(!committed_ && !failed_ && !released_, "a push must end only once");
    failed_ = true;
  } else if (std::holds_alternative<ReceiveAction::ReleaseBlocks>(action)) {
    BATON_CHECK(!released_ && copies_.empty(), "blocks go back once, and not under a copy");
    released_ = true;
  }
}

void ReceiverHarness::OnCommit() {
  BATON_CHECK(!committed_ && !failed_ && !released_ && copies_.empty(), "one end, no copy");
  committed_ = true;
  const PageCrcTable right = PageCrcsOf(source_, kTokens);
  for (int layer = 0; layer < kLayers; ++layer) {
    for (int page = 0; page < KvPages(kTokens); ++page) {
      BATON_CHECK(TargetCrc({layer, page}) == right.At(layer, page), "committed what it is not");
    }
  }
}

void ReceiverHarness::OnCopy(const ReceiveAction::Copy& copy) {
  BATON_CHECK(granted_ && !committed_ && !released_ && !failed_, "a copy into others' blocks");
  BATON_CHECK(messages_.count(copy.message_id) == 1 && !copy.ranges.empty(), "a copy of nothing");
  for (const LayerTokens& range : copy.ranges) {
    const int end = range.tokens.end;
    BATON_CHECK(range.layer >= 0 && range.layer < kLayers && range.tokens.begin >= start_token_ &&
                    range.tokens.size() > 0 && end <= kTokens,
                "a copy outside of the sequence");
    for (int page = range.tokens.begin / kKvPageTokens; page < KvPages(end); ++page) {
      BATON_CHECK(in_copy_.insert({range.layer, page}).second, "two copies into a page");
      BATON_CHECK(covered_.count({range.layer, page}) == 0, "a copy into a covered page");
    }
  }
  copies_.push_back(copy);
}

bool ReceiverHarness::InPlace(const KvDataHeader& header, std::map<Page, uint32_t>& pages) const {
  int index = 0;  // in page_crc32c
  const uint64_t end_layer = uint64_t{header.first_layer()} + header.layer_count();
  const int64_t end = int64_t{header.first_token()} + header.token_count();
  for (uint64_t layer = header.first_layer(); layer < end_layer; ++layer) {
    for (int64_t page = header.first_token() / kKvPageTokens; page * kKvPageTokens < end; ++page) {
      if (layer >= kLayers || page >= KvPages(kTokens)) return false;
      const Page place{static_cast<int>(layer), static_cast<int>(page)};
      if (index >= header.page_crc32c_size() || in_copy_.count(place) > 0) return false;
      if (TargetCrc(place) != header.page_crc32c(index)) return false;
      pages[place] = header.page_crc32c(index++);
    }
  }
  return true;
}

// Some message of that number has all its pages in place, as it described them.
void ReceiverHarness::OnAck(uint64_t sequence_number) {
  for (const KvDataHeader& header : headers_[sequence_number]) {
    std::map<Page, uint32_t> pages;
    if (!InPlace(header, pages)) continue;
    covered_.merge(pages);
    return;
  }
  BATON_CHECK(false, "an ack for what is not there");
}

void ReceiverHarness::CheckMemory() const {
  const uint8_t* foreign = target_memory_.data() + kForeignBlock * layout_.block_bytes();
  BATON_CHECK(
      std::all_of(foreign, foreign + layout_.block_bytes(), [](uint8_t b) { return b == kCanary; }),
      "a write into somebody else's block");
  for (const auto& [page, crc] : covered_) {
    BATON_CHECK(TargetCrc(page) == crc, "accepted bytes have changed");
  }
}

uint32_t ReceiverHarness::TargetCrc(const Page& page) const {
  const int first = page.second * kKvPageTokens;
  return target_.PageCrc(page.first, {first, std::min(first + kKvPageTokens, kTokens)});
}

PushRequest ReceiverHarness::Open() const { return MakeOpen(config_); }

PushRequest ReceiverHarness::Checkpoint(int end_token) const {
  return MakeCheckpoint(config_, source_, start_token_, end_token);
}

PushRequest ReceiverHarness::Commit() const { return MakeCommit(config_, source_, start_token_); }

KvDataHeader ReceiverHarness::Header(int layer, int layers, int first_page, int end_page,
                                     uint64_t sequence_number) const {
  return MakeDataHeader(config_, source_, layer, layers, first_page * kKvPageTokens,
                        std::min(end_page * kKvPageTokens, kTokens), sequence_number);
}

std::string ReceiverHarness::Data(const KvDataHeader& header) const {
  return EncodeData(header, source_);
}

}  // namespace baton
