// Tracks which pages of a push are empty, in copy or covered, and the CRCs of the covered pages.
//
// Bytes are only ever copied to empty pages. After a copy the copier reads the bytes back from the
// block, and the page becomes covered when their CRC equals the one in the message. That guards
// against damage on the wire, a wrong offset of the copy itself and memory that changed in between;
// a check of the message before the copy would notice only the first. No other code can see a page
// before it is covered.
//
// Where the wire type is not the cache's, the copier converts. Then the CRC that is compared is
// that of the bytes on the wire, made while they are read. The copier itself checks that the block
// has the bytes that the conversion gave (payload_copier.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "baton/internal/v1/kv_transfer.pb.h"
#include "common/handoff/carried_tokens.h"
#include "common/handoff/kv_digest.h"
#include "common/kv/token_range.h"
#include "decode_worker/receive_events.h"

namespace baton {

// Decides which pages a message may be copied into. Not thread-safe. REQUIRES of all functions: the
// header was checked (receive_checks.h).
class ReceivedPages {
 public:
  ReceivedPages(const KvLayout& layout, int tokens);

  // Expects no tokens before `start_token`: this worker holds their KV.
  void SetStart(int start_token) { carried_.SetStart(start_token); }
  // The tokens of each layer that are received.
  const CarriedTokens& carried() const { return carried_; }

  enum class Verdict {
    kCopy,     // `ranges` are still empty
    kWait,     // another copy into one of its pages is under way
    kCovered,  // nothing is left to copy
    kDiffers,  // a covered page has other bytes
  };
  struct Plan {
    Verdict verdict;
    std::vector<LayerTokens> ranges = {};  // ascending by layer, then token
  };
  Plan PlanFor(const internal::v1::KvDataHeader& header) const;
  // The ranges of a plan are in copy from here on.
  void BeginCopy(const std::vector<LayerTokens>& ranges);
  // The copy has ended. Covers the pages whose CRCs agree with the header's; the others are empty
  // again. Returns whether all agree.
  bool EndCopy(const internal::v1::KvDataHeader& header, const std::vector<LayerTokens>& ranges,
               const ReceiveEvent::CopyDone& done);

  // Whether every page of the message is covered.
  bool Covers(const internal::v1::KvDataHeader& header) const;
  // Whether every page before `end_token` is covered that its layer carries. A layer with a window
  // may carry none of them.
  bool CoveredBefore(int end_token) const;
  const PageCrcTable& crcs() const { return crcs_; }  // CRCs of the covered pages

 private:
  friend struct MachineState;  // a test compares states with it
  enum class Page : uint8_t { kEmpty, kCopying, kCovered };
  bool Covered(int layer, TokenRange tokens) const;
  size_t Index(int layer, int page) const {
    return static_cast<size_t>(layer) * static_cast<size_t>(crcs_.pages()) +
           static_cast<size_t>(page);
  }

  CarriedTokens carried_;
  PageCrcTable crcs_;
  std::vector<Page> pages_;  // [layers][pages]
};

}  // namespace baton
