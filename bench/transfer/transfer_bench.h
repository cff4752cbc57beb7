// Three ways of moving a KV cache between two processes on loopback: Baton's push, a bare socket,
// and a protobuf field.
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

// The sequence whose KV cache is moved.
struct TransferCase {
  KvLayout layout;
  int tokens = 0;
  int chunk_tokens = 512;          // tokens announced together, as a prefill step would
  std::string device = "cpu";      // cpu, cuda or cuda:N: memory of the KV cache that is pushed
  KvType wire = KvLayout().dtype;  // type of a push's payload; both sides convert another one
  int copy_threads = 0;            // value of a worker's --kv-copy-threads on both sides

  size_t bytes() const { return static_cast<size_t>(tokens) * layout.bytes_per_token(); }
};

// The longest sequence of whole blocks whose KV cache in a known model's shape takes at most
// `bytes`. INVALID_ARGUMENT names --shape or --bytes.
absl::StatusOr<TransferCase> TransferCaseFor(const std::string& shape, uint64_t bytes);
// Sets the type of the payload; "auto" is the cache's own. INVALID_ARGUMENT names --kv-wire-dtype.
absl::Status SetWireType(const std::string& name, TransferCase& transfer);

inline constexpr absl::Duration kTransferTimeout = absl::Seconds(60);

// Each Measure function below forks the two processes, moves the cache once to warm up, then once
// for each entry of its list, and returns a sample for each entry. The receiver writes what it
// receives into a KV cache of its own. REQUIRES: this process has one thread and has not used gRPC.

struct PushVariant {
  std::optional<size_t> message_bytes = {};  // payload to aim at; nullopt: the sender's choice
  int connections = 1;
};
// Measures a push from SendDriver to PushService with all its checks. The CRCs of the sender's
// pages are computed before the measurement, as a prefill worker computes them with the pages; for
// a cache in a device's memory the push computes them while it stages the pages. Device errors name
// --device.
absl::StatusOr<std::vector<TransferSample>> MeasureKvPush(const TransferCase& transfer,
                                                          const std::vector<PushVariant>& variants);

// Measures a TCP socket with default buffers between two regions of the cache's size. An entry is
// the number of bytes of each read and write.
absl::StatusOr<std::vector<TransferSample>> MeasureSocket(const TransferCase& transfer,
                                                          const std::vector<size_t>& call_bytes);

// Measures a gRPC stream of messages with a protobuf `bytes` field, without checks and with all
// defaults of gRPC. An entry is the number of bytes of each field.
absl::StatusOr<std::vector<TransferSample>> MeasureProtobufBytes(
    const TransferCase& transfer, const std::vector<size_t>& message_bytes);

// A KV cache with the blocks of the case's sequence, in shuffled order.
struct TransferCache {
  static absl::StatusOr<TransferCache> Create(const TransferCase& transfer,
                                              const std::string& device = "cpu");
  // Fills every block with pseudorandom values below 2, which every type can represent.
  void Fill();
  uint8_t* data() const { return cache->Block(0); }

  std::unique_ptr<Backend> backend;
  std::unique_ptr<KvCache> cache;
  std::unique_ptr<KvStaging> staging;  // null if the cache is in host memory
  std::vector<int32_t> block_table;
};

}  // namespace baton
