// The KV audit between real workers: engines, services and gRPC on loopback, in one process.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/rpc/status.h"
#include "tests/decode_worker/pair_requests.h"
#include "tests/decode_worker/worker_pair.h"

namespace baton {
namespace {

TestWorker::Options Auditing() {
  TestWorker::Options options = WithBlocks(16);
  options.audit_share = 1;
  return options;
}

// One byte of what the worker has cached of a prompt is wrong from now on, with a CRC that agrees:
// only an audit can notice. REQUIRES: the worker is at rest and has computed one prompt only.
void Forge(TestWorker& prefill, int layer) {
  ASSERT_TRUE(prefill.ComesToRest());
  KvCache& cache = prefill.engine().cache();
  for (int32_t block = 0; block < cache.block_count(); ++block) {
    cache.Block(block)[cache.layout().RowOffset(layer, KvLayout::kValues, 3)] ^= 0x40;
    cache.PageCrc(block, layer, 0) = cache.ComputePageCrc(block, layer, 0, kKvPageTokens);
  }
}

HandoffResult Push(TestWorker& prefill, TestWorker& decode, const internal::v1::SequenceSpec& spec,
                   const std::string& pusher) {
  HandoffCalls calls(&prefill, decode, spec);
  calls.SetPusher(pusher);
  return calls.Run();
}

std::string Reason(const grpc::Status& status) { return ErrorReason(FromGrpcStatus(status)); }

// The value of the metric `name`, in the line that has `label`.
int Value(TestWorker& decode, const std::string& name, const std::string& label) {
  const std::string scraped = decode.metrics().Scrape();
  const size_t at = scraped.find(label, scraped.find("\n" + name));
  EXPECT_NE(at, std::string::npos) << scraped;
  return std::stoi(scraped.substr(scraped.find(' ', at) + 1));
}

// How many audits had this result. A call ends after its audit, so at rest all are done.
int Audits(TestWorker& decode, const std::string& result) {
  EXPECT_TRUE(decode.ComesToRest());
  return Value(decode, "baton_kv_audits_total", "result=\"" + result + "\"");
}

int OrderedAudits(TestWorker& decode) { return Value(decode, "baton_kv_audits_ordered_total", ""); }

TEST(WorkerPairAudit, HonestPushesMatch) {
  TestWorker prefill(WithBlocks(32)), decode(Auditing());
  const int pushes = 20;
  for (int i = 0; i < pushes; ++i) {
    const auto spec = MakeSpec(Prompt(10 + 17 * i, static_cast<uint32_t>(i)),
                               Seeded(3, static_cast<uint64_t>(i)), static_cast<uint64_t>(i + 1));
    const HandoffResult result = Push(prefill, decode, spec, "honest");
    ASSERT_TRUE(result.decode_status.ok()) << result.decode_status.error_message();
  }
  EXPECT_EQ(Audits(decode, "match"), pushes);
  EXPECT_EQ(OrderedAudits(decode), pushes);
  EXPECT_EQ(Audits(decode, "mismatch"), 0);
  EXPECT_TRUE(decode.audit().quarantined().empty());
}

TEST(WorkerPairAudit, AnAuditWhoseSequenceEndsFirstIsCountedToo) {
  TestWorker decode(Auditing());
  const std::vector<OutputToken> tokens = {{.token_id = 1}};
  decode.engine().Commit(1000, tokens, decode.audit().Choose({.pusher = "p", .token_count = 16}));
  for (const char* result : {"match", "mismatch", "skipped"}) EXPECT_EQ(Audits(decode, result), 0);
  EXPECT_EQ(OrderedAudits(decode), 1);
}

TEST(WorkerPairAudit, WhoForgesIsQuarantinedAndNobodyGetsItsPages) {
  TestWorker::Options auditing = Auditing();
  auditing.audit_random = [] { return uint64_t{0}; };  // the first block of each push
  TestWorker forger(WithBlocks(16)), honest(WithBlocks(16)), decode(auditing);
  TestWorker elsewhere(WithBlocks(16));
  const std::vector<int32_t> prompt = Prompt(100, 1);
  // The forger computes the prompt once, for another worker, and has it in its prefix cache.
  ASSERT_TRUE(RunHandoff(forger, elsewhere, MakeSpec(prompt, Greedy(2), 1)).decode_status.ok());
  Forge(forger, 1);

  const HandoffResult forged = Push(forger, decode, MakeSpec(prompt, Greedy(150), 2), "forger");
  EXPECT_EQ(Reason(forged.decode_status), kReasonKvWrong) << forged.decode_status.error_message();
  EXPECT_EQ(Audits(decode, "mismatch"), 1);
  EXPECT_EQ(decode.audit().quarantined(), std::vector<std::string>{"forger"});

  const HandoffResult refused = Push(forger, decode, MakeSpec(prompt, Greedy(8), 3), "forger");
  EXPECT_FALSE(refused.accepted);
  EXPECT_EQ(Reason(refused.decode_status), kReasonPusherQuarantined);

  const HandoffResult right = Push(honest, decode, MakeSpec(prompt, Greedy(8), 4), "honest");
  ASSERT_TRUE(right.decode_status.ok()) << right.decode_status.error_message();
  ExpectSameTokens(right, RunLocally(elsewhere, MakeSpec(prompt, Greedy(8), 5)));
  EXPECT_EQ(Audits(decode, "match"), 1);
}

}  // namespace
}  // namespace baton
