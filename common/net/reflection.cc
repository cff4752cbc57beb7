#include "common/net/reflection.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "grpc/reflection/v1/reflection.grpc.pb.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/impl/server_builder_plugin.h"
#include "grpcpp/impl/server_initializer.h"

#include "common/base/status_macros.h"
#include "common/rpc/receiving_service.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using grpc::reflection::v1::ExtensionNumberResponse;
using grpc::reflection::v1::FileDescriptorResponse;
using grpc::reflection::v1::ServerReflection;
using Request = grpc::reflection::v1::ServerReflectionRequest;
using Response = grpc::reflection::v1::ServerReflectionResponse;

const DescriptorPool& Pool() { return *DescriptorPool::generated_pool(); }

absl::Status Unknown(const char* what, const std::string& name) {
  return absl::NotFoundError(absl::StrCat("no ", what, " '", name, "' is known here"));
}

absl::StatusOr<const FileDescriptor*> FindFile(const Request& request) {
  const FileDescriptor* file = nullptr;
  switch (request.message_request_case()) {
    case Request::kFileByFilename:
      file = Pool().FindFileByName(request.file_by_filename());
      if (file == nullptr) return Unknown("file", request.file_by_filename());
      return file;
    case Request::kFileContainingSymbol:
      file = Pool().FindFileContainingSymbol(request.file_containing_symbol());
      if (file == nullptr) return Unknown("symbol", request.file_containing_symbol());
      return file;
    default:
      break;
  }
  const auto& wanted = request.file_containing_extension();
  const Descriptor* type = Pool().FindMessageTypeByName(wanted.containing_type());
  if (type == nullptr) return Unknown("message", wanted.containing_type());
  const FieldDescriptor* field = Pool().FindExtensionByNumber(type, wanted.extension_number());
  if (field == nullptr) {
    return Unknown("extension", absl::StrCat(type->full_name(), " ", wanted.extension_number()));
  }
  return field->file();
}

// Adds the file, then the files that it imports, each once.
void AddFile(const FileDescriptor& file, std::set<const FileDescriptor*>& added,
             FileDescriptorResponse& response) {
  if (!added.insert(&file).second) return;
  google::protobuf::FileDescriptorProto proto;
  file.CopyTo(&proto);
  response.add_file_descriptor_proto(proto.SerializeAsString());
  for (int i = 0; i < file.dependency_count(); ++i) AddFile(*file.dependency(i), added, response);
}

absl::StatusOr<ExtensionNumberResponse> ExtensionNumbers(const std::string& type_name) {
  const Descriptor* type = Pool().FindMessageTypeByName(type_name);
  if (type == nullptr) return Unknown("message", type_name);
  ExtensionNumberResponse response;
  response.set_base_type_name(type_name);
  std::vector<const FieldDescriptor*> extensions;
  Pool().FindAllExtensions(type, &extensions);
  for (const FieldDescriptor* extension : extensions) {
    response.add_extension_number(extension->number());
  }
  return response;
}

absl::Status Answer(const Request& request, const std::vector<std::string>& services,
                    Response& response) {
  switch (request.message_request_case()) {
    case Request::MESSAGE_REQUEST_NOT_SET:
      return InvalidField("message_request", "must be set");
    case Request::kListServices:
      for (const std::string& name : services) {
        response.mutable_list_services_response()->add_service()->set_name(name);
      }
      return absl::OkStatus();
    case Request::kAllExtensionNumbersOfType: {
      BATON_ASSIGN_OR_RETURN(*response.mutable_all_extension_numbers_response(),
                             ExtensionNumbers(request.all_extension_numbers_of_type()));
      return absl::OkStatus();
    }
    default: {
      BATON_ASSIGN_OR_RETURN(const FileDescriptor* file, FindFile(request));
      std::set<const FileDescriptor*> added;
      AddFile(*file, added, *response.mutable_file_descriptor_response());
      return absl::OkStatus();
    }
  }
}

// One stream, which answers one request after the other. It deletes itself.
class Call final : public grpc::ServerBidiReactor<Received<Request>, Response> {
 public:
  explicit Call(std::vector<std::string> services) : services_(std::move(services)) {
    StartRead(&request_);
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok || !request_.status.ok()) return Finish(ToGrpcStatus(request_.status));
    response_.Clear();
    response_.set_valid_host(request_.message.host());
    const absl::Status status = Answer(request_.message, services_, response_);
    if (!status.ok()) {
      response_.mutable_error_response()->set_error_code(static_cast<int>(status.code()));
      response_.mutable_error_response()->set_error_message(std::string(status.message()));
    }
    response_.mutable_original_request()->Swap(&request_.message);
    StartWrite(&response_);
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::CANCELLED);
    StartRead(&request_);
  }
  void OnDone() override { delete this; }

  const std::vector<std::string> services_;
  Received<Request> request_;
  Response response_;
};

// The reflection service. Thread-safe.
class Service final : public ReceivingService<ServerReflection> {
 public:
  Service() { Add("ServerReflectionInfo", &Service::ServerReflectionInfo); }

  void SetServices(std::vector<std::string> services) {
    absl::MutexLock lock(&mutex_);
    services_ = std::move(services);
  }

 private:
  grpc::ServerBidiReactor<Received<Request>, Response>* ServerReflectionInfo(
      grpc::CallbackServerContext*) {
    absl::MutexLock lock(&mutex_);
    return new Call(services_);
  }

  absl::Mutex mutex_;
  std::vector<std::string> services_ ABSL_GUARDED_BY(mutex_);
};

// Gives the service the names of all services, which are known only when the server has started.
class Plugin final : public grpc::ServerBuilderPlugin {
 public:
  std::string name() override { return "grpc.reflection.v1"; }
  void InitServer(grpc::ServerInitializer* server) override { server->RegisterService(service_); }
  void Finish(grpc::ServerInitializer* server) override {
    service_->SetServices(*server->GetServiceList());
  }
  void ChangeArguments(const std::string& /*name*/, void* /*value*/) override {}

 private:
  const std::shared_ptr<Service> service_ = std::make_shared<Service>();  // gRPC shares it
};

class Option final : public grpc::ServerBuilderOption {
 public:
  explicit Option(bool offered) : offered_(offered) {}
  void UpdateArguments(grpc::ChannelArguments* /*arguments*/) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    if (offered_) return plugins->push_back(std::make_unique<Plugin>());
    const std::string v1alpha = grpc::reflection::ProtoServerReflectionPlugin().name();
    std::erase_if(*plugins, [&](const auto& plugin) { return plugin->name() == v1alpha; });
  }

 private:
  const bool offered_;
};

}  // namespace

std::unique_ptr<grpc::ServerBuilderOption> ReflectionOption(bool offered) {
  return std::make_unique<Option>(offered);
}

}  // namespace baton
