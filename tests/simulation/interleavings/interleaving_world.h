// One state of the two workers and what is between them, and the events that are possible in it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/simulation/interleavings/interleaved_receiver.h"
#include "tests/simulation/interleavings/interleaved_sender.h"
#include "tests/simulation/interleavings/interleaved_stream.h"
#include "tests/simulation/interleavings/interleavings.h"
#include "tests/simulation/interleavings/worker_blocks.h"

namespace baton {

// A value: copies go their own ways.
class InterleavingWorld {
 public:
  static constexpr int kRequests = 2;
  enum class Kind {
    kStartDecode,  // the reservation
    kStartPrefill,
    kGrant,
    kCompute,
    kFirstToken,
    kDeliver,  // to the receiver
    kAnswer,   // to the sender
    kReleaseSlices,
    kCopyDone,
    kNoticeAtPrefill,  // the end of the stream is noticed
    kNoticeAtDecode,
    kDecodeEnds,  // the end of what was committed
    // Disturbances.
    kCancelAtPrefill,
    kCancelAtDecode,
    kCut,
    kKillPrefill,
    kKillDecode,
    kPrefillTimeout,
    kDecodeTimeout,
  };
  struct Choice {
    Kind kind = Kind::kStartDecode;
    int request = 0;
    uint64_t copy_id = 0;
  };
  static bool Disturbs(Kind kind) { return kind >= Kind::kCancelAtPrefill; }
  static std::string Name(const Choice& choice);

  explicit InterleavingWorld(const InterleavingOptions& options);

  // What can happen next; without disturbances when none is left, but that time passes when nothing
  // else is possible.
  std::vector<Choice> Choices() const;
  void Take(const Choice& choice);
  // Everything that the future depends on.
  std::string State() const;
  // Only asked when there is no choice: all must be over and given back.
  void CheckEnd();
  const std::string& violation() const { return blocks_.violation; }
  int committed() const;

 private:
  struct Push {
    InterleavedSender sender;
    InterleavedStream stream;
    InterleavedReceiver receiver;
  };

  void ChoicesOf(int request, std::vector<Choice>& choices) const;
  void DisturbancesOf(int request, std::vector<Choice>& choices) const;
  void Disturb(const Choice& choice);
  void KillPrefill();
  void KillDecode();
  Push& At(int request) { return pushes_[static_cast<size_t>(request)]; }
  const Push& At(int request) const { return pushes_[static_cast<size_t>(request)]; }

  std::array<Push, kRequests> pushes_;
  int disturbances_left_ = 0;
  InterleavedBlocks blocks_;
};

}  // namespace baton
