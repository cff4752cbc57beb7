// Sends a load to a router and measures what comes back.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "baton/v1/generation.grpc.pb.h"
#include "bench/serve/load_report.h"
#include "bench/serve/load_source.h"
#include "common/certificates/credentials.h"
#include "common/net/client_key.h"

namespace baton {

struct LoadOptions {
  std::string server;  // host:port
  std::vector<LoadClass> classes;
  LoadObjective objective;
  absl::Duration warmup = absl::Seconds(2);     // time under load before the measured window
  absl::Duration duration = absl::Seconds(20);  // length of the measured window
  absl::Duration timeout = absl::Seconds(120);  // deadline of each request
  int connections = 4;
  uint32_t vocab_size = 10'000;  // prompts have token ids below it
  uint64_t seed = 1;
  ClientKey key{};  // shown in every request
};

// The load generator. Use it on one thread, which does all the work: it sends the requests that are
// due, then waits for the next message or the next arrival, whichever is first. So no request waits
// for the answer to another, and the latency of later requests shows when the server falls behind.
class LoadRun {
 public:
  // The error names a class, its trace or the server's address.
  static absl::StatusOr<std::unique_ptr<LoadRun>> Create(const LoadOptions& options,
                                                         const Credentials& credentials);
  ~LoadRun();

  // Sends the load and returns when all requests have ended. Call it once.
  LoadReport Run();

 private:
  struct Class;
  struct Stream;

  explicit LoadRun(const LoadOptions& options);
  void SendDue(absl::Time now);
  void Send(Class& load, absl::Time intended);
  void Handle(Stream& stream, bool ok);
  void Take(Stream& stream, const v1::GenerateResponse& response, absl::Time now);
  void End(Stream& stream, absl::Time now);
  void Count(const Stream& stream, const absl::Status& status, absl::Time now);
  // Cancels the streams of classes with a concurrency: at the end of the load nobody needs them.
  void CutStreams();
  absl::Time NextArrival() const;
  bool Measured(absl::Time at) const { return at >= measure_from_ && at < measure_until_; }

  const LoadOptions options_;
  std::vector<std::unique_ptr<v1::GenerationService::Stub>> stubs_;  // [connections]
  std::vector<std::unique_ptr<Class>> classes_;
  std::list<Stream> streams_;
  uint64_t sent_ = 0;
  absl::Time begin_, measure_from_, measure_until_;
  grpc::CompletionQueue queue_;
};

}  // namespace baton
