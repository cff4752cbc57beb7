// Baton's own transfer: the push of a prefill worker to the push service of a decode worker.
#include <algorithm>
#include <future>
#include <thread>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "bench/transfer/transfer_bench.h"
#include "common/base/kv_type_name.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/thread_group.h"
#include "common/engine/page_crcs.h"
#include "common/handoff/kv_digest.h"
#include "common/handoff/kv_wire_choice.h"
#include "common/net/bulk_tuning.h"
#include "common/net/channel.h"
#include "common/net/metrics.h"
#include "common/net/server.h"
#include "common/worker/convert.h"
#include "decode_worker/attempt_registry.h"
#include "decode_worker/decode_service_options.h"
#include "decode_worker/push_service.h"
#include "decode_worker/receive_driver.h"
#include "prefill_worker/send_driver.h"

namespace baton {
namespace {

constexpr uint64_t kRequestId = 0xBA70;
constexpr char kCapability[] = "bench-capability";  // 16 bytes
constexpr char kNumerics[] = "bench";
constexpr int kVocabulary = 1000;
constexpr size_t kMaxAttempts = 1024;

internal::v1::AttemptKey KeyOf(uint32_t attempt) {
  internal::v1::AttemptKey key;
  key.set_request_id_high(kRequestId);
  key.set_choice(0);
  key.set_attempt(attempt);
  return key;
}

internal::v1::ModelIdentity Identity() {
  internal::v1::ModelIdentity identity;
  identity.set_protocol_version(kProtocolVersion);
  identity.set_architecture("bench");
  return identity;
}

std::vector<int32_t> TokenIds(const TransferCase& transfer) {
  std::vector<int32_t> ids(static_cast<size_t>(transfer.tokens));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i % kVocabulary);
  return ids;
}

std::vector<uint64_t> Hashes(const TransferCase& transfer, const std::string& numerics) {
  return PageHashes(Identity(), /*cache_salt=*/"", numerics, TokenIds(transfer));
}

ReceiveConfig ReceiverConfig(const TransferCase& transfer, uint32_t attempt) {
  ReceiveConfig config;
  config.key = KeyOf(attempt);
  config.capability = kCapability;
  config.identity = Identity();
  config.shape = ShapeFromLayout(transfer.layout, kNumerics);
  SetWireTypes(KvTypeName(transfer.wire), /*strict_kv_dtype=*/false, config.shape);
  config.layout = transfer.layout;
  config.token_ids = TokenIds(transfer);
  config.page_hashes = Hashes(transfer, kNumerics);
  config.prompt_length = transfer.tokens;
  config.vocab_size = kVocabulary;
  return config;
}

SendConfig SenderConfig(const TransferCase& transfer, uint32_t attempt,
                        std::optional<size_t> message_bytes) {
  SendConfig config;
  *config.open.mutable_key() = KeyOf(attempt);
  config.open.set_capability(kCapability);
  *config.open.mutable_identity() = Identity();
  const internal::v1::KvShape shape = ShapeFromLayout(transfer.layout, kNumerics);
  *config.open.mutable_shape() = shape;
  config.open.set_wire_dtype(KvTypeName(transfer.wire));
  config.open.set_token_count(static_cast<uint32_t>(transfer.tokens));
  const std::vector<uint64_t> hashes =
      Hashes(transfer, StoredNumerics(shape, transfer.wire, shape));
  config.open.mutable_page_hashes()->Add(hashes.begin(), hashes.end());
  config.layout = transfer.layout;
  config.token_ids = TokenIds(transfer);
  if (message_bytes.has_value()) {
    config.limits.max_payload_bytes = std::min(*message_bytes, kMaxKvPayloadBytes);
    config.limits.min_payload_bytes = config.limits.max_payload_bytes;
  }
  return config;
}

// A decode worker without an engine: it grants the blocks of attempts 1 to `attempts` at once.
absl::Status ReceivePushes(const TransferCase& transfer, uint32_t attempts,
                           const ReadyFunction& ready) {
  TuneProcessForBulk();
  BATON_RETURN_IF_ERROR(InitLogging("bench", "warning", "text"));
  BATON_ASSIGN_OR_RETURN(const TransferCache cache,
                         TransferCache::Create(transfer, transfer.device));
  AttemptRegistry registry(kMaxAttempts);
  DecodeServiceOptions service_options;
  service_options.max_streams = kMaxAttempts;
  PushService push(registry, service_options);
  Metrics metrics("bench");
  ServerProcess::Options options{.program = "baton bench transfer"};
  options.flags.listen = "127.0.0.1:0";
  options.internal = true;
  BATON_ASSIGN_OR_RETURN(const auto server, ServerProcess::Create(std::move(options), metrics));
  // One attempt is expected at a time, since a higher attempt would end the one before it.
  std::function<void(uint32_t)> expect;
  ThreadGroup receivers;  // they call `expect`
  expect = [&](uint32_t attempt) {
    if (attempt > attempts) return;
    auto receiver = std::make_shared<std::weak_ptr<ReceiveDriver>>();
    ReceiveDriver::Callbacks callbacks;
    callbacks.take_blocks = [&cache, receiver](const ReceiveAction::TakeBlocks&) {
      if (const auto self = receiver->lock()) self->Grant(cache.block_table, /*start_token=*/0);
    };
    callbacks.committed = [&expect, attempt](const ReceiveAction::CommitSequence&) {
      expect(attempt + 1);
    };
    callbacks.failed = [](const absl::Status& status) {
      LogWarning("receiver: {}", std::string(status.message()));
    };
    callbacks.release_blocks = [](const ReceiveAction::ReleaseBlocks&) {};
    callbacks.received = [](uint64_t) {};
    const auto made = std::make_shared<ReceiveDriver>(
        ReceiverConfig(transfer, attempt), *cache.cache, cache.staging.get(), std::move(callbacks));
    *receiver = made;
    const absl::Status admitted =
        registry.Admit(KeyOf(attempt), /*choices=*/1, [receiver](const absl::Status&) {
          if (const auto self = receiver->lock()) {
            std::ignore = self->Cancel(internal::v1::PushRefused::REASON_ABORTED);
          }
        });
    if (!admitted.ok()) LogWarning("receiver: {}", std::string(admitted.message()));
    receivers.Start([made] { made->Run(); });
    registry.Expect(KeyOf(attempt), made);
  };
  expect(1);
  BATON_RETURN_IF_ERROR(server->Serve({&push}));
  ready(server->listen_address());
  server->Run({});
  absl::Status told_to_end = absl::CancelledError("the receiver was told to end");
  registry.EndAll(told_to_end);
  return told_to_end;
}

// Computes all page CRCs, as the engine does when it computes pages, long before most are sent.
void StoreAllPageCrcs(const TransferCase& transfer, TransferCache& cache) {
  for (int layer = 0; layer < transfer.layout.layers; ++layer) {
    StorePageCrcs(*cache.cache, cache.block_table, layer, 0, transfer.tokens);
  }
}

// Announces every layer of every chunk, as a prefill call whose computation takes no time.
void AnnounceAll(const TransferCase& transfer, const TransferCache& cache, SendDriver& push) {
  const int block_size = transfer.layout.block_size;
  for (int first = 0; first < transfer.tokens; first += transfer.chunk_tokens) {
    const int end = std::min(first + transfer.chunk_tokens, transfer.tokens);
    for (int layer = 0; layer < transfer.layout.layers; ++layer) {
      SendEvent::LayerReady ready{{layer, {first, end}}, {}};
      for (int token = first; token < end && cache.staging == nullptr; token += kKvPageTokens) {
        ready.page_crcs.push_back(
            cache.cache->PageCrc(cache.block_table[transfer.layout.TableIndex(layer, token)], layer,
                                 token % block_size / kKvPageTokens));
      }
      push.PostLayer(std::move(ready), cache.block_table);
    }
    push.Post(SendEvent::ChunkReady{end});
  }
  internal::v1::OutputToken token;
  token.mutable_token()->set_token_id(1);
  push.Post(SendEvent::FirstToken{std::move(token)});
}

using Channels = std::vector<std::shared_ptr<grpc::Channel>>;

absl::StatusOr<TransferSample> PushOnce(const TransferCase& transfer, const TransferCache& cache,
                                        SendConfig config, Channels channels, pid_t receiver) {
  std::promise<absl::Status> finished;
  SendDriver::Options options;
  options.config = std::move(config);
  options.cache_base = cache.data();
  options.staging = cache.staging.get();
  options.channels = std::move(channels);
  options.callbacks = {
      .finished = [&](const absl::Status& status,
                      const SendReport&) { finished.set_value(status); },
      .release_blocks = [] {},
      .drop_channel = [] {},
  };
  SendDriver push(std::move(options));
  const TransferMeter meter(receiver);
  std::thread thread([&push] { push.Run(); });
  AnnounceAll(transfer, cache, push);
  const absl::Status status = finished.get_future().get();
  const TransferSample sample = meter.Stop(transfer.bytes());
  thread.join();
  if (!status.ok()) return status;
  return sample;
}

absl::StatusOr<std::vector<TransferSample>> SendPushes(const TransferCase& transfer,
                                                       const std::vector<PushVariant>& variants,
                                                       const std::string& address, pid_t receiver) {
  TuneProcessForBulk();
  BATON_RETURN_IF_ERROR(InitLogging("bench", "warning", "text"));
  BATON_ASSIGN_OR_RETURN(TransferCache cache, TransferCache::Create(transfer, transfer.device));
  cache.Fill();
  StoreAllPageCrcs(transfer, cache);
  Channels channels;  // each with a connection of its own
  uint32_t attempt = 0;
  const auto push = [&](const PushVariant& variant) -> absl::StatusOr<TransferSample> {
    const auto connections = static_cast<size_t>(variant.connections);
    while (channels.size() < connections) {
      BATON_ASSIGN_OR_RETURN(auto channel,
                             MakeChannel(address, Credentials::Loopback(), ChannelPurpose::kBulk));
      channels.push_back(std::move(channel));
    }
    return PushOnce(transfer, cache, SenderConfig(transfer, ++attempt, variant.message_bytes),
                    Channels(channels.begin(), channels.begin() + variant.connections), receiver);
  };
  BATON_RETURN_IF_ERROR(push(variants.front()).status());
  std::vector<TransferSample> samples;
  for (const PushVariant& variant : variants) {
    BATON_ASSIGN_OR_RETURN(const TransferSample sample, push(variant));
    samples.push_back(sample);
  }
  return samples;
}

}  // namespace

absl::StatusOr<std::vector<TransferSample>> MeasureKvPush(
    const TransferCase& transfer, const std::vector<PushVariant>& variants) {
  const auto attempts = static_cast<uint32_t>(variants.size() + 1);
  return RunForkedPair(
      [&](const ReadyFunction& ready) { return ReceivePushes(transfer, attempts, ready); },
      [&](const std::string& address, pid_t receiver) {
        return SendPushes(transfer, variants, address, receiver);
      },
      kTransferTimeout);
}

}  // namespace baton
