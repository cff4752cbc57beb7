// The table of all failpoints, in the order in which a request reaches them.
// tests/failpoints_test.py compares it with the sources, where each name stands exactly once.
#pragma once

#include <cstddef>
#include <iterator>
#include <string_view>

namespace baton {

// What a point can do besides sleeping, killing and stopping its process.
enum class FailpointForm {
  kPlain,   // BATON_FAILPOINT: nothing
  kStatus,  // BATON_FAILPOINT_STATUS: return an error
  kBytes,   // BATON_FAILPOINT_BYTES: corrupt bytes
};

struct FailpointEntry {
  std::string_view name;  // the part of the program, a dot and the transition
  FailpointForm form;
};

inline constexpr FailpointEntry kFailpoints[] = {
    // The router.
    {"router.before_admit", FailpointForm::kStatus},
    {"router.admitted", FailpointForm::kPlain},
    {"router.prepared", FailpointForm::kPlain},
    {"router.before_choose", FailpointForm::kPlain},
    {"router.workers_found", FailpointForm::kPlain},
    {"router.before_open_decode", FailpointForm::kPlain},
    {"router.accepted", FailpointForm::kPlain},
    {"router.before_start_prefill", FailpointForm::kPlain},
    {"router.before_token", FailpointForm::kPlain},
    {"router.before_deliver", FailpointForm::kPlain},
    {"router.committed", FailpointForm::kPlain},
    {"router.attempt_broke", FailpointForm::kPlain},
    {"router.before_cancel_decode", FailpointForm::kPlain},
    {"router.before_complete", FailpointForm::kPlain},
    {"router.before_fail", FailpointForm::kPlain},
    // The prefill worker, and the sender in it.
    {"prefill.before_call", FailpointForm::kStatus},
    {"prefill.before_submit", FailpointForm::kStatus},
    {"prefill.submitted", FailpointForm::kPlain},
    {"prefill.started", FailpointForm::kPlain},
    {"send_machine.before_open", FailpointForm::kPlain},
    {"send_driver.before_stream", FailpointForm::kPlain},
    {"send_machine.opened", FailpointForm::kPlain},
    {"prefill.layer_computed", FailpointForm::kPlain},
    {"data_sender.before_data", FailpointForm::kPlain},
    {"kv_buffer.header", FailpointForm::kBytes},
    {"send_driver.before_write", FailpointForm::kPlain},
    {"data_sender.acknowledged", FailpointForm::kPlain},
    {"prefill.chunk_computed", FailpointForm::kPlain},
    {"send_machine.before_checkpoint", FailpointForm::kPlain},
    {"prefill.before_first_token", FailpointForm::kPlain},
    {"prefill.after_first_token", FailpointForm::kPlain},
    {"send_machine.before_commit", FailpointForm::kPlain},
    {"send_machine.digest", FailpointForm::kBytes},
    {"send_machine.committed", FailpointForm::kPlain},
    {"send_machine.before_abort", FailpointForm::kPlain},
    {"prefill.push_finished", FailpointForm::kPlain},
    {"prefill.before_finished", FailpointForm::kPlain},
    {"prefill.before_release", FailpointForm::kPlain},
    {"send_driver.before_release", FailpointForm::kPlain},
    // The decode worker, and the receiver in it.
    {"decode.before_call", FailpointForm::kStatus},
    {"attempt_registry.before_supersede", FailpointForm::kPlain},
    {"decode.before_submit", FailpointForm::kStatus},
    {"decode.submitted", FailpointForm::kPlain},
    {"decode.before_accepted", FailpointForm::kPlain},
    {"decode.accepted", FailpointForm::kPlain},
    {"receive_stream.before_open", FailpointForm::kPlain},
    {"receive_machine.before_open", FailpointForm::kPlain},
    {"receive_machine.opened", FailpointForm::kPlain},
    {"decode.before_grant", FailpointForm::kPlain},
    {"receive_machine.granted", FailpointForm::kPlain},
    {"receive_stream.message", FailpointForm::kPlain},
    {"data_receiver.before_copy", FailpointForm::kPlain},
    {"payload_copier.rows", FailpointForm::kBytes},
    {"receive_machine.copied", FailpointForm::kPlain},
    {"receive_machine.before_checkpoint", FailpointForm::kPlain},
    {"receive_machine.checkpointed", FailpointForm::kPlain},
    {"receive_machine.before_commit", FailpointForm::kPlain},
    {"receive_machine.committed", FailpointForm::kPlain},
    {"decode.before_committed", FailpointForm::kPlain},
    {"decode.committed", FailpointForm::kPlain},
    {"decode.before_token", FailpointForm::kPlain},
    {"decode.before_finished", FailpointForm::kPlain},
    {"decode.push_failed", FailpointForm::kPlain},
    {"receive_machine.before_abort", FailpointForm::kPlain},
    {"receive_machine.before_release", FailpointForm::kPlain},
    {"decode.before_release", FailpointForm::kPlain},
    {"decode.done", FailpointForm::kPlain},
    // The engine of either worker.
    {"engine.before_add", FailpointForm::kPlain},
    {"engine.admitted", FailpointForm::kPlain},
    {"engine.preempted", FailpointForm::kPlain},
    {"engine.before_grant", FailpointForm::kPlain},
    {"engine.before_commit", FailpointForm::kPlain},
    {"engine.committed", FailpointForm::kPlain},
    {"engine.before_step", FailpointForm::kPlain},
    {"engine.layer_done", FailpointForm::kPlain},
    {"engine.page", FailpointForm::kBytes},
    {"engine.step_done", FailpointForm::kPlain},
    {"engine.before_token", FailpointForm::kPlain},
    {"engine.before_finish", FailpointForm::kPlain},
    {"engine.before_release", FailpointForm::kPlain},
};

inline constexpr size_t kFailpointCount = std::size(kFailpoints);

// The index in kFailpoints. It is computed at compile time, so a name that is not in the table, or
// that has another form there, is a compile error.
consteval size_t FailpointIndex(std::string_view name, FailpointForm form) {
  size_t index = 0;
  while (kFailpoints[index].name != name || kFailpoints[index].form != form) ++index;
  return index;
}

}  // namespace baton
