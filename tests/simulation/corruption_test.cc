// Damage of every kind through the real wire format, receiver and copier: all of it is detected,
// none is served, and what is not damaged is never refused.
//
// BATON_CORRUPTION_MESSAGES sets how many faulty and how many clean messages there are.
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "google/protobuf/stubs/logging.h"
#include "gtest/gtest.h"

#include "common/handoff/kv_blocks.h"
#include "decode_worker/payload_copier.h"
#include "decode_worker/receive_machine.h"
#include "prefill_worker/kv_buffer.h"
#include "tests/simulation/sim_random.h"
#include "tests/support/push_messages.h"

namespace baton {
namespace {

using internal::v1::KvDataHeader;
using internal::v1::PushRequest;

constexpr PushStreamId kStream = 1;
constexpr int kLayers = 4;
constexpr int kTokens = 64;  // 4 pages of 4 KiB in a layer, 64 KiB in all

enum class Damage {
  kFlipHeader,
  kFlipPayload,
  kBurst,
  kSwapRows,
  kSwapPayload,  // the payload of another message of the same shape
  kStaleSource,
  kTruncate,
  kGrow,
  kWrongSource,  // rows of a neighbouring offset
  kWrongTarget,  // a header, whole in itself, that names another range than the payload's
  kCount,
};
constexpr const char* kDamageNames[] = {
    "bit in header",       "bit in payload",    "burst in payload", "swapped rows",
    "swapped payload",     "stale source",      "cut short",        "grown",
    "wrong source offset", "wrong target range"};

uint64_t Messages() {
  const char* value = std::getenv("BATON_CORRUPTION_MESSAGES");
#ifdef __SANITIZE_ADDRESS__
  constexpr uint64_t kDefault = 2000;
#else
  constexpr uint64_t kDefault = 20000;
#endif
  return value == nullptr ? kDefault : std::strtoull(value, nullptr, 10);
}

struct Range {
  int layer = 0;
  int layers = 1;
  int first = 0;
  int tokens = 0;
};

// A receiver with memory, and the memory of a sender beside it.
class Corruption : public ::testing::Test {
 protected:
  Corruption() : random_(20261121) {
    layout_ = {.layers = kLayers, .kv_heads = 1, .head_dim = 64, .block_size = 32};
    source_memory_.resize(layout_.block_bytes() * 4);
    for (size_t i = 0; i + 8 <= source_memory_.size(); i += 8) {
      const uint64_t word = Mix64(i);
      std::copy_n(reinterpret_cast<const uint8_t*>(&word), 8,
                  source_memory_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    target_memory_.resize(layout_.block_bytes() * 4);
    source_ = {source_memory_.data(), layout_, {2, 0}};
    target_ = {target_memory_.data(), layout_, {1, 3}};
    config_ = MakeReceiverConfig(layout_, kTokens);
    open_ = MakeOpen(config_);
    commit_ = MakeCommit(config_, source_, 0);
  }

  void Restart() {
    receiver_.emplace(config_, absl::UnixEpoch());
    messages_.clear();
    acks_ = 0;
    refused_ = committed_ = false;
    std::fill(target_memory_.begin(), target_memory_.end(), uint8_t{0xEE});
    Do(ReceiveEvent::ControlReceived{kStream, open_});
    Do(ReceiveEvent::Granted{0});
  }
  bool receiving() const { return receiver_->state() == ReceiveMachine::State::kReceiving; }

  void Do(const ReceiveEvent::Any& event) {
    for (const ReceiveAction::Any& action : receiver_->Handle(event, absl::UnixEpoch())) {
      if (const auto* copy = std::get_if<ReceiveAction::Copy>(&action)) {
        Do(CopyPayload(*copy, messages_.at(copy->message_id), target_));
      } else if (const auto* send = std::get_if<ReceiveAction::Send>(&action)) {
        acks_ += send->message.has_ack() ? 1 : 0;
        refused_ = refused_ || send->message.has_refused();
      } else if (const auto* drop = std::get_if<ReceiveAction::Drop>(&action)) {
        messages_.erase(drop->message_id);
      } else if (std::holds_alternative<ReceiveAction::CommitSequence>(action)) {
        committed_ = true;
      }
    }
  }
  void Arrive(const std::string& bytes) {
    std::vector<grpc::Slice> slices;
    for (size_t at = 0; at < bytes.size();) {
      const size_t count =
          std::min(bytes.size() - at, static_cast<size_t>(random_.Between(1, 16384)));
      slices.emplace_back(bytes.data() + at, count);
      at += count;
    }
    if (!IsKvData(slices)) {
      PushRequest message;
      if (!message.ParseFromString(bytes)) return Do(ReceiveEvent::Malformed{kStream, ""});
      return Do(ReceiveEvent::ControlReceived{kStream, message});
    }
    absl::StatusOr<KvDataMessage> data = DecodeKvData(std::move(slices));
    if (!data.ok()) return Do(ReceiveEvent::Malformed{kStream, ""});
    const uint64_t id = next_message_++;
    const ReceiveEvent::DataReceived received{kStream, id, data->header, data->header_crc32c,
                                              data->payload_bytes};
    messages_[id] = *std::move(data);
    Do(received);
  }

  Range AnyRange() {
    Range range;
    range.layer = static_cast<int>(random_.Between(0, kLayers - 1));
    range.layers = static_cast<int>(random_.Between(1, kLayers - range.layer));
    range.first = kKvPageTokens * static_cast<int>(random_.Between(0, kTokens / kKvPageTokens - 1));
    range.tokens = kKvPageTokens *
                   static_cast<int>(random_.Between(1, (kTokens - range.first) / kKvPageTokens));
    return range;
  }
  KvDataHeader Header(const Range& range, const KvBlocks& crcs_of) {
    return MakeDataHeader(config_, crcs_of, range.layer, range.layers, range.first,
                          range.first + range.tokens, next_sequence_++);
  }
  size_t PayloadBytes(const Range& range) const {
    return static_cast<size_t>(range.layers * range.tokens) * 2 * layout_.row_bytes();
  }
  bool TargetHolds(const Range& range) const {
    for (int layer = range.layer; layer < range.layer + range.layers; ++layer) {
      for (const auto part : {KvLayout::kKeys, KvLayout::kValues}) {
        for (int token = range.first; token < range.first + range.tokens; ++token) {
          if (!std::equal(source_.Row(layer, part, token),
                          source_.Row(layer, part, token) + layout_.row_bytes(),
                          target_.Row(layer, part, token))) {
            return false;
          }
        }
      }
    }
    return true;
  }
  std::string Damaged(Damage damage, const Range& range);
  std::string WrongSource(const Range& range);
  std::string WrongTarget(const Range& range);
  void Flip(std::string& bytes, size_t first, size_t end) {
    const auto at = static_cast<size_t>(
        random_.Between(static_cast<int64_t>(first), static_cast<int64_t>(end) - 1));
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << random_.Between(0, 7)));
  }

