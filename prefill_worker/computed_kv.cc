#include "prefill_worker/computed_kv.h"

#include <algorithm>

#include "common/base/check.h"

namespace baton {
namespace {

// A page takes 4 bytes of the header.
constexpr int kMaxPagesPerMessage = 8192;

}  // namespace

ComputedKv::ComputedKv(const KvLayout& layout, int tokens, size_t token_bytes,
                       size_t min_payload_bytes)
    : layout_(layout),
      tokens_(tokens),
      token_bytes_(token_bytes),
      min_payload_bytes_(min_payload_bytes),
      carried_(layout, tokens),
      crcs_(layout.layers, tokens) {}

void ComputedKv::Add(const SendEvent::LayerReady& ready) {
  const auto& [layer, tokens] = ready.kv;
  BATON_CHECK(layer >= 0 && layer < layout_.layers && tokens.size() > 0 && tokens.begin >= 0 &&
                  tokens.begin % kKvPageTokens == 0 && tokens.end <= tokens_,
              "a range of whole pages of the sequence");
  BATON_CHECK(tokens.begin >= carried_.layer_begins()[static_cast<size_t>(layer)],
              "a layer with a window is told from its first carried token on");
  int page = tokens.begin / kKvPageTokens;
  for (const uint32_t crc : ready.page_crcs) crcs_.At(layer, page++) = crc;
  BATON_CHECK(page == KvPages(tokens.end), "one CRC for each page");
  unsent_.push_back({ready.kv});
}

void ComputedKv::Flush() {
  for (Layer& layer : unsent_) layer.waits = false;
}

// Returns the layer's tokens that are still to be sent.
TokenRange ComputedKv::Unsent(const Layer& layer) const {
  // tests/planted_bugs: window_sent_a_page_late
  return {std::max(layer.kv.tokens.begin, carried_.start_token()), layer.kv.tokens.end};
}

std::optional<ComputedKv::Piece> ComputedKv::Next(size_t limit) {
  while (!unsent_.empty() && Unsent(unsent_.front()).size() <= 0) unsent_.pop_front();
  if (unsent_.empty()) return std::nullopt;
  Piece next{.first = {unsent_.front().kv.layer, Unsent(unsent_.front())}};
  TokenRange& tokens = next.first.tokens;
  const size_t layer_bytes = static_cast<size_t>(tokens.size()) * token_bytes_;
  const int pages = KvPages(tokens.size());
  if (layer_bytes > limit || pages > kMaxPagesPerMessage) {
    const size_t page_bytes = size_t{kKvPageTokens} * token_bytes_;
    const auto fit = static_cast<int>(std::min<size_t>(limit / page_bytes, kMaxPagesPerMessage));
    tokens.end = tokens.begin + fit * kKvPageTokens;
    next.payload_bytes = static_cast<size_t>(tokens.size()) * token_bytes_;
    return next;
  }
  size_t layers = 1;
  const auto follows = [&](const Layer& layer) {
    return layer.kv.layer == next.first.layer + static_cast<int>(layers) && Unsent(layer) == tokens;
  };
  while (layers < unsent_.size() && (layers + 1) * layer_bytes <= limit &&
         static_cast<int>(layers + 1) * pages <= kMaxPagesPerMessage && follows(unsent_[layers])) {
    ++layers;
  }
  next.layers = static_cast<int>(layers);
  next.payload_bytes = layers * layer_bytes;
  if (layers == unsent_.size() && unsent_.back().waits && MayGrow(next) &&
      next.payload_bytes < min_payload_bytes_ && (layers + 1) * layer_bytes <= limit) {
    return std::nullopt;
  }
  return next;
}

// Whether the layer behind the piece is still to come and can have the piece's tokens.
bool ComputedKv::MayGrow(const Piece& piece) const {
  const int layer = piece.first.layer + piece.layers;
  // tests/planted_bugs: window_waits_for_its_neighbour
  return layer < layout_.layers && carried_.First(layer) <= piece.first.tokens.begin;
}

void ComputedKv::Take(const Piece& piece) {
  if (piece.first.tokens.end < unsent_.front().kv.tokens.end) {
    unsent_.front().kv.tokens.begin = piece.first.tokens.end;
  } else {
    unsent_.erase(unsent_.begin(), unsent_.begin() + piece.layers);
  }
}

void ComputedKv::Describe(const Piece& piece, internal::v1::KvDataHeader& header) const {
  const auto& [first_layer, tokens] = piece.first;
  header.set_first_layer(static_cast<uint32_t>(first_layer));
  header.set_layer_count(static_cast<uint32_t>(piece.layers));
  header.set_first_token(static_cast<uint32_t>(tokens.begin));
  header.set_token_count(static_cast<uint32_t>(tokens.size()));
  header.set_state_kind(internal::v1::LAYER_STATE_KIND_ROWS);
  header.set_first_kv_head(0);
  header.set_kv_head_count(static_cast<uint32_t>(layout_.kv_heads));
  for (int layer = first_layer; layer < first_layer + piece.layers; ++layer) {
    for (int page = tokens.begin / kKvPageTokens; page < KvPages(tokens.end); ++page) {
      header.add_page_crc32c(crcs_.At(layer, page));
    }
  }
}

bool ComputedKv::SentBefore(int end_token) const {
  return std::none_of(unsent_.begin(), unsent_.end(), [end_token](const Layer& layer) {
    return layer.kv.tokens.begin < end_token;
  });
}

}  // namespace baton
