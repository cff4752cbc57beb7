#include "common/engine/engine_thread.h"

#include "absl/time/time.h"

namespace baton {

EngineThread::EngineThread(Engine& engine) : engine_(engine), thread_(&EngineThread::Run, this) {}

EngineThread::~EngineThread() {
  stop_ = true;
  engine_.Wake();
  thread_.join();
}

void EngineThread::Run() {
  while (!stop_) {
    if (!engine_.Step()) engine_.WaitForWork(absl::Seconds(1));
  }
}

}  // namespace baton
