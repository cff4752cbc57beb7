#include "router/front/grammar_pool.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/rpc/status.h"
#include "router/front/response_format.h"
#include "router/request/errors.h"

namespace baton {
namespace {

constexpr char kCounter[] = "baton_router_grammar_compilations_total";
constexpr char kCounterHelp[] = "Grammars that were compiled, by what became of them.";

absl::Status NoCompiler() {
  return WithErrorInfo(
      absl::FailedPreconditionError("response_format: this router cannot compile grammars; its "
                                    "operator has to put baton-grammar-compiler in the router's "
                                    "folder, or give its path with --grammar-compiler"),
      {.reason = "NO_GRAMMAR_COMPILER", .stage = kStageQueue});
}

std::unique_ptr<GrammarCompiler> MakeCompiler(const GrammarPool::Options& options,
                                              absl::string_view vocabulary) {
  if (options.program.empty()) return nullptr;
  auto compiler = GrammarCompiler::Create(options.program, vocabulary, options.limits);
  if (compiler.ok()) return *std::move(compiler);
  LogWarning("requests with response_format are refused: --grammar-compiler: {}",
             LogSafe(compiler.status().message()));
  return nullptr;
}

}  // namespace

GrammarPool::GrammarPool(const Options& options, absl::string_view vocabulary, std::string digest,
                         Metrics& metrics)
    : options_(options),
      digest_(std::move(digest)),
      compiler_(MakeCompiler(options, vocabulary)),
      compiled_(metrics.AddCounter(kCounter, kCounterHelp, {{"result", "compiled"}})),
      refused_(metrics.AddCounter(kCounter, kCounterHelp, {{"result", "refused"}})),
      failed_(metrics.AddCounter(kCounter, kCounterHelp, {{"result", "failed"}})),
      cancelled_(metrics.AddCounter(kCounter, kCounterHelp, {{"result", "cancelled"}})),
      hits_(metrics.AddCounter("baton_router_grammar_cache_hits_total",
                               "Requests whose grammar, or why there is none, was known.", {})),
      seconds_(metrics.AddHistogram("baton_router_grammar_compilation_seconds",
                                    "Time that one grammar took to compile.",
                                    RequestDurationBuckets(), {})),
      cache_(options.cache_bytes) {
  metrics.AddGauge("baton_router_grammars_waiting", "Requests that wait for their grammars.", {},
                   [this] {
                     const std::lock_guard lock(mutex_);
                     return static_cast<double>(asks_);
                   });
  for (int i = 0; compiler_ != nullptr && i < options_.threads; ++i) {
    threads_.emplace_back([this] { Run(); });
  }
}

GrammarPool::~GrammarPool() {
  Stop();
  for (std::thread& thread : threads_) thread.join();
}

void GrammarPool::Get(Ask ask) {
  if (compiler_ == nullptr) return ask.done(NoCompiler());
  const std::string key = GrammarKey(ask.tenant, ask.spec, digest_);
  std::optional<GrammarCache::Result> known;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) {
      known = RouterDraining();
    } else if ((known = cache_.Find(key)).has_value()) {
      hits_.Add();
    } else if (absl::Status place = CheckPlace(ask.tenant); !place.ok()) {
      known = std::move(place);
    } else {
      Tenant& tenant = tenants_[ask.tenant];
      ++tenant.asks;
      ++asks_;
      const auto [compilation, added] = compilations_.try_emplace(key);
      if (added) {
        compilation->second.spec = ask.spec;
        compilation->second.tenant = ask.tenant;
        tenant.keys.push_back(key);
      }
      compilation->second.asks.push_back(std::move(ask));
      changed_.notify_one();
      return;
    }
  }
  ask.done(*std::move(known));
}

absl::Status GrammarPool::CheckPlace(const std::string& tenant) const {
  const auto found = tenants_.find(tenant);
  const size_t own = found == tenants_.end() ? 0 : found->second.asks;
  // The anonymous tenant may use all places, since there are no other tenants.
  const bool full = !tenant.empty() && own >= std::max<size_t>(options_.places / 2, 1);
  if (!full && asks_ < options_.places) return absl::OkStatus();
  return QueueFull(absl::StrCat(full ? own : asks_, " requests", full ? " of this tenant" : "",
                                " wait for their grammars"));
}

bool GrammarPool::MayRun(const std::string& name, const Tenant& tenant) const {
  if (tenant.keys.empty()) return false;
  return name.empty() || tenant.running < std::max(options_.threads / 2, 1);
}

