#include "router/tenants/api_keys.h"

#include <openssl/crypto.h>

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/secret_mode.h"
#include "common/base/status_macros.h"
#include "common/rpc/status.h"
#include "router/tenants/api_key.h"
#include "router/tenants/serve_keys.h"

namespace baton {
namespace {

absl::Status Refuse(const char* reason, const std::string& why) {
  return WithErrorInfo(absl::UnauthenticatedError(why), {.reason = reason});
}

std::string Digest(absl::string_view text) {
  Sha256 hash;
  hash.Update(text);
  return hash.Finish();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ApiKeys>> ApiKeys::Load(const Files& files, Metrics& metrics,
                                                       absl::Duration interval) {
  std::vector<Source> sources;
  // The first one that has a key or a tenant counts, so a key that is revoked stays so.
  if (!files.api_keys.empty()) {
    sources.push_back({.flag = "--api-keys",
                       .path = files.api_keys,
                       .read = ReadKeysText,
                       .parse = ParseKeysFile});
  }
  if (!files.serve_keys.empty()) {
    sources.push_back({.flag = "--serve-key-file",
                       .path = files.serve_keys,
                       .read = ReadServeKeys,
                       .parse = ParseServeKeys});
  }
  for (Source& source : sources) {
    if (const absl::Status status = Look(source).status(); !status.ok()) {
      return absl::Status(status.code(), absl::StrCat(source.flag, " ", status.message()));
    }
  }
  std::unique_ptr<ApiKeys> keys(new ApiKeys(std::move(sources)));
  keys->stale_ = std::make_shared<std::atomic<double>>(0);
  metrics.AddGauge(
      "baton_router_api_keys_stale",
      "1 while a file of --api-keys or --serve-key-file is wrong and the last good one "
      "counts.",
      {}, [stale = keys->stale_] { return stale->load(); });
  keys->thread_.emplace(interval, [raw = keys.get()] { raw->Reload(); });
  return keys;
}

absl::StatusOr<bool> ApiKeys::Look(Source& source) {
  absl::StatusOr<std::string> text = source.read(source.path);
  const absl::Cleanup forget_keys = [&text] {
    if (text.ok()) OPENSSL_cleanse(text->data(), text->size());
  };
  const std::optional<std::string> digest = text.ok() ? std::optional(Digest(*text)) : std::nullopt;
  if (digest.has_value() && digest == source.digest) return false;
  source.digest = digest;
  BATON_RETURN_IF_ERROR(text.status());
  BATON_ASSIGN_OR_RETURN(source.good, source.parse(source.path, *text));
  WarnOfSecretMode(source.flag, source.path);
  return true;
}

std::unique_ptr<const ApiKeys::Table> ApiKeys::Merge(const std::vector<Source>& sources) {
  auto table = std::make_unique<Table>();
  for (const Source& source : sources) {
    table->tenants.insert(source.good.tenants.begin(), source.good.tenants.end());
    for (const ApiKeyEntry& key : source.good.keys) table->keys.emplace(ApiKeyId(key.hash), key);
  }
  return table;
}

void ApiKeys::Reload() {
  bool changed = false, stale = false;
  for (Source& source : sources_) {
    const absl::StatusOr<bool> taken = Look(source);
    const std::string problem(taken.status().message());
    if (!problem.empty() && problem != source.problem) {
      LogError("{} {}; the last good file still counts", source.flag, LogSafe(problem));
    }
    if (!taken.ok() || *taken) source.problem = problem;  // an unchanged file keeps its problem
    if (taken.ok() && *taken) {
      changed = true;
      LogInfo("{} {}: {} tenants, {} keys", source.flag, LogSafe(source.path),
              source.good.tenants.size(), source.good.keys.size());
    }
    stale = stale || !source.problem.empty();
  }
  stale_->store(stale ? 1 : 0);
  if (!changed) return;
  std::unique_ptr<const Table> table = Merge(sources_);
  absl::MutexLock lock(&mutex_);
  table_ = std::move(table);
}

absl::StatusOr<ApiKeys::Holder> ApiKeys::Find(absl::string_view key) const {
  if (!IsApiKey(key)) {
    return Refuse("API_KEY_MALFORMED",
                  absl::StrCat("an API key has ", kMinApiKeyCharacters, " to ",
                               kMaxApiKeyCharacters, " printable characters without spaces"));
  }
  const std::string hash = HashApiKey(key);
  const std::string id = ApiKeyId(hash);
  absl::MutexLock lock(&mutex_);
  const auto found = table_->keys.find(id);
  if (found == table_->keys.end() ||
      CRYPTO_memcmp(found->second.hash.data(), hash.data(), hash.size()) != 0) {
    return Refuse("API_KEY_UNKNOWN", "the API key is not known here; ask the operator for one");
  }
  return Holder{.key_id = id, .tenant = found->second.tenant, .revoked = found->second.revoked};
}

std::optional<Tenant> ApiKeys::FindTenant(const std::string& name) const {
  absl::MutexLock lock(&mutex_);
  const auto found = table_->tenants.find(name);
  if (found == table_->tenants.end()) return std::nullopt;
  return found->second;
}

}  // namespace baton
