#include "decode_worker/received_pages.h"

#include "common/base/check.h"
#include "common/handoff/kv_wire.h"

namespace baton {

using internal::v1::KvDataHeader;

ReceivedPages::ReceivedPages(const KvLayout& layout, int tokens)
    : carried_(layout, tokens),
      crcs_(layout.layers, tokens),
      pages_(static_cast<size_t>(layout.layers) * static_cast<size_t>(KvPages(tokens))) {}

ReceivedPages::Plan ReceivedPages::PlanFor(const KvDataHeader& header) const {
  const std::vector<TokenRange> pages = PagesOf(TokensOf(header));
  const int first_layer = static_cast<int>(header.first_layer());
  const int end_layer = first_layer + static_cast<int>(header.layer_count());
  Plan plan{Verdict::kCopy};
  int index = 0;  // index in page_crc32c
  for (int layer = first_layer; layer < end_layer; ++layer) {
    bool extends = false;
    // tests/planted_bugs: page_state
    for (const TokenRange& tokens : pages) {
      const int page = tokens.begin / kKvPageTokens;
      const uint32_t crc = header.page_crc32c(index++);
      const Page state = pages_[Index(layer, page)];
      if (state == Page::kCopying) return {Verdict::kWait};
      if (state == Page::kCovered) {
        if (crcs_.At(layer, page) != crc) return {Verdict::kDiffers};
        extends = false;
        continue;
      }
      if (!extends) plan.ranges.push_back({layer, tokens});
      plan.ranges.back().tokens.end = tokens.end;
      extends = true;
    }
  }
  if (plan.ranges.empty()) plan.verdict = Verdict::kCovered;
  return plan;
}

void ReceivedPages::BeginCopy(const std::vector<LayerTokens>& ranges) {
  for (const auto& [layer, tokens] : ranges) {
    BATON_CHECK(tokens.begin >= carried_.First(layer),
                "others read the blocks before, or there are none");
    for (const TokenRange& page : PagesOf(tokens)) {
      pages_[Index(layer, page.begin / kKvPageTokens)] = Page::kCopying;
    }
  }
}

bool ReceivedPages::EndCopy(const KvDataHeader& header, const std::vector<LayerTokens>& ranges,
                            const ReceiveEvent::CopyDone& done) {
  const int first_page = static_cast<int>(header.first_token()) / kKvPageTokens;
  const int message_pages = KvPages(static_cast<int>(header.token_count()));
  bool all_agree = done.ok;
  size_t index = 0;  // index in done.page_crcs
  for (const auto& [layer, tokens] : ranges) {
    // tests/planted_bugs: page_crc
    for (const TokenRange& tokens_of_page : PagesOf(tokens)) {
      const int page = tokens_of_page.begin / kKvPageTokens;
      const int layer_in_message = layer - static_cast<int>(header.first_layer());
      const uint32_t wanted =
          header.page_crc32c(layer_in_message * message_pages + page - first_page);
      const bool agrees =
          done.ok && index < done.page_crcs.size() && done.page_crcs[index] == wanted;
      pages_[Index(layer, page)] = agrees ? Page::kCovered : Page::kEmpty;
      if (agrees) crcs_.At(layer, page) = wanted;
      all_agree = all_agree && agrees;
      ++index;
    }
  }
  return all_agree;
}

bool ReceivedPages::Covers(const KvDataHeader& header) const {
  for (uint32_t i = 0; i < header.layer_count(); ++i) {
    if (!Covered(static_cast<int>(header.first_layer() + i), TokensOf(header))) return false;
  }
  return true;
}

bool ReceivedPages::CoveredBefore(int end_token) const {
  for (int layer = 0; layer < crcs_.layers(); ++layer) {
    // tests/planted_bugs: pages_covered
    if (!Covered(layer, {carried_.First(layer), end_token})) return false;
  }
  return true;
}

bool ReceivedPages::Covered(int layer, TokenRange tokens) const {
  for (int page = tokens.begin / kKvPageTokens; page < KvPages(tokens.end); ++page) {
    if (pages_[Index(layer, page)] != Page::kCovered) return false;
  }
  return true;
}

}  // namespace baton
