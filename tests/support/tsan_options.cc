// The options of ThreadSanitizer in tests.

extern "C" {

const char* __tsan_default_options() { return "report_thread_leaks=0:second_deadlock_stack=1"; }

// The calls of these libraries to libc, operator new and delete are ignored, because the libraries
// are not instrumented and their own orders are unknown. So their calls make no orders either, such
// as those of sockets (tsan_grpc.cc). The one function whose races are ignored is gRPC's own and
// runs nothing of ours: it reads the text of a status.
const char* __tsan_default_suppressions() {
  return "called_from_lib:libabsl_cord.so\n"
         "called_from_lib:libabsl_cord_internal.so\n"
         "called_from_lib:libabsl_graphcycles_internal.so\n"
         "called_from_lib:libabsl_random_internal_pool_urbg.so\n"
         "called_from_lib:libabsl_status.so\n"
         "called_from_lib:libabsl_str_format_internal.so\n"
         "called_from_lib:libabsl_strings.so\n"
         "called_from_lib:libabsl_synchronization.so\n"
         "called_from_lib:libabsl_time.so\n"
         "called_from_lib:libabsl_time_zone.so\n"
         "called_from_lib:libcpp-httplib.so\n"
         "called_from_lib:libgpr.so\n"
         "called_from_lib:libgrpc.so\n"
         "called_from_lib:libgrpc++.so\n"
         "called_from_lib:libupb.so\n"
         "race:grpc::internal::CallOpClientRecvStatus::FinishOp\n";
}

}  // extern "C"
