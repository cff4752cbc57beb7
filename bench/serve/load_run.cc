#include "bench/serve/load_run.h"

#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"

namespace baton {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr absl::Duration kLongestWait = absl::Seconds(1);
constexpr absl::Duration kFirstPause = absl::Milliseconds(100);
constexpr absl::Duration kLongestPause = absl::Seconds(2);

absl::Duration CpuTime() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return absl::DurationFromTimeval(usage.ru_utime) + absl::DurationFromTimeval(usage.ru_stime);
}

absl::Duration ThreadTime() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return absl::DurationFromTimespec(time);
}

int64_t Plus(int64_t at_ns, absl::Duration duration) {
  return duration == absl::InfiniteDuration() ? kNever : at_ns + absl::ToInt64Nanoseconds(duration);
}

}  // namespace

struct LoadRun::Class {
  Class(const LoadClass& class_load, LoadSource class_source)
      : load(class_load), source(std::move(class_source)) {
    samples.name = load.name;
  }

  // Takes the time of the next arrival, and makes its request before that, so that it can go at
  // once when it is due.
  void Prepare(int64_t begin_ns) {
    const std::optional<absl::Duration> arrival =
        load.open_loop() ? source.NextArrival() : std::nullopt;
    next_ns = arrival.has_value() ? begin_ns + absl::ToInt64Nanoseconds(*arrival) : kNever;
    if (arrival.has_value() || !load.open_loop()) request = source.NextRequest();
  }

  const LoadClass load;
  LoadSource source;
  int64_t next_ns = kNever;  // next arrival; never for a class with a concurrency
  LoadRequest request;       // the one that is sent next
  LoadSamples samples;
};

LoadRun::LoadRun(const LoadOptions& options, std::unique_ptr<LoadTarget> target)
    : options_(options), target_(std::move(target)) {}

LoadRun::~LoadRun() = default;

absl::StatusOr<std::unique_ptr<LoadRun>> LoadRun::Create(const LoadOptions& options,
                                                         std::unique_ptr<LoadTarget> target) {
  std::unique_ptr<LoadRun> run(new LoadRun(options, std::move(target)));
  BATON_ASSIGN_OR_RETURN(run->objective_, ParseLoadObjective(options.objective));
  LoadSource::Options source_options{.vocab_size = options.vocab_size,
                                     .seed = options.seed,
                                     .pages_seed = options.seed,
                                     .trace = options.trace};
  for (const LoadClass& load : options.classes) {
    BATON_ASSIGN_OR_RETURN(LoadSource source, LoadSource::Create(load, source_options));
    ++source_options.seed;
    run->classes_.push_back(std::make_unique<Class>(load, std::move(source)));
  }
  if (!options.record.empty()) {
    BATON_ASSIGN_OR_RETURN(run->record_file_, RecordFile::Create(options.record));
  }
  return run;
}

void LoadRun::Begin() {
  begin_ns_ = SteadyNanoseconds();
  window_.from_ns = Plus(begin_ns_, options_.warmup);
  window_.until_ns = Plus(window_.from_ns, options_.duration);
  if (record_file_ != nullptr) {
    RecordFile::Head head{
        .target = options_.target, .objective = options_.objective, .classes = {}};
    for (const auto& load : classes_) head.classes.push_back(load->load.name);
    head.begin_ns = begin_ns_;
    record_file_->Begin(head);
  }
  for (size_t i = 0; i < classes_.size(); ++i) {
    classes_[i]->Prepare(begin_ns_);
    for (int stream = 0; stream < classes_[i]->load.concurrency; ++stream) {
      Send(i, SteadyNanoseconds());
    }
  }
}

