#include "bench/serve/load_run.h"

#include <sys/resource.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "common/access/access_table.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/rpc/limits.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

constexpr size_t kMaxFailureKinds = 8;

absl::Duration CpuTime() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return absl::DurationFromTimeval(usage.ru_utime) + absl::DurationFromTimeval(usage.ru_stime);
}

float Milliseconds(absl::Duration duration) {
  return static_cast<float>(absl::ToDoubleMilliseconds(duration));
}

}  // namespace

struct LoadRun::Class {
  Class(const LoadClass& class_load, LoadSource class_source)
      : load(class_load), source(std::move(class_source)) {
    samples.name = load.name;
  }

  const LoadClass load;
  LoadSource source;
  absl::Time next = absl::InfiniteFuture();  // next arrival; never for a class with a concurrency
  LoadSamples samples;
};

struct LoadRun::Stream {
  enum class State { kStarting, kReading, kFinishing };

  explicit Stream(Class& stream_load) : load(stream_load) {}

  Class& load;
  std::list<Stream>::iterator self;
  absl::Time intended;
  State state = State::kStarting;
  bool cut = false;
  uint64_t tokens = 0;
  absl::Time first_token = absl::InfiniteFuture(), last_token;
  absl::Duration longest_gap = absl::ZeroDuration();
  bool complete = false, resumed = false, local_prefill = false;
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientAsyncReader<v1::GenerateResponse>> reader;
  v1::GenerateResponse response;
  grpc::Status status;
};

LoadRun::LoadRun(const LoadOptions& options) : options_(options) {}

absl::StatusOr<std::unique_ptr<LoadRun>> LoadRun::Create(const LoadOptions& options,
                                                         const Credentials& credentials) {
  std::unique_ptr<LoadRun> run(new LoadRun(options));
  uint64_t seed = options.seed;
  for (const LoadClass& load : options.classes) {
    BATON_ASSIGN_OR_RETURN(LoadSource source, LoadSource::Create(load, options.vocab_size, seed++));
    run->classes_.push_back(std::make_unique<Class>(load, std::move(source)));
  }
  BATON_RETURN_IF_ERROR(credentials.CheckAddress("connection to", options.server));
  for (int i = 0; i < options.connections; ++i) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
    const auto channel_credentials = credentials.ForChannel(kWhoAnswersClients, arguments);
    const auto channel = grpc::CreateCustomChannel(options.server, channel_credentials, arguments);
    if (!channel->WaitForConnected(absl::ToChronoTime(absl::Now() + absl::Seconds(5)))) {
      return absl::UnavailableError(absl::StrCat("--server ", options.server, ": no connection"));
    }
    run->stubs_.push_back(v1::GenerationService::NewStub(channel));
  }
  return run;
}

LoadRun::~LoadRun() {
  queue_.Shutdown();
  void* tag = nullptr;
  for (bool ok = false; queue_.Next(&tag, &ok);) continue;
}

LoadReport LoadRun::Run() {
  begin_ = SteadyNow();
  measure_from_ = begin_ + options_.warmup;
  measure_until_ = measure_from_ + options_.duration;
  const absl::Duration cpu_before = CpuTime();
  for (const auto& load : classes_) {
    if (load->load.rate > 0) load->next = begin_ + load->source.NextArrival();
    for (int i = 0; i < load->load.concurrency; ++i) Send(*load, begin_);
  }
  bool sending = true;
  while (true) {
    const absl::Time now = SteadyNow();
    if (sending) SendDue(now);
    if (sending && now >= measure_until_) {
      sending = false;
      CutStreams();
    }
    if (!sending && streams_.empty()) break;
    const absl::Duration wait =
        sending ? std::min(NextArrival(), measure_until_) - SteadyNow() : options_.timeout;
    void* tag = nullptr;
    bool ok = false;
    if (queue_.AsyncNext(&tag, &ok, absl::ToChronoTime(absl::Now() + wait)) ==
        grpc::CompletionQueue::GOT_EVENT) {
      Handle(*static_cast<Stream*>(tag), ok);
    }
  }
  LoadReport report{.window = options_.duration, .cpu_share = 0, .classes = {}};
  report.cpu_share = absl::FDivDuration(
      CpuTime() - cpu_before,
      (SteadyNow() - begin_) * std::max(1u, std::thread::hardware_concurrency()));
  for (const auto& load : classes_) report.classes.push_back(std::move(load->samples));
  return report;
}

absl::Time LoadRun::NextArrival() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& load : classes_) next = std::min(next, load->next);
  return next;
}

