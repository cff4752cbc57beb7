#include "router/tenants/api_keys.h"

#include <openssl/crypto.h>

#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/log.h"
#include "common/base/secret_mode.h"
#include "common/base/status_macros.h"
#include "common/rpc/status.h"
#include "router/tenants/api_key.h"

namespace baton {
namespace {

constexpr char kFlag[] = "--api-keys";

absl::Status Refuse(const char* reason, const std::string& why) {
  return WithErrorInfo(absl::UnauthenticatedError(why), {.reason = reason});
}

}  // namespace

absl::StatusOr<std::unique_ptr<ApiKeys>> ApiKeys::Load(const std::string& path, Metrics& metrics,
                                                       absl::Duration interval) {
  absl::StatusOr<std::string> text = ReadKeysText(path);
  absl::StatusOr<std::unique_ptr<const Table>> table = Parse(path, text);
  if (!table.ok()) {
    return absl::Status(table.status().code(),
                        absl::StrCat("--api-keys ", table.status().message()));
  }
  WarnOfSecretMode(kFlag, path);
  std::unique_ptr<ApiKeys> keys(new ApiKeys(path, *std::move(text), *std::move(table)));
  keys->stale_ = std::make_shared<std::atomic<double>>(0);
  metrics.AddGauge("baton_router_api_keys_stale",
                   "1 while the file of --api-keys is wrong and the last good one counts.", {},
                   [stale = keys->stale_] { return stale->load(); });
  keys->thread_.emplace(interval, [raw = keys.get()] { raw->Reload(); });
  return keys;
}

absl::StatusOr<std::unique_ptr<const ApiKeys::Table>> ApiKeys::Parse(
    const std::string& path, const absl::StatusOr<std::string>& text) {
  if (!text.ok()) return text.status();
  auto table = std::make_unique<Table>();
  BATON_ASSIGN_OR_RETURN(table->file, ParseKeysFile(path, *text));
  for (const ApiKeyEntry& key : table->file.keys) {
    table->keys.emplace(ApiKeyId(key.hash), key);
  }
  return table;
}

void ApiKeys::Reload() {
  absl::StatusOr<std::string> text = ReadKeysText(path_);
  if (text.ok() && text_ == *text) return;
  text_ = text.ok() ? std::optional(*text) : std::nullopt;
  absl::StatusOr<std::unique_ptr<const Table>> table = Parse(path_, text);
  stale_->store(table.ok() ? 0 : 1);
  const std::string problem(table.status().message());
  if (!problem.empty() && problem != problem_) {
    LogError("--api-keys {}; the last good file still counts", LogSafe(problem));
  }
  problem_ = problem;
  if (!table.ok()) return;
  LogInfo("--api-keys {}: {} tenants, {} keys", LogSafe(path_), (*table)->file.tenants.size(),
          (*table)->file.keys.size());
  WarnOfSecretMode(kFlag, path_);
  absl::MutexLock lock(&mutex_);
  table_ = *std::move(table);
}

absl::StatusOr<ApiKeys::Holder> ApiKeys::Find(absl::string_view key) const {
  if (!IsApiKey(key)) {
    return Refuse("API_KEY_MALFORMED", "the API key is not one of `baton keys new`");
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
  const auto found = table_->file.tenants.find(name);
  if (found == table_->file.tenants.end()) return std::nullopt;
  return found->second;
}

}  // namespace baton
