#include "tests/simulation/decode_worker/copied_pages.h"

#include <algorithm>

namespace baton {

using internal::v1::KvDataHeader;

void CopiedPages::Received(const KvDataHeader& header) {
  headers_[header.sequence_number()] = header;
  if (header.sequence_number() < highest_number_) ++sim_.coverage.reordered;
  highest_number_ = std::max<uint64_t>(highest_number_, header.sequence_number());
}

void CopiedPages::CheckAck(uint64_t sequence_number) const {
  const auto found = headers_.find(sequence_number);
  if (found == headers_.end()) return sim_.Violation("an ack for nothing");
  const KvDataHeader& header = found->second;
  const int first = static_cast<int>(header.first_token());
  const int last = first + static_cast<int>(header.token_count()) - 1;
  for (uint32_t i = 0; i < header.layer_count(); ++i) {
    for (int page = first / kKvPageTokens; page <= last / kKvPageTokens; ++page) {
      if (right_.count({static_cast<int>(header.first_layer() + i), page}) == 0) {
        sim_.Violation("an ack for a page that is not there");
      }
    }
  }
}

void CopiedPages::BeginCopy(const LayerTokens& range) {
  for (const TokenRange tokens : PagesOf(range.tokens)) {
    const Page page{range.layer, tokens.begin / kKvPageTokens};
    if (!in_copy_.insert(page).second) sim_.Violation("two copies into one page");
    if (right_.count(page) > 0) sim_.Violation("a copy into a covered page");
  }
}

void CopiedPages::EndCopy(const LayerTokens& range,
                          const std::function<bool(TokenRange)>& is_right) {
  for (const TokenRange tokens : PagesOf(range.tokens)) {
    const Page page{range.layer, tokens.begin / kKvPageTokens};
    in_copy_.erase(page);
    if (is_right(tokens)) right_.insert(page);
  }
}

}  // namespace baton
