#include "common/net/bulk_tuning.h"

#include <malloc.h>

#include <cstdlib>

namespace baton {
namespace {

// Bytes of free memory that malloc keeps for later messages: a few windows of unacknowledged
// payload.
constexpr int kTrimThresholdBytes = 256 << 20;
constexpr int kTopPadBytes = 16 << 20;
constexpr int kMmapThresholdBytes = 32 << 20;  // the largest value that glibc takes

constexpr char kExperiments[] = "tcp_frame_size_tuning,tcp_rcv_lowat";

}  // namespace

void TuneProcessForBulk() {
  mallopt(M_TRIM_THRESHOLD, kTrimThresholdBytes);
  mallopt(M_TOP_PAD, kTopPadBytes);
  mallopt(M_MMAP_THRESHOLD, kMmapThresholdBytes);
  setenv("GRPC_EXPERIMENTS", kExperiments, /*overwrite=*/0);
}

}  // namespace baton
