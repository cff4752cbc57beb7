// Compares shared CPUs with CPUs of one's own. Two processes decode at once, each four sequences by
// default, as a busy worker does: first with pools of two threads on the same two CPUs, then with
// one thread each on a CPU of its own. Prints the total tokens/s of both ways and their ratio; the
// exit code is 1 if the ratio is below 1.3. Measured on an idle machine: 1.19 with one sequence
// each (there the memory is the limit), 1.22 with two, 1.28 to 1.30 with four, 1.26 with eight.
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/backend/cpu/machine/cpu_set.h"
#include "common/backend/make_backend.h"
#include "common/base/standard_error.h"
#include "common/base/standard_output.h"
#include "common/gguf/gguf_file.h"
#include "common/kv/cache.h"
#include "common/model/transformer.h"

namespace baton {
namespace {

using std::chrono::steady_clock;

constexpr double kLeastRatio = 1.3;
constexpr int kRounds = 5;
constexpr int kSequences = 4;
constexpr int kMaxSequences = 64;
constexpr int kContext = 256;  // tokens of a sequence, after which it begins again
constexpr auto kTimeout = std::chrono::seconds(60);
constexpr auto kMeasured = std::chrono::milliseconds(1000);

struct Pipe {
  int read_end = -1;
  int write_end = -1;
};

std::optional<Pipe> MakePipe() {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return std::nullopt;
  return Pipe{ends[0], ends[1]};
}

// Decodes `sequences` sequences at once for kMeasured; returns tokens/s.
double MeasureDecode(Transformer& model, KvCache& cache, int sequences) {
  const auto vocab_size = static_cast<std::ptrdiff_t>(model.config().vocab_size);
  const int blocks = cache.block_count() / sequences;
  std::vector<std::vector<int32_t>> block_tables;
  Batch batch;
  for (int i = 0; i < sequences; ++i) {
    std::vector<int32_t>& table = block_tables.emplace_back(static_cast<size_t>(blocks));
    std::iota(table.begin(), table.end(), i * blocks);
    batch.tokens.push_back(InputToken::Id(i + 1));
    batch.logits_rows.push_back(i);
  }
  std::vector<float> logits(static_cast<size_t>(sequences * vocab_size));
  const auto start = steady_clock::now();
  int steps = 0;
  for (; steady_clock::now() - start < kMeasured; ++steps) {
    batch.sequences.clear();
    for (int i = 0; i < sequences; ++i) {
      batch.sequences.push_back(
          {i, 1, steps % kContext, block_tables[static_cast<size_t>(i)].data(), blocks});
    }
    model.Forward(
        batch, cache, [](int) {}, absl::MakeSpan(logits));
    for (int i = 0; i < sequences; ++i) {
      const auto row = logits.begin() + i * vocab_size;
      batch.tokens[static_cast<size_t>(i)] =
          InputToken::Id(static_cast<int32_t>(std::max_element(row, row + vocab_size) - row));
    }
  }
  return steps * sequences / std::chrono::duration<double>(steady_clock::now() - start).count();
}

struct Work {
  std::string model;  // path of the GGUF file
  int sequences = 1;  // sequences that each process decodes at once
};

int Fail(const std::string& why) {
  WriteErrorLine("baton-bench-shared-cores", why);
  return 2;
}

// The child process: sends a byte when the model is loaded, then a rate for every byte it receives.
int DecodeWhenTold(const Work& work, int threads, const std::string& cpu_set, Pipe orders,
                   Pipe answers) {
  const auto file = GgufFile::Open(work.model);
  if (!file.ok()) return Fail(file.status().ToString());
  const auto backend = MakeBackend({.device = "cpu", .threads = threads, .cpu_set = cpu_set});
  if (!backend.ok()) return Fail(backend.status().ToString());
  const auto model = Transformer::Load(*file, **backend, [](double) {});
  if (!model.ok()) return Fail(model.status().ToString());
  KvLayout layout = (*model)->MakeKvLayout(/*block_size=*/32, KvType::kF16);
  layout.groups = {};
  const auto cache =
      KvCache::Create(**backend, layout, work.sequences * layout.BlocksFor(kContext));
  if (!cache.ok()) return Fail(cache.status().ToString());
  double rate = 0;
  do {
    if (write(answers.write_end, &rate, sizeof(rate)) != sizeof(rate)) return 2;
    char order = 0;
    if (read(orders.read_end, &order, 1) != 1) return 0;  // the parent has ended
    rate = MeasureDecode(**model, **cache, work.sequences);
  } while (true);
}

struct Child {
  Pipe orders;
  Pipe answers;

