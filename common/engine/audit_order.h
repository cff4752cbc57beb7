// The order to audit a block of KV that a sequence received, and what comes of it.
#pragma once

#include <functional>
#include <string>

namespace baton {

struct AuditResult {
  enum class Outcome {
    kMatch,
    kMismatch,
    kSkipped,  // no block, or another audit was under way: nothing was compared
  };
  Outcome outcome = Outcome::kSkipped;
  // The rest is set with kMismatch.
  int block = 0;  // index, in the sequence, of the first block that is wrong
  int layer = 0;  // layer and page, counted from the sequence's begin, of its first wrong page
  int page = 0;
  bool wrong_token = false;  // all pages are right; a first token is not
  // SequenceRequest::kv_source of who wrote the block's layer, or committed the token; empty if
  // that is unknown, or several did.
  std::string source{};
};

struct AuditOrder {
  int block = 0;  // index of the block in the sequence
  // Called once on the engine's thread, as SequenceRequest::on_event is; not at all if the sequence
  // ends instead of being committed, or the engine ends first.
  std::function<void(const AuditResult&)> done;
};

}  // namespace baton
