// Moves a KV cache between two processes on loopback: the way Baton does, through a bare socket,
// and in a protobuf field.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "bench/transfer/forked_pair.h"
#include "common/backend/backend.h"
#include "common/kv/cache.h"
#include "common/kv/layout.h"
#include "common/kv/staging.h"

namespace baton {

// The sequence whose cache is moved.
struct TransferCase {
  KvLayout layout;
  int tokens = 0;
  int chunk_tokens = 512;      // announced together, as a prefill step computes them
  std::string device = "cpu";  // whose memory has the cache that is pushed: cpu, cuda, cuda:N

  size_t bytes() const { return static_cast<size_t>(tokens) * layout.bytes_per_token(); }
};

// The longest sequence of whole blocks, in a known model's shape, that is no larger than `bytes`.
// INVALID_ARGUMENT names --shape or --bytes.
absl::StatusOr<TransferCase> TransferCaseFor(const std::string& shape, uint64_t bytes);

inline constexpr absl::Duration kTransferTimeout = absl::Seconds(60);

// Each function below makes the two processes, moves the cache once to warm up, then once for each
// entry of its list, and gives a sample for each. What is received lies in the receiver's cache.
// REQUIRES: as RunForkedPair.

struct PushVariant {
  std::optional<size_t> message_bytes = {};  // to aim at; nullopt: the sender's own choice
  int connections = 1;
};
// PushClient to PushService with everything that guards a push. The sender's page CRCs are there
// before, as a prefill worker makes them when it computes a page; in a device's memory they are
// made and compared as the push stages the pages. Errors of the device name --device.
absl::StatusOr<std::vector<TransferSample>> MeasureKvPush(const TransferCase& transfer,
                                                          const std::vector<PushVariant>& variants);

// A TCP socket with default buffers between two regions of the cache's size. An entry is the bytes
// of each read and write.
absl::StatusOr<std::vector<TransferSample>> MeasureSocket(const TransferCase& transfer,
                                                          const std::vector<size_t>& call_bytes);

// A stream of messages of gRPC with a protobuf `bytes` field, unchecked, everything at its
// defaults. An entry is the bytes of each field.
absl::StatusOr<std::vector<TransferSample>> MeasureProtobufBytes(
    const TransferCase& transfer, const std::vector<size_t>& message_bytes);

// A cache that holds the case's sequence, in blocks that do not follow each other.
struct TransferCache {
  static absl::StatusOr<TransferCache> Create(const TransferCase& transfer,
                                              const std::string& device = "cpu");
  // Random bytes everywhere.
  void Fill();
  uint8_t* data() const { return cache->Block(0); }

  std::unique_ptr<Backend> backend;
  std::unique_ptr<KvCache> cache;
  std::unique_ptr<KvStaging> staging;  // where the cache is in a device's memory; else null
  std::vector<int32_t> block_table;
};

}  // namespace baton