absl::StatusOr<LoadReport> LoadRun::Run() {
  const absl::Duration cpu_before = CpuTime(), thread_before = ThreadTime();
  Begin();
  bool sending = true, ran_out = false;
  while (sending || !streams_.empty()) {
    const int64_t now = SteadyNanoseconds();
    if (sending) SendDue(now);
    if (sending && !Sending(now)) {
      sending = false;
      ran_out = now < window_.until_ns;
      CutStreams();
      continue;
    }
    absl::Duration wait = kLongestWait;
    if (sending) {
      const int64_t next = std::min(NextArrival(), window_.until_ns);
      if (next != kNever) wait = absl::Nanoseconds(next - SteadyNanoseconds());
    }
    for (LoadRecord* record : target_->Poll(SteadyNow() + wait)) End(*record);
  }
  if (ran_out) {  // traces have ended before the window, and nothing comes any more
    window_.until_ns = std::min(window_.until_ns, std::max(last_end_ns_, window_.from_ns) + 1);
  }
  const absl::Duration took = absl::Nanoseconds(SteadyNanoseconds() - begin_ns_);
  LoadReport report{.window = window_, .target = options_.target, .objective = options_.objective};
  report.cpu_share = absl::FDivDuration(CpuTime() - cpu_before,
                                        took * std::max(1u, std::thread::hardware_concurrency()));
  report.thread_busy = absl::FDivDuration(ThreadTime() - thread_before, took);
  for (const auto& load : classes_) report.classes.push_back(std::move(load->samples));
  if (record_file_ != nullptr) BATON_RETURN_IF_ERROR(record_file_->End(window_));
  return report;
}

bool LoadRun::Sending(int64_t now_ns) const {
  if (now_ns >= window_.until_ns) return false;
  return NextArrival() != kNever ||
         std::any_of(classes_.begin(), classes_.end(),
                     [](const auto& load) { return !load->load.open_loop(); });
}

int64_t LoadRun::NextArrival() const {
  int64_t next = pauses_.empty() ? kNever : pauses_.begin()->first;
  for (const auto& load : classes_) next = std::min(next, load->next_ns);
  return next;
}

void LoadRun::SendDue(int64_t now_ns) {
  for (size_t i = 0; i < classes_.size(); ++i) {
    Class& load = *classes_[i];
    while (load.next_ns <= now_ns && load.next_ns < window_.until_ns) Send(i, load.next_ns);
  }
  while (!pauses_.empty() && pauses_.begin()->first <= now_ns) {
    const auto ended = pauses_.extract(pauses_.begin());
    if (ended.key() >= window_.until_ns) continue;
    Send(ended.mapped().load, ended.key(), ended.mapped().failures);
  }
}

void LoadRun::Send(size_t load, int64_t intended_ns, int failures) {
  Class& sender = *classes_[load];
  Stream& stream = streams_[sent_];
  stream.failures = failures;
  LoadRecord& record = stream.record;
  record.load = load;
  record.id = sent_++;
  record.intended_ns = intended_ns;
  record.asked_input_tokens = record.input_tokens = sender.request.prompt.size();
  record.asked_output_tokens = sender.request.output_tokens;
  target_->Send(sender.request, record);
  sender.Prepare(begin_ns_);
}

void LoadRun::End(LoadRecord& record) {
  last_end_ns_ = std::max(last_end_ns_, record.end_ns);
  const size_t load = record.load;
  const bool closed_loop = !classes_[load]->load.open_loop();
  const int64_t ended = record.end_ns;
  classes_[load]->samples.Add(record, window_, objective_);
  if (record_file_ != nullptr) record_file_->Add(record);
  const bool completed = record.outcome == RequestOutcome::kCompleted;
  const auto stream = streams_.find(record.id);
  const int failures = completed ? 0 : stream->second.failures + 1;
  streams_.erase(stream);
  if (!closed_loop || ended >= window_.until_ns) return;
  if (completed) return Send(load, ended);
  const int64_t doublings = int64_t{1} << std::min(failures - 1, 10);
  const absl::Duration pause = std::min(kFirstPause * doublings, kLongestPause);
  pauses_.emplace(Plus(ended, pause), Pause{.load = load, .failures = failures});
}

void LoadRun::CutStreams() {
  for (auto& [id, stream] : streams_) {
    if (classes_[stream.record.load]->load.open_loop()) continue;
    stream.record.cut = true;
    target_->Cancel(stream.record);
  }
}

}  // namespace baton