  void Go() const { (void)!write(orders.write_end, "g", 1); }
  // The child's next answer; nullopt if the child has failed.
  std::optional<double> Answer() const {
    pollfd waiting{.fd = answers.read_end, .events = POLLIN, .revents = 0};
    const auto timeout_ms = std::chrono::milliseconds(kTimeout).count();
    double rate = 0;
    if (poll(&waiting, 1, static_cast<int>(timeout_ms)) != 1) return std::nullopt;
    if (read(answers.read_end, &rate, sizeof(rate)) != sizeof(rate)) return std::nullopt;
    return rate;
  }
};

std::optional<Child> StartChild(const Work& work, int threads, const std::string& cpu_set) {
  const auto orders = MakePipe();
  const auto answers = MakePipe();
  if (!orders || !answers) return std::nullopt;
  const pid_t child = fork();
  if (child < 0) return std::nullopt;
  if (child == 0) {
    close(orders->write_end);
    close(answers->read_end);
    _exit(DecodeWhenTold(work, threads, cpu_set, *orders, *answers));
  }
  close(orders->read_end);
  close(answers->write_end);
  return Child{*orders, *answers};
}

// Total tokens/s of two children that decode at once.
std::optional<double> Together(const std::array<Child, 2>& children) {
  for (const Child& child : children) child.Go();
  double total = 0;
  for (const Child& child : children) {
    const auto rate = child.Answer();
    if (!rate) return std::nullopt;
    total += *rate;
  }
  return total;
}

int Main(const Work& work) {
  const std::vector<int> cpus = UsableCpus();
  if (cpus.size() < 2) return Fail("needs two CPUs");
  const std::string both = absl::StrCat(cpus[0], ",", cpus[1]);
  std::vector<Child> started;
  for (const auto& [threads, cpu_set] : std::vector<std::pair<int, std::string>>{
           {2, both}, {2, both}, {1, absl::StrCat(cpus[0])}, {1, absl::StrCat(cpus[1])}}) {
    const auto child = StartChild(work, threads, cpu_set);
    if (!child || !child->Answer()) return Fail("a child has failed");
    started.push_back(*child);
  }
  std::vector<double> shared;
  std::vector<double> own;
  for (int round = 0; round < kRounds; ++round) {
    const auto a = Together({started[0], started[1]});
    const auto b = Together({started[2], started[3]});
    if (!a || !b) return Fail("a child has failed");
    shared.push_back(*a);
    own.push_back(*b);
  }
  std::sort(shared.begin(), shared.end());
  std::sort(own.begin(), own.end());
  const double ratio = own[kRounds / 2] / shared[kRounds / 2];
  WriteOutput(absl::StrFormat("2 threads each on CPUs %s: %.0f tokens/s together (%.0f to %.0f)\n",
                              both, shared[kRounds / 2], shared.front(), shared.back()));
  WriteOutput(
      absl::StrFormat("1 thread each on a CPU of its own: %.0f tokens/s together (%.0f to %.0f)\n",
                      own[kRounds / 2], own.front(), own.back()));
  WriteOutput(absl::StrFormat("ratio of the medians of %d rounds: %.2f (at least %.1f)\n", kRounds,
                              ratio, kLeastRatio));
  return ratio >= kLeastRatio ? 0 : 1;
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) {
  baton::Work work{.model = argc > 1 ? argv[1] : "", .sequences = baton::kSequences};
  const bool usable = argc == 2 || (argc == 3 && absl::SimpleAtoi(argv[2], &work.sequences) &&
                                    work.sequences > 0 && work.sequences <= baton::kMaxSequences);
  if (!usable) {
    return baton::Fail(absl::StrCat("usage: MODEL.gguf [SEQUENCES, 1 to ", baton::kMaxSequences,
                                    "; default ", baton::kSequences, "]"));
  }
  return baton::Main(work);
}
