#include "bench/transfer/bench_transfer_command.h"

#include <unistd.h>

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "bench/transfer/transfer_bench.h"
#include "bench/transfer/transfer_report.h"
#include "common/backend/cpu/peaks.h"
#include "common/base/kv_type_name.h"
#include "common/base/progress_line.h"
#include "common/base/standard_output.h"
#include "common/base/status_macros.h"
#include "common/flags/flag_group.h"
#include "common/flags/shared_helps.h"
#include "common/rpc/limits.h"
#include "common/worker/worker_flags.h"

namespace baton {
namespace {

constexpr char kProgram[] = "baton bench transfer";
constexpr int kMinTriedBytes = 16 << 10;
constexpr int kMaxTriedBytes = 64 << 20;
constexpr int kMaxRounds = 1000;
constexpr size_t kUsualCallBytes = size_t{1} << 20;  // bytes of a socket's call, a protobuf's field
constexpr int kUsualConnections = 2;                 // default of a worker's --kv-connections
// Samples in each round of the headline figures: pushes with and without checks, calls of 1 MiB.
constexpr size_t kSamplesARound = 3;

absl::Status CheckOptions(const BenchTransferOptions& options) {
  if (options.message_bytes.empty()) {
    return absl::InvalidArgumentError("--message: name at least one size");
  }
  if (options.connections.empty()) {
    return absl::InvalidArgumentError("--connections: give at least one number");
  }
  return absl::OkStatus();
}

using Samples = std::vector<TransferSample>;

// Measures all participants in turn, so that a time when the machine is slower affects all of them.
class Rounds {
 public:
  Rounds(const BenchTransferOptions& options, const TransferCase& transfer)
      : options_(options),
        transfer_(transfer),
        variants_(kSamplesARound, {.connections = kUsualConnections}),
        calls_(kSamplesARound, kUsualCallBytes) {
    for (const int connections : options.connections) {
      for (const int bytes : options.message_bytes) {
        variants_.push_back(
            {.message_bytes = static_cast<size_t>(bytes), .connections = connections});
      }
    }
    calls_.insert(calls_.end(), options.message_bytes.begin(), options.message_bytes.end());
    pushes_.resize(variants_.size());
    sockets_.resize(calls_.size());
  }

  absl::Status Run() {
    BATON_ASSIGN_OR_RETURN(const Samples pushed, MeasureKvPush(transfer_, variants_));
    BATON_RETURN_IF_ERROR(RunUnchecked());
    BATON_ASSIGN_OR_RETURN(const Samples sockets, MeasureSocket(transfer_, calls_));
    BATON_ASSIGN_OR_RETURN(const Samples protobufs,
                           MeasureProtobufBytes(transfer_, {kUsualCallBytes}));
    if (pushed.size() != variants_.size() || sockets.size() != calls_.size() ||
        protobufs.size() != 1) {
      return absl::InternalError("a participant gave fewer figures than it was asked for");
    }
    for (size_t i = 0; i < pushed.size(); ++i) pushes_[i].push_back(pushed[i]);
    for (size_t i = 0; i < sockets.size(); ++i) sockets_[i].push_back(sockets[i]);
    protobuf_.push_back(protobufs[0]);
    return absl::OkStatus();
  }

  TransferReport Report() const {
    TransferReport report{.cpu = CpuName(),
                          .device = options_.device,
                          .shape = options_.shape,
                          .kv_wire_dtype = options_.kv_wire_dtype,
                          .bytes = transfer_.bytes(),
                          .push = MedianOf(FirstSamples(pushes_)),
                          .socket = MedianOf(FirstSamples(sockets_)),
                          .protobuf = MedianOf(protobuf_),
                          .crc_share = std::nullopt,
                          .sweep = {}};
    if (!unchecked_.empty()) report.crc_share = CheckShare(FirstSamples(pushes_), unchecked_);
    const size_t sizes = options_.message_bytes.size();
    for (size_t i = kSamplesARound; i < variants_.size(); ++i) {
      const size_t call = kSamplesARound + (i - kSamplesARound) % sizes;
      report.sweep.push_back({.bytes = *variants_[i].message_bytes,
                              .connections = variants_[i].connections,
                              .push = MedianOf(pushes_[i]),
                              .socket = MedianOf(sockets_[call])});
    }
    return report;
  }

