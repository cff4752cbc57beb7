// NVIDIA's multi-process service (MPS), for workers that share a GPU: without it their kernels take
// turns, with it they run at the same time. NVIDIA's documentation of it describes the program, its
// variables and its files.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "client/serve/child_process.h"

namespace baton {

// Use it on the main thread only: it starts children, and changes the environment.
class MpsControl {
 public:
  // Starts nvidia-cuda-mps-control of PATH with a folder of its own, and waits until it is ready.
  // From then on all processes that this one starts are its clients, as the environment says.
  // Errors name --cuda-mps: NOT_FOUND without the program, FAILED_PRECONDITION where the
  // environment names such a service already or the program ends, DEADLINE_EXCEEDED if it is not
  // ready after `timeout`.
  static absl::StatusOr<std::unique_ptr<MpsControl>> Start(
      absl::Duration timeout = absl::Seconds(20));
  MpsControl(const MpsControl&) = delete;
  MpsControl& operator=(const MpsControl&) = delete;
  // Asks it to quit, as it does when its clients have ended, and kills it if that takes seconds.
  ~MpsControl();

  // False once it has ended. Its clients go on, and programs that start later do without it.
  bool Runs() { return !process_.Poll().has_value(); }
  pid_t pid() const { return process_.pid(); }

 private:
  MpsControl(std::string program, std::string folder, ChildProcess process)
      : program_(std::move(program)), folder_(std::move(folder)), process_(std::move(process)) {}

  const std::string program_;  // path
  const std::string folder_;   // path of the folder of its pipes and its log
  ChildProcess process_;
};

}  // namespace baton
