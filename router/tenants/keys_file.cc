#include "router/tenants/keys_file.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/small_file.h"
#include "common/base/status_macros.h"
#include "common/flags/toml_text.h"

namespace baton {
namespace {

constexpr size_t kMaxNameBytes = 64;
constexpr size_t kHashBytes = 32;
constexpr size_t kMaxFileBytes = size_t{8} << 20;
constexpr double kMaxRequestsPerSecond = 1e6;
constexpr double kMinRequestsPerSecond = 0.001;

// An error about what stands at `node`.
absl::Status At(const std::string& path, const toml::node& node, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ":", node.source().begin.line, ": ", what));
}

template <typename T>
absl::Status TakeNumber(const toml::node& node, T min, T max, T& value) {
  const std::optional<T> number = node.value<T>();
  if (!node.is_number() || !number.has_value() || !(*number >= min && *number <= max)) {
    return absl::InvalidArgumentError(absl::StrCat("must be a number from ", min, " to ", max));
  }
  value = *number;
  return absl::OkStatus();
}

absl::Status TakeName(const toml::node& node, std::string& value) {
  value = node.value_or(std::string());
  return CheckTenantName(value);
}

absl::Status TakeBoolean(const toml::node& node, bool& value) {
  if (!node.is_boolean()) return absl::InvalidArgumentError("must be true or false");
  value = node.value_or(false);
  return absl::OkStatus();
}

absl::Status TakeHash(const toml::node& node, std::string& value) {
  const std::string digits = node.value_or(std::string());
  if (digits.size() != 2 * kHashBytes || !std::all_of(digits.begin(), digits.end(), [](char c) {
        return absl::ascii_isxdigit(static_cast<unsigned char>(c));
      })) {
    return absl::InvalidArgumentError(absl::StrCat(
        "must be ", 2 * kHashBytes, " hexadecimal digits; `baton keys` generates them"));
  }
  value = absl::HexStringToBytes(digits);
  return absl::OkStatus();
}

absl::Status TakeTenantEntry(absl::string_view key, const toml::node& node, Tenant& tenant) {
  constexpr auto kMost = std::numeric_limits<uint32_t>::max();
  constexpr auto kLeast = std::numeric_limits<int32_t>::min();
  constexpr auto kLast = std::numeric_limits<int32_t>::max();
  if (key == "requests-per-second") {
    return TakeNumber(node, kMinRequestsPerSecond, kMaxRequestsPerSecond,
                      tenant.requests_per_second);
  }
  if (key == "tokens-per-minute") return TakeNumber(node, 1u, kMost, tenant.tokens_per_minute);
  if (key == "streams") return TakeNumber(node, 1u, kMost, tenant.streams);
  if (key == "min-priority") return TakeNumber(node, kLeast, kLast, tenant.min_priority);
  if (key == "max-priority") return TakeNumber(node, kLeast, kLast, tenant.max_priority);
  if (key == "share") return TakeName(node, tenant.share);
  if (key == "operator") return TakeBoolean(node, tenant.operates);
  return absl::InvalidArgumentError(
      "is not a known field; the fields of a tenant are requests-per-second, tokens-per-minute, "
      "streams, min-priority, max-priority, share and operator");
}

absl::Status TakeKeyEntry(absl::string_view key, const toml::node& node, ApiKeyEntry& entry) {
  if (key == "tenant") return TakeName(node, entry.tenant);
  if (key == "sha256") return TakeHash(node, entry.hash);
  if (key == "revoked") return TakeBoolean(node, entry.revoked);
  return absl::InvalidArgumentError(
      "is not a known field; the fields of a key are tenant, sha256 and revoked");
}

// Fills `value` from the entries of the table at `node`, which `what` names.
template <typename T>
absl::Status TakeTable(const std::string& path, absl::string_view what, const toml::node& node,
                       absl::Status (*take)(absl::string_view, const toml::node&, T&), T& value) {
  const toml::table* table = node.as_table();
  if (table == nullptr) return At(path, node, absl::StrCat(what, " must be a table"));
  for (const auto& [key, entry] : *table) {
    const std::string name(key.str());
    const absl::Status status = take(name, entry, value);
    if (!status.ok()) {
      return At(path, entry, absl::StrCat(what, ": ", LogSafe(name), " ", status.message()));
    }
  }
  return absl::OkStatus();
}

