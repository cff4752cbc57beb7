// A request's machine with workers and a client behind it, for fuzzers: ends the process when the
// machine asks for what makes no sense.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/router/request/machine_harness.h"

namespace baton {

class RequestHarness {
 public:
  explicit RequestHarness(RequestSpec spec);

  bool done() const { return harness_.machine.done(); }
  uint32_t last_attempt() const { return harness_.machine.attempt(); }
  bool waits_for_workers() const { return !asks_.empty(); }

  // What a worker says in a call that was never begun cannot come, and is left out; that of an
  // attempt that there is not can.
  void Do(RequestEvent event);
  // Workers for the attempt that has waited longest; `local`: none for the prefill, where one for
  // decoding is asked for. REQUIRES: waits_for_workers().
  void Choose(uint64_t decode_id, bool local, const std::string& numerics);
  // There are none. REQUIRES: waits_for_workers().
  void ChooseNone();
  void Pass(absl::Duration time);

  // The next right token that the worker of that call has; of any call, open or not.
  internal::v1::OutputToken NextFromDecode(uint32_t attempt, uint32_t choice);
  internal::v1::OutputToken NextFromPrefill(uint32_t attempt, uint32_t choice) const;

  // Each of these ends the request, in whatever state it is.
  void ClientLeaves() { Do(ClientCancelled{}); }
  void RouterGivesUp() { Do(Abandoned{absl::UnavailableError("shutdown")}); }
  void AllWorkersDie();
  void NothingHappens();
  // Whatever comes now, nothing is asked for any more. REQUIRES: done().
  void CheckEnd();

 private:
  // A call to a worker. The machine may speak of one that has ended, which then goes nowhere.
  struct Call {
    uint64_t worker_id = 0;  // the chosen one; 0: none
    bool begun = false, ended = false;
    bool cancelled = false, closed = false;  // by the machine
    bool finished = false;                   // the worker has said so, and ends it by itself
    bool open() const { return begun && !ended && !cancelled; }
  };
  struct Attempt {
    WorkerNeeds needs{.choices = 0};  // 0: its workers were not asked for
    Call decode, prefill;
    uint32_t first_output = 0;                      // first output that its workers compute
    std::map<uint32_t, uint32_t> next_from_decode;  // output index, [choice]
  };

  void ReadActions();
  bool CanCome(const RequestEvent& event) const;
  void Told(const RequestEvent& event);
  void Check(const RequestAction& action);
  void Asked(const ChooseWorkers& ask);
  void Begun(Call& call, uint64_t worker_id) const;
  void Delivered(const v1::GenerateChunk& chunk) const;
  void Completed(const Complete& complete) const;
  void CheckNoCallIsLeft() const;
  // It goes on from the tokens that were accepted.
  void CheckSequence(const internal::v1::SequenceSpec& sequence, Attempt& attempt) const;
  internal::v1::OutputToken Right(uint32_t choice, uint32_t index) const;

  MachineHarness harness_;
  size_t read_ = 0;  // number of the harness's actions that were read
  bool ended_ = false;
  std::vector<uint32_t> asks_;  // attempts that wait for their workers
  std::map<uint32_t, Attempt> attempts_;
};

}  // namespace baton
