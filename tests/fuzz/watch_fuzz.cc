// What a worker says of itself on Watch: any messages leave the router's picture of it consistent.
//
// The input is messages, each after two bytes of length.
#include <algorithm>
#include <string>
#include <vector>

#include "google/protobuf/stubs/logging.h"

#include "common/base/check.h"
#include "common/base/prefix_hash.h"
#include "router/fleet/worker.h"
#include "router/fleet/worker_pages.h"
#include "tests/fuzz/fuzz_input.h"

namespace baton {
namespace {

void Run(FuzzInput input) {
  const std::vector<int32_t> prompt(size_t{8} * kPrefixPageTokens, 7);
  Worker worker;
  worker.id = 1;
  worker.prefix_root = PrefixRoot("model");
  WorkerPages pages;
  pages.Add(worker);
  pages.List(worker);
  size_t most = 0;
  while (!input.empty()) {
    const size_t low = input.Byte();
    internal::v1::WatchResponse message;
    if (!message.ParseFromString(input.Bytes(low | static_cast<size_t>(input.Byte()) << 8))) break;
    if (message.has_info()) (void)DescribeWorker(message.info());
    if (message.has_prefix()) {
      const auto added = static_cast<size_t>(message.prefix().added_size());
      most = message.prefix().full() ? std::max(most, added) : most + added;
      if (!pages.Apply(worker, message.prefix())) pages.Forget(worker);
    }
    BATON_CHECK(pages.pages(worker) <= most, "no page that was not told");
    for (const ReadyWorkers::Held& held : pages.Find(prompt, "")) {
      BATON_CHECK(held.worker_id == worker.id && held.tokens <= prompt.size(),
                  "a hit must be of this worker and in the prompt");
    }
  }
  pages.Unlist(worker);
  pages.Remove(worker);
  BATON_CHECK(pages.Find(prompt, "").empty(), "nothing of it stays");
}

}  // namespace
}  // namespace baton

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static google::protobuf::LogSilencer silencer;
  baton::Run(baton::FuzzInput(data, size));
  return 0;
}
