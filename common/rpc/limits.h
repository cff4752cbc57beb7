// Bounds on what a peer may send, in one place.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

#include "common/base/max_choices.h"

namespace baton {

// Version of the protocol between Baton's parts; unequal versions never work together. Since 2 the
// digest of a push hashes the first tokens field by field (kv_digest.h).
inline constexpr uint32_t kProtocolVersion = 2;

// Messages. gRPC names no field when it refuses a longer one, so this is far above what the limits
// of the fields allow: a chat of 5 MiB, and between the parts a million token ids of 5 bytes.
inline constexpr int kMaxMessageBytes = 16 << 20;
// Strings and messages in one message: 2 bytes on the wire may be 70 in memory. So before it is
// checked a call holds at most its 16 MiB and the 70 MiB that may be made of them.
inline constexpr int kMaxMessageParts = 1 << 16;
// With it a whole KV message stays below gRPC's own default of 4 MiB.
inline constexpr size_t kMaxKvPayloadBytes = (size_t{4} << 20) - (size_t{64} << 10);
inline constexpr int kMaxKvStreams = 16;  // connections of one push

// Fields of a public request.
// Of a prompt, of all chat messages, of a text to tokenise and of one from tokens.
inline constexpr size_t kMaxPromptBytes = size_t{3} << 20;
inline constexpr int kMaxChatMessages = 4096;
inline constexpr size_t kMaxNameBytes = 256;  // request_id, model, user, cache_salt, role, name
inline constexpr int kMaxStopStrings = 16;
inline constexpr size_t kMaxStopStringBytes = 1024;
inline constexpr int kMaxStopTokenIds = 128;
inline constexpr int kMaxLogprobs = 20;
inline constexpr int kMaxLogitBias = 1024;

// Connections between Baton's parts.
inline constexpr absl::Duration kKeepaliveTime = absl::Seconds(1);
inline constexpr absl::Duration kKeepaliveTimeout = absl::Seconds(2);
// Where KV is pushed. Sooner than the other side pings: gRPC begins its wait anew with whatever it
// reads, and a peer that hears nothing still pings once. gRPC sends no two pings within a second,
// and its timers are late by up to a quarter of one: 3 s is what all of it takes at most.
inline constexpr absl::Duration kBulkKeepaliveTime = absl::Milliseconds(700);
inline constexpr absl::Duration kBulkKeepaliveTimeout = absl::Milliseconds(1700);
inline constexpr absl::Duration kMinReceivedPingInterval = absl::Milliseconds(500);

// Watch.
inline constexpr absl::Duration kWatchInterval = absl::Milliseconds(250);
inline constexpr absl::Duration kProgressTimeout = absl::Milliseconds(2500);
inline constexpr int kMaxWatchers = 64;

}  // namespace baton