absl::Status TakeTenants(const std::string& path, const toml::node& node, KeysFile& file) {
  const toml::table* table = node.as_table();
  if (table == nullptr) return At(path, node, "tenants must be tables, such as [tenants.\"acme\"]");
  if (table->size() > kMaxTenants) {
    return At(path, node, absl::StrCat("more than ", kMaxTenants, " tenants"));
  }
  for (const auto& [key, entry] : *table) {
    const std::string name(key.str());
    if (const absl::Status status = CheckTenantName(name); !status.ok()) {
      return At(path, entry, absl::StrCat("tenant ", status.message()));
    }
    Tenant& tenant = file.tenants[name];
    const std::string what = absl::StrCat("[tenants.\"", name, "\"]");
    BATON_RETURN_IF_ERROR(TakeTable(path, what, entry, TakeTenantEntry, tenant));
    if (tenant.min_priority > tenant.max_priority) {
      return At(path, entry, absl::StrCat(what, ": min-priority is above max-priority"));
    }
  }
  return absl::OkStatus();
}

absl::Status TakeKeys(const std::string& path, const toml::node& node, KeysFile& file) {
  const toml::array* array = node.as_array();
  if (array == nullptr) return At(path, node, "keys must be tables, each begun by [[keys]]");
  if (array->size() > kMaxApiKeys) {
    return At(path, node, absl::StrCat("more than ", kMaxApiKeys, " keys"));
  }
  std::set<std::string> hashes;
  for (const toml::node& element : *array) {
    ApiKeyEntry key;
    BATON_RETURN_IF_ERROR(TakeTable(path, "[[keys]]", element, TakeKeyEntry, key));
    if (key.hash.empty()) return At(path, element, "[[keys]]: sha256 is missing");
    if (!hashes.insert(key.hash).second) {
      return At(path, element, "[[keys]]: sha256 stands twice; one key belongs to one tenant");
    }
    if (file.tenants.count(key.tenant) == 0) {
      return At(path, element,
                absl::StrCat("[[keys]]: tenant '", key.tenant, "' has no table [tenants.\"",
                             key.tenant, "\"]; add it, or leave the key out"));
    }
    file.keys.push_back(std::move(key));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckTenantName(const std::string& name) {
  const bool good = std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || std::strchr("._-/", c) != nullptr;
  });
  if (!name.empty() && name.size() <= kMaxNameBytes && good) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "'", LogSafe(name), "' must be 1 to ", kMaxNameBytes, " letters, digits and \". _ - /\""));
}

absl::StatusOr<KeysFile> ParseKeysFile(const std::string& path, const std::string& content) {
  BATON_ASSIGN_OR_RETURN(const toml::table table, ParseToml(path, content));
  for (const auto& [key, node] : table) {
    if (key.str() != "tenants" && key.str() != "keys") {
      return At(path, node,
                absl::StrCat(LogSafe(std::string(key.str())),
                             " is not known; the file has [tenants.\"NAME\"] and [[keys]]"));
    }
  }
  KeysFile file;
  if (const toml::node* tenants = table.get("tenants")) {
    BATON_RETURN_IF_ERROR(TakeTenants(path, *tenants, file));
  }
  if (const toml::node* keys = table.get("keys")) {
    BATON_RETURN_IF_ERROR(TakeKeys(path, *keys, file));
  }
  return file;
}

std::string FormatKeysFile(const KeysFile& file) {
  const Tenant usual;
  std::string text = "# Tenants and hashes of their keys. `baton keys` writes this file anew.\n";
  for (const auto& [name, tenant] : file.tenants) {
    absl::StrAppend(&text, "\n[tenants.\"", name, "\"]\n");
    if (tenant.requests_per_second > 0) {
      absl::StrAppendFormat(&text, "requests-per-second = %.17g\n", tenant.requests_per_second);
    }
    const auto number = [&text](const char* key, int64_t value, int64_t otherwise) {
      if (value != otherwise) absl::StrAppend(&text, key, " = ", value, "\n");
    };
    number("tokens-per-minute", tenant.tokens_per_minute, 0);
    number("streams", tenant.streams, 0);
    number("min-priority", tenant.min_priority, usual.min_priority);
    number("max-priority", tenant.max_priority, usual.max_priority);
    if (!tenant.share.empty()) absl::StrAppend(&text, "share = \"", tenant.share, "\"\n");
    if (tenant.operates) absl::StrAppend(&text, "operator = true\n");
  }
  for (const ApiKeyEntry& key : file.keys) {
    absl::StrAppend(&text, "\n[[keys]]\ntenant = \"", key.tenant, "\"\nsha256 = \"",
                    ToHex(key.hash), "\"\n", key.revoked ? "revoked = true\n" : "");
  }
  return text;
}

absl::StatusOr<std::string> ReadKeysText(const std::string& path) {
  BATON_ASSIGN_OR_RETURN(std::string text, ReadSmallFile(path, kMaxFileBytes));
  // So is a file that an editor is about to write.
  if (text.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": is empty"));
  return text;
}

absl::Status WriteKeysFile(const std::string& path, const KeysFile& file) {
  return WriteSmallFile(path, FormatKeysFile(file));
}

}  // namespace baton