 private:
  absl::Status RunUnchecked() {
    if (options_.unchecked_program.empty()) return absl::OkStatus();
    BATON_ASSIGN_OR_RETURN(
        const Samples unchecked,
        RunMeasuringProgram(
            {options_.unchecked_program, options_.shape, absl::StrCat(options_.bytes),
             absl::StrCat(kUsualConnections), absl::StrCat(kSamplesARound), options_.device,
             options_.kv_wire_dtype, absl::StrCat(options_.copy_threads)},
            kTransferTimeout));
    if (unchecked.size() != kSamplesARound) {
      return absl::InternalError("a participant gave fewer figures than it was asked for");
    }
    unchecked_.insert(unchecked_.end(), unchecked.begin(), unchecked.end());
    return absl::OkStatus();
  }

  // The first kSamplesARound entries, which measure the same thing, in the order of the rounds.
  static Samples FirstSamples(const std::vector<Samples>& by_entry) {
    Samples samples;
    for (size_t round = 0; round < by_entry.front().size(); ++round) {
      for (size_t i = 0; i < kSamplesARound; ++i) samples.push_back(by_entry[i][round]);
    }
    return samples;
  }

  const BenchTransferOptions& options_;
  const TransferCase& transfer_;
  std::vector<PushVariant> variants_;  // kSamplesARound usual pushes, then those of the sweep
  std::vector<size_t> calls_;          // bytes: kSamplesARound usual calls, then those of the sweep
  std::vector<Samples> pushes_;        // [variants_][rounds]
  std::vector<Samples> sockets_;       // [calls_][rounds]
  Samples unchecked_;                  // kSamplesARound samples of each round
  Samples protobuf_;                   // one sample of each round
};

absl::StatusOr<TransferReport> Measure(const BenchTransferOptions& options) {
  BATON_RETURN_IF_ERROR(CheckOptions(options));
  BATON_ASSIGN_OR_RETURN(TransferCase transfer, TransferCaseFor(options.shape, options.bytes));
  transfer.device = options.device;
  transfer.copy_threads = options.copy_threads;
  BATON_RETURN_IF_ERROR(SetWireType(options.kv_wire_dtype, transfer));
  Rounds rounds(options, transfer);
  ProgressLine progress("moving KV caches");
  for (int round = 0; round < options.rounds; ++round) {
    progress.Tick(static_cast<double>(round) / options.rounds);
    BATON_RETURN_IF_ERROR(rounds.Run());
  }
  return rounds.Report();
}

}  // namespace

void BenchTransferCommand::AddFlags(FlagSet& flags) {
  flags.SetGroup(FlagGroup::kGeneral);
  flags.AddString("shape=NAME", options_.shape,
                  "Model whose KV cache is sent; `baton bench engine --help` lists the names");
  flags.AddBytes("bytes", options_.bytes, "Approximate size of the KV cache");
  flags.AddString("device=cpu|cuda|cuda:N", options_.device,
                  "Device whose memory holds both KV caches, the sender's and the receiver's");
  flags.AddString("kv-wire-dtype", options_.kv_wire_dtype,
                  "Type of the KV values that are sent; the KV caches are f16, so the sender "
                  "converts to any other type and the receiver back",
                  KvTypeNamesAndAuto());
  flags.AddInt("kv-copy-threads", options_.copy_threads, 0, kMaxCopyThreads,
               "Threads on each side for checksums, conversions and copies if the KV caches are on "
               "a GPU; 0: by the number of CPUs, as in a worker");
  flags.AddInts("message", options_.message_bytes, kMinTriedBytes, kMaxTriedBytes,
                "Sizes to try, in bytes, for gRPC messages that carry KV and for the writes of the "
                "plain-socket comparison");
  flags.AddInts("connections", options_.connections, 1, kMaxKvStreams,
                "Numbers of connections to try");
  flags.AddInt(
      "rounds", options_.rounds, 1, kMaxRounds,
      "Number of rounds, each of which measures everything in turn; the report shows medians");
  flags.AddBool("json", options_.json, kJsonHelp);
  flags.AddExample("baton bench transfer", "Measure with the KV cache of an 8B model");
  flags.AddExample("baton bench transfer --shape llama-3.2-1b --bytes 64MiB --rounds 9",
                   "Measure with a smaller KV cache, in more rounds");
}

int BenchTransferCommand::Run(const FlagSet&) {
  const std::string unchecked = ProgramFolder() + "/baton-bench-unchecked";
  if (access(unchecked.c_str(), X_OK) == 0) options_.unchecked_program = unchecked;
  const absl::StatusOr<TransferReport> report = Measure(options_);
  if (!report.ok()) return ExitUsage(kProgram, report.status());
  const std::string text = options_.json ? FormatJson(*report) + "\n" : FormatTable(*report);
  WriteOutput(text);
  return 0;
}

}  // namespace baton
