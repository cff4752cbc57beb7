// The whole inner state of the two machines as bytes: equal bytes, equal futures.
#pragma once

#include <string>

#include "decode_worker/kv_receiver.h"
#include "prefill_worker/kv_sender.h"

namespace baton {

// A friend of both: what a member is not named here does not tell states apart. Left out is only
// what no later action depends on: the report's figures, and what Config fixes.
struct MachineState {
  static void Append(const KvSender& sender, std::string& out);
  static void Append(const KvReceiver& receiver, std::string& out);
};

}  // namespace baton
