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
#include "common/net/credentials.h"

namespace baton {

struct LoadOptions {
  std::string server;  // host:port
  std::vector<LoadClass> classes;
  LoadObjective objective;
  absl::Duration warmup = absl::Seconds(2);     // of the load, before what is measured
  absl::Duration duration = absl::Seconds(20);  // measured
  absl::Duration timeout = absl::Seconds(120);  // of a request
  int connections = 4;
  uint32_t vocab_size = 10'000;
  uint64_t seed = 1;
};

// One thread does all of it: it sends what is due, then waits for the next message or the next
// arrival, whichever is first. So no request waits for the answer to another, and a server that
// falls behind shows in the latency of what was sent meanwhile.
class LoadRun {
 public:
  // The error names a class, its trace or the server's address.
  static absl::StatusOr<std::unique_ptr<LoadRun>> Create(const LoadOptions& options,
                                                         const Credentials& credentials);
  ~LoadRun();

  // Returns when all requests have ended. Once.
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
  // Ends the streams of concurrencies, which would otherwise go on for ever.
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
