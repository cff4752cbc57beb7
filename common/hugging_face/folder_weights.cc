#include "common/hugging_face/folder_weights.h"

#include <unistd.h>

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/hugging_face/json_text.h"

namespace baton {
namespace {

constexpr char kWhole[] = "model.safetensors";
constexpr char kIndex[] = "model.safetensors.index.json";
constexpr size_t kMaxShards = 512;
constexpr size_t kMaxFolderTensors = 65536;
constexpr size_t kMaxFileNameBytes = 255;
constexpr JsonFileLimits kIndexLimits = {.bytes = size_t{32} << 20, .values = 1 << 19, .depth = 4};

bool IsThere(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

absl::string_view AsText(absl::Span<const uint8_t> bytes) {
  return absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

// A shard lies beside its index. A name that leads elsewhere is none.
bool IsShardName(const std::string& name) {
  return name.size() <= kMaxFileNameBytes && absl::EndsWith(name, ".safetensors") &&
         name[0] != '.' && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

struct Shards {
  std::set<std::string> names;
  absl::btree_map<std::string, std::string> shard_of;  // tensor -> shard; empty without an index
};

absl::StatusOr<Shards> ReadIndex(const std::string& path, absl::Span<const uint8_t> bytes) {
  BATON_ASSIGN_OR_RETURN(const nlohmann::json json,
                         ParseJsonObject(AsText(bytes), path, kIndexLimits));
  const JsonFileFields fields(json, path);
  BATON_RETURN_IF_ERROR(fields.Object("weight_map").status());
  Shards shards;
  for (const auto& [tensor, shard] : json["weight_map"].items()) {
    if (!shard.is_string() || !IsShardName(shard.get<std::string>())) {
      return fields.Invalid(absl::StrCat("weight_map['", LogSafe(tensor), "']"),
                            "is not the name of a .safetensors file in the same folder; fetch the "
                            "folder again");
    }
    shards.names.insert(shard.get<std::string>());
    shards.shard_of.emplace(tensor, shard.get<std::string>());
  }
  if (shards.names.empty() || shards.names.size() > kMaxShards) {
    return fields.Invalid(
        "weight_map", absl::StrCat("names ", shards.names.size(), " files, not 1 to ", kMaxShards));
  }
  return shards;
}

// Adds the index, if there is one, to `files`.
absl::StatusOr<Shards> FindShards(const std::string& folder, ModelFiles& files) {
  const std::string index = absl::StrCat(folder, "/", kIndex);
  if (IsThere(index)) {
    BATON_ASSIGN_OR_RETURN(const absl::Span<const uint8_t> bytes, files.Open(index, false));
    return ReadIndex(index, bytes);
  }
  return Shards{.names = {kWhole}, .shard_of = {}};
}

}  // namespace

absl::StatusOr<FolderTensors> OpenFolderWeights(const std::string& folder, bool will_read_all,
                                                ModelFiles& files) {
  BATON_ASSIGN_OR_RETURN(const Shards shards, FindShards(folder, files));
  if (shards.shard_of.empty() && !IsThere(absl::StrCat(folder, "/", kWhole))) {
    return absl::NotFoundError(absl::StrCat(folder, ": has neither ", kWhole, " nor ", kIndex,
                                            "; fetch the folder again, or convert its weights to "
                                            "safetensors if they are in another format"));
  }
  FolderTensors all;
  for (const std::string& shard : shards.names) {
    const std::string path = absl::StrCat(folder, "/", shard);
    BATON_ASSIGN_OR_RETURN(const absl::Span<const uint8_t> bytes, files.Open(path, will_read_all));
    BATON_ASSIGN_OR_RETURN(std::vector<SafeTensor> tensors, ParseSafetensors(bytes, path));
    for (SafeTensor& tensor : tensors) {
      const std::string name = tensor.name;
      const auto [place, added] = all.try_emplace(name, FolderTensor{std::move(tensor), shard});
      if (!added) {
        return absl::InvalidArgumentError(absl::StrCat(path, ": tensor '", LogSafe(name),
                                                       "' is in ", LogSafe(place->second.file),
                                                       " too; fetch the folder again"));
      }
    }
    if (all.size() > kMaxFolderTensors) {
      return absl::InvalidArgumentError(
          absl::StrCat(folder, ": has more than ", kMaxFolderTensors, " tensors"));
    }
  }
  for (const auto& [tensor, shard] : shards.shard_of) {
    const auto found = all.find(tensor);
    if (found != all.end() && found->second.file == shard) continue;
    return absl::InvalidArgumentError(absl::StrCat(folder, "/", kIndex, ": lists tensor '",
                                                   LogSafe(tensor), "' in ", LogSafe(shard),
                                                   ", which does not contain it; fetch the folder "
                                                   "again"));
  }
  return all;
}

absl::Status AddFolderWeights(const std::string& folder, ModelFiles& files) {
  BATON_ASSIGN_OR_RETURN(const Shards shards, FindShards(folder, files));
  for (const std::string& shard : shards.names) {
    const std::string path = absl::StrCat(folder, "/", shard);
    if (IsThere(path)) BATON_RETURN_IF_ERROR(files.Open(path, false).status());
  }
  return absl::OkStatus();
}

}  // namespace baton
