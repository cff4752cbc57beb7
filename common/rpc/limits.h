// The limits of what a peer may send, in one place.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

#include "common/base/max_choices.h"

namespace baton {

// Version of the protocol between Baton's parts; unequal versions never work together. Since 2 the
// digest of a push hashes the first tokens field by field (kv_digest.h); since 3 a sequence may
// have a grammar, which a worker of version 2 would ignore; since 4 a layer with a window carries
// its last rows alone, and the digest hashes where each layer begins.
inline constexpr uint32_t kProtocolVersion = 4;

// Bytes of a message. gRPC names no field when it refuses a longer one, so this is far above what
// the limits of the fields allow: a chat of 5 MiB, and between servers a million token ids of 5
// bytes beside a grammar of 4 MiB.
inline constexpr int kMaxMessageBytes = 16 << 20;
// Bytes of a call's headers, names and values and 32 for each: a certificate in one of them
// (deploy/haproxy) takes up to 4 KiB, where gRPC's default is 8 KiB for all.
inline constexpr int kMaxHeaderBytes = 16 << 10;
// Strings and submessages in one message. 2 bytes on the wire may become 70 bytes in memory, so
// with this limit an unchecked call holds at most its 16 MiB and the 70 MiB that may be made of
// them.
inline constexpr int kMaxMessageParts = 1 << 16;
// Bytes of KV payload in a message. A whole KV message stays below gRPC's default limit of 4 MiB.
inline constexpr size_t kMaxKvPayloadBytes = (size_t{4} << 20) - (size_t{64} << 10);
inline constexpr int kMaxKvStreams = 16;  // connections of one push

// Fields of a public request.
// Bytes of a prompt, of all chat messages and tools together, of a text to tokenise, and of a text made of
// tokens.
inline constexpr size_t kMaxPromptBytes = size_t{3} << 20;
inline constexpr int kMaxChatMessages = 4096;
inline constexpr size_t kMaxNameBytes = 256;  // request_id, model, user, cache_salt, role, name
inline constexpr size_t kMaxTools = 512;
inline constexpr size_t kMaxToolCalls = 128;  // calls in one message
inline constexpr size_t kMaxJsonDepth = 128;  // in a schema, and in the arguments of a call
// Keys of one JSON object, and of all in a body by HTTP, in a chat's tools or in its calls: objects
// keep the order of their keys, so that finding one takes time linear in their number.
inline constexpr size_t kMaxObjectKeys = 4096;
inline constexpr size_t kMaxJsonKeys = 1 << 16;
inline constexpr size_t kMaxTemplateVariables = 64;
inline constexpr size_t kMaxTemplateVariableBytes = size_t{64} << 10;  // as a message of protobuf
inline constexpr int kMaxStopStrings = 16;
inline constexpr size_t kMaxStopStringBytes = 1024;
inline constexpr int kMaxStopTokenIds = 128;
inline constexpr int kMaxLogprobs = 20;
inline constexpr int kMaxLogitBias = 1024;
// Log probabilities of a prompt in an answer: its tokens, times one and the number of most likely
// tokens at each. In a router's memory one takes 8 bytes, and about 100 in a message to a client.
// Without a stream they come in one message, which stays below gRPC's default limit of 4 MiB.
inline constexpr uint64_t kMaxPromptLogprobs = 1 << 18;
inline constexpr uint64_t kMaxPromptLogprobsAtOnce = 1 << 17;
// Prompt log probabilities in one HTTP answer, which repeats those of each prompt in each choice.
inline constexpr uint64_t kMaxAnswerPromptLogprobs = 1 << 19;
// Prompt log probabilities in one message from a worker, and bytes of a chunk for a client.
inline constexpr size_t kMaxPromptLogprobsInMessage = 1 << 16;
inline constexpr size_t kPromptLogprobChunkBytes = size_t{256} << 10;

// How long a new connection may take until both sides have introduced themselves.
inline constexpr absl::Duration kHandshakeTimeout = absl::Seconds(5);
// How long the message of a call may take whose method has one. The first message of a stream has
// less (silent_streams.h), for it is short.
inline constexpr absl::Duration kMessageTimeout = absl::Seconds(10);

// Keepalive pings on connections between Baton's servers.
inline constexpr absl::Duration kKeepaliveTime = absl::Seconds(1);
inline constexpr absl::Duration kKeepaliveTimeout = absl::Seconds(2);
// Keepalive pings on connections that push KV. This side pings sooner than the other, because gRPC
// starts its wait again with whatever it reads, and a peer that receives nothing still pings once.
// gRPC sends no two pings within a second, and its timers are up to a quarter of a second late: a
// silent peer is noticed within 3 s.
inline constexpr absl::Duration kBulkKeepaliveTime = absl::Milliseconds(700);
inline constexpr absl::Duration kBulkKeepaliveTimeout = absl::Milliseconds(1700);
inline constexpr absl::Duration kMinReceivedPingInterval = absl::Milliseconds(500);

// Watch streams: the time between two messages, the silence or standstill after which a worker is
// not ready, and the most streams of one worker, or of the health of one port. Of a worker's
// streams, those of one certificate (routers may share one), or of one address without TLS.
inline constexpr absl::Duration kWatchInterval = absl::Milliseconds(250);
inline constexpr absl::Duration kProgressTimeout = absl::Milliseconds(2500);
inline constexpr int kMaxWatchers = 64;
inline constexpr int kMaxWatchersOfPeer = 16;
// Bytes of WatchRequest.router.
inline constexpr size_t kWatchingRouterBytes = 16;

}  // namespace baton
