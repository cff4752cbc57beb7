#include "client/bench_transfer.h"

#include <cstdio>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "client/transfer_bench.h"
#include "client/transfer_report.h"
#include "common/backend/cpu/peaks.h"
#include "common/base/progress_line.h"
#include "common/base/status_macros.h"
#include "common/rpc/flags.h"

namespace baton {
namespace {

constexpr char kProgram[] = "baton bench transfer";
constexpr uint64_t kMinMessageBytes = 16 << 10;
constexpr uint64_t kMaxMessageBytes = 64 << 20;
constexpr int kMaxRounds = 1000;
constexpr size_t kUsualCallBytes = size_t{1} << 20;  // of the socket, and of a protobuf field
// Of what the first figures are about: pushes with and without checks, calls of 1 MiB.
constexpr size_t kSamplesARound = 3;

absl::Status CheckOptions(const BenchTransferOptions& options) {
  if (options.message_bytes.empty()) {
    return absl::InvalidArgumentError("--message: name at least one size");
  }
  for (const uint64_t bytes : options.message_bytes) {
    if (bytes >= kMinMessageBytes && bytes <= kMaxMessageBytes) continue;
    return absl::InvalidArgumentError(absl::StrCat("--message ", bytes, ": must be ",
                                                   kMinMessageBytes, " to ", kMaxMessageBytes));
  }
  if (options.rounds < 1 || options.rounds > kMaxRounds) {
    return absl::InvalidArgumentError(
        absl::StrCat("--rounds ", options.rounds, ": must be 1 to ", kMaxRounds));
  }
  return absl::OkStatus();
}

using Samples = std::vector<TransferSample>;

// All participants in turn, so that a time when the machine was slower meets each of them.
class Rounds {
 public:
  Rounds(const BenchTransferOptions& options, const TransferCase& transfer)
      : options_(options),
        transfer_(transfer),
        messages_(kSamplesARound),
        calls_(kSamplesARound, kUsualCallBytes),
        pushes_(options.message_bytes.size()),
        sockets_(options.message_bytes.size()) {
    messages_.insert(messages_.end(), options.message_bytes.begin(), options.message_bytes.end());
    calls_.insert(calls_.end(), options.message_bytes.begin(), options.message_bytes.end());
  }

  absl::Status Run() {
    BATON_ASSIGN_OR_RETURN(const Samples pushed, MeasureKvPush(transfer_, messages_));
    BATON_ASSIGN_OR_RETURN(
        const Samples unchecked,
        RunMeasuringProgram({options_.unchecked_program, options_.shape,
                             absl::StrCat(options_.bytes), absl::StrCat(kSamplesARound)},
                            kTransferTimeout));
    BATON_ASSIGN_OR_RETURN(const Samples sockets, MeasureSocket(transfer_, calls_));
    BATON_ASSIGN_OR_RETURN(const Samples protobufs,
                           MeasureProtobufBytes(transfer_, {kUsualCallBytes}));
    if (pushed.size() != messages_.size() || unchecked.size() != kSamplesARound ||
        sockets.size() != calls_.size() || protobufs.size() != 1) {
      return absl::InternalError("a participant gave fewer figures than it was asked for");
    }
    for (size_t i = 0; i < kSamplesARound; ++i) {
      checked_.push_back(pushed[i]);
      unchecked_.push_back(unchecked[i]);
      socket_.push_back(sockets[i]);
    }
    protobuf_.push_back(protobufs[0]);
    for (size_t i = 0; i < pushes_.size(); ++i) {
      pushes_[i].push_back(pushed[kSamplesARound + i]);
      sockets_[i].push_back(sockets[kSamplesARound + i]);
    }
    return absl::OkStatus();
  }

  TransferReport Report() const {
    TransferReport report{.cpu = CpuName(),
                          .shape = options_.shape,
                          .bytes = transfer_.bytes(),
                          .push = MedianOf(checked_),
                          .socket = MedianOf(socket_),
                          .protobuf = MedianOf(protobuf_),
                          .crc_share = CheckShare(checked_, unchecked_),
                          .sweep = {}};
    for (size_t i = 0; i < pushes_.size(); ++i) {
      report.sweep.push_back({.bytes = options_.message_bytes[i],
                              .push = MedianOf(pushes_[i]),
                              .socket = MedianOf(sockets_[i])});
    }
    return report;
  }

 private:
  const BenchTransferOptions& options_;
  const TransferCase& transfer_;
  std::vector<std::optional<size_t>> messages_;
  std::vector<size_t> calls_;
  Samples checked_;
  Samples unchecked_;
  Samples socket_;
  Samples protobuf_;
  std::vector<Samples> pushes_;   // [entry of the sweep]
  std::vector<Samples> sockets_;  // [entry of the sweep]
};

absl::StatusOr<TransferReport> Measure(const BenchTransferOptions& options) {
  BATON_RETURN_IF_ERROR(CheckOptions(options));
  BATON_ASSIGN_OR_RETURN(const TransferCase transfer,
                         TransferCaseFor(options.shape, options.bytes));
  Rounds rounds(options, transfer);
  ProgressLine progress("moving KV caches");
  for (int round = 0; round < options.rounds; ++round) {
    progress.Tick(static_cast<double>(round) / options.rounds);
    BATON_RETURN_IF_ERROR(rounds.Run());
  }
  return rounds.Report();
}

}  // namespace

int BenchTransferCommand(const BenchTransferOptions& options) {
  const absl::StatusOr<TransferReport> report = Measure(options);
  if (!report.ok()) return ExitUsage(kProgram, report.status());
  const std::string text = options.json ? FormatJson(*report) + "\n" : FormatTable(*report);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace baton
