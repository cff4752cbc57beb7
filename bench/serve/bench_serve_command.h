// `baton bench serve`: an open-loop load on a router that runs, and what its clients see.
#pragma once

#include <string>
#include <vector>

#include "bench/serve/load_run.h"
#include "common/flags/command.h"
#include "common/net/credentials.h"

namespace baton {

struct BenchServeOptions {
  LoadClass load;                    // the only class, where `classes` is empty
  std::vector<std::string> classes;  // as ParseLoadClass takes them
  std::string objective;             // as ParseLoadObjective takes it
  int vocab_size = 10'000;
  int seed = 1;
  bool json = false;
  LoadOptions run;  // what is not above
  TlsFlags tls;
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