  SimRandom random_;
  KvLayout layout_;
  std::vector<uint8_t> source_memory_, target_memory_;
  KvBlocks source_, target_;
  ReceiveConfig config_;
  PushRequest open_, commit_;
  std::optional<ReceiveMachine> receiver_;
  std::map<uint64_t, KvDataMessage> messages_;
  uint64_t next_message_ = 1;
  uint64_t next_sequence_ = 1;
  uint64_t acks_ = 0;
  bool refused_ = false;
  bool committed_ = false;
};

// The right header, and the rows that lie somewhere else in the sender's cache.
std::string Corruption::WrongSource(const Range& range) {
  const KvDataHeader header = Header(range, source_);
  KvBlocks shifted = source_;
  if (random_.Chance(500)) {
    std::swap(shifted.block_table[0], shifted.block_table[1]);
  } else {
    shifted.base += layout_.row_bytes() * static_cast<size_t>(random_.Between(1, 32));
  }
  return EncodeData(header, shifted);
}

// Every CRC of the message agrees, but its payload belongs elsewhere: only what the commit compares
// can tell.
std::string Corruption::WrongTarget(const Range& range) {
  Range wrong = range;
  if (range.layers < kLayers) {
    wrong.layer = (range.layer + 1 + range.layers <= kLayers) ? range.layer + 1 : range.layer - 1;
  } else if (range.tokens < kTokens) {
    wrong.first = range.first + range.tokens < kTokens ? range.first + kKvPageTokens
                                                       : range.first - kKvPageTokens;
  } else {
    return WrongSource(range);
  }
  KvDataHeader header = Header(range, source_);
  header.set_first_layer(static_cast<uint32_t>(wrong.layer));
  header.set_first_token(static_cast<uint32_t>(wrong.first));
  const std::string header_bytes = header.SerializeAsString();
  const std::string right = EncodeData(Header(range, source_), source_);
  return EncodeKvDataPrefix(header_bytes, Crc32c(header_bytes.data(), header_bytes.size()),
                            PayloadBytes(range)) +
         right.substr(right.size() - PayloadBytes(range));
}

std::string Corruption::Damaged(Damage damage, const Range& range) {
  if (damage == Damage::kWrongSource) return WrongSource(range);
  if (damage == Damage::kWrongTarget) return WrongTarget(range);
  const KvDataHeader header = Header(range, source_);
  const size_t row = layout_.row_bytes();
  if (damage == Damage::kStaleSource) {  // the block is written to after its CRC was made
    const int token = range.first + static_cast<int>(random_.Between(0, range.tokens - 1));
    uint8_t* bytes = source_.Row(range.layer, KvLayout::kValues, token);
    const std::string before(bytes, bytes + row);
    for (size_t i = 0; i < row; ++i) bytes[i] = static_cast<uint8_t>(random_.Next());
    std::string message = EncodeData(header, source_);
    std::copy(before.begin(), before.end(), bytes);
    return message;
  }
  std::string bytes = EncodeData(header, source_);
  const size_t payload = bytes.size() - PayloadBytes(range);
  const auto any = [&](size_t first, size_t end) {
    return static_cast<size_t>(
        random_.Between(static_cast<int64_t>(first), static_cast<int64_t>(end) - 1));
  };
  switch (damage) {
    case Damage::kFlipHeader:
      Flip(bytes, 0, payload);
      break;
    case Damage::kFlipPayload:
      Flip(bytes, payload, bytes.size());
      break;
    case Damage::kBurst: {
      const size_t first = any(payload, bytes.size());
      const size_t end = std::min(bytes.size(), first + any(2, 4096));
      for (size_t i = first; i < end; ++i) bytes[i] = static_cast<char>(random_.Next());
      bytes[first] = static_cast<char>(bytes[first] ^ 1);  // a burst may repeat what was there
      if (bytes == EncodeData(header, source_)) Flip(bytes, payload, bytes.size());
      break;
    }
    case Damage::kSwapRows: {
      const size_t rows = (bytes.size() - payload) / row;
      const size_t a = any(0, rows);
      const size_t b = (a + any(1, rows)) % rows;
      std::swap_ranges(bytes.begin() + static_cast<std::ptrdiff_t>(payload + a * row),
                       bytes.begin() + static_cast<std::ptrdiff_t>(payload + (a + 1) * row),
                       bytes.begin() + static_cast<std::ptrdiff_t>(payload + b * row));
      break;
    }
    case Damage::kSwapPayload: {
      Range other = range;
      other.first = (range.first + kKvPageTokens) % (kTokens - range.tokens + kKvPageTokens);
      if (other.first == range.first)
        other.layer = (range.layer + 1) % (kLayers - range.layers + 1);
      if (other.first == range.first && other.layer == range.layer) {
        Flip(bytes, payload, bytes.size());
        break;
      }
      const std::string theirs = EncodeData(Header(other, source_), source_);
      bytes.replace(payload, std::string::npos, theirs.substr(theirs.size() - PayloadBytes(range)));
      break;
    }
    case Damage::kTruncate:
      bytes.resize(any(1, bytes.size()));
      break;
    default:
      bytes.append(any(1, 4096), static_cast<char>(random_.Next()));
  }
  return bytes;
}

TEST_F(Corruption, EveryFaultIsDetectedAndNoneIsServed) {
  google::protobuf::LogSilencer silencer;  // damaged messages are the point
  constexpr auto kKinds = static_cast<uint64_t>(Damage::kCount);
  const uint64_t count = Messages();
  std::map<Damage, uint64_t> detected_by_kind;
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const auto damage = static_cast<Damage>(i % kKinds);
    Restart();
    const Range range = AnyRange();
    bytes += PayloadBytes(range);
    Arrive(Damaged(damage, range));
    bool detected = acks_ == 0;
    // What the receiver believes to have must be right: the clean message adds the rest.
    if (receiving()) Arrive(EncodeData(Header(range, source_), source_));
    if (receiving()) Arrive(EncodeData(Header({0, kLayers, 0, kTokens}, source_), source_));
    if (receiving()) Do(ReceiveEvent::ControlReceived{kStream, commit_});
    if (committed_) {
      ASSERT_TRUE(TargetHolds({0, kLayers, 0, kTokens}))
          << kDamageNames[static_cast<size_t>(damage)] << " was served, message " << i;
    } else {
      detected = true;
    }
    ASSERT_TRUE(detected) << kDamageNames[static_cast<size_t>(damage)] << ", message " << i;
    ++detected_by_kind[damage];
  }
  for (const auto& [damage, detected] : detected_by_kind) {
    std::cout << kDamageNames[static_cast<size_t>(damage)] << ": " << detected << " detected\n";
  }
  std::cout << count << " faulty messages, " << bytes / count << " bytes of payload each\n";
}

TEST_F(Corruption, WhatIsCleanIsNeverRefused) {
  const uint64_t count = Messages();
  uint64_t sent = 0;
  while (sent < count) {
    Restart();
    uint64_t expected_acks = 0;
    for (int i = 0; i < 4; ++i) {  // overlapping ranges: duplicates and fresh pages
      Arrive(EncodeData(Header(AnyRange(), source_), source_));
      ++expected_acks;
    }
    for (int layer = 0; layer < kLayers; ++layer) {
      Arrive(EncodeData(Header({layer, 1, 0, kTokens}, source_), source_));
      ++expected_acks;
    }
    sent += expected_acks;
    ASSERT_FALSE(refused_);
    ASSERT_EQ(acks_, expected_acks);
    Do(ReceiveEvent::ControlReceived{kStream, commit_});
    ASSERT_TRUE(committed_);
    ASSERT_TRUE(TargetHolds({0, kLayers, 0, kTokens}));
  }
  std::cout << sent << " clean messages, none refused\n";
}

}  // namespace
}  // namespace baton
