// Where the time of one request went, as spans on lanes. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"

#include "router/page/request_record.h"

namespace baton {

struct WaterfallSpan {
  enum class Lane { kQueue, kPrefillQueue, kPrefill, kTransfer, kDecodeQueue, kDecode };
  Lane lane = Lane::kQueue;
  uint32_t attempt = 0;
  absl::Duration start{};  // since the request was received
  absl::Duration end{};
  std::optional<uint32_t> tokens{};
  std::optional<std::pair<uint32_t, uint32_t>> layers{};  // the first and the last
  std::optional<uint64_t> bytes{};
  std::string label{};
};
// Such as "decode_queue".
const char* LaneName(WaterfallSpan::Lane lane);

// The spans of all tries, in their order and in that of the lanes above.
//
// If a try's workers reported a span, its lane is as long as they report. So the lanes of a request
// with one try agree with its `timings`. The spans of each worker's clock are placed at the events
// that the router received from it: the prefill's own queue begins when its decode worker had
// accepted, a transfer ends so long after the prefill as it was exposed, the decode queue begins
// with the commit. Spans that the workers have not reported, since the try broke or still runs,
// have the times that the router saw.
std::vector<WaterfallSpan> LayWaterfall(const RequestRecord& record);

}  // namespace baton
