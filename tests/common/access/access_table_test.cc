#include "common/access/access_table.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor_database.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptor;
using google::protobuf::ServiceDescriptor;
using ::testing::HasSubstr;

// Every method of every service that is linked in.
std::set<std::string> AllMethods() {
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();  // without it its library is left out
  std::vector<std::string> files;
  DescriptorPool::internal_generated_database()->FindAllFileNames(&files);
  std::set<std::string> methods;
  for (const std::string& name : files) {
    const FileDescriptor* file = DescriptorPool::generated_pool()->FindFileByName(name);
    for (int s = 0; s < file->service_count(); ++s) {
      const ServiceDescriptor& service = *file->service(s);
      for (int m = 0; m < service.method_count(); ++m) {
        methods.insert(absl::StrCat("/", service.full_name(), "/", service.method(m)->name()));
      }
    }
  }
  return methods;
}

TEST(AccessTable, HasOneLineForEachMethodAndNoOther) {
  std::vector<std::string> lines;
  for (const AccessRule& rule : AccessTable()) lines.emplace_back(rule.method);
  EXPECT_THAT(lines, ::testing::UnorderedElementsAreArray(AllMethods()));
}

TEST(AccessTable, LetsInWhomTheLinesNameAndNobodyElse) {
  const std::set<std::string> allowed = [] {
    std::set<std::string> pairs;
    for (const char* method : {"Generate", "Tokenize", "Detokenize", "ListModels"}) {
      pairs.insert(absl::StrCat("client /baton.v1.GenerationService/", method));
      pairs.insert(absl::StrCat("front /baton.v1.GenerationService/", method));
    }
    pairs.insert("operator /baton.v1.GenerationService/ListModels");
    pairs.insert("router /baton.internal.v1.WorkerService/Watch");
    pairs.insert("router /baton.internal.v1.PrefillService/Prefill");
    pairs.insert("router /baton.internal.v1.DecodeService/Decode");
    pairs.insert("prefill /baton.internal.v1.KvTransferService/Push");
    for (const char* method : {"Check", "Watch"}) {
      for (const char* role : {"client", "router", "front", "operator"}) {
        pairs.insert(absl::StrCat(role, " /grpc.health.v1.Health/", method));
      }
    }
    for (const char* version : {"v1", "v1alpha"}) {
      pairs.insert(absl::StrCat("operator /grpc.reflection.", version,
                                ".ServerReflection/ServerReflectionInfo"));
    }
    return pairs;
  }();
  for (const std::string& method : AllMethods()) {
    for (const Role role : kAllRoles) {
      const std::string pair = absl::StrCat(RoleName(role), " ", method);
      EXPECT_EQ(CheckAccess({role, "d", "a"}, method).ok(), allowed.count(pair) > 0) << pair;
    }
  }
}

TEST(AccessTable, RefusesAMethodWithoutALine) {
  const std::string push = "/baton.internal.v1.KvTransferService/Push";
  for (const std::string& method :
       {std::string(), std::string("/"), absl::StrCat(push, "/"), absl::StrCat(push, "2"),
        push.substr(1), std::string("/baton.internal.v1.KvTransferService/push"),
        std::string("/baton.internal.v1.KvTransferService/")}) {
    for (const Role role : kAllRoles) {
      EXPECT_EQ(CheckAccess({role, "d", "a"}, method).code(), absl::StatusCode::kPermissionDenied)
          << RoleName(role) << " " << method;
    }
  }
}

TEST(AccessTable, ARefusalNamesTheRoleTheMethodAndTheRemedy) {
  const absl::Status status =
      CheckAccess({Role::kClient, "d", "a"}, "/baton.v1.GenerationService/Generate");
  EXPECT_TRUE(status.ok()) << status;
  const absl::Status refused =
      CheckAccess({Role::kPrefill, "d", "a"}, "/baton.v1.GenerationService/Generate");
  EXPECT_EQ(refused.message(),
            "the role prefill may not call /baton.v1.GenerationService/Generate, only client or "
            "front may; use a certificate of one of those roles, with the SPIFFE ID "
            "spiffe://<trust domain>/baton/<role>/<name>");
  const absl::Status unknown = CheckAccess({Role::kClient, "d", "a"}, std::string(5000, 'm'));
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("Baton has no such method"));
  EXPECT_LT(unknown.message().size(), 400u) << "a name from outside is not quoted in full";
}

}  // namespace
}  // namespace baton
