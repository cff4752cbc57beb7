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
// Of what its workers have told of a try, each lane is as long as they say, so that of a request
// with one try it is as long as its `timings` say. Each worker's clock is laid in where the router
// heard of it: the prefill's own queue begins when its decode worker had accepted, a transfer ends
// so long after the prefill as it was exposed, the decode queue begins with the commit. Of what
// they have not told, since the try broke or runs, there is what the router saw.
std::vector<WaterfallSpan> LayWaterfall(const RequestRecord& record);

}  // namespace baton
