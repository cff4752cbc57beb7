// A router with mock workers behind it and a real server in front of it, on loopback.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"

#include "baton/v1/generation.grpc.pb.h"
#include "common/base/clock.h"
#include "common/rpc/status.h"
#include "router/router.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/mock_worker.h"

namespace baton {

// Ids: a..z = 0..25, "<|end|>" = 26 (special, ends), " " = 27, "<|im_start|>" = 28 (special),
// "<" = 29, "|" = 30, ">" = 31.
inline constexpr uint32_t kEnd = 26, kSpace = 27, kTurn = 28, kVocab = 32;
inline constexpr uint32_t kContext = 100000;

inline std::unique_ptr<ServedModel> NewLetterModel(ModelNames names) {
  std::vector<std::string> tokens;
  std::vector<int32_t> types(kVocab, 1);
  for (char c = 'a'; c <= 'z'; ++c) tokens.emplace_back(1, c);
  tokens.insert(tokens.end(), {"<|end|>", "Ġ", "<|im_start|>", "<", "|", ">"});
  types[kEnd] = types[kTurn] = 3;
  GgufBuilder builder;
  builder.Text("general.architecture", "llama")
      .Uint32("general.file_type", 3)
      .Uint32("llama.context_length", kContext)
      .Text("tokenizer.ggml.model", "gpt2")
      .Text("tokenizer.ggml.pre", "gpt-2")
      .Texts("tokenizer.ggml.tokens", tokens)
      .Int32s("tokenizer.ggml.token_type", types)
      .Texts("tokenizer.ggml.merges", {})
      .Uint32("tokenizer.ggml.eos_token_id", kEnd)
      .Text("tokenizer.chat_template",
            "{% for m in messages %}<|im_start|>{{ m.role }} {{ m.content }}<|end|>{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>{% endif %}");
  auto file = GgufFile::Parse(builder.Build(), "dir/letters.gguf", GgufFile::Part::kTokenizer);
  EXPECT_TRUE(file.ok()) << file.status();
  auto model = ServedModel::Load(*file, std::move(names));
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

inline const ServedModel& LetterModel() {
  static const std::unique_ptr<ServedModel> kModel = NewLetterModel({});
  return *kModel;
}

struct Answer {
  absl::Status status;
  std::string text;
  std::vector<uint32_t> ids;
  std::vector<v1::TokenLogprob> logprobs;
  std::vector<v1::GenerateComplete> completes;
};

class RouterFixture : public testing::Test {
 protected:
  RouterFixture() {
    options_.runner.dispatch.no_worker_grace = absl::Milliseconds(200);
    options_.runner.expose_workers = true;
    options_.runner.dispatch.placement.disaggregation = Disaggregation::kAlways;
  }
  ~RouterFixture() override { Stop(); }

  MockWorker& AddWorker(internal::v1::WorkerRole role, MockWorker::Options options = {}) {
    options.role = role;
    if (options.name == "mock") {
      options.name =
          (role == internal::v1::WORKER_ROLE_PREFILL ? "p" : "d") + std::to_string(workers_.size());
    }
    if (options.tokenizer_digest.empty()) {
      options.tokenizer_digest = LetterModel().tokenizer_digest();
    }
    options.vocab_size = kVocab;
    options.eos_id = kEnd;
    if (options.max_model_len == MockWorker::Options{}.max_model_len) {
      options.max_model_len = kContext;
    }
    workers_.push_back(std::make_unique<MockWorker>(options, hand_off_));
    return *workers_.back();
  }
  MockWorker& AddPrefill() { return AddWorker(internal::v1::WORKER_ROLE_PREFILL); }
  MockWorker& AddDecode() { return AddWorker(internal::v1::WORKER_ROLE_DECODE); }

  // Starts the router with the workers so far and waits until they are ready.
  void Start() {
    uint32_t prefill = 0, decode = 0;
    for (const auto& worker : workers_) {
      const bool is_prefill = worker->role() == internal::v1::WORKER_ROLE_PREFILL;
      (is_prefill ? options_.workers.prefill : options_.workers.decode)
          .push_back(worker->address());
      ++(is_prefill ? prefill : decode);
    }
    StartOnly();
    Eventually([&] {
      const FleetSummary fleet = router_->fleet();
      return fleet.ready_prefill == prefill && fleet.ready_decode == decode;
    });
  }
  void StartOnly() {
    router_ = std::make_unique<Router>(model_ != nullptr ? *model_ : LetterModel(), options_,
                                       Credentials::Loopback(), metrics_);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&router_->service());
    server_ = builder.BuildAndStart();
    // A window that does not grow: a client that reads nothing is noticed after 64 KiB.
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    address_ = "127.0.0.1:" + std::to_string(port);
    const auto channel =
        grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(), arguments);
    stub_ = v1::GenerationService::NewStub(channel);
  }
  // From now on the router has had three seconds of requests that waited and got their workers
  // every millisecond, so long ago, and none that waited since. REQUIRES: none has waited so far.
  void LookBackOn(absl::Duration pause) {
    router_->loop_->Run([&] {
      Admission& admission = router_->admission_;
      absl::Time then = SteadyNow() - pause - absl::Seconds(3);
      admission.SetWaiting(true, then);
      for (int i = 0; i < 3000; ++i) {
        auto ticket = admission.Admit({.tenant = "", .tokens = 10}, then);
        ASSERT_TRUE(ticket.ok()) << ticket.status();
        ticket->GotWorkers(then += absl::Milliseconds(1));
      }
      EXPECT_NEAR(*admission.TokensPerSecond(then), 10000, 1);
      admission.SetWaiting(false, then);
    });
  }
  // Has all that is to be tokenised wait for what it returns, which the pool's threads share.
  std::shared_ptr<absl::Notification> HoldTokenizers() {
    auto until = std::make_shared<absl::Notification>();
    for (int i = 0; i < options_.tokenizer_threads; ++i) {
      EXPECT_TRUE(router_->pool_->TryRun(
          {.run = [until](const absl::Status&) { until->WaitForNotification(); }}));
    }
    return until;
  }
  void Stop() {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
    server_.reset();
    router_.reset();
  }

