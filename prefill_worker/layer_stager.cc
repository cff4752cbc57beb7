#include "prefill_worker/layer_stager.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/status/status.h"

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/handoff/kv_wire.h"
#include "common/handoff/staged_copies.h"
#include "prefill_worker/page_encoder.h"

namespace baton {
namespace {

// With two slots one is copied while the other is sent.
constexpr uint64_t kLeastSlots = 2;

bool MaySend(const SendMachine& sender) { return sender.state() == SendMachine::State::kSending; }

bool Ended(const SendMachine& sender) {
  using State = SendMachine::State;
  return sender.state() == State::kAborting || sender.state() == State::kClosing || sender.gone();
}

}  // namespace

LayerStager::LayerStager(Options options)
    : options_(std::move(options)),
      staging_(*options_.staging),
      piece_bytes_(options_.wire.BlockOf(staging_.slot_tokens()).block_bytes()),
      user_(staging_, [post = options_.post](KvStaging::Slot slot) { post(std::move(slot)); }) {}

void LayerStager::Add(const SendEvent::LayerReady& layer, uint64_t after) {
  if (stopped_) return;
  computed_.push_back(Computed{layer.kv, after});
}

void LayerStager::Add(const SendEvent::ChunkReady& chunk) {
  if (!stopped_) computed_.push_back(chunk);
}

void LayerStager::On(Event event) {
  if (auto* slot = std::get_if<KvStaging::Slot>(&event)) {
    waiting_for_slot_ = false;
    if (!stopped_) granted_ = std::move(*slot);
    return;
  }
  const Copied& copied = std::get<Copied>(event);
  --copying_;
  Piece& piece = pieces_.at({copied.layer, copied.first_token});
  piece.copied = true;
  if (!stopped_ && !piece.page_crcs.has_value()) piece.page_crcs = MakeCrcs(piece);
}

std::vector<SendEvent::Any> LayerStager::Advance(const SendMachine& sender, const Blocks& blocks) {
  if (Ended(sender)) Stop();
  Forget([&sender](uint64_t number) { return sender.data().MaySendAgain(number); });
  std::vector<SendEvent::Any> events;
  if (computed_.empty()) granted_ = {};
  if (stopped_ || !MaySend(sender)) return events;
  StageComputed(sender, blocks);
  TellMachine(events);
  // The machine may wait for more layers, which wait here for the room that it has not freed yet.
  if (!computed_.empty() && copying_ == 0 && std::exchange(told_since_flush_, false)) {
    // tests/planted_bugs: staged_layers_not_flushed
    events.push_back(SendEvent::Flush{});
  }
  return events;
}

void LayerStager::StageComputed(const SendMachine& sender, const Blocks& blocks) {
  // Tokens that the receiver holds are neither staged nor reported to the machine.
  while (!computed_.empty()) {
    auto* layer = std::get_if<Computed>(&computed_.front());
    if (layer == nullptr) {
      // tests/planted_bugs: chunk_told_before_its_layers
      staging_order_.push_back(std::get<SendEvent::ChunkReady>(computed_.front()));
      computed_.pop_front();
      continue;
    }
    TokenRange& tokens = layer->kv.tokens;
    tokens.begin = std::max(tokens.begin, sender.data().start_token());
    if (tokens.size() <= 0) {
      computed_.pop_front();
    } else if (!StageNext(blocks, 2 * sender.data().flight_limit_bytes())) {
      break;
    }
  }
  if (computed_.empty()) granted_ = {};
}

void LayerStager::TellMachine(std::vector<SendEvent::Any>& events) {
  for (; !staging_order_.empty(); staging_order_.pop_front()) {
    if (const auto* chunk = std::get_if<SendEvent::ChunkReady>(&staging_order_.front())) {
      events.push_back(*chunk);
      continue;
    }
    Piece& piece = pieces_.at(std::get<Place>(staging_order_.front()));
    // tests/planted_bugs: layer_told_before_its_copy
    if (!piece.copied) return;
    absl::StatusOr<std::vector<uint32_t>>& crcs = *piece.page_crcs;
    if (!crcs.ok()) {
      events.push_back(SendEvent::Abort{internal::v1::PushAbort::REASON_FAILED, crcs.status()});
      return Stop();
    }
    events.push_back(SendEvent::LayerReady{piece.kv, *std::move(crcs)});
    told_since_flush_ = true;
  }
}

// Stages the next piece of the first computed layer; false where it has to wait for room.
bool LayerStager::StageNext(const Blocks& blocks, uint64_t most_bytes) {
  const uint64_t most = std::max<uint64_t>(most_bytes, kLeastSlots * piece_bytes_);
  if (held_bytes() + piece_bytes_ > most) {
    granted_ = {};
    return false;
  }
  if (granted_.empty()) {
    if (waiting_for_slot_) return false;
    granted_ = user_.Take();
    waiting_for_slot_ = granted_.empty();
    if (waiting_for_slot_) return false;
  }
  Computed& layer = std::get<Computed>(computed_.front());
  TokenRange& rest = layer.kv.tokens;
  Computed piece = layer;
  piece.kv.tokens.end = std::min(rest.end, rest.begin + staging_.slot_tokens());
  Copy(piece, std::exchange(granted_, {}), blocks);
  rest.begin = piece.kv.tokens.end;
  if (rest.size() == 0) computed_.pop_front();
  return true;
}

void LayerStager::Copy(const Computed& computed, KvStaging::Slot slot, const Blocks& blocks) {
  const auto& [layer, tokens] = computed.kv;
  const Place place(layer, tokens.begin);
  Piece& piece = pieces_[place];
  BATON_CHECK(piece.slot.empty(), "each page of a layer is computed once");
  piece.staged = {slot.data(), staging_.layout(), {0}};
  piece.slot = std::move(slot);
  piece.kv = computed.kv;
  piece.unsent_tokens = tokens.size();
  const int block_size = blocks.blocks.layout.block_size;
  for (int i = tokens.begin / block_size; i * block_size < tokens.end; ++i) {
    const size_t index = blocks.blocks.layout.TableIndex(layer, i * block_size);
    piece.blocks.push_back({blocks.blocks.block_table[index], blocks.generations[index]});
  }
  staging_order_.push_back(place);
  ++copying_;
  // The last that a helper does for a piece is to post it: then this may be gone.
  const auto copied = [post = options_.post, place] { post(Copied{place.first, place.second}); };
  staging_.copies().ToHost(StagedCopies(RowsOfLayer(blocks.blocks, layer), piece.rows(), tokens),
                           computed.after, [this, &piece, copied] {
                             const bool taken = staging_.jobs().TryTake([this, &piece, copied] {
                               if (!stopped_) piece.page_crcs = MakeCrcs(piece);
                               copied();
                             });
                             if (!taken) copied();
                           });
}

// The CRCs of the piece's pages on the wire, for which it is converted if need be; or why it cannot
// be sent. REQUIRES: no other thread uses the piece.
absl::StatusOr<std::vector<uint32_t>> LayerStager::MakeCrcs(Piece& piece) const {
  for (const BlockRef& block : piece.blocks) {
    if (options_.block_generation(block.id) != block.generation) {
      return absl::InternalError(
          "a KV block was given to another sequence while it was being staged");
    }
  }
  const auto& [layer, tokens] = piece.kv;
  const bool converts = options_.wire.converts();
  std::unique_ptr<uint8_t[]> bytes;
  KvBlocks converted;
  if (converts) {
    bytes = std::make_unique_for_overwrite<uint8_t[]>(piece_bytes_);
    converted = {bytes.get(), options_.wire.BlockOf(tokens.size()), {0}};
  }
  const KvLayerRows on_wire = {&converted, layer, 0, tokens.begin};
  const int block_size = staging_.cache().layout().block_size;
  const int first_block = tokens.begin / block_size;
  std::vector<uint32_t> crcs;
  for (const TokenRange page : PagesOf(tokens)) {
    uint32_t crc = piece.rows().PageCrc(page);
    const BlockRef& block =
        piece.blocks[static_cast<size_t>(page.begin / block_size - first_block)];
    // A page that is not whole may still grow in another sequence, so its CRC is not kept.
    const bool whole = page.size() == kKvPageTokens;
    if (whole && !staging_.cache().KeepStagedPageCrc(
                     block, layer, page.begin % block_size / kKvPageTokens, crc)) {
      return ChangedSinceComputed({layer, page});
    }
    if (converts) {
      BATON_ASSIGN_OR_RETURN(crc, EncodePage(piece.rows(), options_.wire, page, on_wire));
    }
    crcs.push_back(crc);
  }
  if (converts) KeepConverted(std::move(converted), std::move(bytes), piece);
  return crcs;
}

// Converted bytes replace the cache's bytes in the slot if they fit.
void LayerStager::KeepConverted(KvBlocks converted, std::unique_ptr<uint8_t[]> bytes,
                                Piece& piece) const {
  if (piece_bytes_ <= staging_.slot_bytes()) {
    std::memcpy(piece.slot.data(), bytes.get(), converted.layout.block_bytes());
    converted.base = piece.slot.data();
  } else {
    piece.wider = std::move(bytes);
  }
  piece.staged = std::move(converted);
}

LayerStager::Piece& LayerStager::PieceOf(int layer, int token) {
  const auto next = pieces_.upper_bound({layer, token});
  BATON_CHECK(next != pieces_.begin(), "what is sent is staged");
  Piece& piece = std::prev(next)->second;
  BATON_CHECK(piece.kv.layer == layer && token < piece.kv.tokens.end && piece.copied,
              "what is sent is staged");
  return piece;
}

std::vector<KvLayerRows> LayerStager::Send(const internal::v1::KvDataHeader& header) {
  Message& message = messages_[header.sequence_number()];
  ++message.alive;
  const bool first_time = message.pieces.empty();
  const TokenRange tokens = TokensOf(header);
  std::vector<KvLayerRows> rows;
  for (uint32_t i = 0; i < header.layer_count(); ++i) {
    Piece& piece = PieceOf(static_cast<int>(header.first_layer() + i), tokens.begin);
    BATON_CHECK(tokens.end <= piece.kv.tokens.end, "a message is of one piece a layer");
    rows.push_back(piece.rows());
    if (!first_time) continue;
    message.pieces.emplace_back(piece.kv.layer, piece.kv.tokens.begin);
    piece.unsent_tokens -= tokens.size();
    ++piece.messages;
  }
  return rows;
}

void LayerStager::Released(uint64_t sequence_number) { --messages_.at(sequence_number).alive; }

// Gives back the pieces that are neither read nor to be sent any more.
void LayerStager::Forget(absl::FunctionRef<bool(uint64_t)> may_send_again) {
  for (auto next = messages_.begin(); next != messages_.end();) {
    const auto message = next++;
    // tests/planted_bugs: slots_given_back
    if (message->second.alive > 0 || may_send_again(message->first)) continue;
    for (const Place& place : message->second.pieces) --pieces_.at(place).messages;
    messages_.erase(message);
  }
  for (auto next = pieces_.begin(); next != pieces_.end();) {
    const auto piece = next++;
    const bool sent = piece->second.unsent_tokens == 0 || stopped_;
    if (piece->second.copied && sent && piece->second.messages == 0) pieces_.erase(piece);
  }
}

void LayerStager::Stop() {
  stopped_ = true;
  computed_.clear();
  staging_order_.clear();
  granted_ = {};
}

}  // namespace baton
