// `baton bench serve` puts a load on a running server and measures what its clients see.
#pragma once

#include <string>
#include <vector>

#include "bench/serve/load_run.h"
#include "bench/serve/target/grpc_target.h"
#include "bench/serve/target/http_target.h"
#include "common/certificates/credentials.h"
#include "common/flags/command.h"

namespace baton {

struct BenchServeOptions {
  LoadClass load;                    // the only class, if `classes` is empty
  std::vector<std::string> classes;  // classes in the form of ParseLoadClass
  int vocab_size = 10'000;
  int seed = 1;
  bool json = false;
  std::string html;  // path of a report to write; empty: none
  std::string http;  // URL of an OpenAI server; empty: the router of `grpc`
  LoadOptions run;   // the options that no field above holds
  GrpcTarget::Options grpc;
  HttpTarget::Options http_target;  // its timeout is that of `grpc`
  TlsFlags tls;
  std::string api_key_file;
};

// Prints a table, or JSON, on stdout. The exit code: 0, or 2 with one line on stderr.
class BenchServeCommand : public Command {
 public:
  void AddFlags(FlagSet& flags) override;
  int Run(const FlagSet& flags) override;

 private:
  void AddTargetFlags(FlagSet& flags);
  void AddRunFlags(FlagSet& flags);

  BenchServeOptions options_;
};

}  // namespace baton
