#include "common/engine/mask_thread.h"

#include <sys/resource.h>
#include <unistd.h>

#include "absl/types/span.h"

#include "common/base/token_mask.h"

namespace baton {
namespace {

// About a tenth of a CPU that the steps want too.
constexpr int kNice = 10;

absl::Status CatchUp(GrammarState& state, absl::Span<const int32_t> outputs) {
  return state.stalled() ? state.Restore(outputs) : state.Replay(outputs.subspan(state.accepted()));
}

void Make(MaskJob& job) {
  GrammarBudget budget = job.state.budget();
  budget.at_once = absl::InfiniteDuration();
  job.state.SetBudget(budget);
  job.state.SetStop(&job.unwanted);
  job.mask.resize(MaskWords(job.state.vocab_size()));
  job.why = CatchUp(job.state, job.outputs);
  if (job.why.ok()) job.why = job.state.FillMask(absl::MakeSpan(job.mask));
  if (!job.why.ok()) job.mask.assign(job.mask.size(), 0);
  job.state.SetStop(nullptr);
}

}  // namespace

MaskThread::~MaskThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (running_ != nullptr) running_->unwanted = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

// tests/planted_bugs: mask_asked
std::shared_ptr<MaskJob> MaskThread::Ask(GrammarState state, std::vector<int32_t> outputs) {
  const absl::Duration spent = state.spent();
  auto job = std::make_shared<MaskJob>(std::move(state), std::move(outputs));
  {
    const std::lock_guard lock(mutex_);
    waiting_.emplace(spent, job);
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  changed_.notify_one();
  MaskJob* const asked = job.get();
  return {asked, [job = std::move(job)](MaskJob*) { job->unwanted = true; }};
}

void MaskThread::Run() {
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice);  // where it may not: as the others
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (stopping_) return;
    running_ = std::move(waiting_.begin()->second);
    waiting_.erase(waiting_.begin());
    lock.unlock();
    if (!running_->unwanted) Make(*running_);
    lock.lock();
    running_->done = true;
    running_.reset();
    lock.unlock();
    on_done_();
    lock.lock();
  }
}

}  // namespace baton