GrammarPool::Compilations::iterator GrammarPool::Next() {
  auto turn = tenants_.upper_bound(last_tenant_);
  for (size_t i = 0; i < tenants_.size(); ++i, ++turn) {
    if (turn == tenants_.end()) turn = tenants_.begin();
    if (!MayRun(turn->first, turn->second)) continue;
    const auto next = compilations_.find(turn->second.keys.front());
    turn->second.keys.pop_front();
    last_tenant_ = turn->first;
    return next;
  }
  return compilations_.end();
}

void GrammarPool::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    Compilations::iterator next = compilations_.end();
    changed_.wait(lock, [&] { return stopping_ || (next = Next()) != compilations_.end(); });
    if (stopping_) return;
    ++tenants_[next->second.tenant].running;
    Answers answers;
    DropLate(answers);
    GrammarCache::Result result = absl::CancelledError("nobody waits for the grammar");
    // If a request joined a compilation that was being cancelled, it begins again.
    while (absl::IsCancelled(result.status()) && !next->second.asks.empty()) {
      lock.unlock();
      for (auto& answer : answers) answer();
      answers.clear();
      result = Compile(next->second);
      lock.lock();
    }
    // A failure of a busy machine or a broken program is not remembered.
    if (result.ok() || absl::IsInvalidArgument(result.status())) {
      cache_.Insert(next->first, result);
    }
    Finish(next, result, answers);
    DropLate(answers);
    changed_.notify_all();
    lock.unlock();
    for (auto& answer : answers) answer();
    answers.clear();
    lock.lock();
  }
}

// A running compilation is changed only by requests that join or leave it, and never removed.
GrammarCache::Result GrammarPool::Compile(const Compilation& compilation) {
  const GrammarSpec& spec = compilation.spec;
  const absl::Time begin = SteadyNow();
  absl::StatusOr<std::string> compiled =
      compiler_->Compile(spec, [&] { return IsWanted(compilation); });
  if (absl::IsCancelled(compiled.status())) {
    cancelled_.Add();
    return compiled.status();
  }
  seconds_.Observe(absl::ToDoubleSeconds(SteadyNow() - begin));
  if (compiled.ok()) {
    compiled_.Add();
    return std::make_shared<const std::string>(*std::move(compiled));
  }
  const bool refused = absl::IsInvalidArgument(compiled.status());
  (refused ? refused_ : failed_).Add();
  if (!refused) LogWarning("grammar compiler: {}", LogSafe(compiled.status().message()));
  return GrammarFault(spec.kind, compiled.status());
}

bool GrammarPool::IsWanted(const Compilation& compilation) {
  Answers answers;
  std::unique_lock lock(mutex_);
  DropLate(answers);
  const bool is_wanted = !compilation.asks.empty();
  lock.unlock();
  for (auto& answer : answers) answer();
  return is_wanted;
}

void GrammarPool::Finish(Compilations::iterator compilation, const GrammarCache::Result& result,
                         Answers& answers) {
  --tenants_[compilation->second.tenant].running;
  for (Ask& ask : compilation->second.asks) Answer(std::move(ask), result, answers);
  const auto tenant = tenants_.find(compilation->second.tenant);
  compilations_.erase(compilation);
  if (tenant->second.asks == 0 && tenant->second.running == 0 && tenant->second.keys.empty()) {
    tenants_.erase(tenant);
  }
}

void GrammarPool::DropLate(Answers& answers) {
  const absl::Time now = SteadyNow();
  for (auto& [key, compilation] : compilations_) {
    const auto late = std::stable_partition(
        compilation.asks.begin(), compilation.asks.end(),
        [&](const Ask& ask) { return now < ask.deadline && !ask.cancelled(); });
    for (auto ask = late; ask != compilation.asks.end(); ++ask) {
      const absl::Status why = now < ask->deadline
                                   ? absl::CancelledError("the client cancelled the call")
                                   : DeadlinePassed(kStageQueue);
      Answer(std::move(*ask), why, answers);
    }
    compilation.asks.erase(late, compilation.asks.end());
  }
}

void GrammarPool::Answer(Ask ask, GrammarCache::Result result, Answers& answers) {
  --tenants_[ask.tenant].asks;
  --asks_;
  answers.emplace_back([done = std::move(ask.done), result = std::move(result)]() mutable {
    done(std::move(result));
  });
}

void GrammarPool::Stop() {
  Answers answers;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (auto& [key, compilation] : compilations_) {
      for (Ask& ask : compilation.asks) Answer(std::move(ask), RouterDraining(), answers);
      compilation.asks.clear();
    }
    changed_.notify_all();
  }
  for (auto& answer : answers) answer();
}

}  // namespace baton
