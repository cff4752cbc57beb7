// Tells ThreadSanitizer which orders gRPC promises, and nothing else. Debian's gRPC is not
// instrumented, so without this every reaction would seem to race with the start of its operation.
// The functions here are found before those of gRPC's shared libraries and call them. Orders that
// gRPC's own locks and sockets happen to make are not told (tsan_options.cc), so that they hide no
// race of ours. The promised orders (left before right):
//
//   an operation on a call (read, write, finish, ...)  ->  its reaction
//   the posting of work to a thread of gRPC            ->  that work
//   the start of a server                              ->  all calls that it serves
//   every reaction                                     ->  the end of the server
//   the making of a slice with a release function      ->  the call of that function
//   the release of a reference to bytes                ->  the release of the last reference
#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include <array>

#include "grpc/grpc.h"
#include "grpc/slice.h"
#include "grpcpp/support/server_callback.h"

namespace {

char servers;  // its address stands for the starts and ends of all servers

template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

using Functor = grpc_completion_queue_functor;
using RunFunctor = void(Functor*, int);

#define SUCCESS_RUN \
  "_ZN4grpc8internal22CallbackWithSuccessTag9StaticRunEP29grpc_completion_queue_functori"
#define STATUS_RUN \
  "_ZN4grpc8internal21CallbackWithStatusTag9StaticRunEP29grpc_completion_queue_functori"

}  // namespace

extern "C" {
// gRPC's own function. This program has a copy of it if it uses it.
__attribute__((weak)) void SuccessRun(Functor*, int) asm(SUCCESS_RUN);
__attribute__((weak)) void StatusRun(Functor*, int) asm(STATUS_RUN);
}

namespace {

// The functions by which gRPC's C++ library hears that an operation is done. Other tags belong to
// blocking calls.
const std::array<RunFunctor*, 3>& Runs() {
  static const std::array<RunFunctor*, 3> kRuns = {SuccessRun, StatusRun,
                                                   Next<RunFunctor>(SUCCESS_RUN)};
  return kRuns;
}

template <int kRun>
void RunTraced(Functor* functor, int ok) {
  __tsan_acquire(functor);
  Runs()[kRun](functor, ok);
  __tsan_release(&servers);
}

void Trace(Functor* functor) {
  constexpr std::array<RunFunctor*, 3> kTraced = {RunTraced<0>, RunTraced<1>, RunTraced<2>};
  for (size_t i = 0; i < kTraced.size(); ++i) {
    if (Runs()[i] != nullptr && functor->functor_run == Runs()[i]) {
      functor->functor_run = kTraced[i];
      return;
    }
  }
}

// The layout of gRPC 1.51's closure. ServerCall is grpc::internal::ServerCallbackCall.
struct Closure {
  void* next;
  void (*run)(void* argument, void* status);
  void* argument;
};
struct TracedClosure {
  void (*run)(void* argument, void* status);
  void* argument;
};

void RunClosure(void* argument, void* status) {
  __tsan_acquire(argument);
  auto* traced = static_cast<TracedClosure*>(argument);
  traced->run(traced->argument, status);
  delete traced;
  __tsan_release(&servers);
}

struct ServerCall {
  void* functions;
  int cancel_conditions;
  int outstanding_callbacks;
};
static_assert(sizeof(ServerCall) == sizeof(grpc::internal::ServerCallbackCall));

// Receives the cancellation in the place of `reactor`, then deletes itself.
class TracedCancel final : public grpc::internal::ServerReactor {
 public:
  TracedCancel(ServerCall* call, grpc::internal::ServerReactor* reactor)
      : call_(call), reactor_(reactor) {}
  void OnCancel() override {
    reactor_->OnCancel();
    __tsan_release(&call_->outstanding_callbacks);
    delete this;
  }
  void OnDone() override {}

 private:
  ServerCall* const call_;
  grpc::internal::ServerReactor* const reactor_;
};

struct TracedSlice {
  void (*destroy)(void*);
  void* argument;
};

void DestroySlice(void* argument) {
  __tsan_acquire(argument);
  auto* traced = static_cast<TracedSlice*>(argument);
  traced->destroy(traced->argument);
  delete traced;
}

void GiveUp(const grpc_slice& slice) {
  if (slice.refcount == nullptr) return;  // the slice itself has its bytes
  __tsan_release(slice.refcount);
  __tsan_acquire(slice.refcount);
}

}  // namespace

