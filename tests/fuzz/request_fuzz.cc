// Requests of clients and of routers: any bytes that are a message are refused, or valid inside.
//
// The first byte chooses the message, the rest is it.
#include <string>

#include "google/protobuf/stubs/logging.h"

#include "common/base/check.h"
#include "common/protocol/validate_request.h"
#include "common/worker/convert.h"
#include "tests/common/worker/invalid_specs.h"
#include "tests/fuzz/fuzz_input.h"

namespace baton {
namespace {

constexpr RequestLimits kLimits = {.vocab_size = 1000, .max_model_len = 512};
constexpr EngineLimits kEngineLimits = {
    .vocab_size = 1000, .max_model_len = 512, .block_size = 16, .total_blocks = 1024};

void CheckGenerate(const std::string& bytes) {
  v1::GenerateRequest request;
  if (!request.ParseFromString(bytes) || !ValidateGenerateRequest(request, kLimits).ok()) return;
  v1::SamplingParams& params = *request.mutable_sampling_params();
  if (!CheckContextLength(8, params, kLimits).ok()) return;
  FillSamplingDefaults(params, 8, kLimits.max_model_len, 1);
  // The router has one token made, which nobody gets (served_model.cc).
  if (params.max_tokens() == 0) params.set_max_tokens(1);
  BATON_CHECK(SamplingViolations(params, kLimits).empty(), "the defaults are valid");
  // What the router accepts and completes, a worker accepts too.
  internal::v1::SequenceSpec spec = GoodSpec();
  while (spec.token_ids_size() < 8) spec.add_token_ids(1);
  spec.set_prompt_length(8);
  *spec.mutable_sampling() = params;
  const auto sequence =
      SequenceFromProto(spec, kEngineLimits, SequenceRequest::Mode::kLocal, nullptr);
  BATON_CHECK(sequence.ok(), std::string(sequence.status().message()).c_str());
}

void Run(FuzzInput input) {
  const int kind = input.Below(5);
  const std::string bytes = input.Bytes(SIZE_MAX);
  if (kind == 0) return CheckGenerate(bytes);
  if (kind == 1) {
    v1::TokenizeRequest request;
    if (request.ParseFromString(bytes)) (void)ValidateTokenizeRequest(request);
  } else if (kind == 2) {
    v1::DetokenizeRequest request;
    if (request.ParseFromString(bytes)) (void)ValidateDetokenizeRequest(request, kLimits);
  } else if (kind == 3) {
    internal::v1::SequenceSpec spec;
    if (!spec.ParseFromString(bytes)) return;
    for (const auto mode : {SequenceRequest::Mode::kPrefillOnly, SequenceRequest::Mode::kReceive,
                            SequenceRequest::Mode::kLocal}) {
      (void)SequenceFromProto(spec, kEngineLimits, mode, nullptr);
    }
  } else {
    internal::v1::OutputToken token;
    if (!token.ParseFromString(bytes)) return;
    const auto made = OutputTokenFromProto(token, kEngineLimits.vocab_size);
    if (!made.ok()) return;
    const auto again = OutputTokenFromProto(OutputTokenToProto(*made, 0), kEngineLimits.vocab_size);
    BATON_CHECK(again.ok(), "what was read can be written and read");
  }
}

}  // namespace
}  // namespace baton

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static google::protobuf::LogSilencer silencer;
  baton::Run(baton::FuzzInput(data, size));
  return 0;
}
