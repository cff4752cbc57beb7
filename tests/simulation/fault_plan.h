// What goes wrong in one simulated run, drawn from its seed.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "router/placement/placement.h"
#include "tests/simulation/event_queue.h"
#include "tests/simulation/sim_random.h"

namespace baton {

enum class Fault {
  // These strike a message on its way, by chance.
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
  kReplayedOpen,         // an open of this attempt again, on a stream of its own
  kForgedOpen,           // with another capability
  kLateDelivery,         // what was on its way arrives after a cut was noticed
  // These strike the inside of a worker, by chance.
  kSlowCopy,
  kFailedCopy,
  kStaleSource,   // bytes change after their CRC was made
  kStuckChannel,  // the transport keeps the slices of a cancelled call
  kLostCancel,    // the router's cancellation never arrives
  kOtherModel,    // a prefill worker that runs something else
  kOtherShape,
  kForgetfulPrefill,  // the worker forgets a call that it took, and the call stays open
  kForgetfulDecode,
  // These strike a request, by chance.
  kDeadline,
  kDeadlyPrompt,  // a worker that computes it dies
  kDeadlyOutput,
  kDeadlyOpening,  // a worker that opens it dies
  kCostlyOutput,   // the engine that computes it stands still
  // At a time, on a worker or a request.
  kCut,
  kHalfCut,        // one side notices, the other much later
  kBlackHole,      // what is sent vanishes, nobody is told for a while
  kPartitionPair,  // between a prefill and a decode worker; the router sees both
  kOneWayPair,
  kCrashPrefill,
  kCrashDecode,
  kSilentCrashPrefill,  // its machine is lost: nobody is told
  kSilentCrashDecode,
  kQuickRestartPrefill,  // before anybody notices
  kQuickRestartDecode,
  kPausePrefill,
  kPauseDecode,
  kPressurePrefill,
  kPressureDecode,
  kDeadlockPrefill,  // nothing but its connections lives
  kDeadlockDecode,
  kHangPrefill,  // the engine; its calls are answered
  kHangDecode,
  kSlowPrefill,
  kSlowDecode,
  kFailingPrefill,  // takes everything and fails it
  kFailingDecode,
  kForgingPrefill,   // pushes wrong KV, with right CRCs and a right digest
  kReplacedPrefill,  // comes back with another model
  kReplacedDecode,
  kUnlistedPrefill,  // no longer among the targets, for a while
  kUnlistedDecode,
  kAllDecodeGone,
  kRollingRestart,
  kLinkCut,        // a connection of the router to a worker breaks
  kLinkPartition,  // half-open: both wait for keepalive
  kLinkOneWay,
  kLinkSlow,
  kRouterKilled,
  kRouterGone,  // with its machine
  kRouterDrained,
  kClientStopsReading,
  kClientCancel,
  kCount,
};

inline constexpr size_t kFaultKinds = static_cast<size_t>(Fault::kCount);
const char* FaultName(Fault fault);

inline constexpr Micros kRollingRestartTime = 16'000'000;

struct TimedFault {
  Micros at = 0;
  Fault fault = Fault::kCut;
  uint64_t choice = 0;  // chooses the target
  Micros duration = 0;  // how long crashes, pauses, black holes and pressure last
};

// Each kind is on in some seeds only, so that no fault hides another.
struct FaultPlan {
  explicit FaultPlan(SimRandom& random);

  // In a thousand, of each message, copy or attempt.
  int Chance(Fault fault) const { return chances[static_cast<size_t>(fault)]; }

  void AddHarsh(SimRandom& random);
  void AddGentle(SimRandom& random);
  std::array<int, kFaultKinds> chances{};
  std::vector<TimedFault> timed;
  Micros heal_at = 0;  // no fault begins after it, and all that last end
  // One worker at a time breaks, and nothing else does: no request may fail, and none takes long.
  bool gentle = false;
  // How the router is run.
  PlacementPolicy policy = PlacementPolicy::kPrefixAware;
  Disaggregation disaggregation = Disaggregation::kAuto;
  uint32_t queue = 0;  // requests
  // How the decode workers are run.
  double audit_share = 0;  // share of the pushes
  int guessed_steps = 0;   // steps with guesses in a thousand
};

}  // namespace baton
