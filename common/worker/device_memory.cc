#include "common/worker/device_memory.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace baton {
namespace {

constexpr uint64_t kLeastBlocks = 2;
// 1/kFreeParts of the free memory stays free, because the device rounds allocations up.
constexpr uint64_t kFreeParts = 64;

constexpr const char* kMakeRoom =
    "use a file of a narrower type (such as Q8_0 or Q4_K), lower --max-num-batched-tokens, "
    "--max-num-seqs or --max-model-len, raise --gpu-memory-utilization, end other programs that "
    "use the GPU, or use --device cpu";

std::string Size(uint64_t bytes) {
  constexpr double kMebi = 1 << 20;
  const double mebi = static_cast<double>(bytes) / kMebi;
  return mebi < 1024 ? absl::StrFormat("%.1f MiB", mebi) : absl::StrFormat("%.2f GiB", mebi / 1024);
}

uint64_t Budget(double utilization, const DeviceMemoryUse& memory) {
  return std::min(memory.total,
                  static_cast<uint64_t>(static_cast<double>(memory.total) * utilization));
}

// A text such as "--gpu-memory-utilization 0.90 of 139.80 GiB".
std::string ShareText(const MemoryOptions& options, const DeviceMemoryUse& memory) {
  return absl::StrFormat("--gpu-memory-utilization %.2f of %s", options.gpu_utilization,
                         Size(memory.total));
}

// The error for less free memory than the share.
absl::Status ShareIsTaken(const MemoryOptions& options, const DeviceMemoryUse& memory,
                          uint64_t available) {
  const auto percent =
      static_cast<int>(100.0 * static_cast<double>(available) / static_cast<double>(memory.total));
  const std::string lower =
      percent > 0 ? absl::StrFormat("lower it to %.2f, or ", percent / 100.0) : "";
  return absl::ResourceExhaustedError(absl::StrCat(
      ShareText(options, memory), " is ", Size(Budget(options.gpu_utilization, memory)), ", and ",
      Size(available), " are free; ", lower, "end other programs that use the GPU"));
}

absl::Status KvIsNotFree(const MemoryOptions& options, uint64_t bytes,
                         const DeviceMemoryUse& memory) {
  return absl::ResourceExhaustedError(absl::StrCat(
      options.num_kv_blocks > 0 ? "--num-kv-blocks" : "--kv-cache-memory-bytes", ": ", Size(bytes),
      " of KV cache are needed, but only ", Size(memory.free), " of ", Size(memory.total),
      " are free; lower it, or leave it out to use what --gpu-memory-utilization allows"));
}

}  // namespace

absl::Status CheckMemoryOptions(const MemoryOptions& options) {
  if (options.num_kv_blocks < 0) {
    return absl::InvalidArgumentError("--num-kv-blocks: must not be negative");
  }
  if (options.num_kv_blocks > 0 && options.kv_cache_memory_bytes > 0) {
    return absl::InvalidArgumentError(
        "--num-kv-blocks and --kv-cache-memory-bytes both set the size of the KV cache; give one "
        "of them");
  }
  if (options.gpu_utilization > 0 && options.gpu_utilization <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--gpu-memory-utilization: ", options.gpu_utilization,
                   " is not a fraction of the GPU's memory; it must be above 0 and at most 1"));
}

absl::Status CheckWeightsFit(uint64_t weight_bytes, const MemoryOptions& options,
                             const DeviceMemoryUse& memory) {
  uint64_t available = memory.free + memory.taken;
  if (!options.kv_is_given()) {
    const uint64_t budget = Budget(options.gpu_utilization, memory);
    if (available < budget) return ShareIsTaken(options, memory, available);
    available = budget;
  }
  if (weight_bytes + memory.taken < available) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the model does not fit: its weights need ", Size(weight_bytes), ", and ",
                   options.kv_is_given() ? "" : absl::StrCat(ShareText(options, memory), " is "),
                   Size(available), options.kv_is_given() ? " are free" : "", "; ", kMakeRoom));
}

absl::StatusOr<int> DeviceKvBlocks(const MemoryOptions& options, uint64_t block_bytes,
                                   const DeviceMemoryUse& memory) {
  uint64_t bytes = options.kv_cache_memory_bytes;
  if (options.num_kv_blocks > 0) bytes = static_cast<uint64_t>(options.num_kv_blocks) * block_bytes;
  if (options.kv_is_given() && bytes > memory.free) return KvIsNotFree(options, bytes, memory);
  if (options.num_kv_blocks > 0) return options.num_kv_blocks;
  if (!options.kv_is_given()) {
    const uint64_t budget = Budget(options.gpu_utilization, memory);
    bytes =
        std::min(budget - std::min(budget, memory.taken), memory.free - memory.free / kFreeParts);
  }
  const uint64_t blocks = bytes / block_bytes;
  if (blocks >= kLeastBlocks) return static_cast<int>(std::min<uint64_t>(blocks, kMaxKvBlocks));
  if (options.kv_is_given()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("--kv-cache-memory-bytes: ", bytes, " hold ", blocks, " blocks of ",
                     block_bytes, " bytes, but at least 2 blocks are needed; raise it"));
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "the model does not fit: its weights and the largest step take ", Size(memory.taken),
      ", and two blocks of KV cache need ", Size(kLeastBlocks * block_bytes), "; ",
      ShareText(options, memory), " is ", Size(Budget(options.gpu_utilization, memory)), ", and ",
      Size(memory.free), " are free; ", kMakeRoom));
}

absl::Status WithDeviceMemoryAdvice(const absl::Status& status) {
  if (status.code() != absl::StatusCode::kResourceExhausted) return status;
  return absl::ResourceExhaustedError(
      absl::StrCat("the model does not fit: ", status.message(), "; ", kMakeRoom));
}

}  // namespace baton
