#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"

#include "bench/model/random_model.h"
#include "bench/transfer/transfer_bench.h"
#include "common/backend/cpu/machine/cpu_set.h"
#include "common/backend/make_backend.h"
#include "common/base/kv_type_name.h"
#include "common/base/status_macros.h"
#include "common/worker/worker_flags.h"

namespace baton {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{64} << 30;
constexpr uint64_t kBelowTwo = 0xbfffbfffbfffbfff;  // no upper bit in the exponents of four f16

}  // namespace

absl::StatusOr<TransferCase> TransferCaseFor(const std::string& shape, uint64_t bytes) {
  BATON_ASSIGN_OR_RETURN(const ModelShape model, FindModelShape(shape));
  TransferCase transfer;
  transfer.layout.layers = model.layers;
  transfer.layout.kv_heads = model.kv_heads;
  transfer.layout.head_dim = model.head_dim;
  const uint64_t block_bytes = transfer.layout.block_bytes();
  if (bytes < block_bytes || bytes > kMaxBytes) {
    return absl::InvalidArgumentError(absl::StrCat("--bytes ", bytes, ": must be ", block_bytes,
                                                   " (a block of ", shape, ") to ", kMaxBytes));
  }
  transfer.tokens = static_cast<int>(bytes / block_bytes) * transfer.layout.block_size;
  return transfer;
}

absl::Status SetWireType(const std::string& name, TransferCase& transfer) {
  if (name == "auto") return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(transfer.wire, KvTypeFromName(name));
  const int head_dim = transfer.layout.head_dim;
  if (TakesHeadDim(transfer.wire, static_cast<size_t>(head_dim))) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--kv-wire-dtype ", name,
                                                 ": does not support heads of ", head_dim,
                                                 " values; take another type or --shape"));
}

absl::StatusOr<TransferCache> TransferCache::Create(const TransferCase& transfer,
                                                    const std::string& device) {
  TransferCache created;
  BATON_ASSIGN_OR_RETURN(created.backend,
                         MakeBackend({.device = device, .threads = 1, .cpu_set = ""}));
  const int blocks = transfer.layout.BlocksFor(transfer.tokens);
  BATON_ASSIGN_OR_RETURN(created.cache, KvCache::Create(*created.backend, transfer.layout, blocks));
  if (!created.cache->host_memory()) {
    BATON_ASSIGN_OR_RETURN(
        created.staging,
        KvStaging::Create(*created.cache,
                          {.chunk_tokens = transfer.chunk_tokens,
                           .helpers = CopyHelpers(transfer.copy_threads, AvailableCpus())}));
  }
  created.block_table.resize(static_cast<size_t>(blocks));
  std::iota(created.block_table.begin(), created.block_table.end(), 0);
  std::shuffle(created.block_table.begin(), created.block_table.end(), std::mt19937(1));
  return created;
}

void TransferCache::Fill() {
  std::vector<uint64_t> block(cache->layout().block_bytes() / sizeof(uint64_t));
  uint64_t state = 1;
  for (int32_t i = 0; i < cache->block_count(); ++i) {
    for (uint64_t& word : block) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      word = state & kBelowTwo;
    }
    backend->Upload(block.data(), block.size() * sizeof(uint64_t), cache->Block(i));
  }
}

}  // namespace baton
