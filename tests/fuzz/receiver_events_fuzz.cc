// Everything that can happen to a receiver, in any order: a byte of the input is an event, those
// after it its details.
#include "google/protobuf/stubs/logging.h"

#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/receiver_harness.h"

namespace baton {
namespace {

using internal::v1::PushRequest;

void SendData(ReceiverHarness& harness, PushStreamId stream, FuzzInput& input) {
  const int layer = input.Below(ReceiverHarness::kLayers);
  const int layers = 1 + input.Below(ReceiverHarness::kLayers - layer);
  const int first = input.Below(4);
  const int end = first + 1 + input.Below(4 - first);
  std::string bytes = harness.Data(harness.Header(layer, layers, first, end, input.Byte()));
  const uint8_t damage = input.Byte();
  if (damage & 1) bytes[bytes.size() - 1 - damage % 32] ^= 4;  // in the payload
  if (damage == 254) bytes.resize(bytes.size() - 8);
  harness.Arrive(stream, bytes);
}

void SendControl(ReceiverHarness& harness, PushStreamId stream, FuzzInput& input) {
  PushRequest message;
  switch (input.Below(6)) {
    case 0:
      message = harness.Open();
      if (input.Below(8) == 7) message.mutable_open()->set_capability("guessed");
      break;
    case 1:
      message = harness.Checkpoint(kKvPageTokens * (1 + input.Below(3)));
      break;
    case 2:
      message = harness.Commit();
      if (input.Below(8) == 7) message.mutable_commit()->mutable_digest()->at(3) ^= 1;
      break;
    case 3:
      message.mutable_abort()->set_reason(internal::v1::PushAbort::REASON_CANCELLED);
      break;
    case 4: {
      const PushRequest open = harness.Open();
      *message.mutable_join()->mutable_key() = open.open().key();
      message.mutable_join()->set_capability(open.open().capability());
      break;
    }
    default:
      return harness.Do(ReceiveEvent::ControlReceived{stream, message});  // an empty one
  }
  harness.Arrive(stream, message.SerializeAsString());
}

void OneEvent(ReceiverHarness& harness, FuzzInput& input) {
  const int kind = input.Below(16);
  const auto stream = static_cast<PushStreamId>(1 + input.Below(3));
  switch (kind) {
    case 0:
    case 1:
      return SendControl(harness, stream, input);
    case 2:
      return harness.Grant(kKvPageTokens * input.Below(4));
    case 3:
      return harness.Do(ReceiveEvent::Malformed{stream, "not a message"});
    case 4:
      return harness.Do(ReceiveEvent::StreamLost{stream});
    case 5:
      return harness.Do(ReceiveEvent::Cancelled{});
    case 6:
      return harness.Pass(absl::Seconds(input.Byte()));
    case 7:
    case 8:
    case 9:
    case 10: {
      const uint8_t how = input.Byte();
      return harness.FinishCopy(input.Byte(), how != 255, how % 16 == 15);
    }
    default:
      return SendData(harness, stream, input);
  }
}

void Run(FuzzInput input) {
  ReceiverHarness harness;
  // Most inputs open the push first, so that the rest is worth something.
  if (input.Byte() % 8 != 0) {
    harness.Arrive(1, harness.Open().SerializeAsString());
    harness.Grant(kKvPageTokens * input.Below(3));
  }
  while (!input.empty()) OneEvent(harness, input);
  harness.End();
}

}  // namespace
}  // namespace baton

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static google::protobuf::LogSilencer silencer;
  baton::Run(baton::FuzzInput(data, size));
  return 0;
}
