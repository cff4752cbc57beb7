// Whether the addresses that servers are to open are free.
#pragma once

#include <string>

#include "absl/status/status.h"

#include "client/doctor/finding.h"

namespace baton {

// A process that listens on a port.
struct PortHolder {
  int pid = 0;            // 0: no process, or one of another user, which /proc hides
  std::string program{};  // its name, at most 15 bytes
};

struct PortFacts {
  std::string server{};   // owner of the address: a file, or "baton serve"
  std::string flag{};     // such as "--listen"
  std::string address{};  // host:port
  bool chosen = true;     // the file has it; else a default, which another flag may replace
  absl::Status listen{};  // whether a server could listen there now
  PortHolder holder{};    // process that has opened the port
};

// `root` is before /proc; empty: this machine's own.
PortFacts GatherPortFacts(const std::string& server, const std::string& flag,
                          const std::string& address, const std::string& root = "");

// Whether it is a part of Baton that holds the port, so that it runs already.
bool HeldByBaton(const PortFacts& facts);

// port.free. Pure.
Finding PortFinding(const PortFacts& facts);

}  // namespace baton
