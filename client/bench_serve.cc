#include "client/bench_serve.h"

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"
#include "common/rpc/flags.h"

namespace baton {
namespace {

absl::StatusOr<LoadReport> Measure(const BenchServeOptions& options) {
  LoadOptions run = options.run;
  run.vocab_size = static_cast<uint32_t>(options.vocab_size);
  run.seed = static_cast<uint64_t>(options.seed);
  for (const std::string& text : options.classes) {
    BATON_ASSIGN_OR_RETURN(LoadClass load, ParseLoadClass(text));
    run.classes.push_back(std::move(load));
  }
  if (run.classes.empty()) run.classes = {options.load};
  BATON_ASSIGN_OR_RETURN(run.objective, ParseLoadObjective(options.objective));
  BATON_ASSIGN_OR_RETURN(const Credentials credentials, Credentials::Create(options.tls));
  BATON_ASSIGN_OR_RETURN(const auto load, LoadRun::Create(run, credentials));
  return load->Run();
}

}  // namespace

int BenchServeCommand(const BenchServeOptions& options) {
  const absl::StatusOr<LoadReport> report = Measure(options);
  if (!report.ok()) return ExitUsage("baton bench serve", report.status());
  const std::string text = options.json ? FormatJson(*report) + "\n" : FormatTable(*report);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace baton
