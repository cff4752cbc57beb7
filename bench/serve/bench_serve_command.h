// `baton bench serve` puts an open-loop load on a running router and measures what its clients see.
#pragma once

#include <string>
#include <vector>

#include "bench/serve/load_run.h"
#include "common/certificates/credentials.h"
#include "common/flags/command.h"

namespace baton {

struct BenchServeOptions {
  LoadClass load;                    // the only class, if `classes` is empty
  std::vector<std::string> classes;  // classes in the form of ParseLoadClass
  std::string objective;             // objective in the form of ParseLoadObjective
  int vocab_size = 10'000;
  int seed = 1;
  bool json = false;
  LoadOptions run;  // the options that no field above holds
  TlsFlags tls;
  std::string api_key_file;
};

// Prints a table, or JSON, on stdout. The exit code: 0, or 2 with one line on stderr.
class BenchServeCommand : public Command {
 public:
  void AddFlags(FlagSet& flags) override;
  int Run(const FlagSet& flags) override;

 private:
  BenchServeOptions options_;
};

}  // namespace baton
