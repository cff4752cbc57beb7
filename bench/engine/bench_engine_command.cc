#include "bench/engine/bench_engine_command.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "bench/engine/bench_report.h"
#include "bench/engine/engine_bench.h"
#include "bench/model/random_model.h"
#include "common/backend/cpu/peaks.h"
#include "common/backend/cuda/cuda_peaks.h"
#include "common/base/kv_type_name.h"
#include "common/base/progress_line.h"
#include "common/base/standard_output.h"
#include "common/base/status_macros.h"
#include "common/engine/engine_options.h"
#include "common/flags/flag_group.h"
#include "common/flags/shared_helps.h"
#include "common/worker/worker_flags.h"

namespace baton {
namespace {

constexpr char kProgram[] = "baton bench engine";
constexpr int kMaxTokens = 1 << 24;
constexpr int kMaxSequences = 4096;
constexpr int kMaxRepetitions = 1000;
constexpr int kProductRows = 512;

absl::Status CheckOptions(const BenchEngineOptions& options, const FlagSet& flags) {
  BATON_RETURN_IF_ERROR(flags.CheckNotBoth("model", "shape"));
  if (options.model.empty() && options.shape.empty()) {
    return absl::InvalidArgumentError("--model is missing; name a GGUF file, or a --shape");
  }
  BATON_RETURN_IF_ERROR(flags.CheckNeeds("weights", "shape"));
  BATON_RETURN_IF_ERROR(flags.CheckNeeds("write-gguf", "shape"));
  return CheckBlockSize(options.engine.block_size);
}

int Largest(const std::vector<int>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

// The processor that computes the model, and the measurement of its limits.
class Processor {
 public:
  static absl::StatusOr<Processor> Of(const BenchEngineOptions& options, const EngineBench& bench) {
    Processor processor;
    processor.weights_type_ = bench.weights_type();
    if (bench.backend().Name() != std::string("cpu")) return processor;
    BATON_ASSIGN_OR_RETURN(processor.cpu_, ResolveCpuSettings(options.backend));
    BATON_ASSIGN_OR_RETURN(processor.memory_, MemoryReader::Create(processor.PeakOptions()));
    return processor;
  }

  void Describe(const EngineBench& bench, BenchReport& report) const {
    report.device = bench.backend().Name();
    report.name = cpu_ ? CpuName() : bench.backend().Description();
    if (!cpu_) return;
    report.isa = CpuIsaName(cpu_->isa);
    report.threads = cpu_->threads;
  }

  absl::StatusOr<BenchPeaks> Measure() {
    ProgressLine progress("what the machine can do");
    progress.Tick();
    if (!cpu_) {
      BATON_ASSIGN_OR_RETURN(const CudaPeaks peaks,
                             MeasureCudaPeaks({.weights_type = weights_type_}));
      copy_gb_s_ = peaks.copy_gb_s;
      return BenchPeaks{.memory_gb_s = peaks.copy_gb_s, .float_gflops = peaks.gemm_gflops};
    }
    BATON_ASSIGN_OR_RETURN(const CpuPeaks peaks, MeasureCpuPeaks(PeakOptions()));
    return BenchPeaks{.memory_gb_s = peaks.memory_read_gb_s,
                      .int8_gops = peaks.int8_gops,
                      .float_gflops = peaks.f32_gflops};
  }

  // The rate of memory at this moment. No other program uses the GPU's memory, so there it is the
  // rate that Measure found.
  double MemoryGbPerSecond() { return memory_ ? memory_->GbPerSecond() : copy_gb_s_; }

 private:
  CpuPeakOptions PeakOptions() const {
    return {.isa = cpu_->isa,
            .threads = cpu_->threads,
            .cpus = cpu_->cpus,
            .weights_type = weights_type_};
  }

  GgmlType weights_type_ = GgmlType::kF32;
  std::optional<CpuSettings> cpu_;
  std::unique_ptr<MemoryReader> memory_;  // null on a GPU
  double copy_gb_s_ = 0;
};

// Runs the tests that the options name, in order, and keeps their results.
class TestRun {
 public:
  TestRun(const BenchEngineOptions& options, EngineBench& bench, Processor& processor)
      : options_(options), bench_(bench), processor_(processor) {}

  // Reserves one KV cache that is large enough for every test. An error names the flags.
  absl::Status Reserve() {
    const int depth = Largest(options_.depths);
    const int prompt = Largest(options_.prompts);
    const int steps = Largest(options_.generations);
    for (const auto& [flag, tokens] :
         {std::pair("--n-prompt ", prompt), std::pair("--n-gen ", steps)}) {
      if (depth + tokens <= bench_.config().context_length) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(flag, tokens, " at --n-depth ", depth, ": ", depth + tokens,
                       " tokens exceed the model's context of ", bench_.config().context_length));
    }
    const int batch = steps > 0 ? Largest(options_.batches) : 1;
    const absl::Status status = bench_.Reserve(depth + prompt, depth + steps, batch);
    if (status.ok()) return status;
    return absl::Status(status.code(),
                        absl::StrCat(status.message(), "; lower --batch or --n-depth"));
  }

  // Runs every test. REQUIRES: Reserve() has succeeded.
  absl::StatusOr<std::vector<BenchResult>> All() {
    for (const int depth : options_.depths) {
      for (const int tokens : options_.prompts) {
        if (tokens > 0) Prefill(tokens, depth);
      }
      for (const int batch : options_.batches) {
        for (const int steps : options_.generations) {
          if (steps > 0) Decode(steps, depth, batch);
        }
      }
    }
    if (Largest(options_.prompts) > 0) BATON_RETURN_IF_ERROR(Products());
    return std::move(results_);
  }

 private:
  void Prefill(int tokens, int depth) {
    ProgressLine progress(absl::StrCat("pp", tokens, " at depth ", depth));
    bench_.Prepare(depth, /*sequences=*/1, [&] { progress.Tick(); });
    Repeat({.test = absl::StrCat("pp", tokens),
            .depth = depth,
            .limit = BenchResult::Limit::kPeak,
            .work = bench_.PrefillWork(tokens)},
           tokens, progress, [&] { return bench_.Prefill(tokens); });
  }

  void Decode(int steps, int depth, int batch) {
    ProgressLine progress(absl::StrCat("tg", steps, " at depth ", depth, ", batch ", batch));
    bench_.Prepare(depth, batch, [&] { progress.Tick(); });
    Repeat({.test = absl::StrCat("tg", steps),
            .depth = depth,
            .batch = batch,
            .limit = BenchResult::Limit::kBandwidth,
            .work = bench_.DecodeWork(depth, steps, batch)},
           steps * batch, progress, [&] { return bench_.Decode(steps); });
  }

  absl::Status Products() {
    ProgressLine progress("matrix products");
    BATON_ASSIGN_OR_RETURN(ProductBuffers buffers, bench_.MakeProductBuffers(kProductRows));
    Repeat({.test = absl::StrCat("gemm", kProductRows),
            .limit = BenchResult::Limit::kPeak,
            .work = bench_.ProductsWork()},
           kProductRows, progress, [&] { return bench_.Products(buffers); });
    return absl::OkStatus();
  }

  // Calls `compute`, which computes `tokens` tokens, once to warm up and then once for each
  // repetition. Adds `result` with one sample for each repetition.
  void Repeat(BenchResult result, int tokens, ProgressLine& progress,
              absl::FunctionRef<absl::Duration()> compute) {
    const bool reads = result.limit == BenchResult::Limit::kBandwidth;
    double before = 0;
    for (int i = 0; i <= options_.repetitions; ++i) {
      const absl::Duration elapsed = compute();
      if (i > 0) result.samples.push_back(tokens / absl::ToDoubleSeconds(elapsed));
      if (reads) {
        const double after = processor_.MemoryGbPerSecond();
        if (i > 0) result.read_gb_s.push_back((before + after) / 2);
        before = after;
      }
      progress.Tick();
    }
    results_.push_back(std::move(result));
  }

  const BenchEngineOptions& options_;
  EngineBench& bench_;
  Processor& processor_;
  std::vector<BenchResult> results_;
};

// Takes the higher of two measurements of each peak: other programs and a lower clock of the
// processor only ever lower it.
BenchPeaks Better(const BenchPeaks& a, const BenchPeaks& b) {
  return {.memory_gb_s = std::max(a.memory_gb_s, b.memory_gb_s),
          .int8_gops = std::max(a.int8_gops, b.int8_gops),
          .float_gflops = std::max(a.float_gflops, b.float_gflops)};
}

absl::StatusOr<std::unique_ptr<EngineBench>> LoadModel(const BenchEngineOptions& options) {
  std::string path = options.model;
  std::optional<RandomModelFile> random;
  ProgressLine progress("loading the model");
  if (!options.shape.empty()) {
    BATON_ASSIGN_OR_RETURN(const ModelShape shape, FindModelShape(options.shape));
    BATON_ASSIGN_OR_RETURN(const GgmlType type, ParseWeightsType(options.weights));
    BATON_ASSIGN_OR_RETURN(RandomModelFile file, RandomModelFile::Create(shape, type));
    path = file.path();
    random.emplace(std::move(file));
  }
  return EngineBench::Load(path,
                           {.backend = options.backend,
                            .block_size = options.engine.block_size,
                            .kv_dtype = options.engine.kv_dtype,
                            .max_num_batched_tokens = options.engine.max_num_batched_tokens},
                           [&](double done) { progress.Tick(done); });
}

absl::StatusOr<BenchReport> Measure(const BenchEngineOptions& options) {
  BATON_ASSIGN_OR_RETURN(const std::unique_ptr<EngineBench> bench, LoadModel(options));
  BATON_ASSIGN_OR_RETURN(Processor processor, Processor::Of(options, *bench));
  BenchReport report{.model = bench->config().name.empty()
                                  ? options.model.substr(options.model.find_last_of('/') + 1)
                                  : bench->config().name,
                     .weights_type = GgmlTypeName(bench->weights_type()),
                     .model_bytes = bench->model_bytes(),
                     .repacked_bytes = bench->repacked_bytes(),
                     .kv_cache_dtype = KvTypeName(options.engine.kv_dtype),
                     .layers = bench->config().layers,
                     .kv_bytes_per_token = bench->kv_bytes_per_token(),
                     .block_size = options.engine.block_size,
                     .max_num_batched_tokens = options.engine.max_num_batched_tokens};
  processor.Describe(*bench, report);
  TestRun tests(options, *bench, processor);
  BATON_RETURN_IF_ERROR(tests.Reserve());
  // Peaks are measured before and after the tests, since the machine may be slower for a while.
  BATON_ASSIGN_OR_RETURN(const BenchPeaks before, processor.Measure());
  BATON_ASSIGN_OR_RETURN(report.results, tests.All());
  BATON_ASSIGN_OR_RETURN(const BenchPeaks after, processor.Measure());
  report.peaks = Better(before, after);
  return report;
}

absl::Status WriteModel(const BenchEngineOptions& options) {
  BATON_ASSIGN_OR_RETURN(const ModelShape shape, FindModelShape(options.shape));
  BATON_ASSIGN_OR_RETURN(const GgmlType type, ParseWeightsType(options.weights));
  return WriteRandomModel(shape, type, options.write_gguf);
}

int Bench(const BenchEngineOptions& options) {
  if (!options.write_gguf.empty()) {
    const absl::Status status = WriteModel(options);
    return status.ok() ? 0 : ExitUsage(kProgram, status);
  }
  const absl::StatusOr<BenchReport> report = Measure(options);
  if (!report.ok()) return ExitUsage(kProgram, report.status());
  const std::string text = options.json ? FormatJson(*report) + "\n" : FormatTable(*report);
  WriteOutput(text);
  return 0;
}

}  // namespace

void BenchEngineCommand::AddFlags(FlagSet& flags) {
  flags.SetGroup(FlagGroup::kModel);
  flags.AddString("model=FILE", options_.model, "GGUF file or Hugging Face folder to measure");
  flags.AddString("shape=NAME", options_.shape,
                  "Measure random weights in the shape of a known model, instead of --model: "
                  "smollm2-135m, qwen2.5-0.5b, qwen3-0.6b, gemma-3-1b, llama-3.2-1b, llama-3.2-3b, "
                  "llama-3.1-8b or qwen3-30b-a3b-4-layers");
  flags.AddString("weights=TYPE", options_.weights,
                  "Type of the random weights of --shape, such as q4_1, q8_0, q4_k or bf16");
  flags.AddString("write-gguf=FILE", options_.write_gguf,
                  "Write the random model of --shape to this file and measure nothing");
  AddComputeFlags(flags, options_.backend, options_.engine);
  flags.SetGroup(FlagGroup::kLoad);
  flags.AddInts("p,n-prompt", options_.prompts, 0, kMaxTokens,
                "Lengths of the prompts to prefill, in tokens; 0: no prefill");
  flags.AddInts("n,n-gen", options_.generations, 0, kMaxTokens,
                "Numbers of steps to decode; 0: no decode");
  flags.AddInts("d,n-depth", options_.depths, 0, kMaxTokens,
                "Numbers of tokens that the KV cache holds when a test begins");
  flags.AddInts("b,batch", options_.batches, 1, kMaxSequences,
                "Numbers of sequences that decode together");
  flags.AddInt("r,repetitions", options_.repetitions, 1, kMaxRepetitions,
               "Repetitions of each test, after one that warms up");
  flags.SetGroup(FlagGroup::kOutput);
  flags.AddBool("json", options_.json, kJsonHelp);
  flags.ShowFirst({"model", "shape", "weights", "device", "threads", "n-prompt", "n-gen", "n-depth",
                   "batch", "json"});
  flags.AddExample("baton bench engine --model model.gguf",
                   "Measure a prompt of 512 tokens and 64 decode steps");
  flags.AddExample("baton bench engine --model model.gguf -p 512 -n 64 -d 0,4096 -b 1,16",
                   "Measure with an empty and a filled KV cache, and with 1 and 16 sequences");
  flags.AddExample("baton bench engine --shape llama-3.2-1b --weights q4_k --json",
                   "Measure a model with random weights, and print JSON for a script");
}

int BenchEngineCommand::Run(const FlagSet& flags) {
  const absl::Status status = CheckOptions(options_, flags);
  return status.ok() ? Bench(options_) : ExitUsage(kProgram, status);
}

}  // namespace baton
