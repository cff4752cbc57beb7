// baton-bench-unchecked SHAPE BYTES CONNECTIONS PUSHES DEVICE WIRE COPY_THREADS
// Measures the pushes of `baton bench transfer` without CRCs and digests, to see what these cost.
// The linker puts the two functions below in the place of the real ones (--wrap), in this program
// only: no flag of Baton can leave out a check.
#include <string>
#include <vector>

#include "absl/strings/numbers.h"

#include "bench/transfer/forked_pair.h"
#include "bench/transfer/transfer_bench.h"
#include "common/base/crc32c.h"
#include "common/base/standard_output.h"
#include "common/base/status_macros.h"
#include "common/flags/flags.h"
#include "common/handoff/kv_digest.h"
#include "common/rpc/limits.h"
#include "common/worker/worker_flags.h"

namespace baton {

uint32_t NoCrc32c(uint32_t crc, const void* data,
                  size_t size) __asm__("__wrap__ZN5baton12ExtendCrc32cEjPKvm");
std::string NoDigest(KvDigester* digester, const KvDigestInput& input) __asm__(
    "__wrap__ZN5baton10KvDigester6DigestB5cxx11ERKNS_13KvDigestInputE");

uint32_t NoCrc32c(uint32_t, const void*, size_t) { return 0; }
std::string NoDigest(KvDigester*, const KvDigestInput&) { return "unchecked"; }

namespace {

constexpr char kProgram[] = "baton-bench-unchecked";

// Checks that the linker has replaced both functions. It finds them by their mangled names, which
// change with their signatures.
absl::Status CheckUnchecked() {
  const internal::v1::ModelIdentity identity;
  const PageCrcTable crcs(1, 1);
  const std::string digest = KvDigester().Digest(
      {.identity = identity, .token_ids = {}, .first_tokens = {}, .crcs = crcs});
  if (Crc32c("123456789", 9) == 0 && digest == "unchecked") return absl::OkStatus();
  return absl::InternalError("this build checks all the same");
}

absl::StatusOr<std::vector<TransferSample>> Measure(int argc, char** argv) {
  uint64_t bytes = 0;
  int connections = 0;
  size_t pushes = 0;
  int copy_threads = 0;
  if (argc != 8 || !absl::SimpleAtoi(argv[2], &bytes) || !absl::SimpleAtoi(argv[3], &connections) ||
      !absl::SimpleAtoi(argv[4], &pushes) || !absl::SimpleAtoi(argv[7], &copy_threads) ||
      copy_threads < 0 || copy_threads > kMaxCopyThreads || connections < 1 ||
      connections > kMaxKvStreams || pushes == 0) {
    return absl::InvalidArgumentError(
        "expected SHAPE BYTES CONNECTIONS PUSHES DEVICE WIRE COPY_THREADS, written as for `baton "
        "bench transfer`");
  }
  BATON_RETURN_IF_ERROR(CheckUnchecked());
  BATON_ASSIGN_OR_RETURN(TransferCase transfer, TransferCaseFor(argv[1], bytes));
  transfer.device = argv[5];
  transfer.copy_threads = copy_threads;
  BATON_RETURN_IF_ERROR(SetWireType(argv[6], transfer));
  return MeasureKvPush(transfer, std::vector<PushVariant>(pushes, {.connections = connections}));
}

int Main(int argc, char** argv) {
  const auto samples = Measure(argc, argv);
  if (!samples.ok()) return ExitUsage(kProgram, samples.status());
  WriteOutput(EncodeSamples(*samples) + "\n");
  return 0;
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) { return baton::Main(argc, argv); }
