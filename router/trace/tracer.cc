#include "router/trace/tracer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"

namespace baton {
namespace {

// An id of nothing but zeros is none.
uint64_t NonZero() {
  while (true) {
    const uint64_t bits = RandomUint64();
    if (bits != 0) return bits;
  }
}

Counter Dropped(Metrics& metrics, const char* reason) {
  return metrics.AddCounter("baton_trace_dropped_total",
                            "Requests that are not traced, or not in the file.",
                            {{"reason", reason}});
}

OtlpResource ResourceOf(const OtlpOptions& options, const std::string& router) {
  OtlpResource resource{{{"service.name", options.service_name},
                         {"service.version", std::string(Version())},
                         {"service.instance.id", router}}};
  for (const auto& given : options.resource) {
    const auto present =
        std::find_if(resource.attributes.begin(), resource.attributes.end(),
                     [&given](const auto& other) { return other.first == given.first; });
    if (present != resource.attributes.end()) {
      present->second = given.second;
    } else {
      resource.attributes.push_back(given);
    }
  }
  return resource;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tracer>> Tracer::Start(const TracerOptions& options,
                                                      const std::string& router,
                                                      const std::string& model, Metrics& metrics) {
  std::unique_ptr<TraceFile> file;
  if (!options.file.empty()) {
    BATON_ASSIGN_OR_RETURN(file, TraceFile::Open(options.file, options.file_bytes, router));
  }
  std::unique_ptr<OtlpExporter> exporter;
  if (!options.otlp.endpoint.empty()) {
    exporter = std::make_unique<OtlpExporter>(options.otlp, ResourceOf(options.otlp, router),
                                              metrics, OtlpExporter::Timing{});
  }
  return std::unique_ptr<Tracer>(
      new Tracer(model, options.otlp.sampler, std::move(file), std::move(exporter), metrics));
}

Tracer::Tracer(std::string model, const TraceSampler& sampler, std::unique_ptr<TraceFile> file,
               std::unique_ptr<OtlpExporter> exporter, Metrics& metrics)
    : model_(std::move(model)),
      sampler_(sampler),
      writes_(file != nullptr),
      file_(std::move(file)),
      exporter_(std::move(exporter)),
      overflowed_(Dropped(metrics, "queue_full")),
      unwritten_(Dropped(metrics, "file")),
      thread_([this] { Loop(); }) {}

Tracer::~Tracer() {
  queue_.Close();
  thread_.join();
}

TraceContext Tracer::NewContext(const TraceHeaders& headers) const {
  const std::optional<TraceParent> parent = ParseTraceParent(headers.parent);
  TraceContext context;
  context.trace_id = absl::StrFormat("%016x%016x", NonZero(), RandomUint64());
  context.span_id = absl::StrFormat("%016x", NonZero());
  if (parent.has_value()) {
    context.trace_id = std::string(parent->trace_id);
    context.parent_id = std::string(parent->span_id);
    if (headers.state.size() <= kMaxTraceState) context.state = std::string(headers.state);
  }
  context.sampled = exporter_ != nullptr && sampler_.Samples(context.trace_id, parent);
  return context;
}

void Tracer::Ended(std::shared_ptr<const RecordedRequest> record, const RequestSpec& spec) {
  if (spec.trace == nullptr || (!writes_ && !spec.trace->sampled)) return;
  Item item{.record = std::move(record),
            .request = {.context = *spec.trace,
                        .model = model_,
                        .chat = spec.chat,
                        .stream = spec.stream,
                        .max_tokens = spec.no_output ? 0 : spec.sampling.max_tokens(),
                        .choices = spec.sampling.n(),
                        .temperature = spec.sampling.temperature(),
                        .top_p = spec.sampling.top_p(),
                        .top_k = spec.sampling.top_k()}};
  if (queue_.TryPush(std::move(item)) != Pushed::kYes) overflowed_.Add();
}

void Tracer::Loop() {
  while (auto item = queue_.Pop(absl::InfiniteDuration())) {
    RequestTrace trace = LayTrace(item->record->Read(SteadyNow(), /*whole=*/true), item->request);
    item->record.reset();
    if (file_ != nullptr) Write(trace);
    if (exporter_ != nullptr && trace.context.sampled) exporter_->Take(std::move(trace));
  }
  file_.reset();
  ended_.Notify();
}

void Tracer::Write(const RequestTrace& trace) {
  const absl::Status status = file_->Write(trace, SteadyNow());
  if (!status.ok()) unwritten_.Add();
  if (absl::IsResourceExhausted(status)) {
    if (!std::exchange(told_of_crowd_, true)) {
      LogWarning("--trace-file {}: {}", LogSafe(file_->path()), LogSafe(status.message()));
    }
    return;
  }
  const bool failed_before = std::exchange(failing_, !status.ok());
  if (!status.ok()) {
    ++missing_in_file_;
    if (!failed_before) LogWarning("{}", LogSafe(status.message()));
  } else if (failed_before) {
    LogInfo("--trace-file {}: is written again; {} requests are missing", LogSafe(file_->path()),
            std::exchange(missing_in_file_, 0));
  }
}

bool Tracer::Close(absl::Duration limit) {
  const absl::Time by = SteadyNow() + limit;
  queue_.Close();
  if (!ended_.WaitFor(limit)) return false;
  return exporter_ == nullptr || exporter_->Close(std::max(by - SteadyNow(), absl::ZeroDuration()));
}

}  // namespace baton
