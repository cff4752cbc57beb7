// Bytes off the network: messages of any form into a receiver that expects a push.
//
// An input is a byte that says how far the push has come, then messages: a byte of kind, one of
// stream, two of length, the bytes. Kind 1 has a header and a payload in a right envelope with a
// right CRC; kind 2 is a right message with one byte changed; others are the bytes as they come.
#include "google/protobuf/stubs/logging.h"

#include "common/base/crc32c.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/receiver_harness.h"

namespace baton {
namespace {

void OneMessage(ReceiverHarness& harness, FuzzInput& input) {
  const int kind = input.Below(4);
  const auto stream = static_cast<PushStreamId>(1 + input.Below(2));
  const size_t low = input.Byte();
  const size_t length = low | static_cast<size_t>(input.Byte()) << 8;
  if (kind == 1) {
    const std::string header = input.Bytes(input.Byte());
    const std::string payload = input.Bytes(length);
    if (header.empty() || payload.empty()) return;
    const uint32_t crc = Crc32c(header.data(), header.size());
    return harness.Arrive(stream, EncodeKvDataPrefix(header, crc, payload.size()) + payload);
  }
  if (kind == 2) {
    const int layer = input.Below(ReceiverHarness::kLayers);
    const int first = input.Below(4);
    const int end = first + 1 + input.Below(4 - first);
    std::string bytes = harness.Data(harness.Header(layer, 1, first, end, input.Byte()));
    bytes[length % bytes.size()] ^= static_cast<char>(input.Byte());
    return harness.Arrive(stream, bytes);
  }
  harness.Arrive(stream, input.Bytes(length));
}

void Run(FuzzInput input) {
  ReceiverHarness harness;
  const uint8_t progress = input.Byte();
  if (progress & 1) harness.Arrive(1, harness.Open().SerializeAsString());
  if (progress & 2) harness.Grant(progress & 4 ? kKvPageTokens : 0);
  while (!input.empty()) {
    OneMessage(harness, input);
    if ((progress & 8) == 0) harness.FinishCopy(0, true, false);
  }
  if (progress & 16) harness.Arrive(1, harness.Commit().SerializeAsString());
  harness.End();
}

}  // namespace
}  // namespace baton

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static google::protobuf::LogSilencer silencer;
  baton::Run(baton::FuzzInput(data, size));
  return 0;
}
