#include "bench/serve/target/grpc_target.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "common/access/access_table.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/net/channel.h"
#include "common/rpc/deadline.h"
#include "common/rpc/duration.h"
#include "common/rpc/limits.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

v1::GenerateRequest GenerateRequestOf(const LoadRequest& load) {
  v1::GenerateRequest request;
  request.set_stream(true);
  request.set_return_token_ids(true);
  request.mutable_sampling_params()->set_temperature(0);
  request.mutable_sampling_params()->set_ignore_eos(true);
  request.mutable_sampling_params()->set_max_tokens(load.output_tokens);
  request.mutable_prompt_token_ids()->mutable_ids()->Add(load.prompt.begin(), load.prompt.end());
  return request;
}

void TakeTimings(const v1::RequestTimings& timings, LoadRecord& record) {
  using Timings = v1::RequestTimings;
  using Has = bool (Timings::*)() const;
  using Get = const google::protobuf::Duration& (Timings::*)() const;
  constexpr std::pair<Has, Get> kFields[kStages] = {
      // in the order of kStageNames
      {&Timings::has_queue, &Timings::queue},
      {&Timings::has_prefill_queue, &Timings::prefill_queue},
      {&Timings::has_prefill, &Timings::prefill},
      {&Timings::has_kv_transfer, &Timings::kv_transfer},
      {&Timings::has_exposed_kv_transfer, &Timings::exposed_kv_transfer},
      {&Timings::has_decode_queue, &Timings::decode_queue},
      {&Timings::has_decode, &Timings::decode},
      {&Timings::has_time_to_first_token, &Timings::time_to_first_token},
      {&Timings::has_total, &Timings::total}};
  for (size_t i = 0; i < kStages; ++i) {
    const auto [has, get] = kFields[i];
    if (!(timings.*has)()) continue;
    record.stages_ns[i] = absl::ToInt64Nanoseconds(DurationFromProto((timings.*get)()));
  }
  record.attempts = timings.attempts();
  record.local_prefill = timings.local_prefill();
}

void TakeStatus(const absl::Status& status, bool complete, LoadRecord& record) {
  if (status.ok() && complete) {
    record.outcome = RequestOutcome::kCompleted;
  } else if (record.cut && absl::IsCancelled(status)) {
    record.outcome = RequestOutcome::kCut;
  } else {
    const bool refused = absl::IsResourceExhausted(status) && record.messages.empty();
    record.outcome = refused ? RequestOutcome::kRefused : RequestOutcome::kFailed;
    record.kind = status.ok() ? "INCOMPLETE" : absl::StatusCodeToString(status.code());
    record.error = status.ok() ? "ended without completing"
                               : status.ToString(absl::StatusToStringMode::kWithNoExtraData);
  }
}

}  // namespace

struct GrpcTarget::Call {
  enum class State { kStarting, kReading, kFinishing };

  LoadRecord& record;
  State state = State::kStarting;
  bool complete = false;
  grpc::ClientContext context{};
  std::unique_ptr<grpc::ClientAsyncReader<v1::GenerateResponse>> reader{};
  v1::GenerateResponse response{};
  grpc::Status status{};

  void Take(int64_t now_ns) {
    const auto tokens = static_cast<uint32_t>(response.chunk().token_ids_size());
    if (tokens > 0) record.messages.push_back({now_ns, tokens});
    if (!response.has_complete()) return;
    complete = true;
    TakeTimings(response.complete().timings(), record);
    if (response.complete().usage().prompt_tokens() > 0) {
      record.input_tokens = response.complete().usage().prompt_tokens();
    }
  }
};

GrpcTarget::GrpcTarget(const Options& options) : options_(options) {}

absl::StatusOr<std::unique_ptr<GrpcTarget>> GrpcTarget::Create(const Options& options,
                                                               const Credentials& credentials) {
  std::unique_ptr<GrpcTarget> target(new GrpcTarget(options));
  BATON_RETURN_IF_ERROR(credentials.CheckAddress("connection to", options.server));
  grpc::ChannelArguments proxy;  // chosen and logged once for all connections
  SetClientProxy(options.server, proxy);
  for (int i = 0; i < options.connections; ++i) {
    grpc::ChannelArguments arguments = proxy;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
    const auto channel_credentials = credentials.ForChannel(kWhoAnswersClients, arguments);
    const auto channel = grpc::CreateCustomChannel(options.server, channel_credentials, arguments);
    if (!channel->WaitForConnected(DeadlineAfter(absl::Seconds(5)))) {
      return absl::UnavailableError(absl::StrCat("--server ", options.server, ": no connection"));
    }
    target->stubs_.push_back(v1::GenerationService::NewStub(channel));
  }
  return target;
}

GrpcTarget::~GrpcTarget() {
  for (const auto& [record, call] : calls_) call->context.TryCancel();
  queue_.Shutdown();
  void* tag = nullptr;
  for (bool ok = false; queue_.Next(&tag, &ok);) continue;
}

void GrpcTarget::Send(const LoadRequest& request, LoadRecord& record) {
  const v1::GenerateRequest message = GenerateRequestOf(request);
  auto& call = calls_[&record];
  call.reset(new Call{.record = record});
  record.sent_ns = SteadyNanoseconds();
  options_.key.AddTo(call->context);
  call->context.set_deadline(DeadlineAfter(options_.timeout));
  call->reader =
      stubs_[sent_++ % stubs_.size()]->AsyncGenerate(&call->context, message, &queue_, call.get());
}

std::vector<LoadRecord*> GrpcTarget::Poll(absl::Time until) {
  void* tag = nullptr;
  bool ok = false;
  if (queue_.AsyncNext(&tag, &ok, DeadlineAfter(until - SteadyNow())) !=
      grpc::CompletionQueue::GOT_EVENT) {
    return {};
  }
  Call& call = *static_cast<Call*>(tag);
  if (!Handle(call, ok)) return {};
  LoadRecord* const record = &call.record;
  calls_.erase(record);
  return {record};
}

bool GrpcTarget::Handle(Call& call, bool ok) {
  const int64_t now_ns = SteadyNanoseconds();
  if (call.state == Call::State::kFinishing) {
    call.record.end_ns = now_ns;
    TakeStatus(FromGrpcStatus(call.status), call.complete, call.record);
    return true;
  }
  if (call.state == Call::State::kReading && ok) call.Take(now_ns);
  if (ok) {
    call.state = Call::State::kReading;
    call.reader->Read(&call.response, &call);
  } else {
    call.state = Call::State::kFinishing;
    call.reader->Finish(&call.status, &call);
  }
  return false;
}

void GrpcTarget::Cancel(LoadRecord& record) { calls_.at(&record)->context.TryCancel(); }

}  // namespace baton
