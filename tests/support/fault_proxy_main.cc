// fault_proxy TARGET_PORT [SEED]: a FaultProxy that a script controls by lines on standard input.
//
//   set up|down|both FAULTS   sets the faults that ParseLinkFaults reads; all others are off
//   heal                      removes all faults
//   cut | crash               closes or resets all open connections
//   refuse on|off             whether new connections are reset
//   stats                     answers with the numbers of FaultProxy::Stats
//
// Prints "port N" first, then one line for each line read: "ok ..." or "error ...". Ends when its
// input ends.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "tests/support/fault_proxy.h"

namespace baton {
namespace {

absl::Status Set(FaultProxy& proxy, absl::string_view arguments) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(arguments, absl::MaxSplits(' ', 1));
  const absl::StatusOr<LinkFaults> faults = ParseLinkFaults(parts.second);
  if (!faults.ok()) return faults.status();
  const bool both = parts.first == "both";
  if (!both && parts.first != "up" && parts.first != "down") {
    return absl::InvalidArgumentError("set up, down or both");
  }
  if (both || parts.first == "up") proxy.SetFaults(FaultProxy::Direction::kUp, *faults);
  if (both || parts.first == "down") proxy.SetFaults(FaultProxy::Direction::kDown, *faults);
  return absl::OkStatus();
}

std::string StatsText(const FaultProxy::Stats& stats) {
  return absl::StrCat("ok connections=", stats.connections, " open=", stats.open,
                      " bytes_up=", stats.bytes_up, " bytes_down=", stats.bytes_down,
                      " swallowed=", stats.swallowed, " flips=", stats.flips,
                      " resets=", stats.resets);
}

std::string Answer(FaultProxy& proxy, absl::string_view line) {
  if (line == "stats") return StatsText(proxy.stats());
  if (absl::ConsumePrefix(&line, "set ")) {
    const absl::Status status = Set(proxy, line);
    return status.ok() ? "ok" : absl::StrCat("error ", status.message());
  }
  if (line == "heal") {
    proxy.Heal();
  } else if (line == "cut" || line == "crash") {
    proxy.Cut(line == "crash");
  } else if (line == "refuse on" || line == "refuse off") {
    proxy.SetRefuse(absl::EndsWith(line, "on"));
  } else {
    return absl::StrCat("error no such command: ", line);
  }
  return "ok";
}

int Main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: fault_proxy TARGET_PORT [SEED]\n");
    return 2;
  }
  const auto target = static_cast<uint16_t>(std::atoi(argv[1]));
  const uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  const auto proxy = FaultProxy::Start(target, seed);
  if (!proxy.ok()) {
    std::fprintf(stderr, "fault_proxy: %s\n", std::string(proxy.status().message()).c_str());
    return 1;
  }
  std::cout << "port " << (*proxy)->port() << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << Answer(**proxy, line) << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) { return baton::Main(argc, argv); }
