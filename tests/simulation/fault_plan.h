// What goes wrong in one simulated run, drawn from its seed.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tests/simulation/event_queue.h"
#include "tests/simulation/sim_random.h"

namespace baton {

enum class Fault {
  // Of a message on its way, by chance.
  kLoseRequest,
  kLoseAnswer,
  kDoubleRequest,
  kDelay,
  kCorruptPayload,
  kCorruptHeader,
  kCorruptControl,
  kCorruptAnswer,
  kWrongAck,  // an acknowledgement that names another message
  kTruncate,
  kReplayOnSameStream,   // an old message of the same push
  kReplayOnOtherStream,  // an old message of another attempt
  kReplayedOpen,         // of this attempt, on a stream of its own
  kForgedOpen,           // with another capability
  kLateDelivery,         // what was on its way arrives after a cut was noticed
  // Of a worker's inside, by chance.
  kSlowCopy,
  kFailedCopy,
  kStaleSource,   // bytes change after their CRC was made
  kStuckChannel,  // the transport keeps the slices of a cancelled call
  kLostCancel,    // the router's cancellation never arrives
  kOtherModel,    // a prefill worker that runs something else
  kOtherShape,
  // At a time, on a worker or a request.
  kCut,
  kHalfCut,    // one side notices, the other much later
  kBlackHole,  // what is sent vanishes, nobody is told for a while
  kCrashPrefill,
  kCrashDecode,
  kPausePrefill,
  kPauseDecode,
  kPressurePrefill,
  kPressureDecode,
  kClientCancel,
  kCount,
};

inline constexpr size_t kFaultKinds = static_cast<size_t>(Fault::kCount);
const char* FaultName(Fault fault);

struct TimedFault {
  Micros at = 0;
  Fault fault = Fault::kCut;
  uint64_t choice = 0;  // of the target
  Micros duration = 0;  // of crashes, pauses, black holes, pressure
};

// Each kind is on in some seeds only, so that no fault hides another.
struct FaultPlan {
  explicit FaultPlan(SimRandom& random);

  // In a thousand, of each message, copy or attempt.
  int Chance(Fault fault) const { return chances[static_cast<size_t>(fault)]; }

  std::array<int, kFaultKinds> chances{};
  std::vector<TimedFault> timed;
  Micros heal_at = 0;  // no fault begins after it, and all that last end
  // How the router is run.
  int policy = 0;
  int disaggregation = 0;
  uint32_t queue = 0;  // requests
};

}  // namespace baton
