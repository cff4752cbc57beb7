// Requests to a pair of workers, and what their answers are compared by.
#pragma once

#include <memory>
#include <random>
#include <vector>

#include "gtest/gtest.h"

#include "tests/decode_worker/worker_pair.h"

namespace baton {

inline std::vector<int32_t> Prompt(int length, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> ids;
  for (int i = 0; i < length; ++i) ids.push_back(static_cast<int32_t>(random() % 200));
  return ids;
}

inline SamplingParams Greedy(int max_tokens) {
  SamplingParams sampling;
  sampling.temperature = 0;
  sampling.max_tokens = max_tokens;
  sampling.ignore_eos = true;
  sampling.logprobs = 2;
  return sampling;
}

inline SamplingParams Seeded(int max_tokens, uint64_t seed) {
  SamplingParams sampling = Greedy(max_tokens);
  sampling.temperature = 1;
  sampling.seed = seed;
  return sampling;
}

inline void ExpectSameTokens(const HandoffResult& a, const HandoffResult& b) {
  ASSERT_EQ(a.tokens.size(), b.tokens.size());
  for (size_t i = 0; i < a.tokens.size(); ++i) {
    EXPECT_EQ(a.tokens[i].output_index(), i);
    EXPECT_EQ(a.tokens[i].SerializeAsString(), b.tokens[i].SerializeAsString())
        << "token " << i << ": " << a.tokens[i].ShortDebugString() << " and "
        << b.tokens[i].ShortDebugString();
  }
}

inline TestWorker::Options WithBlocks(int block_size) {
  TestWorker::Options options;
  options.block_size = block_size;
  return options;
}

// One decode call, driven message by message.
struct OpenDecode {
  OpenDecode(TestWorker& decode, const internal::v1::SequenceSpec& spec) {
    call = decode.decode().Decode(&context);
    internal::v1::DecodeRequest request;
    *request.mutable_start()->mutable_sequence() = spec;
    call->Write(request);
    accepted = call->Read(&response) && response.has_accepted();
  }
  grpc::Status Drain() {
    while (call->Read(&response)) {
      committed |= response.has_committed();
      tokens += response.tokens().tokens_size();
      finished |= response.has_finished();
    }
    return call->Finish();
  }
  grpc::ClientContext context;
  std::unique_ptr<
      grpc::ClientReaderWriter<internal::v1::DecodeRequest, internal::v1::DecodeResponse>>
      call;
  internal::v1::DecodeResponse response;
  bool accepted = false;
  bool committed = false;
  bool finished = false;
  int tokens = 0;
};

}  // namespace baton