void LoadRun::SendDue(absl::Time now) {
  for (const auto& load : classes_) {
    while (load->next <= std::min(now, measure_until_)) {
      Send(*load, load->next);
      load->next = begin_ + load->source.NextArrival();
    }
  }
}

void LoadRun::Send(Class& load, absl::Time intended) {
  Stream& stream = streams_.emplace_back(load);
  stream.self = std::prev(streams_.end());
  stream.intended = intended;
  options_.key.AddTo(stream.context);
  stream.context.set_deadline(absl::ToChronoTime(absl::Now() + options_.timeout));
  stream.reader = stubs_[sent_++ % stubs_.size()]->AsyncGenerate(
      &stream.context, load.source.NextRequest(), &queue_, &stream);
  if (Measured(intended)) {
    ++load.samples.offered;
    load.samples.send_lag_ms.push_back(Milliseconds(SteadyNow() - intended));
  }
}

void LoadRun::Handle(Stream& stream, bool ok) {
  const absl::Time now = SteadyNow();
  if (stream.state == Stream::State::kFinishing) return End(stream, now);
  if (stream.state == Stream::State::kReading && ok) Take(stream, stream.response, now);
  if (ok) {
    stream.state = Stream::State::kReading;
    stream.reader->Read(&stream.response, &stream);
  } else {
    stream.state = Stream::State::kFinishing;
    stream.reader->Finish(&stream.status, &stream);
  }
}

void LoadRun::Take(Stream& stream, const v1::GenerateResponse& response, absl::Time now) {
  if (response.has_complete()) {
    const v1::RequestTimings& timings = response.complete().timings();
    stream.complete = true;
    stream.resumed = timings.attempts() > 1;
    stream.local_prefill = timings.local_prefill();
  }
  const auto tokens = static_cast<uint64_t>(response.chunk().token_ids_size());
  if (tokens == 0) return;
  LoadSamples& samples = stream.load.samples;
  if (stream.tokens == 0) {
    stream.first_token = now;
    if (Measured(stream.intended)) samples.ttft_ms.push_back(Milliseconds(now - stream.intended));
  } else {
    const absl::Duration gap = now - stream.last_token;
    stream.longest_gap = std::max(stream.longest_gap, gap);
    if (Measured(now)) samples.itl_ms.push_back(Milliseconds(gap));
  }
  if (Measured(now)) samples.tokens += tokens;
  stream.tokens += tokens;
  stream.last_token = now;
}

void LoadRun::End(Stream& stream, absl::Time now) {
  if (Measured(stream.intended)) Count(stream, FromGrpcStatus(stream.status), now);
  const bool next = stream.load.load.concurrency > 0 && now < measure_until_;
  Class& load = stream.load;
  streams_.erase(stream.self);
  if (next) Send(load, now);
}

void LoadRun::Count(const Stream& stream, const absl::Status& status, absl::Time now) {
  LoadSamples& samples = stream.load.samples;
  const absl::Duration total = now - stream.intended;
  if (!status.ok() || !stream.complete) {
    if (stream.cut && absl::IsCancelled(status)) {
      ++samples.cut;
    } else if (absl::IsResourceExhausted(status) && stream.tokens == 0) {
      ++samples.refused;
      samples.refusal_ms.push_back(Milliseconds(total));
    } else {
      ++samples.failed;
      const std::string message = status.ok()
                                      ? "ended without completing"
                                      : status.ToString(absl::StatusToStringMode::kWithNoExtraData);
      if (samples.failures.size() < kMaxFailureKinds || samples.failures.count(message) != 0) {
        ++samples.failures[message];
      }
    }
    return;
  }
  ++samples.completed;
  samples.resumed += stream.resumed;
  samples.local_prefills += stream.local_prefill;
  samples.e2e_ms.push_back(Milliseconds(total));
  absl::Duration tpot = absl::ZeroDuration();
  if (stream.tokens > 1) {
    tpot = (stream.last_token - stream.first_token) / static_cast<double>(stream.tokens - 1);
    samples.tpot_ms.push_back(Milliseconds(tpot));
  }
  const LoadObjective& objective = options_.objective;
  samples.good += stream.first_token - stream.intended <= objective.ttft &&
                  stream.longest_gap <= objective.itl && tpot <= objective.tpot &&
                  total <= objective.e2e;
}

void LoadRun::CutStreams() {
  for (Stream& stream : streams_) {
    if (stream.load.load.concurrency == 0) continue;
    stream.cut = true;
    stream.context.TryCancel();
  }
}

}  // namespace baton
