// Converts durations to protobuf.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"

namespace baton {

// REQUIRES: `duration` is finite.
inline google::protobuf::Duration DurationToProto(absl::Duration duration) {
  google::protobuf::Duration proto;
  proto.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &duration));
  proto.set_nanos(
      static_cast<int32_t>(absl::IDivDuration(duration, absl::Nanoseconds(1), &duration)));
  return proto;
}

}  // namespace baton
