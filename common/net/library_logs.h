// Redirects the log messages of gRPC and protobuf.
#pragma once

namespace baton {

// Sends the messages of gRPC and protobuf to the log from now on, bounded and escaped. Without this
// both would write them to standard error, with texts of peers as they came. Thread-safe.
void LogLibraryMessages();

}  // namespace baton