  static v1::GenerateRequest Request(const std::string& prompt, uint32_t max_tokens,
                                     uint64_t seed = 7) {
    v1::GenerateRequest request;
    request.set_prompt(prompt);
    request.set_stream(true);
    request.set_return_token_ids(true);
    request.mutable_sampling_params()->set_max_tokens(max_tokens);
    request.mutable_sampling_params()->set_seed(seed);
    request.mutable_sampling_params()->set_ignore_eos(true);
    return request;
  }
  // What the mock engine makes of a prompt of letters.
  static std::vector<uint32_t> Expected(const v1::GenerateRequest& request) {
    std::vector<uint32_t> prompt, ids;
    for (char c : request.prompt()) prompt.push_back(static_cast<uint32_t>(c - 'a'));
    for (const auto& token : MockTokens(prompt, request.sampling_params(), kVocab, kEnd)) {
      ids.push_back(token.token().token_id());
    }
    return ids;
  }

  Answer Generate(const v1::GenerateRequest& request, grpc::ClientContext* context = nullptr) {
    grpc::ClientContext own;
    if (context == nullptr) context = &own;
    auto reader = stub_->Generate(context, request);
    Answer answer;
    for (v1::GenerateResponse response; reader->Read(&response);) Collect(response, &answer);
    answer.status = FromGrpcStatus(reader->Finish());
    return answer;
  }
  static void Collect(const v1::GenerateResponse& response, Answer* answer) {
    const v1::GenerateChunk& chunk = response.chunk();
    const v1::GenerateComplete& complete = response.complete();
    answer->text += chunk.text() + complete.text();
    for (const auto& ids : {chunk.token_ids(), complete.token_ids()}) {
      answer->ids.insert(answer->ids.end(), ids.begin(), ids.end());
    }
    for (const auto& logprobs : {chunk.logprobs(), complete.logprobs()}) {
      answer->logprobs.insert(answer->logprobs.end(), logprobs.begin(), logprobs.end());
    }
    if (response.has_complete()) answer->completes.push_back(complete);
  }

  // Ends the test when `condition` does not become true.
  static void Eventually(const std::function<bool()>& condition) {
    const absl::Time until = absl::Now() + absl::Seconds(30);
    while (!condition()) {
      ASSERT_LT(absl::Now(), until) << "it did not come true";
      absl::SleepFor(absl::Milliseconds(2));
    }
  }
  // The value of the metric of that name, and with that among its labels.
  double Metric(const std::string& name, const std::string& label = "") const {
    std::istringstream lines(metrics_.Scrape());
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with(name) || line.find(label) == std::string::npos) continue;
      return std::stod(line.substr(line.rfind(' ')));
    }
    return 0;
  }
  void ExpectNothingLeft() {
    Eventually([&] {
      for (const auto& worker : workers_) {
        if (worker->active_calls() != 0) return false;
      }
      return router_->RunningRequests() == 0 && router_->waiting_requests() == 0;
    });
  }

  RouterOptions options_;
  std::unique_ptr<ServedModel> model_;  // null: LetterModel()
  Metrics metrics_{"router"};
  MockHandOff hand_off_;
  std::vector<std::unique_ptr<MockWorker>> workers_;
  std::unique_ptr<Router> router_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;  // the router's address
  std::unique_ptr<v1::GenerationService::Stub> stub_;
};

}  // namespace baton