extern "C" {

grpc_call_error grpc_call_start_batch(grpc_call* call, const grpc_op* ops, size_t count, void* tag,
                                      void* reserved) {
  static auto* const real = Next<decltype(grpc_call_start_batch)>("grpc_call_start_batch");
  if (tag != nullptr) {
    Trace(static_cast<Functor*>(tag));
    __tsan_release(tag);
  }
  return real(call, ops, count, tag, reserved);
}

void grpc_server_start(grpc_server* server) {
  static auto* const real = Next<decltype(grpc_server_start)>("grpc_server_start");
  __tsan_release(&servers);
  real(server);
}

// The function with which every served call begins.
void* grpc_call_arena_alloc(grpc_call* call, size_t size) {
  static auto* const real = Next<decltype(grpc_call_arena_alloc)>("grpc_call_arena_alloc");
  __tsan_acquire(&servers);
  return real(call, size);
}

void grpc_server_destroy(grpc_server* server) {
  static auto* const real = Next<decltype(grpc_server_destroy)>("grpc_server_destroy");
  real(server);
  __tsan_acquire(&servers);
}

grpc_slice grpc_slice_new_with_user_data(void* bytes, size_t length, void (*destroy)(void*),
                                         void* argument) {
  static auto* const real =
      Next<decltype(grpc_slice_new_with_user_data)>("grpc_slice_new_with_user_data");
  auto* traced = new TracedSlice{destroy, argument};
  __tsan_release(traced);
  return real(bytes, length, DestroySlice, traced);
}

void grpc_slice_unref(grpc_slice slice) {
  static auto* const real = Next<decltype(grpc_slice_unref)>("grpc_slice_unref");
  GiveUp(slice);
  real(slice);
}

void grpc_byte_buffer_destroy(grpc_byte_buffer* buffer) {
  static auto* const real = Next<decltype(grpc_byte_buffer_destroy)>("grpc_byte_buffer_destroy");
  if (buffer != nullptr) {
    const grpc_slice_buffer& slices = buffer->data.raw.slice_buffer;
    for (size_t i = 0; i < slices.count; ++i) GiveUp(slices.slices[i]);
  }
  real(buffer);
}

#define EXECUTOR_RUN                                                      \
  "_ZN9grpc_core8Executor3RunEP12grpc_closureN4absl7debian36StatusENS_12" \
  "ExecutorTypeENS_15ExecutorJobTypeE"

// OnDone and OnCancel that are not called at once are closures with themselves as argument.
void ExecutorRun(Closure* closure, void* status, int executor, int length) asm(EXECUTOR_RUN);
void ExecutorRun(Closure* closure, void* status, int executor, int length) {
  static auto* const real = Next<decltype(ExecutorRun)>(EXECUTOR_RUN);
  if (closure->argument == closure) {
    auto* traced = new TracedClosure{closure->run, closure->argument};
    __tsan_release(traced);
    closure->run = RunClosure;
    closure->argument = traced;
  }
  real(closure, status, executor, length);
}

#define CALL_ON_CANCEL "_ZN4grpc8internal18ServerCallbackCall12CallOnCancelEPNS0_13ServerReactorE"
#define SCHEDULE_ON_DONE "_ZN4grpc8internal18ServerCallbackCall14ScheduleOnDoneEb"

// gRPC's code counts down to OnCancel and OnDone without instrumentation.
void CallOnCancel(ServerCall* call, grpc::internal::ServerReactor* reactor) asm(CALL_ON_CANCEL);
void CallOnCancel(ServerCall* call, grpc::internal::ServerReactor* reactor) {
  static auto* const real = Next<decltype(CallOnCancel)>(CALL_ON_CANCEL);
  __tsan_acquire(&call->cancel_conditions);
  real(call, new TracedCancel(call, reactor));
}

void ScheduleOnDone(ServerCall* call, bool at_once) asm(SCHEDULE_ON_DONE);
void ScheduleOnDone(ServerCall* call, bool at_once) {
  static auto* const real = Next<decltype(ScheduleOnDone)>(SCHEDULE_ON_DONE);
  __tsan_acquire(&call->outstanding_callbacks);
  real(call, at_once);
}

}  // extern "C"
