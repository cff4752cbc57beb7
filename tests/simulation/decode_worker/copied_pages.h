// Which pages of one push are there: what must hold of its copies and acknowledgements.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "baton/internal/v1/decode.pb.h"
#include "common/handoff/kv_blocks.h"
#include "tests/simulation/sim.h"

namespace baton {

class CopiedPages {
 public:
  explicit CopiedPages(Sim& sim) : sim_(sim) {}

  // A data message came whose header is whole.
  void Received(const internal::v1::KvDataHeader& header);
  void CheckAck(uint64_t sequence_number) const;

  void BeginCopy(const LayerTokens& range);
  // `is_right` says of each page, by its tokens, whether its K and V are there.
  void EndCopy(const LayerTokens& range, const std::function<bool(TokenRange)>& is_right);

 private:
  using Page = std::pair<int, int>;  // layer, page

  Sim& sim_;
  std::map<uint64_t, internal::v1::KvDataHeader> headers_;  // by sequence number
  std::set<Page> in_copy_;
  std::set<Page> right_;         // copied well, never again
  uint64_t highest_number_ = 0;  // highest sequence number received
};

}  // namespace baton
