// The whole inner state of the two machines as bytes: equal bytes, equal futures.
#pragma once

#include <string>

#include "decode_worker/receive_machine.h"
#include "prefill_worker/send_machine.h"

namespace baton {

// A friend of both: what a member is not named here does not tell states apart. Left out is only
// what no later action depends on: the report's figures, and what Config fixes.
struct MachineState {
  static void Append(const SendMachine& sender, std::string& out);
  static void Append(const ReceiveMachine& receiver, std::string& out);
};

}  // namespace baton
